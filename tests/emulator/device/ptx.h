// SPDX-License-Identifier: Apache-2.0
// Instructions of inline PTX as functions. translate.cpp writes `mma.sync.aligned.m16n8k16 {%0, %1}, ...` as
// `graft_ptx::mma_sync_aligned(Shape<16, 8, 16>(), list(o0, o1), ...)`: dots and colons become underscores, sizes of
// matrices a first argument, registers in braces a list, an address in brackets address(...). An instruction that is
// not here does not compile, and the error names it: give it a function, as the PTX manual defines it.
#pragma once

namespace graft_ptx {

using u16 = unsigned short;
using u32 = unsigned;
using u64 = unsigned long long;

template <class T, int N> struct List { T* at[N]; };
template <class T, class... Rest> inline List<T, 1 + sizeof...(Rest)> list(T& first, Rest&... rest) {
  return {{&first, &rest...}};
}
template <int M, int N, int K> struct Shape { static constexpr int columns = N, depth = K; };
/// [address], or [address, {coordinates}].
template <int N> struct Address { u64 value; int at[N > 0 ? N : 1]; };
template <class T> inline Address<0> address(T value) { return {(u64)value, {}}; }
template <class T, class C, int N> inline Address<N> address(T value, List<C, N> coordinates) {
  Address<N> place{(u64)value, {}};
  for (int i = 0; i < N; ++i) place.at[i] = (int)*coordinates.at[i];
  return place;
}
inline unsigned shared_of(const Address<0>& place) { return (unsigned)place.value; }
/// What `_` receives.
struct Nothing {};
using pred = bool;

// --- moves between registers, conversions, arithmetic ---
inline void setp_ne_b32(bool& to, u32 a, u32 b) { to = a != b; }
inline void selp_u32(u32& to, u32 a, u32 b, bool condition) { to = condition ? a : b; }
inline void cvt_rn_f16_f32(u16& to, float x) { to = graft_f16_bits(x); }
inline void cvt_f32_f16(float& to, u16 bits) { to = graft_f16_value(bits); }
inline void cvt_rn_bf16_f32(u16& to, float x) {
  const u32 bits = __float_as_uint(x);
  to = x != x ? 0x7fff : (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
// Integers saturate, and are 0 of NaN.
template <class T> inline T rounded_to(float x, float low, float high) {
  return x != x ? T(0) : (T)fminf(fmaxf(rintf(x), low), high);
}
inline void cvt_rni_sat_s8_f32(int& to, float x) { to = rounded_to<int>(x, -128.0f, 127.0f); }
inline void cvt_rni_sat_u8_f32(int& to, float x) { to = rounded_to<int>(x, 0.0f, 255.0f); }
inline void cvt_rn_satfinite_e4m3x2_f32(u16& to, float high, float low) {
  to = (u16)(graft_float8_bits(graft_e4m3, high) << 8 | graft_float8_bits(graft_e4m3, low));
}
inline void cvt_rn_satfinite_e5m2x2_f32(u16& to, float high, float low) {
  to = (u16)(graft_float8_bits(graft_e5m2, high) << 8 | graft_float8_bits(graft_e5m2, low));
}
inline u32 float8_halves(graft_element type, u16 pair) {
  return (u32)graft_f16_bits(graft_float8_value(type, (unsigned char)(pair >> 8))) << 16 |
         graft_f16_bits(graft_float8_value(type, (unsigned char)pair));
}
inline void cvt_rn_f16x2_e4m3x2(u32& to, u16 pair) { to = float8_halves(graft_e4m3, pair); }
inline void cvt_rn_f16x2_e5m2x2(u32& to, u16 pair) { to = float8_halves(graft_e5m2, pair); }
inline void cvt_rna_tf32_f32(u32& to, float x) {
  const u32 bits = __float_as_uint(x);
  to = fabsf(x) <= 3.4028235e38f ? (bits + 0x1000) & 0xffffe000u : bits;
}
inline float flushed(float x) { return fabsf(x) < 1.17549435e-38f ? x * 0.0f : x; }
inline void ex2_approx_ftz_f32(float& to, float x) { to = flushed(exp2f(flushed(x))); }
// -0 is less than 0.
inline void min_NaN_f32(float& to, float a, float b) {
  const float equal = __uint_as_float(__float_as_uint(a) | __float_as_uint(b));
  to = a != a || b != b ? __uint_as_float(0x7fffffff) : a == b ? equal : a < b ? a : b;
}
inline void max_NaN_f32(float& to, float a, float b) {
  const float equal = __uint_as_float(__float_as_uint(a) & __float_as_uint(b));
  to = a != a || b != b ? __uint_as_float(0x7fffffff) : a == b ? equal : a > b ? a : b;
}
// Halves in pairs, the lower one first. Of NaN and a number min gives the number.
template <class F> inline u32 of_halves(u32 a, u32 b, F function) {
  return (u32)function((u16)a, (u16)b) | (u32)function((u16)(a >> 16), (u16)(b >> 16)) << 16;
}
inline void max_NaN_f16x2(u32& to, u32 a, u32 b) {
  to = of_halves(a, b, [](u16 x, u16 y) {
    float greater;
    max_NaN_f32(greater, graft_f16_value(x), graft_f16_value(y));
    return greater != greater ? (u16)0x7fff : graft_f16_bits(greater);
  });
}
inline void min_NaN_f16x2(u32& to, u32 a, u32 b) {
  to = of_halves(a, b, [](u16 x, u16 y) {
    float less;
    min_NaN_f32(less, graft_f16_value(x), graft_f16_value(y));
    return less != less ? (u16)0x7fff : graft_f16_bits(less);
  });
}
inline void min_f16x2(u32& to, u32 a, u32 b) {
  to = of_halves(a, b, [](u16 x, u16 y) {
    const float less = fminf(graft_f16_value(x), graft_f16_value(y));
    return less != less ? (u16)0x7fff : graft_f16_bits(less);
  });
}
inline void sub_rn_f16x2(u32& to, u32 a, u32 b) {
  to = of_halves(a, b, [](u16 x, u16 y) { return graft_f16_bits(graft_f16_value(x) - graft_f16_value(y)); });
}
inline void mul_rn_f16x2(u32& to, u32 a, u32 b) {
  to = of_halves(a, b, [](u16 x, u16 y) { return graft_f16_bits(graft_f16_value(x) * graft_f16_value(y)); });
}
inline void fma_rn_f16x2(u32& to, u32 a, u32 b, u32 c) {
  const auto one = [](u16 x, u16 y, u16 z) {  // through f32, which rounds only sums of more than 24 bits
    return graft_f16_bits(fmaf(graft_f16_value(x), graft_f16_value(y), graft_f16_value(z)));
  };
  to = (u32)one((u16)a, (u16)b, (u16)c) | (u32)one((u16)(a >> 16), (u16)(b >> 16), (u16)(c >> 16)) << 16;
}
inline void set_geu_u32_f16x2(u32& to, u32 a, u32 b) {
  to = of_halves(a, b, [](u16 x, u16 y) { return (u16)(graft_f16_value(x) < graft_f16_value(y) ? 0 : 0xffff); });
}
inline void set_leu_u32_f16x2(u32& to, u32 a, u32 b) {
  to = of_halves(a, b, [](u16 x, u16 y) { return (u16)(graft_f16_value(x) > graft_f16_value(y) ? 0 : 0xffff); });
}

// Approximations: of the exact value, to the nearest.
inline void div_full_f32(float& to, float a, float b) { to = a / b; }
inline void sqrt_approx_f32(float& to, float x) { to = sqrtf(x); }
inline void sqrt_approx_ftz_f32(float& to, float x) { to = flushed(sqrtf(flushed(x))); }
inline void rsqrt_approx_f32(float& to, float x) { to = 1.0f / sqrtf(x); }
inline void rsqrt_approx_ftz_f32(float& to, float x) { to = flushed(1.0f / sqrtf(flushed(x))); }
inline void rcp_approx_ftz_f32(float& to, float x) { to = flushed(1.0f / flushed(x)); }
inline void lg2_approx_ftz_f32(float& to, float x) { to = log2f(flushed(x)); }
inline void tanh_approx_f32(float& to, float x) { to = tanhf(x); }

// --- memory ---
template <int N> inline void store_words(const Address<0>& to, List<const u32, N> words) {
  if (to.value % (4 * N) != 0) graft_fail("a misaligned store of a vector");
  for (int i = 0; i < N; ++i) ((u32*)to.value)[i] = *words.at[i];
}
template <int N> inline void store_global(const Address<0>& to, List<const u32, N> words) {
  if (graft_is_shared((const void*)to.value)) graft_fail("a store to global memory at an address of shared memory");
  store_words(to, words);
}
inline void st_global_v4_b32(const Address<0>& to, List<const u32, 4> words) { store_global(to, words); }
inline void st_global_b32(const Address<0>& to, u32 word) { store_global(to, list((const u32&)word)); }
inline void st_global_v2_b32(const Address<0>& to, List<const u32, 2> words) { store_global(to, words); }
inline void cp_async_cg_shared_global(const Address<0>& to, const Address<0>& from, int bytes, int valid) {
  if (bytes != 16) graft_fail("cp.async.cg copies 16 bytes");
  graft_copy_start(shared_of(to), (const void*)from.value, bytes, valid);
}
inline void cp_async_ca_shared_global(const Address<0>& to, const Address<0>& from, int bytes, int valid) {
  if (bytes != 4 && bytes != 8 && bytes != 16) graft_fail("cp.async.ca copies 4, 8 or 16 bytes");
  graft_copy_start(shared_of(to), (const void*)from.value, bytes, valid);
}
inline void cp_async_commit_group() { graft_copy_commit(); }
inline void cp_async_wait_group(int pending) { graft_copy_wait(pending); }

// --- barriers ---
inline void bar_sync(u32 barrier, u32 threads) { graft_barrier_wait(barrier, threads); }
inline void bar_arrive(u32 barrier, u32 threads) { graft_barrier_arrive(barrier, threads); }
inline void mbarrier_init_shared_cta_b64(const Address<0>& at, u32 arrivals) {
  graft_mbarrier_init(shared_of(at), arrivals);
}
inline void mbarrier_arrive_shared_cta_b64(Nothing, const Address<0>& at) { graft_mbarrier_arrive(shared_of(at), 0); }

// --- matrices of a warp ---
inline void ldmatrix_sync_aligned_m8n8_x4_shared_b16(List<u32, 4> to, const Address<0>& row) {
  graft_load_matrices(to.at, 4, false, shared_of(row));
}
inline void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(List<u32, 4> to, const Address<0>& row) {
  graft_load_matrices(to.at, 4, true, shared_of(row));
}
#define GRAFT_PRODUCT(name, a_type, b_type, Sum, M, N, K) \
  inline void name(Shape<M, N, K>, List<Sum, 4> d, List<const u32, 4> a, List<const u32, 2> b, List<Sum, 4> c) { \
    for (int i = 0; i < 4; ++i) if (c.at[i] != d.at[i]) graft_fail("a product that does not add to its own sum"); \
    graft_multiply(a_type, b_type, (void* const*)d.at, a.at, b.at); \
  }
GRAFT_PRODUCT(mma_sync_aligned_row_col_f32_f16_f16_f32, graft_f16, graft_f16, float, 16, 8, 16)
GRAFT_PRODUCT(mma_sync_aligned_row_col_f32_bf16_bf16_f32, graft_bf16, graft_bf16, float, 16, 8, 16)
GRAFT_PRODUCT(mma_sync_aligned_row_col_f32_tf32_tf32_f32, graft_tf32, graft_tf32, float, 16, 8, 8)
GRAFT_PRODUCT(mma_sync_aligned_row_col_s32_s8_s8_s32, graft_s8, graft_s8, int, 16, 8, 32)
GRAFT_PRODUCT(mma_sync_aligned_row_col_s32_s8_u8_s32, graft_s8, graft_u8, int, 16, 8, 32)
GRAFT_PRODUCT(mma_sync_aligned_row_col_s32_u8_s8_s32, graft_u8, graft_s8, int, 16, 8, 32)
GRAFT_PRODUCT(mma_sync_aligned_row_col_s32_u8_u8_s32, graft_u8, graft_u8, int, 16, 8, 32)
GRAFT_PRODUCT(mma_sync_aligned_row_col_f32_e4m3_e4m3_f32, graft_e4m3, graft_e4m3, float, 16, 8, 32)
GRAFT_PRODUCT(mma_sync_aligned_row_col_f32_e4m3_e5m2_f32, graft_e4m3, graft_e5m2, float, 16, 8, 32)
GRAFT_PRODUCT(mma_sync_aligned_row_col_f32_e5m2_e4m3_f32, graft_e5m2, graft_e4m3, float, 16, 8, 32)
GRAFT_PRODUCT(mma_sync_aligned_row_col_f32_e5m2_e5m2_f32, graft_e5m2, graft_e5m2, float, 16, 8, 32)
#undef GRAFT_PRODUCT

// An error of the compiler where code is made for a call, as the assembler gives it; unused functions may stand there.
void needs_sm_90() __attribute__((error("an instruction that only GPUs from sm_90 on have")));
// One order of events for all: nothing to fence.
inline void fence_proxy_async_shared_cta() {
  if (__CUDA_ARCH__ < 900) needs_sm_90();
}

#if __CUDA_ARCH__ >= 900
// Kernels follow one another here: what earlier ones wrote is there.
inline void griddepcontrol_launch_dependents() {}
inline void griddepcontrol_wait() {}
inline void prefetch_tensormap(const Address<0>&) {}
inline void fence_mbarrier_init_release_cluster() {}

inline void mbarrier_try_wait_parity_shared_cta_b64(bool& done, const Address<0>& at, u32 parity) {
  done = graft_mbarrier_try(shared_of(at), parity);
}
inline void mbarrier_arrive_expect_tx_shared_cta_b64(Nothing, const Address<0>& at, u32 bytes) {
  graft_mbarrier_arrive(shared_of(at), bytes);
}
#define GRAFT_BOX(N) \
  inline void cp_async_bulk_tensor_##N##d_shared_cluster_global_mbarrier_complete_tx_bytes( \
      const Address<0>& to, const Address<N>& from, const Address<0>& barrier) { \
    graft_copy_box(shared_of(to), (const void*)from.value, shared_of(barrier), N, from.at); \
  }
GRAFT_BOX(2) GRAFT_BOX(3) GRAFT_BOX(4) GRAFT_BOX(5)
#undef GRAFT_BOX

/// Bytes that lie together, into the memory of a block.
inline void cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes(
    const Address<0>& to, const Address<0>& from, u32 bytes, const Address<0>& barrier) {
  graft_copy_bytes(shared_of(to), (const void*)from.value, bytes, shared_of(barrier));
}
// Kernels use as many as the host's compiler wants; who has them is counted all the same.
inline void setmaxnreg_inc_sync_aligned_u32(int count) { graft_have_registers((unsigned)count); }
inline void setmaxnreg_dec_sync_aligned_u32(int count) { graft_have_registers((unsigned)count); }

inline void barrier_cluster_arrive_release() { graft_cluster_arrive(); }
inline void barrier_cluster_wait_acquire() { graft_cluster_wait(); }
inline void mapa_shared_cluster_u32(u32& to, u32 address, u32 block) { to = graft_shared_of_block(address, block); }
inline void ld_shared_cluster_v4_f32(List<float, 4> to, const Address<0>& from) {
  const float* values = (const float*)graft_shared_pointer(shared_of(from), 16);
  for (int i = 0; i < 4; ++i) *to.at[i] = values[i];
}
inline void st_shared_cluster_v4_f32(const Address<0>& to, List<const float, 4> from) {
  float* values = (float*)graft_shared_pointer(shared_of(to), 16);
  for (int i = 0; i < 4; ++i) values[i] = *from.at[i];
}
#endif

#if __CUDA_ARCH__ == 900
inline void wgmma_fence_sync_aligned() {}
inline void wgmma_commit_group_sync_aligned() { graft_warpgroup_commit(); }
inline void wgmma_wait_group_sync_aligned(int pending) { graft_warpgroup_wait(pending); }

template <int M, int N, int K, int R, class Sum>
inline graft_warpgroup_product warpgroup_product(graft_element a_type, graft_element b_type, Shape<M, N, K>,
                                                 List<Sum, R>& d, u64 b, bool accumulates) {
  static_assert(M == 64 && R == N / 2, "a product of 64 rows");
  for (int i = 1; i < R; ++i) if (d.at[i] != d.at[0] + i) graft_fail("registers of a product that do not follow");
  graft_warpgroup_product product = {};
  product.a_type = a_type, product.b_type = b_type;
  product.columns = N, product.depth = K, product.d = d.at[0];
  product.b_descriptor = b, product.accumulates = accumulates;
  return product;
}
#define GRAFT_PRODUCT(name, type) \
  template <class S, int R> \
  inline void name(S shape, List<float, R> d, u64 a, u64 b, bool accumulates, int a_scale, int b_scale, \
                   int a_transposed, int b_transposed) { \
    static_assert(S::depth == 16, "a product of 32 bytes of each row"); \
    if (a_scale != 1 || b_scale != 1) graft_fail("a product of negated operands: not emulated"); \
    graft_warpgroup_product product = warpgroup_product(type, type, shape, d, b, accumulates); \
    product.a_descriptor = a, product.a_transposed = a_transposed, product.b_transposed = b_transposed; \
    graft_warpgroup_start(&product); \
  } \
  template <class S, int R> \
  inline void name(S shape, List<float, R> d, List<const u32, 4> a, u64 b, bool accumulates, int a_scale, int b_scale, \
                   int b_transposed) { \
    static_assert(S::depth == 16, "a product of 32 bytes of each row"); \
    if (a_scale != 1 || b_scale != 1) graft_fail("a product of negated operands: not emulated"); \
    graft_warpgroup_product product = warpgroup_product(type, type, shape, d, b, accumulates); \
    product.a_in_registers = true, product.b_transposed = b_transposed; \
    for (int i = 0; i < 4; ++i) product.a[i] = *a.at[i]; \
    graft_warpgroup_start(&product); \
  }
GRAFT_PRODUCT(wgmma_mma_async_sync_aligned_f32_f16_f16, graft_f16)
GRAFT_PRODUCT(wgmma_mma_async_sync_aligned_f32_bf16_bf16, graft_bf16)
#undef GRAFT_PRODUCT
// tf32: both operands lie with k innermost; A in registers.
template <class S, int R>
inline void wgmma_mma_async_sync_aligned_f32_tf32_tf32(S shape, List<float, R> d, List<const u32, 4> a, u64 b,
                                                       bool accumulates, int a_scale, int b_scale) {
  static_assert(S::depth == 8, "a product of 32 bytes of each row");
  if (a_scale != 1 || b_scale != 1) graft_fail("a product of negated operands: not emulated");
  graft_warpgroup_product product = warpgroup_product(graft_tf32, graft_tf32, shape, d, b, accumulates);
  product.a_in_registers = true;
  for (int i = 0; i < 4; ++i) product.a[i] = *a.at[i];
  graft_warpgroup_start(&product);
}
// Integers: both operands lie with k innermost.
#define GRAFT_PRODUCT(name, a_type, b_type) \
  template <class S, int R> inline void name(S shape, List<int, R> d, u64 a, u64 b, bool accumulates) { \
    static_assert(S::depth == 32 && (S::columns % 16 == 0 || S::columns <= 24), "no such product of integers"); \
    graft_warpgroup_product product = warpgroup_product(a_type, b_type, shape, d, b, accumulates); \
    product.a_descriptor = a; \
    graft_warpgroup_start(&product); \
  }
GRAFT_PRODUCT(wgmma_mma_async_sync_aligned_s32_s8_s8, graft_s8, graft_s8)
GRAFT_PRODUCT(wgmma_mma_async_sync_aligned_s32_s8_u8, graft_s8, graft_u8)
GRAFT_PRODUCT(wgmma_mma_async_sync_aligned_s32_u8_s8, graft_u8, graft_s8)
GRAFT_PRODUCT(wgmma_mma_async_sync_aligned_s32_u8_u8, graft_u8, graft_u8)
#undef GRAFT_PRODUCT
// Floats of 8 bits: the same, with signs of the operands.
#define GRAFT_PRODUCT(name, a_type, b_type) \
  template <class S, int R> \
  inline void name(S shape, List<float, R> d, u64 a, u64 b, bool accumulates, int a_scale, int b_scale) { \
    static_assert(S::depth == 32, "a product of 32 bytes of each row"); \
    if (a_scale != 1 || b_scale != 1) graft_fail("a product of negated operands: not emulated"); \
    graft_warpgroup_product product = warpgroup_product(a_type, b_type, shape, d, b, accumulates); \
    product.a_descriptor = a; \
    graft_warpgroup_start(&product); \
  }
GRAFT_PRODUCT(wgmma_mma_async_sync_aligned_f32_e4m3_e4m3, graft_e4m3, graft_e4m3)
GRAFT_PRODUCT(wgmma_mma_async_sync_aligned_f32_e4m3_e5m2, graft_e4m3, graft_e5m2)
GRAFT_PRODUCT(wgmma_mma_async_sync_aligned_f32_e5m2_e4m3, graft_e5m2, graft_e4m3)
GRAFT_PRODUCT(wgmma_mma_async_sync_aligned_f32_e5m2_e5m2, graft_e5m2, graft_e5m2)
#undef GRAFT_PRODUCT
#endif

}  // namespace graft_ptx
