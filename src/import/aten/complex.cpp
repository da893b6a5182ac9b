// SPDX-License-Identifier: Apache-2.0
// Complex numbers as pairs of reals. What moves elements or adds them up does so with both parts; the rest is here.
#include "import/aten/complex.h"

#include <algorithm>

#include "import/aten/axes.h"
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {

using frontend::Conversion;
using frontend::Converters;
using frontend::Row;
using Build = Converters::Build;

DType part_type(Conversion& c, DType complex) {
  if (complex == DType::kComplex64) return DType::kFloat32;
  if (complex == DType::kComplex128) return DType::kFloat64;
  c.refuse("complex numbers of another type than complex64 and complex128");
}

Complex scaled(Conversion& c, const Complex& z, ValueId by) {
  return each_part(z, [&](ValueId x) { return x == kNoValue ? x : c.add("Mul", {x, by}); });
}

Complex numbers(Conversion& c, std::string_view name) {
  if (c.is_complex(name)) return c.complex(name);
  return {.real = c.tensor(name)};
}

namespace {

// ---- Operands ----

/// How far an operand takes part in the choice of a type: as a number, a tensor without axes, or one with axes.
int weight_of(Conversion& c, std::string_view name) {
  if (c.is_number(name)) return 0;
  return c.rank_of(numbers(c, name).real) == 0 ? 1 : 2;
}

/// The type of the parts of what comes of two operands of which one is complex, as torch.result_type has it.
DType common_part(Conversion& c, std::string_view first, std::string_view second) {
  const auto type = [&](std::string_view name) { return c.type_of(numbers(c, name).real); };
  const bool wide_first = type(first) == DType::kFloat64, wide_second = type(second) == DType::kFloat64;
  const int a = weight_of(c, first), b = weight_of(c, second);
  const bool equal = a == b && a > 0;
  if (equal) return wide_first || wide_second ? DType::kFloat64 : DType::kFloat32;
  const std::string_view lead = a > b ? first : second, other = a > b ? second : first;
  // One that leads and has no fractions leaves the choice to the other.
  const bool leads = c.is_complex(lead) || is_float(type(lead));
  return type(leads ? lead : other) == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

/// An operand with parts of a type.
Complex operand(Conversion& c, std::string_view name, DType type) {
  if (!c.is_complex(name)) return {.real = as_type(c, name, type)};
  return each_part(c.complex(name), [&](ValueId x) { return c.cast(x, type); });
}

std::pair<Complex, Complex> both(Conversion& c, std::string_view first, std::string_view second) {
  const DType type = common_part(c, first, second);
  return {operand(c, first, type), operand(c, second, type)};
}

ValueId imaginary_or_zero(Conversion& c, const Complex& z) {
  return z.imaginary == kNoValue ? number(c, 0, z.real) : z.imaginary;
}

/// With the imaginary part as large as the real one.
Complex complete(Conversion& c, const Complex& z) {
  const ValueId imaginary = imaginary_or_zero(c, z);
  if (c.graph().value(imaginary).shape == c.graph().value(z.real).shape) return {z.real, imaginary};
  return {z.real, c.add("Expand", {imaginary, c.add("Shape", {z.real})})};
}

// ---- Arithmetic ----

using Combine = std::function<Complex(Conversion&, const Complex&, const Complex&)>;

Combine by_part(std::string_view op) {
  return [op](Conversion& c, const Complex& a, const Complex& b) {
    return complete(c, {c.add(op, {a.real, b.real}), c.add(op, {imaginary_or_zero(c, a), imaginary_or_zero(c, b)})});
  };
}

/// By an operator that distributes over sums.
Combine bilinear(const std::function<ValueId(Conversion&, ValueId, ValueId)>& op) {
  return [op](Conversion& c, const Complex& a, const Complex& b) -> Complex {
    const auto with = [&](ValueId x, ValueId y) { return op(c, x, y); };
    if (b.imaginary == kNoValue) return {with(a.real, b.real), with(a.imaginary, b.real)};
    if (a.imaginary == kNoValue) return {with(a.real, b.real), with(a.real, b.imaginary)};
    return {c.add("Sub", {with(a.real, b.real), with(a.imaginary, b.imaginary)}),
            c.add("Add", {with(a.real, b.imaginary), with(a.imaginary, b.real)})};
  };
}

Combine product_by(std::string_view op) {
  return bilinear([op](Conversion& c, ValueId x, ValueId y) { return c.add(op, {x, y}); });
}

/// a / b, with b over its larger part, so that squares neither overflow nor vanish.
Complex quotient(Conversion& c, const Complex& a, const Complex& b) {
  const auto over = [&](ValueId x, ValueId y) { return c.add("Div", {x, y}); };
  if (b.imaginary == kNoValue) return {over(a.real, b.real), over(a.imaginary, b.real)};
  const ValueId largest = c.add("Max", {c.add("Abs", {b.real}), c.add("Abs", {b.imaginary})});
  const Complex unit = each_part(b, [&](ValueId x) { return over(x, largest); });
  const Combine times = product_by("Mul");
  const Complex above = times(c, a, {unit.real, c.add("Neg", {unit.imaginary})});
  const ValueId below = c.add("Add", {c.add("Mul", {b.real, unit.real}), c.add("Mul", {b.imaginary, unit.imaginary})});
  return each_part(above, [&](ValueId x) { return over(x, below); });
}

Build binary(const Combine& combine, std::string_view first = "self", std::string_view second = "other") {
  return [=](Conversion& c) {
    const auto [a, b] = both(c, first, second);
    c.give_complex(combine(c, a, b));
  };
}

/// self + alpha * other, self - alpha * other; reversed other - alpha * self.
Build summed(const Combine& combine, bool reversed = false) {
  return [=](Conversion& c) {
    auto [a, b] = both(c, "self", "other");
    if (reversed) std::swap(a, b);
    const double alpha = c.real("alpha");
    if (alpha != 1) b = scaled(c, b, number(c, alpha, b.real));
    c.give_complex(combine(c, a, b));
  };
}

Build compared(bool equal) {
  return [equal](Conversion& c) {
    const auto [a, b] = both(c, "self", "other");
    const ValueId same = c.add("And", {c.add("Equal", {a.real, b.real}),
                                       c.add("Equal", {imaginary_or_zero(c, a), imaginary_or_zero(c, b)})});
    c.give(equal ? same : c.add("Not", {same}));
  };
}

/// The larger part times the root of 1 and the square of their quotient: what squares would lose is kept.
ValueId magnitude(Conversion& c, const Complex& z) {
  const ValueId a = c.add("Abs", {z.real}), b = c.add("Abs", {z.imaginary});
  const ValueId most = c.add("Max", {a, b}), least = c.add("Min", {a, b});
  const ValueId zero = number(c, 0, a), one = number(c, 1, a);
  const ValueId diagonal = c.add("Where", {c.add("Equal", {most, zero}), zero, one});  // also of infinities
  const ValueId slope = c.add("Where", {c.add("Equal", {most, least}), diagonal, c.add("Div", {least, most})});
  return c.add("Mul", {most, c.add("Sqrt", {c.add("Add", {one, c.add("Mul", {slope, slope})})})});
}

Complex square(Conversion& c, const Complex& z) { return product_by("Mul")(c, z, z); }

/// r (cos(angle), sin(angle)).
Complex polar(Conversion& c, ValueId r, ValueId angle) {
  return {c.add("Mul", {r, c.add("Cos", {angle})}), c.add("Mul", {r, c.add("Sin", {angle})})};
}

Complex exponential(Conversion& c, const Complex& z) { return polar(c, c.add("Exp", {z.real}), z.imaginary); }

Complex logarithm(Conversion& c, const Complex& z) {
  return {c.add("Log", {magnitude(c, z)}), atan2(c, z.imaginary, z.real)};
}

Complex conjugate(Conversion& c, const Complex& z) { return {z.real, c.add("Neg", {z.imaginary})}; }

Complex negative(Conversion& c, const Complex& z) {
  return each_part(z, [&](ValueId x) { return c.add("Neg", {x}); });
}

Complex reciprocal(Conversion& c, const Complex& z) {
  return quotient(c, {number(c, 1, z.real), number(c, 0, z.real)}, z);
}

/// z / |z|; of zero it is zero.
Complex direction(Conversion& c, const Complex& z) {
  const ValueId size = magnitude(c, z), zero = number(c, 0, size);
  const ValueId by = c.add("Where", {c.add("Equal", {size, zero}), number(c, 1, size), size});
  return each_part(z, [&](ValueId x) { return c.add("Div", {x, by}); });
}

Build of_one(const std::function<Complex(Conversion&, const Complex&)>& map) {
  return [map](Conversion& c) { c.give_complex(map(c, c.complex("self"))); };
}

void power(Conversion& c) {
  const auto* whole = std::get_if<int64_t>(&c.argument("exponent").is);
  if (!whole || !c.is_complex("self")) c.refuse("a power of complex numbers that is neither 1 nor 2");
  if (*whole == 1) return c.give_complex(c.complex("self"));
  if (*whole == 2) return c.give_complex(square(c, c.complex("self")));
  if (*whole == -1) return c.give_complex(reciprocal(c, c.complex("self")));
  c.refuse("a power of complex numbers that is neither 1 nor 2");
}

// ---- Products of matrices ----

Build matrix_product(std::string_view a, std::string_view b) { return binary(product_by("MatMul"), a, b); }

void linear_row(Conversion& c) {
  const auto [x, w] = both(c, "input", "weight");
  const Complex turned = {transposed(c, w.real, {1, 0}),
                          w.imaginary == kNoValue ? kNoValue : transposed(c, w.imaginary, {1, 0})};
  Complex made = product_by("MatMul")(c, x, turned);
  if (c.has("bias")) made = by_part("Add")(c, made, operand(c, "bias", c.type_of(made.real)));
  c.give_complex(made);
}

/// Of one operand or of two, which it multiplies and adds up.
void einsum(Conversion& c) {
  const std::string equation = c.text("equation");
  const auto* given = std::get_if<frontend::Arguments>(&c.argument("tensors").is);
  if (!given || given->empty() || given->size() > 2) c.refuse("complex numbers in a product of more than two");
  const auto of = [&](std::vector<ValueId> x) { return c.add("Einsum", std::move(x), {{"equation", equation}}); };
  if (given->size() == 1) return c.by_parts([&](Conversion& part) { part.give(of(part.tensors("tensors"))); });
  std::vector<ValueId> parts[2];
  c.by_parts([&](Conversion& part) {
    parts[parts[0].empty() ? 0 : 1] = part.tensors("tensors");
    part.give(part.tensors("tensors")[0]);
  });
  c.give_complex(bilinear([&](Conversion&, ValueId x, ValueId y) { return of({x, y}); })(
      c, {parts[0][0], parts[1][0]}, {parts[0][1], parts[1][1]}));
}

/// beta * self + alpha * a b.
Build added_product(std::string_view a, std::string_view b) {
  return [=](Conversion& c) {
    const auto [x, y] = both(c, a, b);
    const DType type = c.type_of(x.real);
    Complex made = {c.add("MatMul", {x.real, y.real})};
    if (x.imaginary != kNoValue || y.imaginary != kNoValue) made = product_by("MatMul")(c, x, y);
    made = scaled(c, made, c.real_constant(c.real("alpha"), type));
    if (c.real("beta") == 0) return c.give_complex(complete(c, made));
    const Complex self = scaled(c, operand(c, "self", type), c.real_constant(c.real("beta"), type));
    c.give_complex(complete(c, by_part("Add")(c, made, self)));
  };
}

// ---- From reals and back ----

/// Refuses what has another type than f32 and f64, of which there are no complex numbers on processors.
ValueId checked_part(Conversion& c, ValueId x) {
  const DType type = c.type_of(x);
  if (type != DType::kFloat32 && type != DType::kFloat64) c.refuse("parts that are neither f32 nor f64");
  return x;
}

void view_as_complex(Conversion& c) {
  const ValueId pairs = checked_part(c, c.tensor("self"));
  const int rank = c.rank_of(pairs);
  if (rank == 0 || !c.size_of(pairs, rank - 1).is(2)) c.refuse("a last axis of another size than 2");
  const auto part = [&](int64_t at) {
    const ValueId one = sliced(c, pairs, rank - 1, at, at + 1);
    return c.add("Squeeze", {one, c.integers_constant({rank - 1})});
  };
  c.give_complex({part(0), part(1)});
}

void view_as_real(Conversion& c) {
  const Complex z = c.complex("self");
  const ValueId last = c.integers_constant({-1});
  c.give(c.add("Concat", {c.add("Unsqueeze", {z.real, last}), c.add("Unsqueeze", {z.imaginary, last})},
               {{"axis", int64_t{-1}}}));
}

/// Two tensors of reals of one type, as large as each other.
std::pair<ValueId, ValueId> reals(Conversion& c, std::string_view first, std::string_view second) {
  const ValueId a = checked_part(c, c.tensor(first)), b = checked_part(c, c.tensor(second));
  if (c.type_of(a) != c.type_of(b)) c.refuse("parts of different types");
  return {a, b};
}

void from_parts(Conversion& c) {
  const auto [real, imaginary] = reals(c, "real", "imag");
  const ValueId sum = c.add("Add", {real, imaginary});  // for its shape alone
  const Complex z = complete(c, {.real = c.graph().value(real).shape == c.graph().value(sum).shape
                                             ? real
                                             : c.add("Expand", {real, c.add("Shape", {sum})}),
                                 .imaginary = imaginary});
  c.give_complex(z);
}

void from_polar(Conversion& c) {
  const auto [r, angle] = reals(c, "abs", "angle");
  c.give_complex(polar(c, r, angle));
}

/// Of a real number 0 or pi.
void angle_of_real(Conversion& c) {
  const ValueId x = as_float(c, c.tensor("self")), zero = number(c, 0, x);
  const ValueId turned = c.add("Where", {c.add("Less", {x, zero}), number(c, 3.14159265358979323846, x), zero});
  c.give(c.add("Where", {c.add("IsNaN", {x}), x, turned}));
}

void same(Conversion& c) { c.give(c.tensor("self")); }
void same_complex(Conversion& c) { c.give_complex(c.complex("self")); }
void refuse_reals(Conversion& c) { c.refuse("numbers that are not complex"); }

/// To another type: what is real gets imaginary parts of zero, what becomes real loses them.
void give_as(Conversion& c, const Complex& given, DType type) {
  const bool is_complex = kind_of(type) == DTypeKind::kComplex;
  const DType part = is_complex ? part_type(c, type) : type;
  const ValueId real = c.cast(given.real, part);
  if (!is_complex) return c.give(real);
  c.give_complex(complete(c, {real, given.imaginary == kNoValue ? kNoValue : c.cast(given.imaginary, part)}));
}

/// The type of a tensor as torch has it.
DType whole_type(Conversion& c, std::string_view name) {
  const DType type = c.type_of(numbers(c, name).real);
  if (!c.is_complex(name)) return type;
  return type == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64;
}

void cast_to(Conversion& c) {
  give_as(c, numbers(c, "self"), c.has("dtype") ? c.type("dtype") : whole_type(c, "self"));
}

void cast_like(Conversion& c) { give_as(c, numbers(c, "self"), whole_type(c, "other")); }

/// Elements of `src` in the type and shape of the operand.
void copy(Conversion& c) {
  const ValueId shape = c.add("Shape", {numbers(c, "self").real});
  Complex src = numbers(c, "src");
  src.real = c.add("Expand", {src.real, shape});
  if (src.imaginary != kNoValue) src.imaginary = c.add("Expand", {src.imaginary, shape});
  give_as(c, src, whole_type(c, "self"));
}

/// One real number everywhere; `value`: the argument that has it, or nothing for `number`.
Build filled(double number, std::string_view value, bool sized, bool typed = true) {
  return [=](Conversion& c) {
    const auto& parameters = c.signature().parameters;
    const bool has_self = std::ranges::any_of(parameters, [](const auto& each) { return each.name == "self"; });
    DType type = typed && c.has("dtype") ? c.type("dtype") : DType::kUndefined;
    if (type == DType::kUndefined && has_self) type = whole_type(c, "self");
    if (type == DType::kUndefined) c.refuse("a complex number without a type");
    const DType part = kind_of(type) == DTypeKind::kComplex ? part_type(c, type) : type;
    const ValueId element = value.empty() ? c.real_constant(number, part) : as_type(c, value, part);
    const ValueId shape = sized ? c.shape_tensor("size") : c.add("Shape", {numbers(c, "self").real});
    give_as(c, {.real = c.add("Expand", {element, shape})}, type);
  };
}

// ---- Choice ----

void where(Conversion& c) {
  const auto [a, b] = both(c, "self", "other");
  const ValueId condition = c.cast(c.tensor("condition"), DType::kBool);
  const auto choose = [&](ValueId x, ValueId y) { return c.add("Where", {condition, x, y}); };
  c.give_complex(complete(c, {choose(a.real, b.real), choose(imaginary_or_zero(c, a), imaginary_or_zero(c, b))}));
}

void masked_fill(Conversion& c) {
  const Complex self = c.complex("self"), value = operand(c, "value", c.type_of(self.real));
  const ValueId mask = c.tensor("mask");
  c.give_complex({c.add("Where", {mask, value.real, self.real}),
                  c.add("Where", {mask, imaginary_or_zero(c, value), self.imaginary})});
}

/// Both parts by the same row of reals. A type of its own would be that of a part.
Build by_parts(const Build& build) {
  return [build](Conversion& c) {
    for (const frontend::Parameter& each : c.signature().parameters) {
      if (each.name == "dtype" && c.has("dtype")) c.refuse("complex numbers in another type");
      if (each.name == "value" && c.has("value") && c.real("value") != 0) c.refuse("complex numbers beside a number");
    }
    c.by_parts(build);
  };
}

void assert_type(Conversion& c) {
  if (c.has("dtype") && whole_type(c, "a") != c.type("dtype")) c.refuse("a tensor of another type than it demands");
  c.give(std::vector<ValueId>{});
}

constexpr std::string_view kByParts =
    "aten::reshape aten::view aten::_unsafe_view aten::view_copy aten::view_as aten::reshape_as aten::unflatten.int "
    "aten::flatten.using_ints aten::expand aten::expand_copy aten::broadcast_to aten::expand_as aten::unsqueeze "
    "aten::unsqueeze_copy aten::squeeze aten::squeeze.dim aten::squeeze_copy.dim aten::squeeze.dims "
    "aten::squeeze_copy.dims aten::permute aten::permute_copy aten::transpose.int aten::swapdims "
    "aten::transpose_copy.int aten::swapaxes aten::t aten::numpy_T aten::t_copy aten::mT aten::movedim.int "
    "aten::moveaxis.int aten::movedim.intlist aten::moveaxis.intlist aten::flip aten::roll aten::split.Tensor "
    "aten::split_with_sizes aten::split_with_sizes_copy aten::split.sizes aten::chunk aten::unbind.int aten::repeat "
    "aten::tile aten::repeat_interleave.self_int aten::slice.Tensor aten::slice_copy.Tensor aten::select.int "
    "aten::select_copy.int aten::narrow aten::slice_scatter aten::select_scatter aten::diagonal aten::diagonal_copy "
    "aten::unfold aten::unfold_copy aten::tril aten::tril_ aten::triu aten::triu_ aten::index_select aten::gather "
    "aten::index.Tensor aten::_unsafe_index.Tensor aten::index_put aten::index_put_ aten::_unsafe_index_put "
    "aten::index_add aten::index_copy aten::scatter.src aten::scatter_add aten::cat aten::concat aten::concatenate "
    "aten::stack aten::clone aten::contiguous aten::detach aten::alias aten::lift_fresh aten::lift_fresh_copy "
    "aten::lift aten::sum aten::sum.dim_IntList aten::mean aten::mean.dim aten::cumsum aten::constant_pad_nd aten::pad";

void extend(Converters& rows, std::string_view names, const Build& build) {
  rows.extend(names, [&](const Build&) { return build; });
}

void extend_arithmetic(Converters& rows) {
  extend(rows, "aten::add.Tensor aten::add_.Tensor aten::add.Scalar aten::add_.Scalar", summed(by_part("Add")));
  extend(rows, "aten::sub.Tensor aten::sub_.Tensor aten::sub.Scalar aten::sub_.Scalar", summed(by_part("Sub")));
  extend(rows, "aten::rsub.Tensor aten::rsub.Scalar", summed(by_part("Sub"), true));
  extend(rows, "aten::mul.Tensor aten::mul_.Tensor aten::mul.Scalar aten::mul_.Scalar", binary(product_by("Mul")));
  extend(rows,
         "aten::div.Tensor aten::div_.Tensor aten::div.Scalar aten::div_.Scalar aten::true_divide.Tensor "
         "aten::true_divide.Scalar", binary(quotient));
  extend(rows, "aten::eq.Tensor aten::eq.Scalar", compared(true));
  extend(rows, "aten::ne.Tensor aten::ne.Scalar", compared(false));
  extend(rows, "aten::pow.Tensor_Scalar aten::pow_.Scalar", power);
  extend(rows, "aten::abs aten::absolute", [](Conversion& c) { c.give(magnitude(c, c.complex("self"))); });
  extend(rows, "aten::neg aten::neg_ aten::negative", of_one(negative));
  extend(rows, "aten::square aten::square_", of_one(square));
  extend(rows, "aten::reciprocal aten::reciprocal_", of_one(reciprocal));
  extend(rows, "aten::exp aten::exp_", of_one(exponential));
  extend(rows, "aten::log aten::log_", of_one(logarithm));
  extend(rows, "aten::sgn", of_one(direction));
}

void extend_products(Converters& rows) {
  extend(rows, "aten::matmul aten::linalg_matmul", matrix_product("self", "other"));
  extend(rows, "aten::mm aten::bmm", matrix_product("self", "mat2"));
  extend(rows, "aten::mv", matrix_product("self", "vec"));
  extend(rows, "aten::dot", matrix_product("self", "tensor"));
  extend(rows, "aten::vdot", [](Conversion& c) {
    auto [a, b] = both(c, "self", "other");
    if (a.imaginary != kNoValue) a = conjugate(c, a);
    c.give_complex(product_by("MatMul")(c, a, b));
  });
  extend(rows, "aten::linear", linear_row);
  extend(rows, "aten::einsum", einsum);
  extend(rows, "aten::addmm", added_product("mat1", "mat2"));
  extend(rows, "aten::baddbmm", added_product("batch1", "batch2"));
  extend(rows, "aten::outer aten::ger", binary(bilinear([](Conversion& c, ValueId x, ValueId y) {
           return c.add("Mul", {c.add("Unsqueeze", {x, c.integers_constant({1})}), y});
         }), "self", "vec2"));
}

void extend_creation(Converters& rows) {
  extend(rows, "aten::zeros aten::empty.memory_format", filled(0, "", true));
  extend(rows, "aten::ones", filled(1, "", true));
  extend(rows, "aten::full", filled(0, "fill_value", true));
  extend(rows, "aten::zeros_like aten::empty_like", filled(0, "", false));
  extend(rows, "aten::ones_like", filled(1, "", false));
  extend(rows, "aten::full_like", filled(0, "fill_value", false));
  extend(rows, "aten::new_zeros aten::new_empty", filled(0, "", true));
  extend(rows, "aten::new_ones", filled(1, "", true));
  extend(rows, "aten::new_full", filled(0, "fill_value", true));
  extend(rows, "aten::zero aten::zero_", filled(0, "", false, false));
  extend(rows, "aten::fill.Scalar aten::fill_.Scalar", filled(0, "value", false, false));
  extend(rows, "aten::to.dtype aten::to.dtype_layout aten::to.device aten::_to_copy", cast_to);
  extend(rows, "aten::to.other aten::type_as", cast_like);
  extend(rows, "aten::copy aten::copy_", copy);
}

}  // namespace

std::vector<Row> complex_rows() {
  return {
      {"aten::view_as_complex view_as_complex_copy(Tensor self) -> Tensor", view_as_complex},
      {"aten::view_as_real view_as_real_copy(Tensor self) -> Tensor", refuse_reals, view_as_real},
      {"aten::complex(Tensor real, Tensor imag) -> Tensor", from_parts},
      {"aten::polar(Tensor abs, Tensor angle) -> Tensor", from_polar},
      {"aten::real(Tensor self) -> Tensor", same, [](Conversion& c) { c.give(c.complex("self").real); }},
      {"aten::imag(Tensor self) -> Tensor", refuse_reals, [](Conversion& c) { c.give(c.complex("self").imaginary); }},
      {"aten::conj _conj _conj_copy conj_physical(Tensor self) -> Tensor", same, of_one(conjugate)},
      {"aten::resolve_conj resolve_neg(Tensor self) -> Tensor", same, same_complex},
      {"aten::angle(Tensor self) -> Tensor", angle_of_real,
       [](Conversion& c) {
         const Complex z = c.complex("self");
         c.give(atan2(c, z.imaginary, z.real));
       }},
  };
}

void extend_to_complex(Converters& converters) {
  converters.pair_complex();
  converters.extend(kByParts, by_parts);
  converters.extend("aten::size.int aten::sym_size.int aten::size aten::sym_size aten::numel aten::sym_numel aten::dim",
                    [](const Build& build) -> Build {
                      return [build](Conversion& c) { c.by_real_parts(build); };
                    });
  extend(converters, "aten::_assert_tensor_metadata", assert_type);
  extend(converters, "aten::where.self aten::where.ScalarSelf aten::where.ScalarOther", where);
  extend(converters, "aten::masked_fill.Scalar aten::masked_fill_.Scalar aten::masked_fill.Tensor", masked_fill);
  extend_arithmetic(converters);
  extend_products(converters);
  extend_creation(converters);
}

}  // namespace graft::aten
