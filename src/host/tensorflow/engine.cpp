// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "element_types.h"
#include "tensorflow/core/framework/cancellation.h"

namespace graft::tensorflow_host {
namespace {

constexpr size_t kAlignment = 64;  // plans that begin there are used where they lie

/// What graft_allocator's context is.
struct Outputs {
  tensorflow::OpKernelContext& context;
  absl::Status failure;
};

void* allocate_output(void* given, int32_t output, int32_t dtype, int32_t rank, const int64_t* shape, size_t) {
  Outputs& outputs = *static_cast<Outputs*>(given);
  const tensorflow::DataType wanted = outputs.context.expected_output_dtype(output);
  if (data_type(dtype) != wanted) {
    outputs.failure = absl::InternalError(
        absl::StrCat("output ", output, " of the engine is no ", tensorflow::DataTypeString(wanted)));
    return nullptr;
  }
  tensorflow::TensorShape sizes;
  outputs.failure = tensorflow::TensorShape::BuildTensorShape({shape, static_cast<size_t>(rank)}, &sizes);
  if (!outputs.failure.ok()) return nullptr;
  tensorflow::Tensor* made = nullptr;
  outputs.failure = outputs.context.allocate_output(output, sizes, &made);
  if (!outputs.failure.ok()) return nullptr;
  static int64_t nothing = 0;  // of a tensor without elements, which has no memory
  return made->NumElements() == 0 ? &nothing : made->data();
}

/// Ends the session's run when the call that it serves is cancelled.
class Cancellation {
 public:
  Cancellation(tensorflow::CancellationManager* manager, graft_session* session) : manager_(manager) {
    if (!manager_) return;
    token_ = manager_->get_cancellation_token();
    registered_ = manager_->RegisterCallback(token_, [session] { graft_session_cancel(session); });
  }
  ~Cancellation() {
    if (manager_ && registered_) manager_->DeregisterCallback(token_);
  }
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;
  bool came_first() const { return manager_ && !registered_; }

 private:
  tensorflow::CancellationManager* manager_;
  tensorflow::CancellationToken token_ = 0;
  bool registered_ = false;
};

/// Engines that are in use, by the hash of plan and device.
struct Cache {
  std::mutex mutex;
  std::multimap<size_t, std::weak_ptr<Engine>> engines;
};

Cache& cache() {
  static Cache* const made = new Cache;  // kernels may outlive statics
  return *made;
}

}  // namespace

absl::Status status_of(graft_status status, std::string_view message) {
  switch (status) {
    case GRAFT_OK: return absl::OkStatus();
    case GRAFT_INVALID_MODEL:
    case GRAFT_INVALID_ARGUMENT: return absl::InvalidArgumentError(message);
    case GRAFT_UNSUPPORTED: return absl::UnimplementedError(message);
    case GRAFT_DEVICE: return absl::UnavailableError(message);
    case GRAFT_OUT_OF_MEMORY: return absl::ResourceExhaustedError(message);
    case GRAFT_CANCELLED: return absl::CancelledError(message);
    default: return absl::InternalError(message);
  }
}

namespace {

/// Loads a plan; of one in the graph `plan` becomes the copy that the engine keeps.
absl::StatusOr<graft_engine*> load(PlanSource& plan, const std::string& device) {
  const graft_option option{"device", device.c_str()};
  graft_engine* handle = nullptr;
  graft_error error;
  graft_status status = GRAFT_OK;
  if (!plan.path.empty()) {
    status = graft_load_with(plan.path.c_str(), &option, 1, &handle, &error);
  } else {
    const size_t bytes = (plan.bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
    void* const copy = std::aligned_alloc(kAlignment, std::max(bytes, kAlignment));
    if (!copy) return absl::ResourceExhaustedError("no memory for a plan");
    std::memcpy(copy, plan.bytes.data(), plan.bytes.size());
    status = graft_load_bytes(copy, plan.bytes.size(), std::free, copy, &option, 1, &handle, &error);
    plan.bytes = {static_cast<const char*>(copy), plan.bytes.size()};
  }
  if (status != GRAFT_OK) return status_of(status, error.message);
  return handle;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Engine>> Engine::of(const PlanSource& plan, const std::string& device) {
  const size_t key = std::hash<std::string_view>()(plan.path.empty() ? plan.bytes : plan.path);
  Cache& known = cache();
  const std::lock_guard lock(known.mutex);  // one loads, others that want the same wait for it
  auto [first, last] = known.engines.equal_range(key);
  while (first != last) {
    const auto engine = first->second.lock();
    if (engine && engine->is_of(plan, device)) return engine;
    first = engine ? std::next(first) : known.engines.erase(first);
  }
  PlanSource kept = plan;
  const auto handle = load(kept, device);
  if (!handle.ok()) return handle.status();
  auto engine = std::make_shared<Engine>(*handle, std::move(kept), device);
  known.engines.emplace(key, engine);
  return engine;
}

absl::StatusOr<SessionPool::Taken> Engine::take_session() {
  try {
    return sessions_.take();
  } catch (const Error& failure) {
    return status_of(static_cast<graft_status>(failure.kind()), failure.what());
  }
}

absl::StatusOr<std::vector<graft_tensor>> Engine::views_of(tensorflow::OpKernelContext& context, int inputs,
                                                           std::vector<std::vector<int64_t>>& shapes) const {
  std::vector<graft_tensor> views;
  const auto count = static_cast<size_t>(inputs);
  shapes.reserve(count), views.reserve(count);
  for (int i = 0; i < inputs; ++i) {
    const tensorflow::Tensor& tensor = context.input(i);
    const int32_t type = element_type(tensor.dtype());
    if (type == 0) return absl::InvalidArgumentError(absl::StrCat("input ", i, " has a type that Graft has not"));
    const auto sizes = tensor.shape().dim_sizes();
    shapes.emplace_back(sizes.begin(), sizes.end());
    views.push_back({.struct_size = sizeof(graft_tensor),
                     .name = nullptr,
                     .dtype = type,
                     .rank = tensor.dims(),
                     .shape = shapes.back().data(),
                     .strides = nullptr,
                     .data = tensor.data(),
                     .bytes = tensor.TotalBytes(),
                     .device = GRAFT_HOST});
  }
  return views;
}

absl::Status Engine::run(tensorflow::OpKernelContext& context, int count) {
  std::vector<std::vector<int64_t>> shapes;
  const auto inputs = views_of(context, count, shapes);
  if (!inputs.ok()) return inputs.status();
  std::vector<graft_tensor> outputs(static_cast<size_t>(context.num_outputs()));
  for (graft_tensor& tensor : outputs) tensor.struct_size = sizeof tensor;
  auto session = take_session();
  if (!session.ok()) return session.status();
  Outputs given{context, {}};
  const graft_allocator allocator{allocate_output, &given};
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const Cancellation cancellation(context.cancellation_manager(), (*session)->handle());
    if (cancellation.came_first()) return absl::CancelledError("the call was cancelled");
    status = graft_session_run((*session)->handle(), inputs->data(), inputs->size(), outputs.data(), outputs.size(),
                               &allocator, &error);
  }
  if (!given.failure.ok()) return given.failure;
  if (status != GRAFT_OK) return status_of(status, error.message);
  return absl::OkStatus();
}

}  // namespace graft::tensorflow_host
