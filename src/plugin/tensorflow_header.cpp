// SPDX-License-Identifier: Apache-2.0
#include "plugin/support_text.h"

namespace graft::plugin {
namespace {

constexpr char kTensorFlow[] = R"text(
namespace graft_made {

/// A size while a graph is built: a number, or not known yet. The same text computes it as an int64.
class KnownSize {
 public:
  KnownSize(int64_t number = 0) : value_(number) {}
  static KnownSize unknown() {
    KnownSize size;
    size.known_ = false;
    return size;
  }
  bool is_known() const { return known_; }
  int64_t value() const { return value_; }

  friend KnownSize operator+(const KnownSize& a, const KnownSize& b) { return of(a, b, a.value_ + b.value_); }
  friend KnownSize operator-(const KnownSize& a, const KnownSize& b) { return of(a, b, a.value_ - b.value_); }
  friend KnownSize operator-(const KnownSize& a) { return of(a, a, -a.value_); }
  friend KnownSize operator*(const KnownSize& a, const KnownSize& b) { return of(a, b, a.value_ * b.value_); }
  friend KnownSize floor_div(const KnownSize& a, const KnownSize& b) {
    return a.known_ && b.known_ ? KnownSize(graft_made::floor_div(a.value_, b.value_)) : unknown();
  }
  friend KnownSize mod(const KnownSize& a, const KnownSize& b) { return a - b * floor_div(a, b); }
  friend KnownSize min(const KnownSize& a, const KnownSize& b) { return of(a, b, graft_made::min(a.value_, b.value_)); }
  friend KnownSize max(const KnownSize& a, const KnownSize& b) { return of(a, b, graft_made::max(a.value_, b.value_)); }

 private:
  static KnownSize of(const KnownSize& a, const KnownSize& b, int64_t value) {
    return a.known_ && b.known_ ? KnownSize(value) : unknown();
  }
  int64_t value_ = 0;
  bool known_ = true;
};

inline const char* word_of(Type type) {
  switch (type) {
    case Type::f32: return "float";
    case Type::f16: return "half";
    case Type::bf16: return "bfloat16";
    case Type::f64: return "double";
    case Type::i8: return "int8";
    case Type::i16: return "int16";
    case Type::i32: return "int32";
    case Type::i64: return "int64";
    case Type::u8: return "uint8";
    case Type::u16: return "uint16";
    case Type::u32: return "uint32";
    case Type::u64: return "uint64";
    case Type::boolean: break;
  }
  return "bool";
}

/// The results' extents, and whether the arguments' fit: what building a graph asks.
template <class P>
absl::Status describe(tensorflow::shape_inference::InferenceContext* context) {
  bool known = true;
  for (int i = 0; i < P::kInputs; ++i) {
    tensorflow::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(context->WithRank(context->input(i), P::inputs()[i].rank, &shape));
    known = known && context->FullyDefined(shape);
  }
  const auto extent = [&](int input, int number) { return context->Dim(context->input(input), number); };
  if (known) {
    const auto axis = [&](int input, int number) -> int64_t { return context->Value(extent(input, number)); };
    const char* problem = P::problem(P::template dimensions<int64_t>(axis), axis);
    if (problem) return absl::InvalidArgumentError(std::string(P::kName) + ": " + problem);
  }
  const auto axis = [&](int input, int number) {
    const auto size = extent(input, number);
    return context->ValueKnown(size) ? KnownSize(context->Value(size)) : KnownSize::unknown();
  };
  const auto d = P::template dimensions<KnownSize>(axis);
  for (int o = 0; o < P::kOutputs; ++o) {
    std::vector<KnownSize> extents(static_cast<size_t>(P::outputs()[o].rank));
    P::output_extents(o, d, extents.data());
    std::vector<tensorflow::shape_inference::DimensionHandle> sizes;
    for (const KnownSize& size : extents) {
      sizes.push_back(size.is_known() ? context->MakeDim(size.value()) : context->UnknownDim());
    }
    context->set_output(o, context->MakeShape(sizes));
  }
  return absl::OkStatus();
}

/// The operator as TensorFlow knows it: its arguments are called a0, a1, its results y0, y1.
template <class P>
bool register_operator(const char* name) {
  tensorflow::OpRegistry::Global()->Register([name](tensorflow::OpRegistrationData* data) {
    tensorflow::OpDefBuilder builder(name);
    for (int i = 0; i < P::kInputs; ++i) builder.Input("a" + std::to_string(i) + ": " + word_of(P::inputs()[i].type));
    for (int o = 0; o < P::kOutputs; ++o) {
      builder.Output("y" + std::to_string(o) + ": " + word_of(P::outputs()[o].type));
    }
    return builder.SetShapeFn(describe<P>).Finalize(data);
  });
  return true;
}

#ifndef GRAFT_SHAPES_ONLY
/// Runs in the stream of TensorFlow's device, on its tensors where they lie.
template <class P>
class Operator final : public tensorflow::OpKernel {
 public:
  explicit Operator(tensorflow::OpKernelConstruction* context) : OpKernel(context) {}

