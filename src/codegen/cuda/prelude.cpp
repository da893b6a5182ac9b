// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/prelude.h"

namespace graft::cuda {
namespace {

/// Types, conversions between them, and the integer and float rules of intrinsics.inc.
constexpr char kScalars[] = R"cuda(
typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned int u32; typedef long long i64; typedef unsigned long long u64;
typedef float f32; typedef double f64;
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct e4m3 { u8 bits; };
struct e5m2 { u8 bits; };
#define GRAFT_DEVICE static __device__ __forceinline__

// Kernels come to the multiprocessors while those before them end; what those wrote is there from here on.
GRAFT_DEVICE void let_later_kernels_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
GRAFT_DEVICE void follow_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <class T> struct Limits;
#define GRAFT_LIMITS(T, U, low, high) \
  template <> struct Limits<T> { \
    typedef U Unsigned; static constexpr T lowest = low; static constexpr T highest = high; };
GRAFT_LIMITS(i8, u8, -128, 127) GRAFT_LIMITS(u8, u8, 0, 255)
GRAFT_LIMITS(i16, u16, -32768, 32767) GRAFT_LIMITS(u16, u16, 0, 65535)
GRAFT_LIMITS(i32, u32, -2147483647 - 1, 2147483647) GRAFT_LIMITS(u32, u32, 0, 4294967295u)
GRAFT_LIMITS(i64, u64, -9223372036854775807ll - 1, 9223372036854775807ll)
GRAFT_LIMITS(u64, u64, 0, 18446744073709551615ull)

// --- conversions: nearest even to floats, saturating towards zero to integers, NaN to 0 ---
GRAFT_DEVICE f32 odd_f32(f64 x) {  // rounded to odd: a second rounding then gives the correctly rounded result
  const f32 near = __double2float_rz(x);
  return (f64)near == x || x != x ? near : __int_as_float(__float_as_int(near) | 1);
}
GRAFT_DEVICE u16 f16_bits(f32 x) { u16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
GRAFT_DEVICE f32 f16_value(u16 b) { f32 r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(b)); return r; }
GRAFT_DEVICE u16 bf16_bits(f32 x) { u16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
GRAFT_DEVICE f32 bf16_value(u16 b) { return __uint_as_float((u32)b << 16); }
// Floats of 8 bits, which GPUs from sm_89 on convert two at a time: what is too large becomes the largest.
template <class T> struct Float8;
template <> struct Float8<e4m3> {
  GRAFT_DEVICE u32 pair(f32 low, f32 high) {
    u16 r; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low)); return r;
  }
  GRAFT_DEVICE u32 halves(u16 pair) { u32 r; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(pair)); return r; }
};
template <> struct Float8<e5m2> {
  GRAFT_DEVICE u32 pair(f32 low, f32 high) {
    u16 r; asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low)); return r;
  }
  GRAFT_DEVICE u32 halves(u16 pair) { u32 r; asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"(pair)); return r; }
};
template <class T> GRAFT_DEVICE f32 float8_value(T x) { return f16_value((u16)Float8<T>::halves(x.bits)); }

template <class T> struct IsFloat { static constexpr bool value = false; };
template <> struct IsFloat<f32> { static constexpr bool value = true; };
template <> struct IsFloat<f64> { static constexpr bool value = true; };

