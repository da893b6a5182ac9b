// SPDX-License-Identifier: Apache-2.0
// Elementary functions that graph operators are put together for: roundings, roots, and what is exact near zero.
#include <cmath>
#include <numbers>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// A float operand.
ValueId float_data(Conversion& c) {
  const ValueId data = c.tensor("data");
  if (!is_float(c.type_of(data))) c.refuse("an operand of integers");
  return data;
}

ValueId number(Conversion& c, double value, ValueId like) { return c.real_constant(value, c.type_of(like)); }

/// A function of the absolute value, with the operand's sign.
ValueId signed_by(Conversion& c, ValueId data, ValueId magnitude) {
  return c.add("Mul", {c.add("Sign", {data}), magnitude});
}

/// The nearest integer; of two the lower one.
void rint(Conversion& c) {
  const ValueId data = float_data(c), below = c.add("Floor", {data}), above = c.add("Ceil", {data});
  const ValueId lower = c.add("LessOrEqual", {c.add("Sub", {data, below}), c.add("Sub", {above, data})});
  c.give(c.add("Where", {lower, below, above}));
}

/// The nearest integer; of two the one further from zero.
void round(Conversion& c) {
  const ValueId data = float_data(c), size = c.add("Abs", {data}), below = c.add("Floor", {size});
  const ValueId up = c.add("GreaterOrEqual", {c.add("Sub", {size, below}), number(c, 0.5, data)});
  c.give(signed_by(c, data, c.add("Where", {up, c.add("Ceil", {size}), below})));
}

void truncate(Conversion& c) {
  const ValueId data = float_data(c);
  c.give(signed_by(c, data, c.add("Floor", {c.add("Abs", {data})})));
}

ValueId cube_root(Conversion& c, ValueId data) {
  return signed_by(c, data, c.add("Pow", {c.add("Abs", {data}), number(c, 1.0 / 3, data)}));
}

void cbrt(Conversion& c) { c.give(cube_root(c, float_data(c))); }
void rcbrt(Conversion& c) { c.give(c.add("Reciprocal", {cube_root(c, float_data(c))})); }

/// e^x - 1 = tanh(x / 2) (e^x + 1), which loses nothing near zero.
void expm1(Conversion& c) {
  const ValueId data = float_data(c);
  const ValueId half = c.add("Tanh", {c.add("Mul", {data, number(c, 0.5, data)})});
  c.give(c.add("Mul", {half, c.add("Add", {c.add("Exp", {data}), number(c, 1, data)})}));
}

/// log(1 + x); near zero 2 atanh(x / (2 + x)), which loses nothing there.
void log1p(Conversion& c) {
  const ValueId data = float_data(c);
  const ValueId quotient = c.add("Div", {data, c.add("Add", {data, number(c, 2, data)})});
  const ValueId near = c.add("Mul", {c.add("Atanh", {quotient}), number(c, 2, data)});
  const ValueId far = c.add("Log", {c.add("Add", {data, number(c, 1, data)})});
  const ValueId small = c.add("Less", {c.add("Abs", {data}), number(c, 0.5, data)});
  c.give(c.add("Where", {small, near, far}));
}

std::function<void(Conversion&)> times(double factor) {
  return [factor](Conversion& c) {
    const ValueId data = float_data(c);
    c.give(c.add("Mul", {data, number(c, factor, data)}));
  };
}

void logical_not(Conversion& c) {
  const ValueId data = c.tensor("data");
  c.give(c.cast(c.add("Equal", {data, number(c, 0, data)}), c.type_of(data)));
}

/// Quadratic between -1/s^2 and 1/s^2, linear outside.
void smooth_l1(Conversion& c) {
  const ValueId data = float_data(c), size = c.add("Abs", {data});
  const double square = real(c, "scalar") * real(c, "scalar");
  if (square == 0) c.refuse("a scalar of 0");
  const ValueId linear = c.add("Sub", {size, number(c, 0.5 / square, data)});
  const ValueId quadratic = c.add("Mul", {c.add("Mul", {data, data}), number(c, 0.5 * square, data)});
  c.give(c.add("Where", {c.add("Greater", {size, number(c, 1 / square, data)}), linear, quadratic}));
}

/// a x^2 + b x + c
void quadratic(Conversion& c) {
  const ValueId data = float_data(c);
  const ValueId inner = c.add("Add", {c.add("Mul", {data, number(c, real(c, "a"), data)}),
                                      number(c, real(c, "b"), data)});
  c.give(c.add("Add", {c.add("Mul", {inner, data}), number(c, real(c, "c"), data)}));
}

/// Divided by the root of the last axis's size.
void divide_by_root_of_size(Conversion& c) {
  const ValueId data = float_data(c);
  const int rank = c.rank_of(data);
  const auto size = rank > 0 ? c.size_of(data, rank - 1).as_constant() : std::nullopt;
  if (!size) c.refuse("a last axis whose size is known only while running");
  c.give(c.add("Div", {data, number(c, std::sqrt(static_cast<double>(*size)), data)}));
}

}  // namespace

std::vector<Row> rounding_rows() {
  return {
      {"rint _npi_rint", "data", rint},
      {"round _contrib_round_ste", "data", round},
      {"fix trunc _npi_fix _npi_trunc", "data", truncate},
      {"cbrt _npi_cbrt", "data", cbrt},
      {"rcbrt", "data", rcbrt},
      {"expm1 _npi_expm1", "data", expm1},
      {"log1p _npi_log1p", "data", log1p},
      {"degrees _npi_degrees", "data", times(180 / std::numbers::pi)},
      {"radians _npi_radians", "data", times(std::numbers::pi / 180)},
      {"logical_not", "data", logical_not},
      {"smooth_l1", "data, scalar=1", smooth_l1},
      {"_contrib_quadratic", "data, a=0, b=0, c=0", quadratic},
      {"_contrib_div_sqrt_dim", "data", divide_by_root_of_size},
  };
}

}  // namespace graft::mxnet