  void Compute(tensorflow::OpKernelContext* context) override {
    const auto axis = [&](int input, int number) -> int64_t { return context->input(input).dim_size(number); };
    std::vector<const void*> inputs;
    for (int i = 0; i < P::kInputs; ++i) {
      OP_REQUIRES(context, context->input(i).dims() == P::inputs()[i].rank,
                  absl::InvalidArgumentError(std::string(P::kName) + ": an argument has another number of axes"));
      inputs.push_back(context->input(i).data());
    }
    const auto d = P::template dimensions<int64_t>(axis);
    const char* problem = P::problem(d, axis);
    OP_REQUIRES(context, !problem, absl::InvalidArgumentError(std::string(P::kName) + ": " + (problem ? problem : "")));
    std::vector<void*> outputs;
    for (int o = 0; o < P::kOutputs; ++o) {
      std::vector<int64_t> extents(static_cast<size_t>(P::outputs()[o].rank));
      P::output_extents(o, d, extents.data());
      tensorflow::Tensor* output = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(o, tensorflow::TensorShape(extents), &output));
      outputs.push_back(output->data());
    }
    tensorflow::Tensor workspace;
    OP_REQUIRES_OK(context, context->allocate_temp(tensorflow::DT_UINT8,
                                                   tensorflow::TensorShape({P::workspace_bytes(d)}), &workspace));
    auto* stream = context->op_device_context()->stream();
    const auto scope = stream->parent()->Activate();
    CUresult result = load();
    if (result == CUDA_SUCCESS) {
      result = P::launch(kernels_, d, inputs.data(), outputs.data(), workspace.data(),
                         static_cast<CUstream>(stream->platform_specific_handle().stream));
    }
    const char* text = nullptr;
    if (result != CUDA_SUCCESS) cuGetErrorString(result, &text);
    OP_REQUIRES(context, result == CUDA_SUCCESS,
                absl::InternalError(std::string(P::kName) + ": " + (text ? text : "unknown error of the driver")));
  }

 private:
  CUresult load() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return kernels_.is_loaded() ? CUDA_SUCCESS : kernels_.load(P::variants(), P::kVariants);
  }
  std::mutex mutex_;
  Kernels kernels_;
};
#endif

}  // namespace graft_made
)text";

}  // namespace

std::string tensorflow_header() {
  std::string text = "// Made by `graft plugin`: operators of TensorFlow over the kernels of this folder, in C++20.\n"
                     "// With GRAFT_SHAPES_ONLY there are shapes alone, and nothing of CUDA's is needed to link.\n"
                     "#pragma once\n\n";
  for (const char* header :
       {"<tensorflow/core/framework/op.h>", "<tensorflow/core/framework/op_kernel.h>",
        "<tensorflow/core/framework/shape_inference.h>", "<xla/stream_executor/stream.h>",
        "<xla/stream_executor/stream_executor.h>"}) {
    text += include_line(header);
  }
  text += "\n";
  for (const char* header : {"<cstdint>", "<mutex>", "<string>", "<vector>"}) text += include_line(header);
  return text + "\n" + include_line("\"graft_kernels.h\"") + kTensorFlow;
}

}  // namespace graft::plugin