template <class To, class From> struct Convert {
  GRAFT_DEVICE To apply(From x) {
    if constexpr (IsFloat<From>::value && !IsFloat<To>::value) {
      if (x != x) return 0;
      if (x <= (From)Limits<To>::lowest) return Limits<To>::lowest;
      if (x >= (From)Limits<To>::highest) return Limits<To>::highest;
    }
    return (To)x;
  }
};
template <class From> struct Convert<bool, From> { GRAFT_DEVICE bool apply(From x) { return x != 0; } };
template <class To> struct Convert<To, f16> {
  GRAFT_DEVICE To apply(f16 x) { return Convert<To, f32>::apply(f16_value(x.bits)); }
};
template <class To> struct Convert<To, bf16> {
  GRAFT_DEVICE To apply(bf16 x) { return Convert<To, f32>::apply(bf16_value(x.bits)); }
};
template <> struct Convert<bool, f16> { GRAFT_DEVICE bool apply(f16 x) { return f16_value(x.bits) != 0; } };
template <> struct Convert<bool, bf16> { GRAFT_DEVICE bool apply(bf16 x) { return bf16_value(x.bits) != 0; } };
template <class From> struct Convert<f16, From> {
  GRAFT_DEVICE f16 apply(From x) { return {f16_bits(odd_f32((f64)x))}; }
};
template <class From> struct Convert<bf16, From> {
  GRAFT_DEVICE bf16 apply(From x) { return {bf16_bits(odd_f32((f64)x))}; }
};
template <> struct Convert<f16, f32> { GRAFT_DEVICE f16 apply(f32 x) { return {f16_bits(x)}; } };
template <> struct Convert<bf16, f32> { GRAFT_DEVICE bf16 apply(f32 x) { return {bf16_bits(x)}; } };
template <> struct Convert<f16, f16> { GRAFT_DEVICE f16 apply(f16 x) { return x; } };
template <> struct Convert<bf16, bf16> { GRAFT_DEVICE bf16 apply(bf16 x) { return x; } };
template <> struct Convert<f16, bf16> { GRAFT_DEVICE f16 apply(bf16 x) { return {f16_bits(bf16_value(x.bits))}; } };
template <> struct Convert<bf16, f16> { GRAFT_DEVICE bf16 apply(f16 x) { return {bf16_bits(f16_value(x.bits))}; } };
#define GRAFT_FLOAT8(T) \
  template <> struct Convert<T, f32> { GRAFT_DEVICE T apply(f32 x) { return {(u8)Float8<T>::pair(x, 0)}; } }; \
  template <class To> struct Convert<To, T> { \
    GRAFT_DEVICE To apply(T x) { return Convert<To, f32>::apply(float8_value(x)); } \
  }; \
  template <class From> struct Convert<T, From> { \
    GRAFT_DEVICE T apply(From x) { return Convert<T, f32>::apply(odd_f32((f64)x)); } \
  }; \
  template <> struct Convert<bool, T> { GRAFT_DEVICE bool apply(T x) { return float8_value(x) != 0; } }; \
  template <> struct Convert<f16, T> { GRAFT_DEVICE f16 apply(T x) { return {f16_bits(float8_value(x))}; } }; \
  template <> struct Convert<bf16, T> { GRAFT_DEVICE bf16 apply(T x) { return {bf16_bits(float8_value(x))}; } }; \
  template <> struct Convert<T, f16> { \
    GRAFT_DEVICE T apply(f16 x) { return Convert<T, f32>::apply(f16_value(x.bits)); } \
  }; \
  template <> struct Convert<T, bf16> { \
    GRAFT_DEVICE T apply(bf16 x) { return Convert<T, f32>::apply(bf16_value(x.bits)); } \
  }; \
  template <> struct Convert<T, T> { GRAFT_DEVICE T apply(T x) { return x; } };
GRAFT_FLOAT8(e4m3) GRAFT_FLOAT8(e5m2)
#undef GRAFT_FLOAT8
template <> struct Convert<e4m3, e5m2> {
  GRAFT_DEVICE e4m3 apply(e5m2 x) { return Convert<e4m3, f32>::apply(float8_value(x)); }
};
template <> struct Convert<e5m2, e4m3> {
  GRAFT_DEVICE e5m2 apply(e4m3 x) { return Convert<e5m2, f32>::apply(float8_value(x)); }
};
template <class To, class From> GRAFT_DEVICE To convert(From x) { return Convert<To, From>::apply(x); }
template <class To, class From> GRAFT_DEVICE To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast changes the width");
  union { From from; To to; } both; both.from = x; return both.to;
}

