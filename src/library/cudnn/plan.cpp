// SPDX-License-Identifier: Apache-2.0
#include "library/cudnn/plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::cudnn {
namespace {

constexpr int64_t kMostWorkspace = int64_t{256} << 20;
constexpr int64_t kMostConfigurations = 256;

StreamHandles<cudnnHandle_t>::Shared handle_of(void* stream) {
  static StreamHandles<cudnnHandle_t> handles;
  return handles.of(
      stream,
      [stream] {
        cudnnHandle_t handle = nullptr;
        check(api().create(&handle), "it does not start");
        const cudnnStatus_t status = api().set_stream(handle, static_cast<cudaStream_t>(stream));
        if (status != CUDNN_STATUS_SUCCESS) api().destroy(handle);
        check(status, "it does not take the stream");
        return handle;
      },
      [](cudnnHandle_t handle) { api().destroy(handle); });
}

/// What cuDNN proposes for the graph, its favourite first.
std::vector<std::unique_ptr<Descriptor>> configurations(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  std::vector<std::unique_ptr<Descriptor>> found;
  if (!heuristic.try_finalize()) return found;
  int64_t count = 0;
  const auto ask = [&](int64_t wanted, cudnnBackendDescriptor_t* slots) {
    return api().get(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, wanted, &count,
                     slots);
  };
  if (ask(0, nullptr) != CUDNN_STATUS_SUCCESS) return found;
  std::vector<cudnnBackendDescriptor_t> slots;
  for (int64_t i = 0; i < std::min(count, kMostConfigurations); ++i) {
    found.push_back(std::make_unique<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    slots.push_back(found.back()->get());
  }
  const cudnnStatus_t status = ask(static_cast<int64_t>(slots.size()), slots.data());
  found.resize(status == CUDNN_STATUS_SUCCESS ? static_cast<size_t>(std::min(count, kMostConfigurations)) : 0);
  return found;
}

/// Whether results are those of the type: sums of products that are not transformed, and the same in every run; strict
/// ones of f32 that is not rounded first.
bool keeps_numbers(const Descriptor& configuration, bool strict) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t slot = engine.get();
  int64_t count = 0;
  check(api().get(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &slot),
        "an engine cannot be asked");
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  check(api().get(slot, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                  &count, notes),
        "an engine cannot be asked");
  return std::none_of(notes, notes + count, [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return strict;
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
        return false;
      default:
        return true;
    }
  });
}

std::unique_ptr<Descriptor> plan_of(const Descriptor& configuration, cudnnHandle_t handle) {
  auto plan = std::make_unique<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (!plan->try_finalize()) return nullptr;
  return plan;
}

int64_t workspace_of(const Descriptor& plan) {
  int64_t bytes = 0, count = 0;
  check(api().get(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes),
        "a plan cannot be asked");
  return bytes;
}

/// Counts why plans were left out.
struct Tally {
  int proposed = 0, inexact = 0, unsupported = 0, large = 0;
  std::string reason;  ///< cuDNN's own for the first that it does not support

  void note(const std::string& found) {
    if (reason.empty()) reason = found;
  }
  std::string text() const {
    return fmt::format("of {} plans {} change the numbers, {} are not supported, {} need more than {} bytes", proposed,
                       inexact, unsupported, large, kMostWorkspace) +
           (reason.empty() ? "" : "; " + reason);
  }
};

}  // namespace

Plan::Plan(const MakeGraph& make, DType type, bool tf32, int choice, void* stream)
    : handle_(handle_of(stream)), graph_(make(handle_.get())) {
  choose(choice, type == DType::kFloat32 && !tf32);
  for (const TensorForm& tensor : graph_.tensors) {
    places_.push_back({tensor.buffer, tensor.offset * bit_width(tensor.type) / 8});
  }
  addresses_.resize(places_.size());
}

void Plan::choose(int choice, bool strict) {
  Tally tally;
  int left = choice;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    const auto proposed = configurations(*graph_.graph, mode);
    if (proposed.empty()) tally.note(first_reason());
    for (const auto& configuration : proposed) {
      ++tally.proposed;
      if (!keeps_numbers(*configuration, strict)) {
        ++tally.inexact;
      } else if (auto plan = plan_of(*configuration, handle_.get()); !plan) {
        ++tally.unsupported;
        tally.note(first_reason());
      } else if (workspace_ = workspace_of(*plan); workspace_ > kMostWorkspace) {
        ++tally.large;
      } else if (left-- == 0) {
        plan_ = std::move(plan);
        implementation_ =
            fmt::format("plan {} ({} proposed before), {} bytes of workspace", choice, tally.proposed - 1, workspace_);
        return;
      }
    }
  }
  throw Error(ErrorKind::kUnsupported, fmt::format("it has {} plans: {}", choice - left, tally.text()), "cuDNN");
}

int Plan::run(void* const* buffers, void* workspace) {
  bool same = addresses_pack_ && packed_workspace_ == workspace;
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    void* const number = &graph_.numbers[i];
    void* address = place.buffer < 0 ? number : static_cast<char*>(buffers[place.buffer]) + place.bytes;
    same &= address == addresses_[i];
    addresses_[i] = address;
  }
  try {
    if (!same) {
      std::vector<int64_t> identities;
      for (size_t i = 0; i < addresses_.size(); ++i) identities.push_back(static_cast<int64_t>(i) + 1);
      addresses_pack_ = std::make_unique<Descriptor>(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
      addresses_pack_->set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, identities);
      addresses_pack_->set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                           static_cast<int64_t>(addresses_.size()), addresses_.data());
      addresses_pack_->set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
      addresses_pack_->finalize("addresses cannot be given");
      packed_workspace_ = workspace;
    }
  } catch (const std::exception&) {
    addresses_pack_ = nullptr;
    return CUDNN_STATUS_BAD_PARAM;
  }
  return api().execute(handle_.get(), plan_->get(), addresses_pack_->get());
}

}  // namespace graft::cudnn
