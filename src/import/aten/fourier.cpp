// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms. Of known lengths they are products with matrices of roots of unity, a length that has
// factors in two steps (Cooley and Tukey, "An Algorithm for the Machine Calculation of Complex Fourier Series", 1965);
// of other lengths they are the operator DFT.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>

#include "import/aten/axes.h"
#include "import/aten/complex.h"
#include "import/aten/fourier.h"
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

constexpr int64_t kDirect = 128;        // points of a transform by one product: what two steps move costs more
constexpr int64_t kLargestPrime = 512;  // points of a product that has no steps: its matrix has 8 MiB at most, as f64

/// Cosine and sine of sign * 2 pi * turn / points, reduced in integers; of quarters of a circle exactly, so that
/// imaginary parts which are zero come out so.
std::pair<double, double> root(int64_t turn, int64_t points, int sign) {
  turn %= points;
  if (turn == 0) return {1, 0};
  if (2 * turn == points) return {-1, 0};
  if (4 * turn == points) return {0, sign};
  if (4 * turn == 3 * points) return {0, -sign};
  const double angle = 2 * std::numbers::pi * static_cast<double>(turn) / static_cast<double>(points);
  return {std::cos(angle), sign * std::sin(angle)};
}

/// The larger of the two factors of a length that are nearest to each other; the length itself where it is prime.
int64_t larger_factor(int64_t points) {
  for (auto factor = static_cast<int64_t>(std::sqrt(static_cast<double>(points))); factor > 1; --factor) {
    if (points % factor == 0) return points / factor;
  }
  return points;
}

/// Whether products do it: no factor that is prime is too large.
bool has_products(int64_t points) {
  if (points <= kDirect) return true;
  const int64_t factor = larger_factor(points);
  if (factor == points) return points <= kLargestPrime;
  return has_products(factor) && has_products(points / factor);
}

/// Transforms of the last axis, without a scale, of a length that is known.
class Transform {
 public:
  Transform(Conversion& c, DType type, int sign) : c_(c), type_(type), sign_(sign) {}

  /// All frequencies of `points` numbers; the imaginary part may be kNoValue: then they are real. `real_only`: the
  /// result is known to be real, or asked for no more.
  Complex of(const Complex& x, int64_t points, bool real_only = false) {
    const int64_t columns = points <= kDirect ? points : larger_factor(points);
    if (columns == points) return direct(x, points, points, real_only);
    const int64_t rows = points / columns;
    const auto apart = [&](ValueId part) { return swapped(in_blocks(part, {rows, columns})); };
    const Complex inner = of(mapped(x, apart), rows);  // [.., columns, rows]
    const auto back = [&](ValueId part) { return swapped(part); };
    const Complex outer = of(mapped(twiddled(inner, rows, columns), back), columns, real_only);  // [.., rows, columns]
    const auto together = [&](ValueId part) { return merged(swapped(part), points); };
    return mapped(outer, together);
  }

  /// The first `outputs` frequencies of so many points.
  Complex direct(const Complex& x, int64_t points, int64_t outputs, bool real_only = false) {
    const bool is_complex = x.imaginary != kNoValue;
    const int64_t width = real_only ? outputs : 2 * outputs;
    TensorData matrix = table(c_, type_, {is_complex ? 2 * points : points, width});
    for (int64_t n = 0; n < points; ++n) {
      for (int64_t k = 0; k < outputs; ++k) {
        const auto [cosine, sine] = root(n * k, points, sign_);
        matrix.write_double(n * width + k, cosine);
        if (!real_only) matrix.write_double(n * width + outputs + k, sine);
        if (is_complex) matrix.write_double((points + n) * width + k, 0 - sine);  // zeros have no sign
        if (is_complex && !real_only) matrix.write_double((points + n) * width + outputs + k, cosine);
      }
    }
    return halves(product(x, std::move(matrix)), outputs, real_only);
  }