// --- integers wrap; division by zero gives 0 ---
template <class T> GRAFT_DEVICE T wrap_add(T a, T b) {
  typedef typename Limits<T>::Unsigned U; return (T)(U)((U)a + (U)b);
}
template <class T> GRAFT_DEVICE T wrap_sub(T a, T b) {
  typedef typename Limits<T>::Unsigned U; return (T)(U)((U)a - (U)b);
}
template <class T> GRAFT_DEVICE T wrap_mul(T a, T b) {
  typedef typename Limits<T>::Unsigned U; return (T)(U)((u64)(U)a * (u64)(U)b);
}
template <class T> GRAFT_DEVICE T wrap_neg(T a) { return wrap_sub((T)0, a); }
template <class T> GRAFT_DEVICE bool overflows(T a, T b) {
  return Limits<T>::lowest < 0 && b == (T)-1 && a == Limits<T>::lowest;
}
template <class T> GRAFT_DEVICE T divide(T a, T b) { return b == 0 ? (T)0 : overflows(a, b) ? a : (T)(a / b); }
template <class T> GRAFT_DEVICE T remainder_of(T a, T b) { return b == 0 || overflows(a, b) ? (T)0 : (T)(a % b); }
template <class T> GRAFT_DEVICE T floor_divide(T a, T b) {
  const T q = divide(a, b);
  return b != 0 && !overflows(a, b) && (T)(q * b) != a && ((a < 0) != (b < 0)) ? (T)(q - 1) : q;
}
template <class T> GRAFT_DEVICE T modulo(T a, T b) {
  const T r = remainder_of(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? (T)(r + b) : r;
}
template <class T> GRAFT_DEVICE T absolute(T a) { return a < 0 ? wrap_neg(a) : a; }
template <class T> GRAFT_DEVICE T shift_left(T a, T b) {
  typedef typename Limits<T>::Unsigned U; return (U)b >= sizeof(T) * 8 ? (T)0 : (T)(U)((U)a << (U)b);
}
template <class T> GRAFT_DEVICE T shift_right(T a, T b) {
  typedef typename Limits<T>::Unsigned U; return (U)b >= sizeof(T) * 8 ? (a < 0 ? (T)-1 : (T)0) : (T)(a >> b);
}
template <class T> GRAFT_DEVICE T power(T a, T b) {
  if (b < 0) return a == 1 ? (T)1 : a == (T)-1 ? ((b & 1) ? (T)-1 : (T)1) : (T)0;
  T r = 1;
  for (typename Limits<T>::Unsigned n = b; n; n >>= 1, a = wrap_mul(a, a)) if (n & 1) r = wrap_mul(r, a);
  return r;
}
template <class T> GRAFT_DEVICE T least(T a, T b) { return b < a ? b : a; }
template <class T> GRAFT_DEVICE T greatest(T a, T b) { return a < b ? b : a; }
// Equal to the indices that an int holds only where the number is one of them.
GRAFT_DEVICE int int_or_negative(i64 x) { return (u64)x <= 0x7fffffffull ? (int)x : -1; }
GRAFT_DEVICE i64 size_floor_div(i64 a, i64 b) { return floor_divide(a, b); }
GRAFT_DEVICE i64 size_mod(i64 a, i64 b) { return modulo(a, b); }
GRAFT_DEVICE i64 size_min(i64 a, i64 b) { return a < b ? a : b; }
GRAFT_DEVICE i64 size_max(i64 a, i64 b) { return a < b ? b : a; }

// --- floats: NaN passes through min and max ---
GRAFT_DEVICE f32 least(f32 a, f32 b) { f32 r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
GRAFT_DEVICE f32 greatest(f32 a, f32 b) { f32 r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
GRAFT_DEVICE f64 least(f64 a, f64 b) { return a != a || b != b ? a + b : fmin(a, b); }
GRAFT_DEVICE f64 greatest(f64 a, f64 b) { return a != a || b != b ? a + b : fmax(a, b); }
template <class T> GRAFT_DEVICE T float_mod(T a, T b) {
  const T r = fmod(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
// powf is within 4 ulp only
GRAFT_DEVICE f32 power_of(f32 a, f32 b) { return (f32)pow((f64)a, (f64)b); }
GRAFT_DEVICE f64 power_of(f64 a, f64 b) { return pow(a, b); }
GRAFT_DEVICE f32 power_of_two(f32 x) { f32 r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
GRAFT_DEVICE f64 power_of_two(f64 x) { return exp2(x); }
// What results of 16 bits need. The quotient is within 2 ulp whatever its operands are.
GRAFT_DEVICE f32 near_exp(f32 x) { return power_of_two(x * 1.44269504f); }
GRAFT_DEVICE f32 near_quotient(f32 a, f32 b) {
  f32 r; asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r;
}
GRAFT_DEVICE f32 near_sqrt(f32 x) { f32 r; asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
// 1 + erf(x) = erfc(-x). The logarithm of erfc on 0..4.15 is a polynomial to 4e-6, and falls faster beyond.
GRAFT_DEVICE f32 raised_erf(f32 x) {
  const f32 t = fabsf(x);
  f32 p = fmaf(-2.02273077e-05f, t, 0.000485001685f);
  p = fmaf(p, t, -0.00521859247f);
  p = fmaf(p, t, 0.0338990837f);
  p = fmaf(p, t, -0.152417496f);
  p = fmaf(p, t, -0.917087615f);
  p = fmaf(p, t, -1.62806225f);
  const f32 tail = power_of_two(p * t);
  return x < 0 ? tail : 2.0f - tail;
}
GRAFT_DEVICE bool is_inf_of(f32 x) { return fabsf(x) == __int_as_float(0x7f800000); }
GRAFT_DEVICE bool is_inf_of(f64 x) { return fabs(x) == __longlong_as_double(0x7ff0000000000000ll); }
// What a thread found wrong; told once at its end, so that no store stands between its loads.
struct Fault { i64 kind, value; };
template <class T> GRAFT_DEVICE T check_index(T i, T n, Fault& fault) {
  const bool good = i >= 0 && i < n;
  if (!good) fault.kind = 1, fault.value = (i64)i;
  return good ? i : (T)0;
}
template <class T> GRAFT_DEVICE T check_divisor(T x, Fault& fault) {
  if (x == 0) fault.kind = 2, fault.value = 0;
  return x;
}
template <class T> GRAFT_DEVICE T load_packed(const u8* bytes, i64 element, int bits) {
  const int shift = (int)(element * bits & 7);
  const u8 field = (u8)(bytes[element * bits >> 3] >> shift) & ((1 << bits) - 1);
  return Limits<T>::lowest < 0 ? (T)((i8)(u8)(field << (8 - bits)) >> (8 - bits)) : (T)field;
}
)cuda";

/// Reductions over warps and blocks for any state and combination, atomics, sorting.
constexpr char kCollectives[] = R"cuda(
template <class S> GRAFT_DEVICE S shuffle(const S& state, int distance, bool down) {
  constexpr int kWords = (sizeof(S) + 3) / 4;
  union Words { u32 words[kWords]; S state; __device__ Words() {} } in, out;
  in.state = state;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    out.words[i] = down ? __shfl_down_sync(0xffffffffu, in.words[i], distance)
                        : __shfl_xor_sync(0xffffffffu, in.words[i], distance);
  }
  return out.state;
}
// The fold of the 32 lanes in lane order; lane 0 has it.
template <class S, class F> GRAFT_DEVICE S warp_fold(S state, F combine) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) state = combine(state, shuffle(state, distance, true));
  return state;
}
template <class T> GRAFT_DEVICE T shuffle_up(const T& value, int distance) {
  constexpr int kWords = (sizeof(T) + 3) / 4;
  union Words { u32 words[kWords]; T value; __device__ Words() {} } in, out;
  in.value = value;
#pragma unroll
  for (int i = 0; i < kWords; ++i) out.words[i] = __shfl_up_sync(0xffffffffu, in.words[i], distance);
  return out.value;
}
template <class T> GRAFT_DEVICE T shuffle_from(const T& value, int lane) {
  constexpr int kWords = (sizeof(T) + 3) / 4;
  union Words { u32 words[kWords]; T value; __device__ Words() {} } in, out;
  in.value = value;
#pragma unroll
  for (int i = 0; i < kWords; ++i) out.words[i] = __shfl_sync(0xffffffffu, in.words[i], lane);
  return out.value;
}
// The fold of the lanes before this one; `total` of all.
template <class T, class F> GRAFT_DEVICE T warp_before(T value, T identity, F combine, T& total) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const T other = shuffle_up(value, distance);
    if (lane >= distance) value = combine(other, value);
  }
  total = shuffle_from(value, 31);
  const T before = shuffle_up(value, 1);
  return lane == 0 ? identity : before;
}
// The fold of the threads before this one; `total` of all. `partial` has one place per warp.
template <int Threads, class T, class F>
GRAFT_DEVICE T block_before(T value, T identity, F combine, T& total, T* partial) {
  T own;
  const T before = warp_before(value, identity, combine, own);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = own;
  __syncthreads();
  T earlier = identity;
  total = identity;
#pragma unroll
  for (int i = 0; i < Threads / 32; ++i) {
    if (i == threadIdx.x / 32) earlier = total;
    total = combine(total, partial[i]);
  }
  __syncthreads();
  return combine(earlier, before);
}
// The fold of each group of neighbouring lanes, a power of two of them, in order; the first of each has it.
template <int Group, class S, class F> GRAFT_DEVICE S group_fold(S state, F combine) {
#pragma unroll
  for (int distance = 1; distance < Group; distance *= 2) state = combine(state, shuffle(state, distance, true));
  return state;
}
// The fold of each group of several warps in order; the first thread of each has it.
template <int Threads, int Group, class S, class F> GRAFT_DEVICE S groups_fold(S state, F combine, S* partial) {
  state = warp_fold(state, combine);
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = state;
  __syncthreads();
  if (threadIdx.x % Group == 0) {
    for (int i = 1; i < Group / 32; ++i) state = combine(state, partial[threadIdx.x / 32 + i]);
  }
  return state;
}
// The same for groups that are part of a warp or several warps; all threads have it. `partial` has one place per warp.
template <int Group, class S, class F> GRAFT_DEVICE S fold_for_all(S state, F combine, S* partial) {
#pragma unroll
  for (int distance = 1; distance < (Group < 32 ? Group : 32); distance *= 2) {
    state = combine(state, shuffle(state, distance, false));
  }
  if constexpr (Group > 32) {
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = state;
    __syncthreads();
    S* const own = partial + threadIdx.x / Group * (Group / 32);
    state = own[0];
#pragma unroll
    for (int i = 1; i < Group / 32; ++i) state = combine(state, own[i]);
  }
  return state;
}
// The fold of the four lanes that hold one row of a fragment; all four have it.
template <class S, class F> GRAFT_DEVICE S quad_fold(S state, F combine) {
  state = combine(state, shuffle(state, 1, false));
  return combine(state, shuffle(state, 2, false));
}
// The fold of all threads in order; thread 0 has it. `partial` has one place per warp.
template <int Threads, class S, class F> GRAFT_DEVICE S block_fold(S state, F combine, S* partial) {
  state = warp_fold(state, combine);
  if (Threads == 32) return state;
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = state;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < Threads / 32; ++i) state = combine(state, partial[i]);
  }
  return state;
}

