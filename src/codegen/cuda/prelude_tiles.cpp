// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/prelude.h"

namespace graft::cuda {
namespace {

/// Tiles: vector access, staging into shared memory, matrix fragments.
constexpr char kTiles[] = R"cuda(
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T at[N]; };
template <class T, int N> GRAFT_DEVICE bool aligned(const T* p) { return ((u64)p & (alignof(Pack<T, N>) - 1)) == 0; }
template <class T, int N> GRAFT_DEVICE Pack<T, N> read_pack(const T* from, bool wide) {
  if (wide) return *(const Pack<T, N>*)from;
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.at[i] = from[i];
  return pack;
}
// Words of two neighbouring halves: what widens one reads it in its word.
template <class T> GRAFT_DEVICE u32 pair_of(T low, T high) {
  return (u32)bit_cast<u16>(low) | (u32)bit_cast<u16>(high) << 16;
}
template <class T> GRAFT_DEVICE T half_of(u32 pair, int i) { return bit_cast<T>((u16)(i ? pair >> 16 : pair)); }
template <class T, int N> GRAFT_DEVICE Pack<u32, N / 2> read_pairs(const T* from, bool wide) {
  if (wide) return *(const Pack<u32, N / 2>*)from;
  Pack<u32, N / 2> pairs;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) pairs.at[i] = pair_of(from[2 * i], from[2 * i + 1]);
  return pairs;
}
// A number of which the compiler knows nothing more: what is computed under a condition on it stays there.
GRAFT_DEVICE int unknown(int x) { asm volatile("" : "+r"(x)); return x; }
// A divisor of many, where results are rounded to halves: quotients by its reciprocal, refined once, both scaled by a
// power of two so that nothing is near the ends of the range of f32. What is not refined rounds to infinity.
struct Divisor { f32 value, reciprocal, scale; };
GRAFT_DEVICE Divisor divisor(f32 x) {
  const f32 large = 18446744073709551616.0f;  // 2^64
  const f32 scale = fabsf(x) < 1e-18f ? large : fabsf(x) > 1e18f ? 1.0f / large : 1.0f;
  const f32 scaled = x * scale;
  f32 near;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(scaled));
  const f32 refined = __fmaf_rn(__fmaf_rn(-scaled, near, 1.0f), near, near);
  // Nothing is refined of zero, infinity and NaN.
  return {scaled, fabsf(near) > 0 && fabsf(near) < 1e30f ? refined : near, scale};
}
GRAFT_DEVICE f32 divide_for_half(f32 x, const Divisor& by) {
  x *= by.scale;
  const f32 first = x * by.reciprocal;
  const f32 near = __fmaf_rn(__fmaf_rn(-first, by.value, x), by.reciprocal, first);
  return first != 0 && fabsf(first) < 1e30f ? near : first;
}
// convert<T>(rintf(x)) of 8 bits, in one instruction.
template <class T> GRAFT_DEVICE T quantized(f32 x) {
  int bits;
  if constexpr (Limits<T>::lowest < 0) asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(bits) : "f"(x));
  else asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return (T)bits;
}
// The same of rintf(x) + zero: a sum with 1.5 * 2^23 rounds what is not out of range by far.
template <class T> GRAFT_DEVICE T quantized(f32 x, f32 zero) {
  return quantized<T>(x + 12582912.0f - 12582912.0f + zero);
}
// The same as a float: conversions run at an eighth of the rate of sums, comparisons at half of it.
template <class T> GRAFT_DEVICE f32 quantized_float(f32 x) {
  const f32 kept = fminf(fmaxf(x == x ? x : 0.0f, (f32)Limits<T>::lowest), (f32)Limits<T>::highest);
  return kept + 12582912.0f - 12582912.0f;
}
template <class T> GRAFT_DEVICE f32 quantized_float(f32 x, f32 zero) {
  const f32 low = (f32)Limits<T>::lowest - zero, high = (f32)Limits<T>::highest - zero;
  return fminf(fmaxf(x == x ? x : -zero, low), high) + 12582912.0f - 12582912.0f + zero;
}
// quantized<T> clamped to codes from low to high, as a word whose lowest byte counts. NaN is code 0 before that.
GRAFT_DEVICE u32 code_word(f32 x, f32 low, f32 high, f32 none) {
  const f32 kept = fminf(fmaxf(x == x ? x : none, low), high);
  return (u32)__float_as_int(kept + 12582912.0f);
}
template <class T> GRAFT_DEVICE u32 code_word(f32 x, f32 zero, f32 low, f32 high) {
  return code_word(x, low - zero, high - zero, -zero) + (u32)(int)zero;
}
// A scale that many values are quantized with: the codes of T of x / scale + zero. The scale is taken times a power of
// two, so that nothing is near the ends of the range of f32; a scale of 0, infinity or NaN is 1 times such a factor.
template <class T> struct Quantizer { f32 power, divisor, reciprocal, rest, low, high, none; };
template <class T> GRAFT_DEVICE Quantizer<T> quantizer(f32 scale, f32 zero) {
  const f32 large = 18446744073709551616.0f, size = fabsf(scale);  // 2^64
  const bool divides = size > 0 && size < 1.0f / 0.0f;
  const f32 to_middle = size < 1e-18f ? large : size > 1e18f ? 1.0f / large : 1.0f;
  const f32 power = !divides ? 1.0f / scale : scale < 0 ? -to_middle : to_middle;
  const f32 divisor = divides ? scale * power : 1.0f, reciprocal = 1.0f / divisor;
  const f32 rest = __fmaf_rn(-divisor, reciprocal, 1.0f) * reciprocal;
  const f32 low = ((f32)Limits<T>::lowest - zero) * divisor, high = ((f32)Limits<T>::highest - zero) * divisor;
  return {power, divisor, reciprocal, rest, low, high, -zero * divisor};
}
// rintf(x / scale) within the range of codes without their zero point, plus 1.5 * 2^23: the quotient by two numbers
// that stand for the reciprocal is within an ulp, one more step rounds it correctly. Code 0 stands for NaN.
template <class T> GRAFT_DEVICE f32 rounded_quotient(f32 x, const Quantizer<T>& by) {
  x *= by.power;
  if constexpr (Limits<T>::lowest < 0) x = x == x ? x : by.none;  // else it is the lowest
  x = fminf(fmaxf(x, by.low), by.high);
  const f32 near = __fmaf_rn(x, by.reciprocal, x * by.rest);
  return __fmaf_rn(__fmaf_rn(-near, by.divisor, x), by.reciprocal, near) + 12582912.0f;
}
template <class T> GRAFT_DEVICE T quantized(f32 x, const Quantizer<T>& by) {
  return (T)__float_as_int(rounded_quotient(x, by));
}
template <class T> GRAFT_DEVICE T quantized(f32 x, const Quantizer<T>& by, f32 zero) {
  return (T)(__float_as_int(rounded_quotient(x, by)) + (int)zero);
}
template <class T> GRAFT_DEVICE u32 code_word(f32 x, const Quantizer<T>& by) {
  return (u32)__float_as_int(rounded_quotient(x, by));
}
template <class T> GRAFT_DEVICE u32 code_word(f32 x, const Quantizer<T>& by, f32 zero) {
  return code_word(x, by) + (u32)(int)zero;
}
template <class T> GRAFT_DEVICE f32 quantized_float(f32 x, const Quantizer<T>& by) {
  return rounded_quotient(x, by) - 12582912.0f;
}
template <class T> GRAFT_DEVICE f32 quantized_float(f32 x, const Quantizer<T>& by, f32 zero) {
  return quantized_float(x, by) + zero;
}
// An integer of at most 16 bits as a float: it is added to the bits of 1.5 * 2^23.
template <class T> GRAFT_DEVICE f32 short_float(T x) {
  static_assert(sizeof(T) <= 2, "at most 16 bits");
  return __int_as_float(0x4b400000 + (int)x) - 12582912.0f;
}
// The reciprocal of a whole number of at most 2^20 as a sum: `high` lies below it, so that products of both with an
// infinity are infinite.
struct Reciprocal { f32 high, low; };
GRAFT_DEVICE Reciprocal reciprocal(f32 x) {
  f32 near;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(x));
  const f32 high = __fmaf_rn(__fmaf_rn(-x, near, 1.0f), near, near) * 0.99999988f;
  return {high, __fmaf_rn(-x, high, 1.0f) * high};
}
GRAFT_DEVICE f32 divide_for_half(f32 x, const Reciprocal& by) { return __fmaf_rn(x, by.high, x * by.low); }
// Halves two at a time.
GRAFT_DEVICE u32 least_halves(u32 a, u32 b) {
  u32 r;
  asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
GRAFT_DEVICE u32 greatest_halves(u32 a, u32 b) {
  u32 r;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
template <bool Greatest, int N> GRAFT_DEVICE void bound_halves(Pack<f16, N>& pack, f16 bound) {
  const u32 bounds = pair_of(bound, bound);
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    const u32 pair = pair_of(pack.at[i], pack.at[i + 1 < N ? i + 1 : i]);
    const u32 bounded = Greatest ? greatest_halves(pair, bounds) : least_halves(pair, bounds);
    pack.at[i] = half_of<f16>(bounded, 0);
    if (i + 1 < N) pack.at[i + 1] = half_of<f16>(bounded, 1);
  }
}
// Sixteen bytes from the address of any element: the aligned pieces that they lie in, of which those are read that hold
// something needed, one bit for each element.
struct Shifted { Pack<u32, 4> low, high; u32 skipped; };
template <bool Whole, class T> GRAFT_DEVICE void request_shifted(Shifted& piece, const T* from, u32 needed) {
  piece.low = {};
  if constexpr (Whole) {
    if (needed) piece.low = *(const Pack<u32, 4>*)from;
    return;
  }
  piece.skipped = (u32)(u64)from & 15u;
  const Pack<u32, 4>* const whole = (const Pack<u32, 4>*)((const char*)from - piece.skipped);
  const u32 below = (16u - piece.skipped) / sizeof(T);
  piece.high = {};
  if (needed & ((1u << below) - 1)) piece.low = whole[0];
  if (needed >> below) piece.high = whole[1];
}
template <class T, int N, bool Whole> GRAFT_DEVICE Pack<T, N> shifted(const Shifted& piece) {
  static_assert(sizeof(Pack<T, N>) == 16, "a piece is 16 bytes");
  if constexpr (Whole) return bit_cast<Pack<T, N>>(piece.low);
  u32 word[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) word[i] = piece.low.at[i], word[i + 4] = piece.high.at[i];
  const bool by_two = piece.skipped & 8, by_one = piece.skipped & 4;
#pragma unroll
  for (int i = 0; i < 6; ++i) word[i] = by_two ? word[i + 2] : word[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) word[i] = by_one ? word[i + 1] : word[i];
  if constexpr (sizeof(T) < 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) word[i] = __funnelshift_r(word[i], word[i + 1], piece.skipped % 4 * 8);
  }
  return bit_cast<Pack<T, N>>(Pack<u32, 4>{word[0], word[1], word[2], word[3]});
}
template <class T, int N> GRAFT_DEVICE void take_rest(Pack<T, N>& piece, const Pack<T, N>& rest, int from) {
#pragma unroll
  for (int i = 0; i < N; ++i) piece.at[i] = i < from ? piece.at[i] : rest.at[i];
}
// To global memory.
template <class T, int N> GRAFT_DEVICE void write_pack(T* to, const Pack<T, N>& pack, bool wide) {
  if (wide) {
    // As one word or vector of words: what was computed one by one would go one by one.
    if constexpr (sizeof(pack) == 16) {
      const uint4 w = bit_cast<uint4>(pack);
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                   ::"l"(to), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w) : "memory");
    } else if constexpr (sizeof(pack) == 8) {
      const uint2 w = bit_cast<uint2>(pack);
      asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(w.x), "r"(w.y) : "memory");
    } else if constexpr (sizeof(pack) == 4) {
      *(u32*)to = bit_cast<u32>(pack);
    } else {
      *(Pack<T, N>*)to = pack;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = pack.at[i];
}
// Packs of narrow elements, where they are kept: as words, in half as many registers.
template <int Bytes> struct WordsOf { typedef Pack<u32, Bytes / 4> Type; };
template <> struct WordsOf<2> { typedef u16 Type; };
template <> struct WordsOf<4> { typedef u32 Type; };
template <class P> using Words = typename WordsOf<sizeof(P)>::Type;
template <class P> GRAFT_DEVICE Words<P> words_of(const P& pack) { return bit_cast<Words<P>>(pack); }
// Four threads hold two neighbouring elements each of four rows of 8; each gets one whole row: thread i the row i.
// Bytes come as two words, of the rows 0 and 1, and 2 and 3.
GRAFT_DEVICE Pack<u32, 2> exchange_bytes_in_quad(u32 lower, u32 upper) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
  // Two rows each, of this thread and of the one two further on or back; then one row of all.
  const u32 other = __shfl_xor_sync(0xffffffffu, high ? lower : upper, 2);
  const u32 first = high ? other : lower, second = high ? upper : other;
  const u32 got = __shfl_xor_sync(0xffffffffu, __byte_perm(first, second, odd ? 0x5410u : 0x7632u), 1);
  return {__byte_perm(first, got, odd ? 0x3254u : 0x5410u), __byte_perm(second, got, odd ? 0x3276u : 0x7610u)};
}
template <class T> GRAFT_DEVICE Pack<T, 8> exchange_in_quad(const Pack<T, 2> (&rows)[4]) {
  static_assert(sizeof(T) == 2, "a pair is a word");
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
  const u32 r0 = bit_cast<u32>(rows[0]), r1 = bit_cast<u32>(rows[1]);
  const u32 r2 = bit_cast<u32>(rows[2]), r3 = bit_cast<u32>(rows[3]);
  // Neighbours change places in two rows each; then pairs of neighbours do so.
  const u32 a = __shfl_xor_sync(0xffffffffu, odd ? r0 : r1, 1), b = __shfl_xor_sync(0xffffffffu, odd ? r2 : r3, 1);
  const u32 x0 = odd ? a : r0, x1 = odd ? r1 : a, x2 = odd ? b : r2, x3 = odd ? r3 : b;
  const u32 c = __shfl_xor_sync(0xffffffffu, high ? x0 : x2, 2), d = __shfl_xor_sync(0xffffffffu, high ? x1 : x3, 2);
  const Pack<u32, 4> words = {high ? c : x0, high ? d : x1, high ? x2 : c, high ? x3 : d};
  return bit_cast<Pack<T, 8>>(words);
}
// The other way round: each thread has one row of 8, and gets two neighbouring elements of all four.
template <class T> GRAFT_DEVICE void spread_in_quad(const Pack<T, 8>& row, Pack<T, 2> (&pairs)[4]) {
  const Pack<Pack<T, 2>, 4> mine = bit_cast<Pack<Pack<T, 2>, 4>>(row);
  const Pack<Pack<T, 2>, 4> all = bit_cast<Pack<Pack<T, 2>, 4>>(exchange_in_quad(mine.at));
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = all.at[i];
}
// Bytes are computed as words of which the lowest byte counts: the pairs of two rows of 8 are one word.
GRAFT_DEVICE u32 join_bytes(const u32 (&pair)[2], const u32 (&next)[2]) {
  return __byte_perm(__byte_perm(pair[0], pair[1], 0x0040), __byte_perm(next[0], next[1], 0x0040), 0x5410);
}
// The same of floats of 8 bits.
template <class T> GRAFT_DEVICE u32 join_floats(const f32 (&pair)[2], const f32 (&next)[2]) {
  return __byte_perm(Float8<T>::pair(pair[0], pair[1]), Float8<T>::pair(next[0], next[1]), 0x5410);
}
template <class T> GRAFT_DEVICE T byte_at(u32 word, int i) { return bit_cast<T>((u8)(word >> 8 * i)); }
// A byte of a word as a float: it becomes the lowest of 2^23's.
template <class T> GRAFT_DEVICE f32 byte_float_at(u32 word, int i) {
  constexpr bool is_signed = Limits<T>::lowest < 0;
  const u32 from_lowest = is_signed ? word ^ 0x80808080u : word;
  const f32 shifted = __int_as_float((int)__byte_perm(from_lowest, 0x4b000000u, 0x7440u + i));
  return shifted - (is_signed ? 8388736.0f : 8388608.0f);
}
template <class T> GRAFT_DEVICE T zero_of() { return bit_cast<T>(Pack<u8, sizeof(T)>{}); }