  /// The real signal of `points` whose first frequencies are given; those that are left out are their conjugates.
  ValueId to_real(const Complex& half, int64_t points) {
    const int64_t given = points / 2 + 1;
    if (points > kDirect && larger_factor(points) < points) return of(whole(half, points, given), points, true).real;
    TensorData matrix = table(c_, type_, {2 * given, points});
    for (int64_t k = 0; k < given; ++k) {
      const double times = k == 0 || 2 * k == points ? 1 : 2;
      for (int64_t n = 0; n < points; ++n) {
        const auto [cosine, sine] = root(n * k, points, sign_);
        matrix.write_double(k * points + n, times * cosine);
        matrix.write_double((given + k) * points + n, -times * sine);
      }
    }
    return product(half, std::move(matrix));
  }

 private:
  template <class Function>
  static Complex mapped(const Complex& x, const Function& function) {
    return each_part(x, [&](ValueId part) { return part == kNoValue ? part : function(part); });
  }

  /// Real parts and imaginary ones behind each other, times a matrix.
  ValueId product(const Complex& x, TensorData matrix) {
    const ValueId both =
        x.imaginary == kNoValue ? x.real : c_.add("Concat", {x.real, x.imaginary}, {{"axis", int64_t{-1}}});
    return c_.add("MatMul", {both, c_.constant(std::move(matrix))});
  }

  Complex halves(ValueId both, int64_t outputs, bool real_only) {
    if (real_only) return {.real = both};
    const int64_t last = c_.rank_of(both) - 1;
    return {sliced(c_, both, last, 0, outputs), sliced(c_, both, last, outputs, 2 * outputs)};
  }

  /// The last axis as two.
  ValueId in_blocks(ValueId x, std::initializer_list<int64_t> last) {
    std::vector<int64_t> shape(static_cast<size_t>(c_.rank_of(x) - 1), 0);  // 0: as it is
    shape.insert(shape.end(), last);
    return c_.add("Reshape", {x, c_.integers_constant(shape)});
  }
  /// The last two axes as one.
  ValueId merged(ValueId x, int64_t size) {
    std::vector<int64_t> shape(static_cast<size_t>(c_.rank_of(x) - 2), 0);
    shape.push_back(size);
    return c_.add("Reshape", {x, c_.integers_constant(shape)});
  }
  ValueId swapped(ValueId x) {
    std::vector<int64_t> order(static_cast<size_t>(c_.rank_of(x)));
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    return transposed(c_, x, order);
  }

  /// What lies between the two steps.
  Complex twiddled(const Complex& x, int64_t rows, int64_t columns) {
    TensorData cosines = table(c_, type_, {columns, rows}), sines = cosines;
    for (int64_t i = 0; i < columns * rows; ++i) {
      const auto [cosine, sine] = root(i / rows * (i % rows), columns * rows, sign_);
      cosines.write_double(i, cosine);
      sines.write_double(i, sine);
    }
    const ValueId cosine = c_.constant(std::move(cosines)), sine = c_.constant(std::move(sines));
    const auto times = [&](ValueId a, ValueId b) { return c_.add("Mul", {a, b}); };
    return {c_.add("Sub", {times(x.real, cosine), times(x.imaginary, sine)}),
            c_.add("Add", {times(x.real, sine), times(x.imaginary, cosine)})};
  }

  /// All frequencies of a real signal, of which the first ones are given.
  Complex whole(const Complex& half, int64_t points, int64_t given) {
    std::vector<int64_t> mirrored;
    for (int64_t k = given; k < points; ++k) mirrored.push_back(points - k);
    const ValueId at = c_.integers_constant(mirrored);
    const auto extended = [&](ValueId part, bool negated) {
      ValueId rest = c_.add("Gather", {part, at}, {{"axis", int64_t{-1}}});
      if (negated) rest = c_.add("Neg", {rest});
      return c_.add("Concat", {part, rest}, {{"axis", int64_t{-1}}});
    };
    return {extended(half.real, false), extended(half.imaginary, true)};
  }

  Conversion& c_;
  DType type_;
  int sign_;
};

// ---- Along any axis ----

/// Brings an axis to the end, and back.
template <class Function>
Complex at_the_end(Conversion& c, const Complex& x, int64_t axis, const Function& function) {
  const int rank = c.rank_of(x.real);
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(axis)], order.back());
  const auto turned = [&](ValueId part) { return part == kNoValue ? part : transposed(c, part, order); };
  return each_part(function(each_part(x, turned)), turned);
}

