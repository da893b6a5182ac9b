// SPDX-License-Identifier: Apache-2.0
#include "import/aten/promotion.h"

#include <algorithm>

namespace graft::aten {
namespace {

using frontend::Conversion;

/// Categories of torch's type promotion: a higher one decides, whatever its rank.
int category(DType type) {
  if (kind_of(type) == DTypeKind::kComplex) return 3;
  if (is_float(type)) return 2;
  return type == DType::kBool ? 0 : 1;
}

/// The type of an operation on two tensors, both with axes or both without.
DType promote(Conversion& c, DType a, DType b) {
  if (a == b) return a;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (category(a) == 2) {
    if (bit_width(a) == 16 && bit_width(b) == 16) return DType::kFloat32;
    return bit_width(a) > bit_width(b) ? a : b;
  }
  if (category(a) == 1) {
    if (is_unsigned(a) == is_unsigned(b)) return bit_width(a) > bit_width(b) ? a : b;
    const DType other = is_unsigned(a) ? b : a, u8 = is_unsigned(a) ? a : b;
    if (bit_width(u8) == 8) return bit_width(other) > 8 ? other : DType::kInt16;
  }
  c.refuse("operands of types that torch does not combine either");
}

}  // namespace

ValueId as_type(Conversion& c, std::string_view name, DType type) {
  const auto* whole = std::get_if<int64_t>(&c.argument(name).is);
  if (whole && is_float(type)) return c.real_constant(static_cast<double>(*whole), type);
  if (const auto* real = std::get_if<double>(&c.argument(name).is)) return c.real_constant(*real, type);
  return c.cast(c.tensor(name), type);
}

DType result_type(Conversion& c, std::string_view first, std::string_view second) {
  const ValueId a = c.tensor(first), b = c.tensor(second);
  const int ra = c.is_number(first) ? 0
                 : c.rank_of(a) > 0 ? 2
                                    : 1,
            rb = c.is_number(second) ? 0
                 : c.rank_of(b) > 0  ? 2
                                     : 1;
  if (ra == rb) return promote(c, c.type_of(a), c.type_of(b));
  const DType lead = c.type_of(ra > rb ? a : b), other = c.type_of(ra > rb ? b : a);
  if (category(other) <= category(lead)) return lead;
  return is_float(other) && std::min(ra, rb) == 0 ? DType::kFloat32 : other;  // i64 tensor and 0.5: the default float
}

std::pair<ValueId, ValueId> operands(Conversion& c, std::string_view first, std::string_view second) {
  const DType type = result_type(c, first, second);
  return {as_type(c, first, type), as_type(c, second, type)};
}

std::pair<ValueId, ValueId> float_operands(Conversion& c, std::string_view first, std::string_view second) {
  const DType common = result_type(c, first, second), type = is_float(common) ? common : DType::kFloat32;
  return {as_type(c, first, type), as_type(c, second, type)};
}

ValueId as_float(Conversion& c, ValueId value) {
  return is_float(c.type_of(value)) ? value : c.cast(value, DType::kFloat32);
}

ValueId atan2(Conversion& c, ValueId y, ValueId x) {
  const ValueId zero = number(c, 0, y), one = number(c, 1, y);
  const auto negative = [&](ValueId v) {  // 1 / -0 is negative
    const ValueId below = c.add("Less", {c.add("Div", {one, v}), zero});
    return c.add("Or", {c.add("Less", {v, zero}), c.add("And", {c.add("Equal", {v, zero}), below})});
  };
  const ValueId height = c.add("Abs", {y}), width = c.add("Abs", {x});
  const ValueId diagonal = c.add("Where", {c.add("Equal", {height, zero}), zero, one});
  const ValueId slope = c.add("Where", {c.add("Equal", {height, width}), diagonal, c.add("Div", {height, width})});
  const ValueId acute = c.add("Atan", {slope});
  const ValueId pi = number(c, 3.14159265358979323846, y);
  const ValueId angle = c.add("Where", {negative(x), c.add("Sub", {pi, acute}), acute});
  return c.add("Where", {negative(y), c.add("Neg", {angle}), angle});
}

ValueId number(Conversion& c, double element, ValueId like) { return c.real_constant(element, c.type_of(like)); }

}  // namespace graft::aten
