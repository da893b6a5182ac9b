// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <numeric>

#include "import/aten/axes.h"
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

/// A constant vector of as many elements as the input has channels.
ValueId filled(Conversion& c, ValueId input, double element) {
  const auto channels = c.size_of(input, 1).as_constant();
  if (!channels) c.refuse("the number of its channels is known only while running");
  TensorData data = table(c, c.type_of(input), {*channels});
  for (int64_t i = 0; i < *channels; ++i) data.write_double(i, element);
  return c.constant(std::move(data));
}

/// Weight and bias, ones and zeros where they are left out.
std::pair<ValueId, ValueId> affine(Conversion& c, ValueId input) {
  const ValueId weight = c.tensor("weight"), bias = c.tensor("bias");
  return {weight == kNoValue ? filled(c, input, 1) : weight, bias == kNoValue ? filled(c, input, 0) : bias};
}

void normalize_batch(Conversion& c) {
  const ValueId input = c.tensor("input"), mean = c.tensor("running_mean"), variance = c.tensor("running_var");
  if (mean == kNoValue || variance == kNoValue) c.refuse("batch normalization by the statistics of the batch");
  if (c.rank_of(input) < 2) c.refuse("an input without channels");
  const auto [weight, bias] = affine(c, input);
  c.give(c.add("BatchNormalization", {input, weight, bias, mean, variance}, {{"epsilon", c.real("eps")}}));
}

void batch_norm(Conversion& c) {
  if (c.flag("training")) c.refuse("batch normalization of a module in training mode: call eval() before");
  normalize_batch(c);
}

/// By the statistics of the batch itself, which come back as well.
void normalize_by_batch(Conversion& c) {
  if (!c.flag("training")) c.refuse("batch normalization without statistics, and not by those of the batch");
  const ValueId input = c.tensor("input");
  const int rank = c.rank_of(input);
  if (rank < 2) c.refuse("an input without channels");
  std::vector<int64_t> axes = {0}, shape(static_cast<size_t>(rank - 1), 1);
  for (int64_t axis = 2; axis < rank; ++axis) axes.push_back(axis);
  shape[0] = -1;
  const ValueId over = c.integers_constant(axes);
  const auto mean_of = [&](ValueId x) { return c.add("ReduceMean", {x, over}); };
  const ValueId mean = mean_of(input), away = c.add("Sub", {input, mean});
  const ValueId variance = mean_of(c.add("Mul", {away, away}));
  const ValueId spread = c.add("Sqrt", {c.add("Add", {variance, number(c, c.real("eps"), input)})});
  ValueId result = c.add("Div", {away, spread});
  const auto along = [&](ValueId x) { return c.add("Reshape", {x, c.integers_constant(shape)}); };
  if (c.has("weight")) result = c.add("Mul", {result, along(c.tensor("weight"))});
  if (c.has("bias")) result = c.add("Add", {result, along(c.tensor("bias"))});
  const ValueId flat = c.integers_constant({-1});
  c.give({result, c.add("Reshape", {mean, flat}), c.add("Reciprocal", {c.add("Reshape", {spread, flat})})});
}

void instance_norm(Conversion& c) {
  if (!c.flag("use_input_stats")) c.refuse("instance normalization by statistics that are given");
  const ValueId input = c.tensor("input");
  const auto [weight, bias] = affine(c, input);
  c.give(c.add("InstanceNormalization", {input, weight, bias}, {{"epsilon", c.real("eps")}}));
}

/// Normalization over the last axes, as many as normalized_shape has; with mean and deviation where they are asked for.
Build layer_norm(int results) {
  return [results](Conversion& c) {
    const ValueId input = c.tensor("input");
    const auto axes = static_cast<int64_t>(c.integers("normalized_shape").size());
    ValueId weight = c.tensor("weight");
    if (weight == kNoValue) weight = c.real_constant(1, c.type_of(input));
    const Attributes attributes = {{"axis", -axes}, {"epsilon", c.real("eps")}};
    std::vector<ValueId> all = {c.add("LayerNormalization", {input, weight, c.tensor("bias")}, Attributes(attributes))};
    if (results > 1) {  // an operator of its own: nearly nobody takes them
      const auto three = c.add_several("LayerNormalization", {input, weight}, Attributes(attributes), 3);
      all.insert(all.end(), three.begin() + 1, three.end());
    }
    c.give(std::move(all));
  };
}

/// Without an epsilon it is that of the type.
void rms_norm(Conversion& c) {
  const ValueId input = c.tensor("input");
  const auto axes = static_cast<int64_t>(c.integers("normalized_shape").size());
  ValueId weight = c.tensor("weight");
  if (weight == kNoValue) weight = c.real_constant(1, c.type_of(input));
  const DType type = c.type_of(input);
  const double epsilon = type == DType::kFloat64    ? std::numeric_limits<double>::epsilon()
                         : type == DType::kBFloat16 ? 0x1p-7
                         : type == DType::kFloat16  ? 0x1p-10
                                                    : 0x1p-23;
  c.give(c.add("RMSNormalization", {input, weight},
               {{"axis", -axes}, {"epsilon", c.has("eps") ? c.real("eps") : epsilon}}));
}

Build group_norm(std::string_view groups) {
  return [groups](Conversion& c) {
    const ValueId input = c.tensor("input");
    const auto [weight, bias] = affine(c, input);
    c.give(c.add("GroupNormalization", {input, weight, bias},
                 {{"num_groups", c.integer(groups)}, {"epsilon", c.real("eps")}}));
  };
}

Build softmax(std::string_view op, std::string_view domain = "") {
  return [op, domain](Conversion& c) {
    ValueId self = c.tensor("self");
    if (c.has("dtype")) self = c.cast(self, c.type("dtype"));
    c.give(c.add(op, {self}, {{"axis", c.integer("dim")}}, domain));
  };
}

/// As torch's decompositions spell it: the type is the operand's.
Build softmax_of(std::string_view op) {
  return [op](Conversion& c) {
    const ValueId self = c.tensor("self");
    c.give(c.add(op, {c.flag("half_to_float") ? c.cast(self, DType::kFloat32) : self}, {{"axis", c.integer("dim")}}));
  };
}

}  // namespace

std::vector<Row> normalization_rows() {
  return {
      {"aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
       "bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor", batch_norm},
      {"aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
       "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", batch_norm},
      {"aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
       "Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", batch_norm},
      {"aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
       "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)", normalize_batch},
      {"aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, "
       "float momentum, float eps) -> (Tensor, Tensor, Tensor)", normalize_by_batch},
      {"aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
       "bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor", instance_norm},
      {"aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
       "float eps=1e-05, bool cudnn_enable=True) -> Tensor", layer_norm(1)},
      {"aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
       "(Tensor, Tensor, Tensor)", layer_norm(3)},
      {"aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
       rms_norm},
      {"aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
       rms_norm},
      {"aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
       "bool cudnn_enabled=True) -> Tensor", group_norm("num_groups")},
      {"aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, "
       "float eps) -> (Tensor, Tensor, Tensor)", group_norm("group")},
      {"aten::softmax.int special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax("Softmax")},
      {"aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
       softmax("MaskedSoftmax", "graft")},
      {"aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax("LogSoftmax")},
      {"aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax_of("Softmax")},
      {"aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax_of("LogSoftmax")},
  };
}

}  // namespace graft::aten
