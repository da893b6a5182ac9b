// SPDX-License-Identifier: Apache-2.0
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;

/// A constant vector of as many elements as the input has channels.
ValueId filled(Conversion& c, ValueId input, double element) {
  const auto channels = c.size_of(input, 1).as_constant();
  if (!channels) c.refuse("the number of its channels is known only while running");
  TensorData data = TensorData::zeros(c.type_of(input), {*channels});
  for (int64_t i = 0; i < *channels; ++i) data.write_double(i, element);
  return c.constant(std::move(data));
}

void normalize_batch(Conversion& c) {
  const ValueId input = c.tensor("input"), mean = c.tensor("running_mean"), variance = c.tensor("running_var");
  if (mean == kNoValue || variance == kNoValue) c.refuse("batch normalization by the statistics of the batch");
  if (c.rank_of(input) < 2) c.refuse("an input without channels");
  ValueId weight = c.tensor("weight"), bias = c.tensor("bias");
  if (weight == kNoValue) weight = filled(c, input, 1);
  if (bias == kNoValue) bias = filled(c, input, 0);
  c.give(c.add("BatchNormalization", {input, weight, bias, mean, variance}, {{"epsilon", c.real("eps")}}));
}

void batch_norm(Conversion& c) {
  if (c.flag("training")) c.refuse("batch normalization of a module in training mode: call eval() before");
  normalize_batch(c);
}

/// Normalization over the last axes, as many as normalized_shape has.
void layer_norm(Conversion& c) {
  const ValueId input = c.tensor("input");
  const auto axes = static_cast<int64_t>(c.integers("normalized_shape").size());
  ValueId weight = c.tensor("weight");
  if (weight == kNoValue) weight = c.real_constant(1, c.type_of(input));
  c.give(c.add("LayerNormalization", {input, weight, c.tensor("bias")}, {{"axis", -axes}, {"epsilon", c.real("eps")}}));
}

std::function<void(Conversion&)> softmax(std::string_view op) {
  return [op](Conversion& c) {
    ValueId self = c.tensor("self");
    if (c.has("dtype")) self = c.cast(self, c.type("dtype"));
    c.give(c.add(op, {self}, {{"axis", c.integer("dim")}}));
  };
}

/// As torch's decompositions spell it: the type is the operand's.
std::function<void(Conversion&)> softmax_of(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId self = c.tensor("self");
    c.give(c.add(op, {c.flag("half_to_float") ? c.cast(self, DType::kFloat32) : self}, {{"axis", c.integer("dim")}}));
  };
}

}  // namespace

std::vector<frontend::Row> normalization_rows() {
  return {
      {"aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
       "bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor", batch_norm},
      {"aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
       "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)", normalize_batch},
      {"aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
       "float eps=1e-05, bool cudnn_enable=True) -> Tensor", layer_norm},
      {"aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax("Softmax")},
      {"aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax("LogSoftmax")},
      {"aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax_of("Softmax")},
      {"aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax_of("LogSoftmax")},
  };
}

}  // namespace graft::aten
