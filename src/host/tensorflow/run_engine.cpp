// SPDX-License-Identifier: Apache-2.0
#include "run_engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "element_types.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/function.h"

namespace graft::tensorflow_host {
namespace {

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

absl::StatusOr<std::vector<graft_tensor>> views_of(tensorflow::OpKernelContext& context, int inputs,
                                                   std::vector<std::vector<int64_t>>& shapes) {
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

/// The share of a GPU's memory that the caller of the session gives to this process; 0: all of it.
double share_of(const LoadedEngine& engine, tensorflow::OpKernelContext& context) {
  auto* library = engine.device() == "cpu" ? nullptr : context.function_library();
  const auto* settings = library ? library->config_proto() : nullptr;
  return settings ? settings->gpu_options().per_process_gpu_memory_fraction() : 0;
}

absl::Status run_within(LoadedEngine::Run& run, tensorflow::OpKernelContext& context,
                        const std::vector<graft_tensor>& inputs) {
  std::vector<graft_tensor> outputs(static_cast<size_t>(context.num_outputs()));
  for (graft_tensor& tensor : outputs) tensor.struct_size = sizeof tensor;
  Outputs given{context, {}};
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const Cancellation cancellation(context.cancellation_manager(), run.session());
    if (cancellation.came_first()) return absl::CancelledError("the call was cancelled");
    status = run(inputs, outputs, {allocate_output, &given}, error);
  }
  if (!given.failure.ok()) return given.failure;
  if (status != GRAFT_OK) return status_of(Error(static_cast<ErrorKind>(status), error.message));
  return absl::OkStatus();
}

}  // namespace

absl::Status status_of(const Error& failure) {
  const std::string_view message = failure.what();
  switch (static_cast<graft_status>(failure.kind())) {
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

absl::Status run_engine(LoadedEngine& engine, tensorflow::OpKernelContext& context, int inputs) {
  std::vector<std::vector<int64_t>> shapes;
  const auto views = views_of(context, inputs, shapes);
  if (!views.ok()) return views.status();
  try {
    LoadedEngine::Run run(engine, share_of(engine, context));
    return run_within(run, context, *views);
  } catch (const Error& failure) {
    return status_of(failure);
  }
}

}  // namespace graft::tensorflow_host