/// By the operator DFT: of a length that only a run knows, or that has a large prime factor. `half`: only the first
/// frequencies come out, or go in; `length`: of what comes out then.
Complex by_operator(Conversion& c, const Complex& x, int64_t axis, int sign, bool half, ValueId length = kNoValue) {
  const ValueId last = c.integers_constant({-1});
  ValueId pairs = c.add("Unsqueeze", {x.real, last});
  if (x.imaginary != kNoValue) {
    pairs = c.add("Concat", {pairs, c.add("Unsqueeze", {x.imaginary, last})}, {{"axis", int64_t{-1}}});
  }
  const ValueId at = c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {axis}));
  const ValueId made = c.add("DFT", {pairs, length, at}, {{"inverse", int64_t{sign > 0}}, {"onesided", int64_t{half}}});
  const int rank = c.rank_of(x.real);
  const auto part = [&](int64_t index) {
    return c.add("Squeeze", {sliced(c, made, rank, index, index + 1), c.integers_constant({rank})});
  };
  Complex result = {.real = part(0)};
  if (!(half && sign > 0)) result.imaginary = part(1);
  if (sign < 0) return result;
  const ValueId points = c.add("Squeeze", {sizes(c, result.real, axis, axis + 1), c.integers_constant({0})});
  return scaled(c, result, c.cast(points, c.type_of(x.real)));  // the operator divides by it
}

}  // namespace

Complex transformed(Conversion& c, const Complex& x, int64_t axis, int sign, bool half) {
  const auto points = c.size_of(x.real, axis).as_constant();
  if (points && *points < 1) c.refuse("a transform of no points");
  if (!points || !has_products(*points)) {
    // An inverse of real numbers reads no half: the operator does a forward one, whose conjugate it is.
    if (half && sign > 0) c.refuse("an inverse transform of real numbers that is known only while running");
    return by_operator(c, x, axis, sign, half);
  }
  const int64_t outputs = half ? *points / 2 + 1 : *points;
  return at_the_end(c, x, axis, [&](const Complex& at) {
    Transform transform(c, c.type_of(x.real), sign);
    if (*points <= kDirect) return transform.direct(at, *points, outputs);
    const Complex all = transform.of(at, *points);
    const int64_t last = c.rank_of(at.real) - 1;
    return half ? each_part(all, [&](ValueId part) { return sliced(c, part, last, 0, outputs); }) : all;
  });
}

