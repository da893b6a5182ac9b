// SPDX-License-Identifier: Apache-2.0
#include "expr/evaluate.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/convert.h"
#include "base/error.h"

namespace graft {
namespace {

// Every row has its specialisation below; a missing one is a use of a deleted function.
template <Intrinsic kIntrinsic>
void columns(const ColumnCall&) = delete;

using Unsigned = uint64_t;

/// out[i] = f(args[i]...) over doubles.
template <class F>
void reals(const ColumnCall& call, F f) {
  double* out = call.out.real;
  const double* a = call.args[0].real;
  if constexpr (std::is_invocable_v<F, double>) {
    for (int i = 0; i < call.count; ++i) out[i] = f(a[i]);
  } else if constexpr (std::is_invocable_v<F, double, double>) {
    const double* b = call.args[1].real;
    for (int i = 0; i < call.count; ++i) out[i] = f(a[i], b[i]);
  } else {
    const double *b = call.args[1].real, *c = call.args[2].real;
    for (int i = 0; i < call.count; ++i) out[i] = f(a[i], b[i], c[i]);
  }
}

/// out[i] = f(args[i]...) wrapped to the type, where f works on int64 for signed types and on uint64 for u64
/// (which is the same for the narrower unsigned types).
template <class F>
void integers(const ColumnCall& call, F f) {
  const DType type = call.type;
  const int64_t* a = call.args[0].integer;
  int64_t* out = call.out.integer;
  const auto apply = [&](auto zero) {
    using T = decltype(zero);
    for (int i = 0; i < call.count; ++i) {
      if constexpr (std::is_invocable_v<F, T>) {
        out[i] = wrap_integer(type, static_cast<int64_t>(f(static_cast<T>(a[i]))));
      } else {
        out[i] =
            wrap_integer(type, static_cast<int64_t>(f(static_cast<T>(a[i]), static_cast<T>(call.args[1].integer[i]))));
      }
    }
  };
  if (is_unsigned(type)) {
    apply(Unsigned{0});
  } else {
    apply(int64_t{0});
  }
}

template <class R, class I>
void numbers(const ColumnCall& call, R real, I integer) {
  if (is_float(call.type)) {
    reals(call, real);
  } else {
    integers(call, integer);
  }
}

template <class F>
void compare(const ColumnCall& call, F f) {
  int64_t* out = call.out.integer;
  const auto apply = [&](const auto* a, const auto* b) {
    for (int i = 0; i < call.count; ++i) out[i] = f(a[i], b[i]);
  };
  if (is_float(call.type)) {
    apply(call.args[0].real, call.args[1].real);
  } else if (is_unsigned(call.type)) {
    apply(reinterpret_cast<const Unsigned*>(call.args[0].integer),
          reinterpret_cast<const Unsigned*>(call.args[1].integer));
  } else {
    apply(call.args[0].integer, call.args[1].integer);
  }
}

template <class F>
void classify(const ColumnCall& call, F f) {
  for (int i = 0; i < call.count; ++i) call.out.integer[i] = f(call.args[0].real[i]);
}

Unsigned bits(int64_t x) { return static_cast<Unsigned>(x); }
Unsigned bits(Unsigned x) { return x; }

/// Towards zero; x / 0 is 0, MIN / -1 wraps to MIN.
int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? static_cast<int64_t>(Unsigned{0} - bits(a)) : a / b;
}
Unsigned quotient(Unsigned a, Unsigned b) { return b == 0 ? 0 : a / b; }

int64_t remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
Unsigned remainder(Unsigned a, Unsigned b) { return b == 0 ? 0 : a % b; }

int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t q = quotient(a, b), r = remainder(a, b);
  return r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}
Unsigned floor_quotient(Unsigned a, Unsigned b) { return quotient(a, b); }

int64_t floor_remainder(int64_t a, int64_t b) {
  const int64_t r = remainder(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
Unsigned floor_remainder(Unsigned a, Unsigned b) { return remainder(a, b); }

double floor_remainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return b < a ? b : a;
}
double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return a < b ? b : a;
}

/// Wraps; a negative exponent gives 0 but for the bases 1 and -1.
template <class T>
T power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? 1 : -1;
      return 0;
    }
  }
  Unsigned result = 1, square = bits(base);
  for (Unsigned e = bits(exponent); e != 0; e >>= 1, square *= square) {
    if (e & 1) result *= square;
  }
  return static_cast<T>(result);
}

/// The amount of a shift, or nothing when it is the width or more; negative amounts count as large.
bool shifts_out(DType type, Unsigned amount) { return amount >= static_cast<Unsigned>(bit_width(type)); }

#define GRAFT_ROW(enumerator) \
  template <>                 \
  void columns<Intrinsic::enumerator>([[maybe_unused]] const ColumnCall& call)
