// SPDX-License-Identifier: Apache-2.0
// Changes of element type.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// The powers of two of f8e8m0: the exponent byte of the f32, moved by the mantissa as `rounding` says.
Expr power_of_two(const Expr& value, std::string_view rounding, bool saturate) {
  const Expr x = make_cast(DType::kFloat32, value);
  const auto constant = [](int64_t v) { return make_integer(DType::kInt32, v); };
  const Expr bits = make_bitcast(DType::kInt32, x) & constant(0x7fffffff);
  const Expr exponent = bits >> constant(23), mantissa = bits & constant(0x7fffff);
  const Expr one = constant(1), zero = constant(0);
  Expr up = zero;
  if (rounding == "up") up = select(gt(mantissa, zero), one, zero);
  if (rounding == "nearest") up = select(ge(mantissa, constant(0x400000)), one, zero);
  Expr code = exponent + up;
  // Beyond the largest power lies NaN (255); saturating keeps what was finite at the largest (254).
  if (saturate) code = min(code, constant(254));
  code = select(eq(exponent, constant(255)), constant(255), code);
  return make_bitcast(DType::kFloat8E8M0, make_cast(DType::kUint8, code));
}

/// The largest finite value of a float8 type, and whether it has infinities.
std::pair<double, bool> float8_range(DType type) {
  switch (type) {
    case DType::kFloat8E4M3FN: return {448, false};
    case DType::kFloat8E4M3FNUZ: return {240, false};
    case DType::kFloat8E5M2: return {57344, true};
    default: return {57344, false};
  }
}

/// A float8 where what rounds beyond the largest value becomes infinity or NaN instead.
Expr unsaturated(DType type, const Expr& value) {
  const auto [largest, infinite] = float8_range(type);
  // Half a step above the largest value is where rounding leaves the range; a tie there goes up.
  const double step = type == DType::kFloat8E4M3FN ? 32 : type == DType::kFloat8E4M3FNUZ ? 16 : 8192;
  const Expr x = make_cast(is_float(value->type) ? compute_type(value->type) : DType::kFloat32, value);
  const Expr limit = make_constant(x->type, largest + step / 2);
  const bool tie_goes_up = type != DType::kFloat8E4M3FN;
  const Expr beyond = tie_goes_up ? ge(abs(x), limit) : gt(abs(x), limit);
  const double infinity = 1.0 / 0.0;
  const auto code = [&](int64_t bits) { return make_bitcast(type, make_integer(DType::kUint8, bits)); };
  if (!infinite) {
    const int64_t nan = type == DType::kFloat8E4M3FN ? 0x7f : 0x80;
    return select(beyond || eq(abs(x), make_constant(x->type, infinity)), code(nan), make_cast(type, x));
  }
  return select(beyond, select(lt(x, make_integer(x->type, 0)), code(0xfc), code(0x7c)), make_cast(type, x));
}

bool is_float8(DType type) {
  return type == DType::kFloat8E4M3FN || type == DType::kFloat8E4M3FNUZ || type == DType::kFloat8E5M2 ||
         type == DType::kFloat8E5M2FNUZ;
}

void cast_to(Definition& d, DType type) {
  const Tensor x = d.in(0);
  const bool saturate = d.integer("saturate") != 0;
  const std::string rounding = d.text("round_mode");
  if (rounding != "up" && rounding != "down" && rounding != "nearest") d.reject("its round_mode is " + rounding);
  for (const DType end : {x.type(), type}) {
    if (end == DType::kString || kind_of(end) == DTypeKind::kComplex) {
      d.unsupported("conversion between " + std::string(name_of(x.type())) + " and " + std::string(name_of(type)));
    }
  }
  d.out(0, d.compute("y", type, Shape(x.shape()), [&](const Indices& i) {
    if (x.type() == type) return x(i);
    if (type == DType::kFloat8E8M0) return power_of_two(x(i), rounding, saturate);
    if (is_float8(type) && !saturate) return unsaturated(type, x(i));
    // Integers narrower than a byte wrap where wider ones saturate.
    if (is_integer(type) && bit_width(type) < 8 && is_float(x.type())) return make_cast(DType::kInt32, x(i));
    return x(i);
  }));
}

void define_cast(Definition& d) { cast_to(d, d.type("to")); }
void define_cast_like(Definition& d) { cast_to(d, d.input_type(1)); }

void define_bit_cast(Definition& d) {
  const Tensor x = d.in(0);
  const DType type = d.type("to");
  if (bit_width(type) != bit_width(x.type())) d.reject("the two types differ in width");
  d.out(0, d.compute("y", type, Shape(x.shape()), [&](const Indices& i) { return make_bitcast(type, x(i)); }));
}

Sample to(std::string name, SampleInput input, DType type, double tolerance = 1e-5) {
  return {.name = std::move(name), .inputs = {std::move(input)},
          .attributes = {{"to", int64_t{onnx_code(type)}}}, .tolerance = tolerance};
}

/// Values around the largest of a float8 type, ties among them, that become infinity or NaN beyond it.
Sample beyond_range(std::string name, DType type, double largest, double step) {
  std::vector<double> around = {0, 0.3, largest, largest + step / 4, largest + step / 2, largest + 2 * step, 1e30};
  for (size_t i = around.size(); i-- > 0;) around.push_back(-around[i]);
  Sample sample = to(std::move(name), values(DType::kFloat32, {14}, around), type, 0);
  sample.attributes["saturate"] = int64_t{0};
  return sample;
}

