// SPDX-License-Identifier: Apache-2.0
// Support vector machines of ai.onnx.ml.
#include <algorithm>
#include <numeric>
#include <utility>

#include "import/onnx/learning_call.h"

namespace graft {
namespace {

/// k(x, v) for each row and each of the vectors, which are the rows of a matrix: [rows, vectors].
ValueId kernel(ContribCall& call, ValueId x, ValueId vectors, const std::string& type) {
  const std::vector<double> parameters = call.reals("kernel_params");
  const auto parameter = [&](size_t k) { return k < parameters.size() ? parameters[k] : 0; };
  const auto number = [&](double value) { return call.scalar_like(value, x); };
  if (type == "RBF") {
    const ValueId difference = call.emit("Sub", {call.unsqueeze(x, {1}), call.unsqueeze(vectors, {0})});
    const ValueId squares = call.emit("ReduceSumSquare", {difference, call.integers({-1})}, {{"keepdims", int64_t{0}}});
    return call.emit("Exp", {call.emit("Mul", {squares, number(-parameter(0))})});
  }
  const ValueId products = call.emit("Gemm", {x, vectors}, {{"transB", int64_t{1}}});
  if (type == "LINEAR") return products;
  const ValueId sum = call.emit("Add", {call.emit("Mul", {products, number(parameter(0))}), number(parameter(1))});
  if (type == "POLY") return call.emit("Pow", {sum, number(parameter(2))});
  if (type == "SIGMOID") return call.emit("Tanh", {sum});
  call.reject("its kernel_type '" + type + "' is none of ONNX's; export the model again");
}

ValueId matrix_of(ContribCall& call, std::string_view attribute, int64_t rows) {
  const std::vector<double> values = call.reals(attribute);
  const auto size = static_cast<int64_t>(values.size());
  if (rows < 1 || size == 0 || size % rows != 0) {
    call.reject("its attribute '" + std::string(attribute) + "' is not of whole rows; export the model again");
  }
  return floats_of(call, attribute, values, {rows, size / rows});
}

/// An element of a list that has to be long enough.
double element(ContribCall& call, std::string_view attribute, size_t place) {
  const std::vector<double> values = call.reals(attribute);
  if (place >= values.size()) {
    call.reject("its attribute '" + std::string(attribute) + "' has too few numbers; export the model again");
  }
  return values[place];
}

void expand_regressor(ContribCall& call) {
  const ValueId x = rows_of(call);
  const int64_t vectors = call.integer("n_supports", 0);
  ValueId y = kNoValue;
  if (vectors > 0) {
    const ValueId values = kernel(call, x, matrix_of(call, "support_vectors", vectors), call.text("kernel_type",
                                                                                                 "LINEAR"));
    y = call.emit("Gemm", {values, matrix_of(call, "coefficients", 1)}, {{"transB", int64_t{1}}});
  } else {
    y = kernel(call, x, matrix_of(call, "coefficients", 1), "LINEAR");
  }
  y = call.emit("Add", {y, call.scalar_like(element(call, "rho", 0), y)});
  if (call.integer("one_class", 0) != 0) {
    const ValueId above = call.emit("Greater", {y, call.scalar_like(0, y)});
    return call.out(0, call.emit("Where", {above, call.scalar_like(1, y), call.scalar_like(-1, y)}));
  }
  call.out(0, transformed(call, y));
}

/// The scores of the pairs of classes, [rows, pairs], each a sum over the vectors of its two.
ValueId pair_scores(ContribCall& call, ValueId x, const std::vector<int64_t>& counts) {
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const ValueId values = kernel(call, x, matrix_of(call, "support_vectors", all), call.text("kernel_type", "LINEAR"));
  const std::vector<double> coefficients = call.reals("coefficients");
  if (coefficients.size() != static_cast<size_t>(all) * (counts.size() - 1)) {
    call.reject("its attribute 'coefficients' does not fit its classes; export the model again");
  }
  std::vector<int64_t> starts(counts.size(), 0);
  std::partial_sum(counts.begin(), counts.end() - 1, starts.begin() + 1);
  std::vector<double> weights, offsets;  // [pairs, vectors]
  for (size_t i = 0; i < counts.size(); ++i) {
    for (size_t j = i + 1; j < counts.size(); ++j) {
      std::vector<double> row(static_cast<size_t>(all), 0);
      const auto take = [&](size_t owner, size_t against) {
        for (int64_t v = starts[owner]; v < starts[owner] + counts[owner]; ++v) {
          row[static_cast<size_t>(v)] = coefficients[against * static_cast<size_t>(all) + static_cast<size_t>(v)];
        }
      };
      take(i, j - 1);
      take(j, i);
      offsets.push_back(element(call, "rho", offsets.size()));
      weights.insert(weights.end(), row.begin(), row.end());
    }
  }
  const auto pairs = static_cast<int64_t>(offsets.size());
  return call.emit("Gemm", {values, floats_of(call, "weights", weights, {pairs, all}), floats_of(call, "rho", offsets)},
                   {{"transB", int64_t{1}}});
}

/// How many of its pairs each class wins, [rows, classes].
ValueId votes(ContribCall& call, ValueId scores, size_t classes) {
  std::vector<double> first, second;  // [pairs, classes]
  for (size_t i = 0; i < classes; ++i) {
    for (size_t j = i + 1; j < classes; ++j) {
      for (size_t k = 0; k < classes; ++k) {
        first.push_back(k == i);
        second.push_back(k == j);
      }
    }
  }
  const auto pairs = static_cast<int64_t>(first.size() / classes), count = static_cast<int64_t>(classes);
  const ValueId wins = call.cast(call.emit("Greater", {scores, call.scalar_like(0, scores)}), DType::kFloat32);
  const ValueId losses = call.emit("Sub", {call.scalar_like(1, wins), wins});
  return call.emit("Add", {call.emit("MatMul", {wins, floats_of(call, "first", first, {pairs, count})}),
                           call.emit("MatMul", {losses, floats_of(call, "second", second, {pairs, count})})});
}

/// For each pair of classes the probability of its first, from their scores.
ValueId pair_probabilities(ContribCall& call, ValueId scores, size_t pairs) {
  constexpr double kLeast = 1e-7;
  const auto number = [&](double value) { return call.scalar_like(value, scores); };
  const auto list = [&](std::string_view name) {
    return floats_of(call, name, call.reals(name), {static_cast<int64_t>(pairs)});
  };
  const ValueId line = call.emit("Add", {call.emit("Mul", {scores, list("prob_a")}), list("prob_b")});
  return call.emit("Clip", {call.emit("Sigmoid", {call.emit("Neg", {line})}), number(kLeast), number(1 - kLeast)});
}

/// The probabilities of the classes, [rows, classes].
ValueId probabilities(ContribCall& call, ValueId scores, size_t classes) {
  const ValueId pairs = pair_probabilities(call, scores, classes * (classes - 1) / 2);
  if (classes > 2) return coupled_probabilities(call, pairs, static_cast<int64_t>(classes));
  const ValueId second = call.emit("Sub", {call.scalar_like(1, pairs), pairs});
  return call.emit("Concat", {pairs, second}, {{"axis", int64_t{1}}});
}

void expand_of_lines(ContribCall& call, const Labels& labels) {
  const auto count = static_cast<int64_t>(std::max<size_t>(labels.size(), 1));
  const ValueId products = kernel(call, rows_of(call), matrix_of(call, "coefficients", count), "LINEAR");
  const ValueId scores = call.emit("Add", {products, call.scalar_like(element(call, "rho", 0), products)});
  if (count == 1) call.unsupported("a classifier of one class");
  call.out(0, best_label(call, labels, scores));
  call.out(1, transformed(call, scores));
}

void expand_classifier(ContribCall& call) {
  const Labels labels = labels_of(call, "classlabels_ints", "classlabels_strings");
  const std::vector<int64_t> counts = call.integers("vectors_per_class");
  if (counts.empty()) return expand_of_lines(call, labels);
  if (counts.size() < 2 || std::ranges::any_of(counts, [](int64_t n) { return n < 0; })) {
    call.reject("its attribute 'vectors_per_class' should count the vectors of at least two classes");
  }
  const ValueId scores = pair_scores(call, rows_of(call), counts);
  call.out(0, best_label(call, labels, votes(call, scores, counts.size())));
  const bool has_probabilities = !call.reals("prob_a").empty();
  if (has_probabilities) return call.out(1, transformed(call, probabilities(call, scores, counts.size())));
  call.out(1, counts.size() == 2 && labels.size() == 2 ? transformed(call, opposites(call, scores))
                                                       : transformed(call, scores));
}

}  // namespace

std::vector<ContribOperator> learning_vectors() {
  return {{"SVMRegressor",
           1,
           {"coefficients", "kernel_params", "kernel_type", "n_supports", "one_class", "post_transform", "rho",
            "support_vectors"},
           expand_regressor,
           "A sum of kernels of a row with support vectors.",
           kMachineLearning},
          {"SVMClassifier",
           1,
           {"classlabels_ints", "classlabels_strings", "coefficients", "kernel_params", "kernel_type", "post_transform",
            "prob_a", "prob_b", "rho", "support_vectors", "vectors_per_class"},
           expand_classifier,
           "The class that wins most of the pairs of classes, by sums of kernels with support vectors.",
           kMachineLearning}};
}

}  // namespace graft