#define GRAFT_REAL(enumerator, value)            \
  GRAFT_ROW(enumerator) {                        \
    reals(call, [](double x) { return value; }); \
  }
// A step function jumps: it sees the value that its type holds, not the wider one that computing in double leaves.
#define GRAFT_STEP(enumerator, function)                                                      \
  GRAFT_ROW(enumerator) {                                                                     \
    const bool narrow = call.type == DType::kFloat32;                                         \
    reals(call, [narrow](double x) { return function(narrow ? static_cast<float>(x) : x); }); \
  }
#define GRAFT_COMPARISON(enumerator, op)                  \
  GRAFT_ROW(enumerator) {                                 \
    compare(call, [](auto a, auto b) { return a op b; }); \
  }
#define GRAFT_BITS(enumerator, op)                                \
  GRAFT_ROW(enumerator) {                                         \
    integers(call, [](auto a, decltype(a) b) { return a op b; }); \
  }
/// Real and integer meaning of a binary row; the operands are a and b.
#define GRAFT_NUMBERS(enumerator, real, integer)                                                                      \
  GRAFT_ROW(enumerator) {                                                                                             \
    numbers(                                                                                                          \
        call, [](double a, double b) { return real; }, [](auto a, decltype(a) b) -> decltype(a) { return integer; }); \
  }

