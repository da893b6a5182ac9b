// SPDX-License-Identifier: Apache-2.0
// Operators of ai.onnx.ml on rows of features.
#include <cmath>

#include "import/onnx/learning_call.h"

namespace graft {
namespace {

void expand_binarizer(ContribCall& call) {
  const ValueId x = call.in(0);
  const ValueId above = call.emit("Greater", {x, call.scalar_like(call.real("threshold", 0), x)});
  call.out(0, call.cast(above, call.type(x)));
}

/// Elements along the last axis; a list is one row.
void expand_feature_extractor(ContribCall& call) {
  ValueId x = call.in(0);
  if (call.rank(x) == 1) x = call.unsqueeze(x, {0});
  const ValueId places = call.emit("Reshape", {call.in(1), call.integers({-1})});
  call.out(0, call.emit("Gather", {x, places}, {{"axis", int64_t{-1}}}));
}

/// Each input takes as many columns as `inputdimensions` says: the first ones, or zeros behind its own.
void expand_feature_vectorizer(ContribCall& call) {
  const std::vector<int64_t> sizes = call.integers("inputdimensions");
  if (!sizes.empty() && sizes.size() != call.input_count()) {
    call.reject("its attribute 'inputdimensions' has not one number for each input; export the model again");
  }
  std::vector<ValueId> parts;
  for (size_t k = 0; k < call.input_count(); ++k) {
    ValueId x = call.cast(call.in(k), DType::kFloat32);
    if (call.rank(x) == 1) x = call.unsqueeze(x, {1});
    if (call.rank(x) != 2) call.reject("its inputs should have one axis or two; export the model again");
    const auto columns = call.shape(x)[1].as_constant();
    if (!sizes.empty() && (!columns || *columns != sizes[k])) {
      const ValueId more = call.emit("Pad", {x, call.integers({0, 0, 0, sizes[k]})});
      x = call.emit("Slice", {more, call.integers({0}), call.integers({sizes[k]}), call.integers({1})});
    }
    parts.push_back(x);
  }
  call.out(0, parts.size() == 1 ? parts[0] : call.emit("Concat", parts, {{"axis", int64_t{1}}}));
}

void expand_imputer(ContribCall& call) {
  const ValueId x = call.in(0);
  const DType type = call.type(x);
  const bool real = is_float(type);
  std::vector<double> values = call.reals("imputed_value_floats");
  if (!real) {
    const std::vector<int64_t> whole = call.integers("imputed_value_int64s");
    values.assign(whole.begin(), whole.end());
  }
  if (values.empty()) call.reject("it has no values for what is missing; export the model again");
  const double missing = real ? call.real("replaced_value_float", 0)
                              : static_cast<double>(call.integer("replaced_value_int64", 0));
  const ValueId is_missing = real && std::isnan(missing) ? call.emit("IsNaN", {x})
                                                         : call.emit("Equal", {x, call.scalar_like(missing, x)});
  const auto count = static_cast<int64_t>(values.size());
  const ValueId table = floats_of(call, "imputed", values, {count}, type);
  call.out(0, call.emit("Where", {is_missing, table, x}));
}

void expand_normalizer(ContribCall& call) {
  constexpr double kLeast = 1e-30;
  const ValueId x = call.cast(call.in(0), DType::kFloat32);
  const std::string norm = call.text("norm", "MAX");
  const ValueId last = call.integers({-1});
  ValueId size = kNoValue;
  if (norm == "MAX") {
    size = call.emit("ReduceMax", {x, last});
  } else if (norm == "L1") {
    size = call.emit("ReduceL1", {x, last});
  } else if (norm == "L2") {
    size = call.emit("ReduceL2", {x, last});
  } else {
    call.reject("its norm '" + norm + "' is none of ONNX's; export the model again");
  }
  const ValueId is_zero = call.emit("Less", {call.emit("Abs", {size}), call.scalar_like(kLeast, size)});
  const ValueId divisor = call.emit("Where", {is_zero, call.scalar_like(1, size), size});
  call.out(0, call.emit("Div", {x, divisor}));
}

void expand_scaler(ContribCall& call) {
  ValueId y = call.cast(call.in(0), DType::kFloat32);
  const std::vector<double> offset = call.reals("offset"), scale = call.reals("scale");
  if (!offset.empty()) y = call.emit("Sub", {y, floats_of(call, "offset", offset)});
  if (!scale.empty()) y = call.emit("Mul", {y, floats_of(call, "scale", scale)});
  call.out(0, y);
}

ContribOperator row(std::string_view name, size_t inputs, std::vector<std::string_view> attributes,
                    void (*expand)(ContribCall&), std::string_view doc) {
  return {name, inputs, std::move(attributes), expand, doc, kMachineLearning};
}

}  // namespace

std::vector<ContribOperator> learning_features() {
  return {row("ArrayFeatureExtractor", 2, {}, expand_feature_extractor, "Columns by their numbers."),
          row("Binarizer", 1, {"threshold"}, expand_binarizer, "1 above a threshold, else 0."),
          row("FeatureVectorizer", 1, {"inputdimensions"}, expand_feature_vectorizer, "Columns side by side."),
          row("Imputer", 1,
              {"imputed_value_floats", "imputed_value_int64s", "replaced_value_float", "replaced_value_int64"},
              expand_imputer, "Values in place of missing ones."),
          row("Normalizer", 1, {"norm"}, expand_normalizer, "Rows over their largest element, or over a norm."),
          row("Scaler", 1, {"offset", "scale"}, expand_scaler, "(x - offset) times scale, by column.")};
}

}  // namespace graft