namespace {

/// The real signal along one axis of `length`, a tensor of one element, of its first frequencies.
ValueId to_real(Conversion& c, const Complex& half, int64_t axis, ValueId length, int sign) {
  const TensorData known = c.given(length).constant;
  const auto points = known ? std::optional(known.read_integer(0)) : std::nullopt;
  if (points && *points < 1) c.refuse("a transform of no points");
  if (points && c.size_of(half.real, axis) != Size(*points / 2 + 1)) {
    c.refuse("frequencies of a signal of another length");
  }
  if (!points || !has_products(*points)) {
    if (sign < 0) c.refuse("a transform to real numbers of a length known only while running");
    const ValueId scalar = c.add("Squeeze", {length, c.integers_constant({0})});
    return by_operator(c, half, axis, sign, true, scalar).real;
  }
  return at_the_end(c, half, axis, [&](const Complex& at) -> Complex {
           return {.real = Transform(c, c.type_of(at.real), sign).to_real(at, *points)};
         }).real;
}

// ---- Over several axes, with a scale ----

enum class Scale { kNone = 0, kRoot = 1, kAll = 2 };  // as ATen numbers them: 1, 1 / sqrt(n) and 1 / n

/// By how much a result is multiplied: of the sizes of a signal along axes.
template <class T>
T normalised(Conversion& c, const T& made, ValueId signal, const std::vector<int64_t>& axes, Scale scale) {
  if (scale == Scale::kNone) return made;
  const DType type = c.type_of(signal);
  double count = 1;
  for (const int64_t axis : axes) {
    const auto size = c.size_of(signal, axis).as_constant();
    count *= size ? static_cast<double>(*size) : NAN;
  }
  ValueId by = kNoValue;
  if (!std::isnan(count)) {
    by = c.real_constant(scale == Scale::kAll ? 1 / count : 1 / std::sqrt(count), type);
  } else {
    const ValueId all = c.add("Shape", {signal});
    const ValueId own = c.add("Gather", {all, c.integers_constant(axes)}, {{"axis", int64_t{0}}});
    ValueId points = c.cast(c.add("ReduceProd", {own, kNoValue}, {{"keepdims", int64_t{0}}}), DType::kFloat64);
    if (scale == Scale::kRoot) points = c.add("Sqrt", {points});
    by = c.cast(c.add("Reciprocal", {points}), type);
  }
  if constexpr (std::is_same_v<T, ValueId>) {
    return c.add("Mul", {made, by});
  } else {
    return scaled(c, made, by);
  }
}

/// Complex to complex along all axes.
Complex along(Conversion& c, Complex x, const std::vector<int64_t>& axes, int sign) {
  for (const int64_t axis : axes) x = transformed(c, x, axis, sign);
  return x;
}

/// Real to complex: the first frequencies of the last axis, then all of the others.
Complex from_real(Conversion& c, ValueId x, std::vector<int64_t> axes, int sign, bool half) {
  const Complex last = transformed(c, {.real = x}, axes.back(), sign, half);
  axes.pop_back();
  return along(c, last, axes, sign);
}

/// Complex to real: all frequencies of the other axes, then the first ones of the last.
ValueId into_real(Conversion& c, Complex x, std::vector<int64_t> axes, ValueId length, int sign) {
  const int64_t last = axes.back();
  axes.pop_back();
  return to_real(c, along(c, x, axes, sign), last, length, sign);
}

// ---- ATen's own ----

DType checked_type(Conversion& c, ValueId x) {
  const DType type = c.type_of(x);
  if (type != DType::kFloat32 && type != DType::kFloat64) c.refuse("numbers that are neither f32 nor f64");
  return type;
}

std::vector<int64_t> axes_argument(Conversion& c, ValueId x) {
  std::vector<int64_t> axes = c.integers("dim");
  for (int64_t& axis : axes) axis = c.axis(axis, c.rank_of(x));
  return axes;
}

Scale scale_argument(Conversion& c) {
  const int64_t scale = c.integer("normalization");
  if (scale < 0 || scale > 2) c.refuse("a normalization that there is none of");
  return static_cast<Scale>(scale);
}

void fft_c2c(Conversion& c) {
  const Complex x = c.complex("self");
  const auto axes = axes_argument(c, x.real);
  c.give_complex(normalised(c, along(c, x, axes, c.flag("forward") ? -1 : 1), x.real, axes, scale_argument(c)));
}

void fft_r2c(Conversion& c) {
  const ValueId x = c.tensor("self");
  checked_type(c, x);
  const auto axes = axes_argument(c, x);
  if (axes.empty()) c.refuse("a transform along no axis");
  c.give_complex(normalised(c, from_real(c, x, axes, -1, c.flag("onesided")), x, axes, scale_argument(c)));
}

void fft_c2r(Conversion& c) {
  const Complex x = c.complex("self");
  const auto axes = axes_argument(c, x.real);
  if (axes.empty()) c.refuse("a transform along no axis");
  const ValueId made = into_real(c, x, axes, c.shape_tensor("last_dim_size"), 1);
  c.give(normalised(c, made, made, axes, scale_argument(c)));
}

// ---- torch.fft ----

/// What one of torch.fft's functions does.
struct Function {
  bool inverse = false;
  enum class Kind { kComplex, kFromReal, kToReal } kind = Kind::kComplex;
};

Scale scale_of(Conversion& c, bool inverse) {
  const std::string norm = c.has("norm") ? c.text("norm") : "backward";
  if (norm == "ortho") return Scale::kRoot;
  if (norm != "forward" && norm != "backward") c.refuse("the norm '" + norm + "'");
  return (norm == "backward") == inverse ? Scale::kAll : Scale::kNone;
}

/// A signal of another length: cut off, or with zeros behind it.
ValueId resized(Conversion& c, ValueId x, int64_t axis, int64_t length) {
  if (x == kNoValue) return x;
  const auto size = c.size_of(x, axis).as_constant();
  if (!size) c.refuse("a length beside a size known only while running");
  if (*size == length) return x;
  if (*size > length) return sliced(c, x, axis, 0, length);
  std::vector<int64_t> pads(static_cast<size_t>(2 * c.rank_of(x)), 0);
  pads[static_cast<size_t>(c.rank_of(x) + axis)] = length - *size;
  return c.add("Pad", {x, c.integers_constant(pads), number(c, 0, x)}, {{"mode", std::string("constant")}});
}

void apply(Conversion& c, const Function& f, const std::vector<int64_t>& axes, std::vector<int64_t> lengths) {
  if (axes.empty()) c.refuse("a transform along no axis");
  Complex x = numbers(c, "self");
  if (x.imaginary == kNoValue) x.real = as_float(c, x.real);
  checked_type(c, x.real);
  if (f.kind == Function::Kind::kFromReal && x.imaginary != kNoValue) c.refuse("complex numbers for a real transform");
  const bool to_real = f.kind == Function::Kind::kToReal;
  ValueId length = kNoValue;
  if (to_real) {
    if (x.imaginary == kNoValue) x.imaginary = c.add("Expand", {number(c, 0, x.real), c.add("Shape", {x.real})});
    if (lengths.back() >= 1) {
      length = c.integers_constant({lengths.back()});
      lengths.back() = lengths.back() / 2 + 1;
    } else {
      const ValueId given = sizes(c, x.real, axes.back(), axes.back() + 1), one = c.integers_constant({1});
      length = c.add("Mul", {c.add("Sub", {given, one}), c.integers_constant({2})});
    }
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    if (lengths[i] < 1) continue;
    x = each_part(x, [&](ValueId part) { return resized(c, part, axes[i], lengths[i]); });
  }
  const int sign = f.inverse ? 1 : -1;
  const Scale scale = scale_of(c, f.inverse);
  if (to_real) {
    const ValueId made = into_real(c, x, axes, length, sign);
    return c.give(normalised(c, made, made, axes, scale));
  }
  const Complex made = f.kind == Function::Kind::kFromReal ? from_real(c, x.real, axes, sign, true)
                                                           : along(c, x, axes, sign);
  c.give_complex(normalised(c, made, x.real, axes, scale));
}

Build of_one_axis(const Function& f) {
  return [f](Conversion& c) {
    const int rank = c.rank_of(numbers(c, "self").real);
    const int64_t length = c.has("n") ? c.integer("n") : -1;
    if (c.has("n") && length < 1) c.refuse("a transform of no points");
    apply(c, f, {c.axis(c.integer("dim"), rank)}, {length});
  };
}

/// Over the axes that are named, else over the last of so many lengths, else over all.
Build of_axes(const Function& f) {
  return [f](Conversion& c) {
    const int rank = c.rank_of(numbers(c, "self").real);
    std::vector<int64_t> lengths, axes;
    if (c.has("s")) lengths = c.integers("s");
    if (c.has("dim")) {
      axes = c.integers("dim");
    } else {
      const int64_t count = c.has("s") ? std::ssize(lengths) : rank;
      for (int64_t axis = -count; axis < 0; ++axis) axes.push_back(axis);
    }
    if (lengths.empty()) lengths.assign(axes.size(), -1);
    if (lengths.size() != axes.size()) c.refuse("lengths and axes of different numbers");
    for (int64_t& axis : axes) axis = c.axis(axis, rank);
    apply(c, f, axes, lengths);
  };
}

}  // namespace

std::vector<Row> fourier_rows() {
  using Kind = Function::Kind;
  std::vector<Row> rows = {
      {"aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor", fft_c2c, fft_c2c},
      {"aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", fft_r2c},
      {"aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor", fft_c2r, fft_c2r},
  };
  const std::pair<std::string, Function> kFunctions[] = {
      {"fft", {}},
      {"ifft", {.inverse = true}},
      {"rfft", {.kind = Kind::kFromReal}},
      {"irfft", {.inverse = true, .kind = Kind::kToReal}},
  };
  for (const auto& [name, function] : kFunctions) {
    const std::string of = "aten::fft_" + name;
    const Build one = of_one_axis(function), several = of_axes(function);
    rows.push_back({of + "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", one, one});
    rows.push_back({of + "2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor", several,
                    several});
    rows.push_back({of + "n(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", several,
                    several});
  }
  return rows;
}

}  // namespace graft::aten