GRAFT_NUMBERS(kAdd, a + b, bits(a) + bits(b))
GRAFT_NUMBERS(kSub, a - b, bits(a) - bits(b))
GRAFT_NUMBERS(kMul, a* b, bits(a) * bits(b))
GRAFT_NUMBERS(kDiv, a / b, quotient(a, b))
GRAFT_NUMBERS(kFloorDiv, std::floor(a / b), floor_quotient(a, b))
GRAFT_NUMBERS(kRem, std::fmod(a, b), remainder(a, b))
GRAFT_NUMBERS(kMod, floor_remainder(a, b), floor_remainder(a, b))
GRAFT_NUMBERS(kMin, minimum(a, b), b < a ? b : a)
GRAFT_NUMBERS(kMax, maximum(a, b), a < b ? b : a)
GRAFT_NUMBERS(kPow, std::pow(a, b), power(a, b))
GRAFT_ROW(kFma) {
  reals(call, [](double a, double b, double c) { return std::fma(a, b, c); });
}
GRAFT_ROW(kNeg) {
  numbers(
      call, [](double x) { return -x; }, [](auto x) -> decltype(x) { return Unsigned{0} - bits(x); });
}
GRAFT_ROW(kAbs) {
  numbers(
      call, [](double x) { return std::fabs(x); },
      [](auto x) -> decltype(x) { return x < decltype(x){0} ? Unsigned{0} - bits(x) : bits(x); });
}
GRAFT_REAL(kSqrt, std::sqrt(x))
GRAFT_REAL(kExp, std::exp(x))
GRAFT_REAL(kExp2, std::exp2(x))
GRAFT_REAL(kLog, std::log(x))
GRAFT_REAL(kLog1p, std::log1p(x))
GRAFT_REAL(kExpm1, std::expm1(x))
GRAFT_REAL(kErf, std::erf(x))
GRAFT_REAL(kSin, std::sin(x))
GRAFT_REAL(kCos, std::cos(x))
GRAFT_REAL(kTan, std::tan(x))
GRAFT_REAL(kAsin, std::asin(x))
GRAFT_REAL(kAcos, std::acos(x))
GRAFT_REAL(kAtan, std::atan(x))
GRAFT_REAL(kSinh, std::sinh(x))
GRAFT_REAL(kCosh, std::cosh(x))
GRAFT_REAL(kTanh, std::tanh(x))
GRAFT_REAL(kAsinh, std::asinh(x))
GRAFT_REAL(kAcosh, std::acosh(x))
GRAFT_REAL(kAtanh, std::atanh(x))
GRAFT_STEP(kFloor, std::floor)
GRAFT_STEP(kCeil, std::ceil)
GRAFT_STEP(kTrunc, std::trunc)
GRAFT_STEP(kRound, std::nearbyint)
GRAFT_ROW(kIsNan) {
  classify(call, [](double x) { return std::isnan(x); });
}
GRAFT_ROW(kIsInf) {
  classify(call, [](double x) { return std::isinf(x); });
}
GRAFT_COMPARISON(kEq, ==)
GRAFT_COMPARISON(kNe, !=)
GRAFT_COMPARISON(kLt, <)
GRAFT_COMPARISON(kLe, <=)
GRAFT_COMPARISON(kGt, >)
GRAFT_COMPARISON(kGe, >=)
GRAFT_BITS(kAnd, &)
GRAFT_BITS(kOr, |)
GRAFT_BITS(kXor, ^)
GRAFT_ROW(kNot) {
  const bool logical = call.type == DType::kBool;
  integers(call, [=](auto x) -> decltype(x) { return logical ? x == 0 : ~x; });
}
GRAFT_ROW(kShl) {
  const DType type = call.type;
  integers(call,
           [=](auto a, decltype(a) b) -> decltype(a) { return shifts_out(type, bits(b)) ? 0 : bits(a) << bits(b); });
}
GRAFT_ROW(kShr) {
  const DType type = call.type;
  integers(call, [=](auto a, decltype(a) b) -> decltype(a) {
    if (shifts_out(type, bits(b))) return a < decltype(a){0} ? static_cast<decltype(a)>(-1) : 0;
    return a >> b;
  });
}
GRAFT_ROW(kSelect) {
  const int64_t* condition = call.args[0].integer;
  const auto blend = [&](const auto* a, const auto* b, auto* out) {
    for (int i = 0; i < call.count; ++i) out[i] = condition[i] ? a[i] : b[i];
  };
  if (is_float(call.type)) {
    blend(call.args[1].real, call.args[2].real, call.out.real);
  } else {
    blend(call.args[1].integer, call.args[2].integer, call.out.integer);
  }
}
GRAFT_ROW(kCast) {
  const DType from = call.type, to = call.result;
  const Column in = call.args[0], out = call.out;
  if (is_float(from) && is_float(to)) {
    const bool widens = to == DType::kFloat64 || (to == DType::kFloat32 && bit_width(from) < 32);
    for (int i = 0; i < call.count; ++i) out.real[i] = widens ? in.real[i] : round_to_float(to, in.real[i]);
  } else if (is_float(from)) {
    const bool narrow = from == DType::kFloat32;
    for (int i = 0; i < call.count; ++i) {
      out.integer[i] = double_to_integer(to, narrow ? static_cast<float>(in.real[i]) : in.real[i]);
    }
  } else if (is_float(to)) {
    for (int i = 0; i < call.count; ++i) {
      // Straight to f32, as going through double would round 64-bit integers twice.
      const bool wide = from == DType::kUint64;
      const double value = to == DType::kFloat32
                               ? wide ? static_cast<float>(bits(in.integer[i])) : static_cast<float>(in.integer[i])
                               : integer_to_double(from, in.integer[i]);
      out.real[i] = round_to_float(to, value);
    }
  } else {
    for (int i = 0; i < call.count; ++i) out.integer[i] = wrap_integer(to, in.integer[i]);
  }
}
GRAFT_ROW(kBitcast) {
  const DType from = call.type, to = call.result;
  for (int i = 0; i < call.count; ++i) {
    const Unsigned raw = is_float(from) ? encode_float(from, call.args[0].real[i]) : bits(call.args[0].integer[i]);
    if (is_float(to)) {
      const int width = bit_width(to);
      call.out.real[i] = decode_float(to, width < 64 ? raw & ((Unsigned{1} << width) - 1) : raw);
    } else {
      call.out.integer[i] = wrap_integer(to, static_cast<int64_t>(raw));
    }
  }
}
GRAFT_ROW(kCheckIndex) {
  integers(call, [](auto index, decltype(index) extent) -> decltype(index) {
    return index >= 0 && index < extent ? index : 0;
  });
}
GRAFT_ROW(kCheckDivisor) {
  std::copy_n(call.args[0].integer, call.count, call.out.integer);
}

#undef GRAFT_ROW
#undef GRAFT_REAL
#undef GRAFT_STEP
#undef GRAFT_COMPARISON
#undef GRAFT_BITS
#undef GRAFT_NUMBERS

using Function = void (*)(const ColumnCall&);
constexpr Function kFunctions[] = {
#define GRAFT_INTRINSIC(enumerator, name, arity, result, meaning) &columns<Intrinsic::enumerator>,
#include "expr/intrinsics.inc"
#undef GRAFT_INTRINSIC
};

}  // namespace

void evaluate_columns(Intrinsic intrinsic, const ColumnCall& call) { kFunctions[static_cast<int>(intrinsic)](call); }

Scalar evaluate_scalar(Intrinsic intrinsic, DType type, DType result, std::span<const Scalar> args) {
  GRAFT_CHECK(static_cast<int>(args.size()) == info(intrinsic).arity, "wrong number of arguments");
  Scalar values[3];
  Column columns[3];
  for (size_t i = 0; i < args.size(); ++i) {
    values[i] = args[i];
    columns[i] = {&values[i].real, &values[i].integer};
  }
  Scalar out;
  evaluate_columns(intrinsic, {type, result, {columns, args.size()}, {&out.real, &out.integer}, 1});
  return out;
}

}  // namespace graft