// Elements low to high of a piece, to global memory in words where both halves are there.
template <class T, int N> GRAFT_DEVICE void write_part(T* to, const Pack<T, N>& pack, int low, int high) {
  if constexpr (sizeof(T) == 2) {
    const Pack<u32, N / 2> words = bit_cast<Pack<u32, N / 2>>(pack);
    u32 first = 0, last = 0;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      if (2 * i >= low && 2 * i + 1 < high) ((u32*)to)[i] = words.at[i];
      if (low == 2 * i + 1) first = words.at[i];
      if (high == 2 * i + 1) last = words.at[i];
    }
    if (low % 2 && low < high) to[low] = half_of<T>(first, 1);
    if (high % 2 && low < high) to[high - 1] = half_of<T>(last, 0);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i >= low && i < high) to[i] = pack.at[i];
    }
  }
}

GRAFT_DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Pending> GRAFT_DEVICE void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

template <int Bytes> GRAFT_DEVICE void copy_async(void* shared, const void* global, int bytes) {
  const u32 to = (u32)__cvta_generic_to_shared(shared);
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(Bytes), "r"(bytes)
                 : "memory");
  }
}
// A piece of 16 bytes into shared memory, `Bytes` at a time; what lies beyond `bytes` becomes zero.
template <int Bytes> GRAFT_DEVICE void copy_piece(void* shared, const void* global, int bytes) {
#pragma unroll
  for (int at = 0; at < 16; at += Bytes) {
    const int left = bytes - at;
    copy_async<Bytes>((u8*)shared + at, (const u8*)global + at, left < 0 ? 0 : left < Bytes ? left : Bytes);
  }
}
template <class T> GRAFT_DEVICE int bytes_left(i64 elements) {
  return elements <= 0 ? 0 : elements < 16 / (int)sizeof(T) ? (int)elements * (int)sizeof(T) : 16;
}

