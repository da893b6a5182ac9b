// SPDX-License-Identifier: Apache-2.0
// Quantised tensors as PT2E leaves them (torch.ops.quantized_decomposed), and products of integers.
#include <cmath>
#include <limits>

#include "import/aten/axes.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;

/// The smallest and the largest code of a type.
std::pair<int64_t, int64_t> codes_of(Conversion& c, DType type) {
  if (type == DType::kInt8) return {-128, 127};
  if (type == DType::kUint8) return {0, 255};
  if (type == DType::kInt16) return {-32768, 32767};
  if (type == DType::kUint16) return {0, 65535};
  c.refuse("codes of another type than 8 or 16 bits");
}

/// A scale as a float: a number, or a tensor that is known.
ValueId scale_of(Conversion& c, std::string_view name) {
  if (c.is_number(name)) return c.real_constant(c.real(name), DType::kFloat32);
  const ValueId value = c.tensor(name);
  const TensorData known = c.given(value).constant;
  if (!known) return c.cast(value, DType::kFloat32);
  TensorData scales = TensorData::zeros(DType::kFloat32, known.shape());
  for (int64_t i = 0; i < known.element_count(); ++i) scales.write_double(i, known.read_double(i));
  return c.constant(std::move(scales));
}

/// A zero point in the type of the codes.
ValueId zero_of(Conversion& c, std::string_view name, DType type) {
  if (!c.has(name)) return kNoValue;
  if (c.is_number(name)) {
    TensorData zero = TensorData::zeros(type, {});
    zero.write_integer(0, c.integer(name));
    return c.constant(std::move(zero));
  }
  const ValueId value = c.tensor(name);
  const TensorData known = c.given(value).constant;
  if (!known) return c.cast(value, type);
  TensorData zeros = TensorData::zeros(type, known.shape());
  for (int64_t i = 0; i < known.element_count(); ++i) zeros.write_integer(i, known.read_integer(i));
  return c.constant(std::move(zeros));
}

Attributes axis_of(Conversion& c, ValueId input, bool per_channel) {
  if (!per_channel) return {};
  return {{"axis", c.axis(c.integer("axis"), c.rank_of(input))}};
}

void quantize(Conversion& c, bool per_channel) {
  const DType type = c.type("dtype");
  const auto [least, most] = codes_of(c, type);
  const ValueId input = c.cast(c.tensor("input"), DType::kFloat32);
  const ValueId zero = zero_of(c, per_channel ? "zero_points" : "zero_point", type);
  const ValueId scale = scale_of(c, per_channel ? "scales" : "scale");
  ValueId codes = c.add("QuantizeLinear", {input, scale, zero}, axis_of(c, input, per_channel));
  const int64_t low = c.integer("quant_min"), high = c.integer("quant_max");
  if (low > least || high < most) {  // narrower than the type, as weights from -127 on
    const auto code = [&](int64_t number) {
      TensorData made = TensorData::zeros(type, {});
      made.write_integer(0, number);
      return c.constant(std::move(made));
    };
    codes = c.add("Clip", {codes, code(std::max(low, least)), code(std::min(high, most))});
  }
  c.give(codes);
}

void dequantize(Conversion& c, bool per_channel) {
  const ValueId input = c.tensor("input");
  const DType type = c.type_of(input);
  if (type != DType::kInt32) codes_of(c, type);
  const ValueId zero = zero_of(c, per_channel ? "zero_points" : "zero_point", type);
  const ValueId scale = scale_of(c, per_channel ? "scales" : "scale");
  const ValueId value = c.add("DequantizeLinear", {input, scale, zero}, axis_of(c, input, per_channel));
  c.give(c.has("out_dtype") ? c.cast(value, c.type("out_dtype")) : value);
}

void multiply_integers(Conversion& c) { c.give(c.add("MatMulInteger", {c.tensor("self"), c.tensor("mat2")})); }

}  // namespace

std::vector<Row> quantization_rows() {
  const auto per_tensor = [](auto* build) { return [build](Conversion& c) { build(c, false); }; };
  const auto per_channel = [](auto* build) { return [build](Conversion& c) { build(c, true); }; };
  const std::string range = "int quant_min, int quant_max, ScalarType dtype", name = "quantized_decomposed::";
  return {
      {name + "quantize_per_tensor(Tensor input, float scale, int zero_point, " + range + ")", per_tensor(quantize)},
      {name + "quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, " + range + ")",
       per_tensor(quantize)},
      {name + "quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, " + range + ")",
       per_channel(quantize)},
      {name + "dequantize_per_tensor(Tensor input, float scale, int zero_point, " + range +
           ", *, ScalarType? out_dtype=None)",
       per_tensor(dequantize)},
      {name + "dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, " + range +
           ", *, ScalarType? out_dtype=None)",
       per_tensor(dequantize)},
      {name + "dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, " + range +
           ", *, ScalarType? out_dtype=None)",
       per_channel(dequantize)},
      {"aten::_int_mm(Tensor self, Tensor mat2)", multiply_integers},
  };
}

}  // namespace graft::aten
