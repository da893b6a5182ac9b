// SPDX-License-Identifier: Apache-2.0
#include "plugin/support_text.h"

namespace graft::plugin {
namespace {

constexpr char kTorch[] = R"text(
namespace graft_made {

/// A size while shapes are traced: a number, or an expression of torch.compile. The same text computes it as an int64.
class SymbolicSize {
 public:
  SymbolicSize(int64_t number = 0) : value_(number) {}
  explicit SymbolicSize(c10::SymInt value) : value_(std::move(value)) {}
  const c10::SymInt& value() const { return value_; }

  friend SymbolicSize operator+(const SymbolicSize& a, const SymbolicSize& b) { return of(a.value_ + b.value_); }
  friend SymbolicSize operator-(const SymbolicSize& a, const SymbolicSize& b) { return of(a.value_ - b.value_); }
  friend SymbolicSize operator-(const SymbolicSize& a) { return of(c10::SymInt(0) - a.value_); }
  friend SymbolicSize operator*(const SymbolicSize& a, const SymbolicSize& b) { return of(a.value_ * b.value_); }
  friend SymbolicSize floor_div(const SymbolicSize& a, const SymbolicSize& b) {
    const auto x = a.value_.maybe_as_int(), y = b.value_.maybe_as_int();
    return x && y ? SymbolicSize(graft_made::floor_div(*x, *y)) : of(a.value_ / b.value_);
  }
  friend SymbolicSize mod(const SymbolicSize& a, const SymbolicSize& b) { return a - b * floor_div(a, b); }
  friend SymbolicSize min(const SymbolicSize& a, const SymbolicSize& b) { return of(a.value_.min(b.value_)); }
  friend SymbolicSize max(const SymbolicSize& a, const SymbolicSize& b) { return of(a.value_.max(b.value_)); }