/// Powers of two and what lies between them, as f8e8m0.
Sample as_power_of_two(std::string rounding, bool saturate) {
  Sample sample = to("power_of_two_" + rounding + (saturate ? "" : "_without_saturation"),
                     values(DType::kFloat32, {7}, {1, 1.1, 1.5, 1.75, 1e-20, 3, 3.4e38}), DType::kFloat8E8M0, 0);
  sample.attributes["round_mode"] = std::move(rounding);
  sample.attributes["saturate"] = int64_t{saturate};
  return sample;
}

/// To and from each type of at most 8 bits, over numbers that round up, down and to even, and beyond the range.
std::vector<Sample> narrow_casts() {
  const std::vector<double> numbers = {0,    -0.0, 0.3,  -0.7, 1,  1.5, -2.5, 3.49, 5,     -6.5, 7.5,
                                       9.25, 13,   -17,  100,  -3, 448, 1e9,  -1e9, 0.001, 2e-5, 1e-9};
  const SampleInput given = values(DType::kFloat32, {2, 11}, numbers);
  std::vector<Sample> samples;
  for (const DType type : {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ,
                           DType::kFloat4E2M1, DType::kInt4, DType::kUint4, DType::kInt2, DType::kUint2}) {
    const std::string name(name_of(type));
    samples.push_back(to("float_to_" + name, given, type, 0));
    const bool is_unsigned_type = is_unsigned(type);
    const double high = is_float(type) ? 6 : (1 << (bit_width(type) - (is_unsigned_type ? 0 : 1))) - 1;
    samples.push_back(to(name + "_to_float", of(type, {3, 5}, is_unsigned_type ? 0 : is_float(type) ? -6 : -high - 1,
                                                high), DType::kFloat32, 0));
  }
  samples.push_back(to("int4_to_float16", of(DType::kInt4, {7}, -8, 7), DType::kFloat16, 0));
  return samples;
}

std::vector<Sample> cast_samples() {
  std::vector<Sample> all = narrow_casts();
  const std::vector<Sample> others = {to("float_to_integer_cuts_off", f32({3, 7}, -9, 9), DType::kInt32),
          to("float_to_half", f32({9}, -9, 9), DType::kFloat16, 0),
          to("float_to_bfloat16", f32({9}, -9, 9), DType::kBFloat16, 0),
          to("half_to_float", f16({9}), DType::kFloat32, 0),
          to("integer_to_float", i64({9}, -99999, 99999), DType::kFloat32, 0),
          to("integer_wraps", i64({9}, -999, 999), DType::kInt8),
          to("float_to_bool", values(DType::kFloat32, {4}, {0, -0.0, 0.3, -2}), DType::kBool),
          to("bool_to_float", boolean({5}), DType::kFloat32, 0),
          to("double_to_float_scalar", of(DType::kFloat64, {}, -9, 9), DType::kFloat32, 0),
          to("no_elements", f32({0, 3}), DType::kInt64),
          to("float_to_float8_saturates", f32({40}, -900, 900), DType::kFloat8E4M3FN, 0),
          beyond_range("float8_e4m3fn_without_saturation", DType::kFloat8E4M3FN, 448, 32),
          beyond_range("float8_e4m3fnuz_without_saturation", DType::kFloat8E4M3FNUZ, 240, 16),
          beyond_range("float8_e5m2_without_saturation", DType::kFloat8E5M2, 57344, 8192),
          beyond_range("float8_e5m2fnuz_without_saturation", DType::kFloat8E5M2FNUZ, 57344, 8192),
          as_power_of_two("up", true),
          as_power_of_two("down", true),
          as_power_of_two("nearest", true),
          as_power_of_two("up", false)};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

std::vector<Sample> cast_like_samples() {
  return {{.name = "float_to_integer", .inputs = {f32({3, 7}, -9, 9), i64({1})}},
          {.name = "integer_to_half", .inputs = {i64({5}), f16({2, 2})}},
          {.name = "half_to_double", .inputs = {f16({5}), of(DType::kFloat64, {})}}};
}

std::vector<Sample> bit_cast_samples() {
  return {to("float_to_integer_bits", f32({7}), DType::kInt32),
          to("half_to_word_bits", f16({7}), DType::kUint16),
          to("bool_to_byte", boolean({37}), DType::kUint8, 0),
          to("byte_to_bool", of(DType::kInt8, {37}, 0, 1), DType::kBool, 0)};
}

}  // namespace

std::vector<OpDef> cast_ops() {
  const std::vector<AttributeSpec> rounding = {{"saturate", int64_t{1}}, {"round_mode", std::string("up")}};
  std::vector<AttributeSpec> attributes = {{"to"}};
  attributes.insert(attributes.end(), rounding.begin(), rounding.end());
  return {
      {.domain = "", .name = "Cast", .since = 25, .inputs = {"x"}, .outputs = {"y"}, .attributes = attributes,
       .define = define_cast, .samples = cast_samples, .doc = "Each element converted to another type."},
      {.domain = "", .name = "CastLike", .since = 25, .inputs = {"x", "like"}, .outputs = {"y"}, .attributes = rounding,
       .define = define_cast_like, .samples = cast_like_samples,
        .doc = "Each element converted to the type of `like`."},
      {.domain = "", .name = "BitCast", .since = 26, .inputs = {"x"}, .outputs = {"y"}, .attributes = {{"to"}},
       .define = define_bit_cast, .samples = bit_cast_samples, .doc = "The same bits read as another type."},
  };
}

}  // namespace graft
