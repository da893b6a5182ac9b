// SPDX-License-Identifier: Apache-2.0
// CUDA C++ for a host compiler: the qualifiers, built-in variables and functions that generated kernels use. Included
// before a unit's text; without any other header, which would take longer than the kernels.
#pragma once

#include "interface.h"

#define __device__
#define __host__
#define __global__ __attribute__((noinline))
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define threadIdx graft_thread_index
#define blockIdx graft_block_index
#define blockDim graft_block_size
#define gridDim graft_grid_size

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };

extern "C" {
#define GRAFT_MATH(name) \
  double name(double) noexcept; \
  float name##f(float) noexcept;
GRAFT_MATH(fabs) GRAFT_MATH(sqrt) GRAFT_MATH(exp) GRAFT_MATH(exp2) GRAFT_MATH(log) GRAFT_MATH(log2) GRAFT_MATH(log1p)
GRAFT_MATH(expm1) GRAFT_MATH(erf) GRAFT_MATH(sin) GRAFT_MATH(cos) GRAFT_MATH(tan) GRAFT_MATH(asin) GRAFT_MATH(acos)
GRAFT_MATH(atan) GRAFT_MATH(sinh) GRAFT_MATH(cosh) GRAFT_MATH(tanh) GRAFT_MATH(asinh) GRAFT_MATH(acosh)
GRAFT_MATH(atanh) GRAFT_MATH(floor) GRAFT_MATH(ceil) GRAFT_MATH(trunc) GRAFT_MATH(rint)
#undef GRAFT_MATH
#define GRAFT_MATH(name) \
  double name(double, double) noexcept; \
  float name##f(float, float) noexcept;
GRAFT_MATH(fmin) GRAFT_MATH(fmax) GRAFT_MATH(fmod) GRAFT_MATH(pow) GRAFT_MATH(nextafter)
#undef GRAFT_MATH
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
}
inline float fmod(float a, float b) { return fmodf(a, b); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

template <class To, class From> inline To graft_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits of another number");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
inline float __int_as_float(int x) { return graft_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return graft_bits<float>(x); }
inline int __float_as_int(float x) { return graft_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return graft_bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return graft_bits<double>(x); }
inline long long __double_as_longlong(double x) { return graft_bits<long long>(x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __double2float_rz(double x) {
  const float near = (float)x;
  return fabs((double)near) > fabs(x) ? nextafterf(near, 0.0f) : near;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const unsigned long long bytes = (unsigned long long)high << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= (unsigned)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31));
}
inline unsigned long long __cvta_generic_to_shared(const void* pointer) { return graft_shared_address(pointer); }

inline void __syncthreads() { graft_barrier_wait(0, 0); }
inline int __syncthreads_or(int value) { return graft_barrier_any(value != 0); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { graft_warp_barrier(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline unsigned __ballot_sync(unsigned mask, bool value) { return graft_ballot(mask, value); }
inline bool __any_sync(unsigned mask, bool value) { return graft_ballot(mask, value) != 0; }
inline bool __all_sync(unsigned mask, bool value) { return graft_ballot(mask, !value) == 0; }

// A value of 4 or 8 bytes from another lane, word by word.
template <class T> inline T graft_shuffle_words(unsigned mask, T value, int lane, int width, graft_shuffle_mode mode) {
  static_assert(sizeof(T) % 4 == 0, "shuffles move words");
  unsigned words[sizeof(T) / 4];
  __builtin_memcpy(words, &value, sizeof value);
  for (unsigned& word : words) word = graft_shuffle(mask, word, lane, width, mode);
  __builtin_memcpy(&value, words, sizeof value);
  return value;
}
template <class T> inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  return graft_shuffle_words(mask, value, lane, width, graft_shuffle_from);
}
template <class T> inline T __shfl_up_sync(unsigned mask, T value, int distance, int width = 32) {
  return graft_shuffle_words(mask, value, distance, width, graft_shuffle_up);
}
template <class T> inline T __shfl_down_sync(unsigned mask, T value, int distance, int width = 32) {
  return graft_shuffle_words(mask, value, distance, width, graft_shuffle_down);
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32) {
  return graft_shuffle_words(mask, value, distance, width, graft_shuffle_xor);
}
template <class F> inline unsigned graft_reduce(unsigned mask, unsigned value, unsigned result, F combine) {
  for (int lane = 0; lane < 32; ++lane) {
    const unsigned theirs = __shfl_sync(mask, value, lane);
    if (mask >> lane & 1) result = combine(result, theirs);
  }
  return result;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  return graft_reduce(mask, value, 0, [](unsigned a, unsigned b) { return a + b; });
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return graft_reduce(mask, value, ~0u, [](unsigned a, unsigned b) { return b < a ? b : a; });
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return graft_reduce(mask, value, 0, [](unsigned a, unsigned b) { return a < b ? b : a; });
}

// Threads change only where they wait, so that what lies between is one step.
template <class T> inline T atomicAdd(T* address, T value) {
  const T before = *address;
  *address = before + value;
  return before;
}
template <class T> inline T atomicMax(T* address, T value) {
  const T before = *address;
  if (before < value) *address = value;
  return before;
}
template <class T> inline T atomicMin(T* address, T value) {
  const T before = *address;
  if (value < before) *address = value;
  return before;
}
template <class T> inline T atomicExch(T* address, T value) {
  const T before = *address;
  *address = value;
  return before;
}
template <class T> inline T atomicCAS(T* address, T expected, T value) {
  const T before = *address;
  if (before == expected) *address = value;
  return before;
}

#include "ptx.h"