 private:
  static SymbolicSize of(c10::SymInt value) { return SymbolicSize(std::move(value)); }
  c10::SymInt value_;
};

inline at::ScalarType type_of(Type type) {
  switch (type) {
    case Type::f32: return at::kFloat;
    case Type::f16: return at::kHalf;
    case Type::bf16: return at::kBFloat16;
    case Type::f64: return at::kDouble;
    case Type::i8: return at::kChar;
    case Type::i16: return at::kShort;
    case Type::i32: return at::kInt;
    case Type::i64: return at::kLong;
    case Type::u8: return at::kByte;
    case Type::u16: return at::kUInt16;
    case Type::u32: return at::kUInt32;
    case Type::u64: return at::kUInt64;
    case Type::boolean: break;
  }
  return at::kBool;
}

using Stack = torch::jit::Stack;

/// `graft::NAME(Tensor a0, Tensor a1) -> (Tensor, Tensor)`
template <class P>
std::string schema() {
  std::string text = std::string(P::kName) + "(";
  for (int i = 0; i < P::kInputs; ++i) text += (i ? ", Tensor a" : "Tensor a") + std::to_string(i);
  text += P::kOutputs == 1 ? ") -> Tensor" : ") -> (";
  for (int o = 0; o < P::kOutputs && P::kOutputs != 1; ++o) text += o ? ", Tensor" : "Tensor";
  return P::kOutputs == 1 ? text : text + ")";
}

/// The arguments of a call, each of the type and number of axes that the kernels read.
template <class P>
std::vector<at::Tensor> take_inputs(Stack& stack) {
  std::vector<at::Tensor> inputs;
  for (const c10::IValue& value : torch::jit::last(stack, P::kInputs)) inputs.push_back(value.toTensor());
  torch::jit::drop(stack, P::kInputs);
  for (int i = 0; i < P::kInputs; ++i) {
    const Tensor& own = P::inputs()[i];
    const at::Tensor& given = inputs[static_cast<size_t>(i)];
    TORCH_CHECK_TYPE(given.scalar_type() == type_of(own.type), P::kName, ": argument ", i, " (", own.name, ") is ",
                     given.scalar_type(), ", not ", type_of(own.type));
    TORCH_CHECK_VALUE(given.dim() == own.rank, P::kName, ": argument ", i, " (", own.name, ") has ", given.dim(),
                      " axes, not ", own.rank);
    TORCH_CHECK_VALUE(given.device() == inputs[0].device(), P::kName, ": argument ", i, " (", own.name, ") is on ",
                      given.device(), " and the first on ", inputs[0].device());
  }
  return inputs;
}

/// Says why the sizes cannot be run, where all of them are numbers.
template <class P>
void check_sizes(const std::vector<at::Tensor>& inputs) {
  for (const at::Tensor& input : inputs) {
    for (const c10::SymInt& size : input.sym_sizes()) {
      if (!size.maybe_as_int()) return;
    }
  }
  const auto axis = [&](int input, int number) { return inputs[static_cast<size_t>(input)].size(number); };
  const char* problem = P::problem(P::template dimensions<int64_t>(axis), axis);
  TORCH_CHECK_VALUE(!problem, P::kName, ": ", problem ? problem : "");
}

/// Results of the extents that the sizes of the arguments give: what tracing sees, without data.
template <class P>
void describe(const c10::OperatorHandle&, Stack* stack) {
  const std::vector<at::Tensor> inputs = take_inputs<P>(*stack);
  check_sizes<P>(inputs);
  const auto axis = [&](int input, int number) {
    return SymbolicSize(inputs[static_cast<size_t>(input)].sym_size(number));
  };
  const auto d = P::template dimensions<SymbolicSize>(axis);
  for (int o = 0; o < P::kOutputs; ++o) {
    std::vector<SymbolicSize> extents(static_cast<size_t>(P::outputs()[o].rank));
    P::output_extents(o, d, extents.data());
    std::vector<c10::SymInt> sizes;
    for (const SymbolicSize& extent : extents) sizes.push_back(extent.value());
    const auto options = inputs[0].options().dtype(type_of(P::outputs()[o].type));
    torch::jit::push(*stack, at::empty_symint(sizes, options));
  }
}

#ifndef GRAFT_SHAPES_ONLY
inline void check(const char* name, CUresult result) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  TORCH_CHECK(false, name, ": ", result == CUDA_ERROR_NO_BINARY_FOR_GPU
                                     ? "it was made for other GPUs than this: add --target to `graft plugin`"
                                     : text ? text : "unknown error of the driver");
}

/// The kernels on a device, loaded once in a process and never unloaded: the driver may be gone before us.
template <class P>
const Kernels& kernels_on(c10::DeviceIndex device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& loaded = *new std::map<c10::DeviceIndex, Kernels>;
  const std::lock_guard<std::mutex> lock(mutex);
  Kernels& kernels = loaded[device];
  if (!kernels.is_loaded()) check(P::kName, kernels.load(P::variants(), P::kVariants));
  return kernels;
}

/// Row-major and where kernels may read 16 bytes at a time.
inline at::Tensor readable(const at::Tensor& given) {
  const at::Tensor dense = given.contiguous();
  return reinterpret_cast<uintptr_t>(dense.const_data_ptr()) % 16 == 0 ? dense : dense.clone();
}

/// Runs in torch's current stream. Memory comes from torch's allocator, so that a CUDA graph can record it; the first
/// run on a device, which loads the kernels, has to come before.
template <class P>
void run(const c10::OperatorHandle&, Stack* stack) {
  std::vector<at::Tensor> inputs = take_inputs<P>(*stack);
  check_sizes<P>(inputs);
  const c10::cuda::CUDAGuard guard(inputs[0].device());
  std::vector<const void*> input_data;
  for (at::Tensor& input : inputs) {
    input = readable(input);
    input_data.push_back(input.const_data_ptr());
  }
  const auto axis = [&](int input, int number) { return inputs[static_cast<size_t>(input)].size(number); };
  const auto d = P::template dimensions<int64_t>(axis);
  std::vector<at::Tensor> outputs;
  std::vector<void*> output_data;
  for (int o = 0; o < P::kOutputs; ++o) {
    std::vector<int64_t> extents(static_cast<size_t>(P::outputs()[o].rank));
    P::output_extents(o, d, extents.data());
    outputs.push_back(at::empty(extents, inputs[0].options().dtype(type_of(P::outputs()[o].type))));
    output_data.push_back(outputs.back().mutable_data_ptr());
  }
  const at::Tensor workspace = at::empty({P::workspace_bytes(d)}, inputs[0].options().dtype(at::kByte));
  const Kernels& kernels = kernels_on<P>(inputs[0].device().index());
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(inputs[0].device().index());
  check(P::kName, P::launch(kernels, d, input_data.data(), output_data.data(), workspace.mutable_data_ptr(),
                            stream.stream()));
  for (at::Tensor& output : outputs) torch::jit::push(*stack, std::move(output));
}
#endif

template <class P>
void define(torch::Library& library) {
  library.def(schema<P>().c_str(), {at::Tag::pt2_compliant_tag});
}

}  // namespace graft_made
)text";

}  // namespace

std::string torch_header() {
  std::string text =
      "// Made by `graft plugin`: operators of PyTorch over the kernels of this folder. Needs C++20 and torch 2.6 or\n"
      "// newer. With GRAFT_SHAPES_ONLY there are shapes alone, and nothing of CUDA's is needed to link.\n"
      "#pragma once\n\n";
  for (const char* header : {"<ATen/ATen.h>", "<ATen/core/stack.h>", "<torch/library.h>"}) text += include_line(header);
  text += "#ifndef GRAFT_SHAPES_ONLY\n" + include_line("<c10/cuda/CUDAGuard.h>") +
          include_line("<c10/cuda/CUDAStream.h>") + "#endif\n\n";
  for (const char* header : {"<cstdint>", "<map>", "<mutex>", "<string>", "<utility>", "<vector>"}) {
    text += include_line(header);
  }
  return text + "\n" + include_line("\"graft_kernels.h\"") + kTorch;
}

}  // namespace graft::plugin
