// SPDX-License-Identifier: Apache-2.0
// LinearRegressor and LinearClassifier of ai.onnx.ml.
#include "import/onnx/learning_call.h"

namespace graft {
namespace {

/// x times the transposed matrix of `coefficients`, of `count` rows, plus `intercepts`.
ValueId product(ContribCall& call, int64_t count) {
  const ValueId x = rows_of(call);
  const std::vector<double> coefficients = call.reals("coefficients"), intercepts = call.reals("intercepts");
  const auto size = static_cast<int64_t>(coefficients.size());
  if (count < 1 || size % count != 0) {
    call.reject("its attribute 'coefficients' does not fit the number of its results; export the model again");
  }
  const ValueId matrix = floats_of(call, "coefficients", coefficients, {count, size / count});
  const ValueId bias = intercepts.empty() ? kNoValue : floats_of(call, "intercepts", intercepts, {count});
  return call.emit("Gemm", {x, matrix, bias}, {{"transB", int64_t{1}}});
}

void expand_regressor(ContribCall& call) {
  call.out(0, transformed(call, product(call, call.integer("targets", 1))));
}

void expand_classifier(ContribCall& call) {
  const Labels labels = labels_of(call, "classlabels_ints", "classlabels_strings");
  const std::vector<double> intercepts = call.reals("intercepts");
  const auto count = static_cast<int64_t>(intercepts.empty() ? labels.size() : intercepts.size());
  const ValueId scores = product(call, count);
  if (count != 1) {
    call.out(0, best_label(call, labels, scores));
    return call.out(1, transformed(call, scores));
  }
  call.out(0, label_if(call, labels, call.emit("Greater", {scores, call.scalar_like(0, scores)})));
  const std::string transform = call.text("post_transform", "NONE");
  // One score stands for two classes.
  if (transform == "PROBIT" || labels.size() != 2) return call.out(1, transformed(call, scores));
  if (transform == "NONE") return call.out(1, complement(call, scores));
  call.out(1, transform == "LOGISTIC" ? complement(call, transformed(call, scores))
                                      : transformed(call, opposites(call, scores)));
}

}  // namespace

std::vector<ContribOperator> learning_linear() {
  return {{"LinearRegressor", 1, {"coefficients", "intercepts", "post_transform", "targets"}, expand_regressor,
           "A product of rows with coefficients.", kMachineLearning},
          {"LinearClassifier",
           1,
           {"classlabels_ints", "classlabels_strings", "coefficients", "intercepts", "multi_class", "post_transform"},
           expand_classifier,
           "The class whose product with a row is the largest, and the products.",
           kMachineLearning}};
}

}  // namespace graft