template <class T, class F> GRAFT_DEVICE void atomic_update(T* address, F update) {
  if constexpr (sizeof(T) == 8) {
    u64* word = (u64*)address;
    u64 seen = *word, expected;
    do {
      expected = seen;
      seen = atomicCAS(word, expected, bit_cast<u64>(update(bit_cast<T>(expected))));
    } while (seen != expected);
  } else if constexpr (sizeof(T) == 4) {
    u32* word = (u32*)address;
    u32 seen = *word, expected;
    do {
      expected = seen;
      seen = atomicCAS(word, expected, bit_cast<u32>(update(bit_cast<T>(expected))));
    } while (seen != expected);
  } else {
    u32* word = (u32*)((u64)address & ~3ull);
    const int shift = (int)((u64)address & 3) * 8;
    const u32 mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift;
    u32 seen = *word, expected;
    do {
      expected = seen;
      T value;
      if constexpr (sizeof(T) == 1) value = bit_cast<T>((u8)(expected >> shift));
      else value = bit_cast<T>((u16)(expected >> shift));
      value = update(value);
      u32 bits;
      if constexpr (sizeof(T) == 1) bits = bit_cast<u8>(value); else bits = bit_cast<u16>(value);
      seen = atomicCAS(word, expected, (expected & ~mask) | (bits << shift));
    } while (seen != expected);
  }
}
GRAFT_DEVICE void atomic_add(f32* address, f32 value) { atomicAdd(address, value); }
GRAFT_DEVICE void atomic_add(f64* address, f64 value) { atomicAdd(address, value); }
GRAFT_DEVICE void atomic_add(i32* address, i32 value) { atomicAdd(address, value); }
GRAFT_DEVICE void atomic_add(u32* address, u32 value) { atomicAdd(address, value); }
GRAFT_DEVICE void atomic_add(i64* address, i64 value) { atomicAdd((u64*)address, (u64)value); }