GRAFT_DEVICE void load_matrices(u32 (&r)[4], const void* row) {
  const u32 at = (u32)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
GRAFT_DEVICE void load_matrices_transposed(u32 (&r)[4], const void* row) {
  const u32 at = (u32)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
// Steps of 16x8 sums and 32 bytes of k: d += a * b.
GRAFT_DEVICE void multiply_step(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, f16, f16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GRAFT_DEVICE void multiply_step(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, bf16, bf16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GRAFT_DEVICE void multiply_step(i32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, i8, i8) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GRAFT_DEVICE void multiply_step(i32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, u8, i8) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GRAFT_DEVICE void multiply_step(i32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, i8, u8) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GRAFT_DEVICE void multiply_step(i32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, u8, u8) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GRAFT_DEVICE void multiply_step(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, e4m3, e4m3) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GRAFT_DEVICE void multiply_step(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, e4m3, e5m2) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GRAFT_DEVICE void multiply_step(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, e5m2, e4m3) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GRAFT_DEVICE void multiply_step(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, e5m2, e5m2) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Zeroes the elements of a register, of which k is the first, that are not below `valid`.
template <class T> GRAFT_DEVICE u32 keep_below(u32 elements, int k, int valid) {
  constexpr int kAll = 4 / sizeof(T);
  const int left = valid - k;
  return left >= kAll ? elements : left <= 0 ? 0u : elements & (1u << left * (int)sizeof(T) * 8) - 1;
}

// A of one 16-row step: [m][k] rows, or, of 16 bits, [k][m] when Transposed. `tile` points at (row 0, k 0) of the warp.
template <bool Transposed, int Leading, class T> GRAFT_DEVICE void load_a(u32 (&r)[4], const T* tile, int m, int k) {
  const int lane = threadIdx.x % 32, part = lane / 8, line = lane % 8;
  if constexpr (Transposed) load_matrices_transposed(r, tile + (k + part / 2 * 8 + line) * Leading + m + part % 2 * 8);
  else load_matrices(r, tile + (m + part % 2 * 8 + line) * Leading + k + part / 2 * (16 / (int)sizeof(T)));
}
// B of two steps of 8 columns side by side: of 16 bits [k][n] rows, or [n][k] when Transposed.
template <bool Transposed, int Leading, class T>
GRAFT_DEVICE void load_b(u32 (&r)[4], const T* tile, int k, int n) {
  const int lane = threadIdx.x % 32, part = lane / 8, line = lane % 8;
  constexpr int kPiece = 16 / sizeof(T);
  if constexpr (Transposed) load_matrices(r, tile + (n + part / 2 * 8 + line) * Leading + k + part % 2 * kPiece);
  else load_matrices_transposed(r, tile + (k + part % 2 * 8 + line) * Leading + n + part / 2 * 8);
}

// Where the A operand of a matrix product comes from: shared memory, or the registers of another fragment.
template <class T, bool Transposed, int Leading, int RowStep> struct SharedOperand {
  const T* tile;
  __device__ __forceinline__ void load(u32 (&r)[4], int m, int k) const {
    load_a<Transposed, Leading>(r, tile, m * RowStep, k);
  }
};
template <class T, int MTiles, int KTiles> struct FragmentOperand {
  const T (&from)[MTiles][KTiles][4];
  __device__ __forceinline__ void load(u32 (&r)[4], int m, int k) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const T* pair = &from[m][k / 8 + i / 2][i % 2 * 2];
      r[i] = (u32)pair[0].bits | (u32)pair[1].bits << 16;
    }
  }
};

// acc += A * B over K (a multiple of 32 bytes) on tensor cores; k at or beyond `valid` counts as zero when Masked.
template <class TA, int K, bool Masked, bool BTransposed, int BLeading, int MTiles, int NTiles, class A, class T,
          class C>
GRAFT_DEVICE void multiply_tiles(C (&acc)[MTiles][NTiles][4], const A& a, const T* b, i64 valid) {
  constexpr int kStep = 32 / sizeof(T), kWord = 4 / sizeof(T);
  static_assert(sizeof(T) == 2 || BTransposed, "elements of 8 bits lie with k innermost");
  const int first = threadIdx.x % 4 * kWord;
#pragma unroll
  for (int k = 0; k < K; k += kStep) {
    const int left = Masked ? (valid - k < kStep ? (int)(valid - k) : kStep) : kStep;
    u32 ra[MTiles][4];
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
      a.load(ra[m], m, k);
      if (Masked && left < kStep) {
#pragma unroll
        for (int i = 0; i < 4; ++i) ra[m][i] = keep_below<TA>(ra[m][i], first + i / 2 * (kStep / 2), left);
      }
    }
#pragma unroll
    for (int n = 0; n < NTiles; n += 2) {
      u32 rb[4];
      load_b<BTransposed, BLeading>(rb, b, k, n * 8);
      if (Masked && left < kStep) {
#pragma unroll
        for (int i = 0; i < 4; ++i) rb[i] = keep_below<T>(rb[i], first + i % 2 * (kStep / 2), left);
      }
#pragma unroll
      for (int m = 0; m < MTiles; ++m) {
        multiply_step(acc[m][n], ra[m], rb[0], rb[1], TA(), T());
        if (n + 1 < NTiles) multiply_step(acc[m][n + 1 < NTiles ? n + 1 : n], ra[m], rb[2], rb[3], TA(), T());
      }
    }
  }
}

GRAFT_DEVICE f32 multiply_add(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
GRAFT_DEVICE f64 multiply_add(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
GRAFT_DEVICE i32 multiply_add(i32 a, i32 b, i32 c) { return wrap_add(wrap_mul(a, b), c); }
GRAFT_DEVICE i64 multiply_add(i64 a, i64 b, i64 c) { return wrap_add(wrap_mul(a, b), c); }

// The same product on ordinary arithmetic units, in the order of k: strict f32, f64 and integers. Tile m of a warp lies
// RowStep rows after tile m - 1.
template <int K, bool Masked, bool ATransposed, int ALeading, int RowStep, bool BTransposed, int BLeading, int MTiles,
          int NTiles, class C, class TA, class TB>
GRAFT_DEVICE void multiply_plain(C (&acc)[MTiles][NTiles][4], const TA* a, const TB* b, i64 valid) {
  const int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
  const int end = Masked && valid < K ? (int)valid : K;
  constexpr bool kVectors = !Masked && K % 4 == 0 && ALeading % 4 == 0 && BLeading % 4 == 0;
  constexpr int kStep = kVectors && (!ATransposed || BTransposed) ? 4 : 1;
#pragma unroll 2
  for (int k = 0; k < end; k += kStep) {
    Pack<TA, kStep> va[MTiles][2];
    Pack<TB, kStep> vb[NTiles][2];
    if constexpr (!ATransposed) {
#pragma unroll
      for (int i = 0; i < MTiles * 2; ++i) {
        va[i / 2][i % 2] = *(const Pack<TA, kStep>*)&a[(i / 2 * RowStep + row + i % 2 * 8) * ALeading + k];
      }
    }
    if constexpr (BTransposed) {
#pragma unroll
      for (int i = 0; i < NTiles * 2; ++i) {
        vb[i / 2][i % 2] = *(const Pack<TB, kStep>*)&b[(i / 2 * 8 + column + i % 2) * BLeading + k];
      }
    }
#pragma unroll
    for (int u = 0; u < kStep; ++u) {
      C fa[MTiles][2];
#pragma unroll
      for (int i = 0; i < MTiles * 2; ++i) {
        const int r = i / 2 * RowStep + row + i % 2 * 8;
        if constexpr (ATransposed) fa[i / 2][i % 2] = convert<C>(a[(k + u) * ALeading + r]);
        else fa[i / 2][i % 2] = convert<C>(va[i / 2][i % 2].at[u]);
      }
#pragma unroll
      for (int n = 0; n < NTiles; ++n) {
        Pack<TB, 2> pair;
        const int c = n * 8 + column;
        if constexpr (BTransposed) pair = {vb[n][0].at[u], vb[n][1].at[u]};
        else if constexpr (BLeading % 2 == 0) pair = *(const Pack<TB, 2>*)&b[(k + u) * BLeading + c];
        else pair = {b[(k + u) * BLeading + c], b[(k + u) * BLeading + c + 1]};
#pragma unroll
        for (int m = 0; m < MTiles; ++m) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            acc[m][n][e] = multiply_add(fa[m][e / 2], convert<C>(pair.at[e % 2]), acc[m][n][e]);
          }
        }
      }
    }
  }
}

// --- warpgroups: wgmma reads whole tiles in shared memory, described by 64 bits ---
template <int Columns, class TA, class TB> struct WarpgroupProduct;
GRAFT_DEVICE void show_to_warpgroups() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
template <int Pending> GRAFT_DEVICE void wait_for_warpgroups() {
#if __CUDA_ARCH__ == 900
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
#endif
}
// Lines of Width bytes, swizzled; columns beyond a line follow in blocks of `Lines` lines. Lines run along k when
// LinesAreK, else along rows of A or columns of B. Tile m of a warpgroup lies RowStep rows after tile m - 1.
template <class T, bool LinesAreK, int Width, int Lines, int RowStep> struct SwizzledOperand {
  static constexpr bool kTransposed = LinesAreK;
  u64 first;
  __device__ __forceinline__ explicit SwizzledOperand(const void* tile) {
    const u32 at = (u32)__cvta_generic_to_shared(tile);
    constexpr u64 kLeading = LinesAreK ? Lines * Width : 16, kStride = 8 * Width;
    constexpr u64 kSwizzle = Width == 128 ? 1 : Width == 64 ? 2 : 3;
    // In a cluster an address also names its block.
    first = (u64)((at & 0x3ffffu) >> 4) | kLeading >> 4 << 16 | kStride >> 4 << 32 | kSwizzle << 62;
  }
  __device__ __forceinline__ u64 at(int m, int k) const {
    constexpr int kBytes = sizeof(T);
    const int rows = LinesAreK ? m * RowStep / (Width / kBytes) * (Lines * Width) : m * RowStep * Width;
    const int depth = LinesAreK ? k * Width : k * kBytes / Width * (Lines * Width) + k * kBytes % Width;
    return first + (u64)((rows + depth) >> 4);
  }
};
// Registers whose values are to be had only from here on.
template <int MTiles, int NTiles> GRAFT_DEVICE void hold(f32 (&acc)[MTiles][NTiles][4]) {
#pragma unroll
  for (int i = 0; i < MTiles * NTiles * 4; ++i) asm volatile("" : "+f"((&acc[0][0][0])[i]) :: "memory");
}
template <int MTiles, int NTiles> GRAFT_DEVICE void hold(i32 (&acc)[MTiles][NTiles][4]) {
#pragma unroll
  for (int i = 0; i < MTiles * NTiles * 4; ++i) asm volatile("" : "+r"((&acc[0][0][0])[i]) :: "memory");
}
// acc = A * B over K, or acc += A * B; started but not waited for. Each warpgroup makes 64 rows per tile of A.
template <class TA, class TB, int K, bool Masked, bool Accumulate, int MTiles, int NTiles, class A, class B, class C>
GRAFT_DEVICE void multiply_groups(C (&acc)[MTiles][NTiles][4], const A& a, const B& b, i64) {
#if __CUDA_ARCH__ == 900
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < K; k += 32 / sizeof(TB)) {
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
      WarpgroupProduct<NTiles * 8, TA, TB>::template apply<A::kTransposed, B::kTransposed>(
          acc[m], a.at(m, k), b.at(0, k), Accumulate || k > 0);
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// The same with A in registers.
template <class T, class, int K, bool Masked, bool Accumulate, int MTiles, int NTiles, int KTiles, class B>
GRAFT_DEVICE void multiply_groups(f32 (&acc)[MTiles][NTiles][4], const FragmentOperand<T, MTiles, KTiles>& a,
                                  const B& b, i64 valid) {
#if __CUDA_ARCH__ == 900
  u32 ra[K / 16][MTiles][4];
#pragma unroll
  for (int k = 0; k < K; k += 16) {
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
      a.load(ra[k / 16][m], m, k);
#pragma unroll
      for (int i = 0; Masked && i < 4; ++i) {
        ra[k / 16][m][i] = keep_below<T>(ra[k / 16][m][i], k + threadIdx.x % 4 * 2 + i / 2 * 8, (int)valid);
      }
    }
  }
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < K; k += 16) {
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
      WarpgroupProduct<NTiles * 8, T, T>::template apply<B::kTransposed>(acc[m], ra[k / 16][m], b.at(0, k),
                                                                         Accumulate || k > 0);
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
)cuda";

}  // namespace

std::string prelude_of_tiles() { return kTiles; }

}  // namespace graft::cuda
