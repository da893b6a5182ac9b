// SPDX-License-Identifier: Apache-2.0
#include "support/random_contraction.h"

#include "support/random_builder.h"

namespace graft {
namespace {

using Builder = RandomBuilder;

std::string product(Builder& b, const std::string& type) {
  const std::string m = b.size(1, 70), n = b.number(1, 90), k = b.number(1, 90);
  const bool turned = b.random.chance(0.3);
  Sizes left{m, k}, right = turned ? Sizes{n, k} : Sizes{k, n};
  if (b.random.chance(0.4)) {
    const std::string batch = b.number(1, 3);
    left.insert(left.begin(), batch);
    if (b.random.chance(0.5)) right.insert(right.begin(), b.random.chance(0.3) ? "1" : batch);
  }
  const std::string a = b.mapped(b.input(type, left), type);
  std::string other = b.input(type, right);
  if (turned) other = b.node("Transpose", other, right.size() == 2 ? "perm = [1, 0]" : "perm = [0, 2, 1]");
  std::string result = b.node("MatMul", a + ", " + other);
  if (b.random.chance(0.4)) result = b.node("Add", result + ", " + b.input(type, {n}));
  return result;
}

std::string general_product(Builder& b, const std::string& type) {
  const std::string m = b.size(1, 70), n = b.number(1, 90), k = b.number(1, 90);
  const bool a_turned = b.random.chance(0.3), b_turned = b.random.chance(0.5);
  std::string inputs = b.input(type, a_turned ? Sizes{k, m} : Sizes{m, k});
  inputs += ", " + b.input(type, b_turned ? Sizes{n, k} : Sizes{k, n});
  inputs += ", " + b.input(type, {n});
  return b.node("Gemm", inputs, fmt::format("transA = {}, transB = {}, alpha = 0.5", int{a_turned}, int{b_turned}));
}

std::string integer_product(Builder& b) {
  const std::string m = b.size(1, 70), n = b.number(1, 90), k = b.number(1, 90);
  const std::string left = b.any({"u8", "i8"}), right = b.any({"u8", "i8"});
  std::string inputs = b.input(left, {m, k});
  inputs += ", " + b.input(right, {k, n});
  if (b.random.chance(0.5)) inputs += ", " + b.constant(left, "", b.number(0, 100));
  return b.node("MatMulInteger", inputs);
}

std::string convolution(Builder& b, const std::string& type) {
  const auto rank = static_cast<size_t>(b.random.integer(1, 3));
  const int64_t groups = b.random.chance(0.3) ? b.random.integer(2, 4) : 1;
  const int64_t in = groups * b.random.integer(1, 9), out = groups * b.random.integer(1, 9);
  const bool transposed = b.random.chance(0.25);
  const int64_t window = b.random.integer(1, 4), stride = b.random.integer(1, 2), pad = b.random.integer(0, window / 2);
  const int64_t dilation = window > 1 ? b.random.integer(1, 2) : 1;
  Sizes image{b.size(1, 3), std::to_string(in)};
  Sizes weights = transposed ? Sizes{std::to_string(in), std::to_string(out / groups)}
                             : Sizes{std::to_string(out), std::to_string(in / groups)};
  for (size_t axis = 0; axis < rank; ++axis) {
    image.push_back(b.number(8, rank == 1 ? 60 : 11));
    weights.push_back(std::to_string(window));
  }
  const std::vector<int64_t> strides(rank, stride), dilations(rank, dilation), pads(2 * rank, pad);
  const std::string x = b.mapped(b.input(type, image), type);
  std::string inputs = x + ", " + b.input(type, weights);
  if (b.random.chance(0.5)) inputs += ", " + b.input(type, {std::to_string(out)});
  return b.node(transposed ? "ConvTranspose" : "Conv", inputs,
                fmt::format("group = {}, strides = {}, dilations = {}, pads = {}", groups, strides, dilations, pads));
}

/// An open size only in front, so that a window fits whatever it is.
std::string reduction(Builder& b, const std::string& type) {
  const int64_t rank = b.random.integer(1, 4);
  Sizes shape;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const int64_t most = axis + 1 == rank ? (b.random.chance(0.2) ? 3000 : 70) : 9;
    shape.push_back(axis == 0 ? b.size(1, most) : b.number(1, most));
  }
  const std::string x = b.mapped(b.input(type, shape), type);
  const int64_t axis = b.random.integer(0, rank - 1);
  const bool one = b.random.chance(0.5), other = b.random.chance(0.5);
  const std::string keep = fmt::format("keepdims = {}", int{one});
  const bool real = type[0] == 'f' || type[0] == 'b';
  std::string inputs = x;
  switch (b.random.integer(0, real ? 5 : 3)) {
    case 0:
      return b.node(b.any({"ArgMax", "ArgMin"}), x, fmt::format("axis = {}, {}", axis, keep));
    case 1:
      return b.node("CumSum", x + ", " + b.constant("i64", "", std::to_string(axis)),
                    fmt::format("reverse = {}, exclusive = {}", int{one}, int{other}));
    case 2:
      return b.node("ReduceMax", x + ", " + b.constant("i64", "1", std::to_string(axis)), keep);
    case 4:
      return b.node(b.any({"Softmax", "LogSoftmax"}), x, fmt::format("axis = {}", axis));
    case 5:
      inputs += ", " + b.constant("i64", "1", std::to_string(axis));
      return b.node(b.any({"ReduceMean", "ReduceL2", "ReduceLogSumExp"}), inputs, keep);
    default: {
      const int64_t second = b.random.integer(0, rank - 1);
      const std::string axes = axis == second ? b.constant("i64", "1", std::to_string(axis))
                                              : b.constant("i64", "2", fmt::format("{}, {}", axis, second));
      return b.node(b.any({"ReduceSum", "ReduceSumSquare", "ReduceL1"}), x + ", " + axes, keep);
    }
  }
}

}  // namespace

Graph random_contraction(uint64_t seed) {
  Builder b(seed);
  const std::string type = b.any({"f32", "f32", "f32", "f16", "bf16", "f64"});
  switch (b.random.integer(0, 3)) {
    case 0:
      return b.finish(b.mapped(product(b, type), type));
    case 1:
      return b.finish(b.mapped(general_product(b, type), type));
    case 2:
      return b.finish(b.mapped(convolution(b, type), type));
    default:
      return b.finish(b.random.chance(0.5) ? b.mapped(integer_product(b), "i32") : product(b, type));
  }
}

Graph random_reduction(uint64_t seed) {
  Builder b(seed);
  const std::string type = b.any({"f32", "f32", "f16", "bf16", "f64", "i32", "i64"});
  const std::string result = reduction(b, type);
  return b.finish(result);
}

}  // namespace graft