template <class T> GRAFT_DEVICE bool sorts_before(T a, i64 pa, T b, i64 pb, bool descending) {
  const bool a_nan = a != a, b_nan = b != b;
  const bool less = a_nan ? false : b_nan ? true : a < b;
  const bool more = b_nan ? false : a_nan ? true : b < a;
  if (descending ? more : less) return true;
  return !less && !more && pa < pb;
}
GRAFT_DEVICE bool sorts_before(f16 a, i64 pa, f16 b, i64 pb, bool d) {
  return sorts_before(f16_value(a.bits), pa, f16_value(b.bits), pb, d);
}
GRAFT_DEVICE bool sorts_before(bf16 a, i64 pa, bf16 b, i64 pb, bool d) {
  return sorts_before(bf16_value(a.bits), pa, bf16_value(b.bits), pb, d);
}
// The comparators of one step of a bitonic network; all of them point upwards, so that lengths need not be powers of
// two. The first step of a span is mirrored.
template <int Threads, class K, class P>
GRAFT_DEVICE void sort_step(K* keys, i64 key_stride, P* positions, i64 position_stride, i64 length, i64 step,
                            bool mirrored, bool descending) {
  const i64 half = step / 2, pairs = (length + step - 1) / step * half;
#pragma unroll 4
  for (i64 n = threadIdx.x; n < pairs; n += Threads) {
    const i64 i = 2 * n - (n & (half - 1)), j = mirrored ? i ^ (step - 1) : i + half;
    if (j >= length) continue;
    const K a = keys[i * key_stride], b = keys[j * key_stride];
    const P pa = positions[i * position_stride], pb = positions[j * position_stride];
    if (!sorts_before(b, (i64)pb, a, (i64)pa, descending)) continue;
    keys[i * key_stride] = b, keys[j * key_stride] = a;
    positions[i * position_stride] = pb, positions[j * position_stride] = pa;
  }
}
template <int Threads, class K, class P>
GRAFT_DEVICE void sort_row(K* keys, i64 key_stride, P* positions, i64 position_stride, i64 length, bool descending) {
  for (i64 span = 2; span < 2 * length; span *= 2) {
    for (i64 step = span; step > 1; step /= 2) {
      __syncthreads();
      sort_step<Threads>(keys, key_stride, positions, position_stride, length, step, step == span, descending);
    }
  }
  __syncthreads();
}
// The same where the row lies in global memory: what pairs elements of one chunk is done in `memory`, which is shared
// and has room for a chunk of keys and positions.
template <int Threads, int Chunk, class K, class P>
GRAFT_DEVICE void sort_chunks(K* keys, i64 key_stride, P* positions, i64 position_stride, i64 length, bool descending,
                              u8* memory) {
  P* const near_positions = (P*)memory;
  K* const near_keys = (K*)(near_positions + Chunk);
  const auto steps_in_chunks = [&](i64 first_span, i64 last_span) {
    for (i64 base = 0; base < length; base += Chunk) {
      const int here = (int)least(length - base, (i64)Chunk);
      __syncthreads();
      for (int i = threadIdx.x; i < here; i += Threads) {
        near_keys[i] = keys[(base + i) * key_stride], near_positions[i] = positions[(base + i) * position_stride];
      }
      for (i64 span = first_span; span <= last_span; span *= 2) {
        for (i64 step = least(span, (i64)Chunk); step > 1; step /= 2) {
          __syncthreads();
          sort_step<Threads>(near_keys, 1, near_positions, 1, here, step, step == span, descending);
        }
      }
      __syncthreads();
      for (int i = threadIdx.x; i < here; i += Threads) {
        keys[(base + i) * key_stride] = near_keys[i], positions[(base + i) * position_stride] = near_positions[i];
      }
    }
  };
  steps_in_chunks(2, Chunk);
  for (i64 span = 2 * Chunk; span < 2 * length; span *= 2) {
    for (i64 step = span; step > Chunk; step /= 2) {
      __syncthreads();
      sort_step<Threads>(keys, key_stride, positions, position_stride, length, step, step == span, descending);
    }
    steps_in_chunks(span, span);
  }
  __syncthreads();
}
)cuda";

}  // namespace

std::string prelude() {
  std::string text(kScalars);
  for (const std::string& part : {std::string(kCollectives), prelude_of_tiles(), prelude_of_selections(),
                                  prelude_of_tf32(), prelude_of_codes(), prelude_of_warp_specialisation()}) {
    text += part;
  }
  return text;
}

}  // namespace graft::cuda
