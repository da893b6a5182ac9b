// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/learning_call.h"

#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace graft {
namespace {

/// The inverse of the normal distribution function, by Winitzki's approximation of the inverse of erf, as ONNX
/// Runtime and onnx's reference evaluator have it.
ValueId probit(ContribCall& call, ValueId x) {
  constexpr double kPi = 3.14159, kFactor = 0.147;
  const auto number = [&](double value) { return call.scalar_like(value, x); };
  const ValueId y = call.emit("Sub", {call.emit("Mul", {x, number(2)}), number(1)});
  const ValueId log = call.emit("Log", {call.emit("Mul", {call.emit("Sub", {number(1), y}),
                                                          call.emit("Add", {number(1), y})})});
  const ValueId a = call.emit("Add", {number(2 / (kPi * kFactor)), call.emit("Mul", {log, number(0.5)})});
  const ValueId b = call.emit("Mul", {log, number(1 / kFactor)});
  const ValueId root = call.emit("Sqrt", {call.emit("Sub", {call.emit("Mul", {a, a}), b})});
  const ValueId size = call.emit("Sqrt", {call.emit("Sub", {root, a})});
  return call.emit("Mul", {call.emit("Mul", {number(std::sqrt(2.0)), call.emit("Sign", {y})}), size});
}

/// Softmax in which what is 0 stays so.
ValueId softmax_of_others(ContribCall& call, ValueId x) {
  constexpr double kZero = 1e-7;
  const ValueId last = call.integers({-1});
  const ValueId exponential = call.emit("Exp", {call.emit("Sub", {x, call.emit("ReduceMax", {x, last})})});
  const ValueId counts = call.emit("Greater", {call.emit("Abs", {x}), call.scalar_like(kZero, x)});
  const ValueId zero = call.scalar_like(0, x);
  const ValueId kept = call.emit("Where", {counts, exponential, zero});
  return call.emit("Div", {kept, call.emit("ReduceSum", {kept, last})});
}

}  // namespace

ValueId floats_of(ContribCall& call, std::string_view name, const std::vector<double>& values,
                  std::vector<int64_t> shape, DType type) {
  const auto count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  if (count != static_cast<int64_t>(values.size())) {
    call.reject(fmt::format("its attribute '{}' has {} numbers, {} are expected; export the model again", name,
                            values.size(), count));
  }
  return call.constant(name, TensorData::from_values<double>(type, std::move(shape), values));
}

ValueId floats_of(ContribCall& call, std::string_view name, const std::vector<double>& values) {
  return floats_of(call, name, values, {static_cast<int64_t>(values.size())});
}

ValueId strings_of(ContribCall& call, std::string_view name, const std::vector<std::string>& values) {
  return call.constant(name, TensorData::from_strings({static_cast<int64_t>(values.size())}, values));
}

ValueId rows_of(ContribCall& call, DType type) {
  const int64_t rank = call.rank(call.in(0));
  if (rank != 1 && rank != 2) call.reject("its input should be [features] or [batch, features]; export it again");
  const ValueId x = call.cast(call.in(0), type);
  return rank == 1 ? call.unsqueeze(x, {0}) : x;
}

ValueId transformed(ContribCall& call, ValueId scores, std::string_view transform) {
  if (transform == "NONE") return scores;
  if (transform == "LOGISTIC") return call.emit("Sigmoid", {scores});
  if (transform == "SOFTMAX") return call.emit("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (transform == "SOFTMAX_ZERO") return softmax_of_others(call, scores);
  if (transform == "PROBIT") return probit(call, scores);
  call.reject(fmt::format("its post_transform '{}' is none of ONNX's; export the model again", transform));
}

ValueId transformed(ContribCall& call, ValueId scores) {
  return transformed(call, scores, call.text("post_transform", "NONE"));
}

ValueId complement(ContribCall& call, ValueId score) {
  const ValueId other = call.emit("Sub", {call.scalar_like(1, score), score});
  return call.emit("Concat", {other, score}, {{"axis", int64_t{1}}});
}

ValueId opposites(ContribCall& call, ValueId score) {
  return call.emit("Concat", {call.emit("Neg", {score}), score}, {{"axis", int64_t{1}}});
}

Labels labels_of(ContribCall& call, std::string_view integers, std::string_view texts) {
  return {.integers = call.integers(integers), .texts = call.texts(texts)};
}

ValueId label_at(ContribCall& call, const Labels& labels, ValueId place) {
  const ValueId table = labels.texts.empty() ? call.integers(labels.integers)
                                             : strings_of(call, "labels", labels.texts);
  return call.emit("Gather", {table, place}, {{"axis", int64_t{0}}});
}

ValueId best_label(ContribCall& call, const Labels& labels, ValueId scores) {
  const ValueId place = call.emit("ArgMax", {scores}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  return labels.size() == 0 ? place : label_at(call, labels, place);
}

ValueId label_if(ContribCall& call, const Labels& labels, ValueId condition) {
  Labels two = labels;
  if (labels.size() != 2 && labels.texts.empty()) two.integers = {0, 1};
  if (labels.size() != 2 && !labels.texts.empty()) two.texts = {"0", "1"};
  return label_at(call, two, call.cast(call.squeeze(condition, {1}), DType::kInt64));
}

}  // namespace graft
