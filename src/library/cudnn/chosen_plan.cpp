// SPDX-License-Identifier: Apache-2.0
#include "library/cudnn/chosen_plan.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

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

/// The plan of a graph, or an error that says what became of those that cuDNN proposed.
void choose(ChosenPlan& chosen, int choice, bool strict) {
  Tally tally;
  int left = choice;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    const auto proposed = configurations(*chosen.graph.graph, mode);
    if (proposed.empty()) tally.note(first_reason());
    for (const auto& configuration : proposed) {
      ++tally.proposed;
      if (!keeps_numbers(*configuration, strict)) {
        ++tally.inexact;
      } else if (auto plan = plan_of(*configuration, chosen.handle.get()); !plan) {
        ++tally.unsupported;
        tally.note(first_reason());
      } else if (chosen.workspace = workspace_of(*plan); chosen.workspace > kMostWorkspace) {
        ++tally.large;
      } else if (left-- == 0) {
        chosen.plan = std::move(plan);
        chosen.implementation = fmt::format("plan {} ({} proposed before), {} bytes of workspace", choice,
                                            tally.proposed - 1, chosen.workspace);
        return;
      }
    }
  }
  throw Error(ErrorKind::kUnsupported, fmt::format("it has {} plans: {}", choice - left, tally.text()), "cuDNN");
}

OperationGraph graph_of(const LibraryCall& call, cudnnHandle_t handle) {
  return call.is_attention() ? operation_graph(attention_form(call), handle)
                             : operation_graph(convolution_form(call), handle);
}

}  // namespace

std::shared_ptr<const ChosenPlan> choose_plan(const std::string& text, int choice, void* stream) {
  static std::mutex mutex;
  static std::map<std::tuple<void*, int, std::string>, std::weak_ptr<const ChosenPlan>> known;
  const std::tuple key(stream, choice, text);
  {
    const std::lock_guard lock(mutex);
    const auto it = known.find(key);
    if (it != known.end()) {
      if (auto shared = it->second.lock()) return shared;
    }
  }
  const LibraryCall call = parse_library_call(text);
  auto made = std::make_shared<ChosenPlan>();
  made->handle = handle_of(stream);
  made->graph = graph_of(call, made->handle.get());
  choose(*made, choice, call.type == DType::kFloat32 && !call.tf32);
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  known[key] = made;
  return made;
}

}  // namespace graft::cudnn
