// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/prelude.h"

namespace graft::cuda {
namespace {

/// Products whose right operand is decoded in registers. Of 64 places along k the four lanes of a row have 16 each,
/// side by side; which of them one instruction multiplies is the same in both operands.
constexpr char kCoded[] = R"cuda(
// Codes j and j + 4 of eight that begin at eighth number `eighth` of the words, in the halves of a word.
template <int Bits> GRAFT_DEVICE u32 code_pair(const u32* words, int eighth, int j) {
  if constexpr (Bits == 4) {
    return words[eighth] >> 4 * j & 0x000f000fu;
  } else if constexpr (Bits == 8) {
    return (words[2 * eighth] >> 8 * j & 0xffu) | (words[2 * eighth + 1] >> 8 * j & 0xffu) << 16;
  } else {
    const u32 word = words[0] >> (16 * eighth + 2 * j);
    return (word & 3u) | (word << 8 & 0x00030000u);
  }
}
template <class T> struct IsF16 { static constexpr bool value = false; };
template <> struct IsF16<f16> { static constexpr bool value = true; };
GRAFT_DEVICE f32 value_of_code(u32 code) { return __uint_as_float(0x4b000000u | code) - 8388608.0f; }
template <class T> GRAFT_DEVICE f32 widened(T x) {
  if constexpr (sizeof(T) == 1) return value_of_code((u32)x);
  else if constexpr (sizeof(T) == 2) return IsF16<T>::value ? f16_value(x.bits) : bf16_value(x.bits);
  else return x;
}
// (code - zero) * scale, rounded to T: pairs 0 to 3 of eight codes.
template <class T, class S, class Z> struct Decoder {
  f32 scale, zero;
  __device__ __forceinline__ Decoder(S s, Z z) : scale(widened(s)), zero(widened(z)) {}
  __device__ __forceinline__ u32 one(u32 pair) const {
    const f32 low = (value_of_code(pair & 0xffffu) - zero) * scale, high = (value_of_code(pair >> 16) - zero) * scale;
    if constexpr (IsF16<T>::value) return (u32)f16_bits(low) | (u32)f16_bits(high) << 16;
    else return (u32)bf16_bits(low) | (u32)bf16_bits(high) << 16;
  }
  template <int Bits> __device__ __forceinline__ void eight(u32 (&pairs)[4], const u32* words, int eighth) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = one(code_pair<Bits>(words, eighth, j));
  }
};
// Whole zeros and scales of f16: 1024 + code and its difference to 1024 + zero are exact, and the product rounds once.
template <> struct Decoder<f16, f16, u8> {
  u32 scale, zero, low_zero;
  __device__ __forceinline__ Decoder(f16 s, u8 z)
      : scale(pair_of(s, s)), zero((0x6400u + z) * 0x10001u), low_zero((u32)f16_bits(-64.0f - (f32)z) * 0x10001u) {}
  __device__ __forceinline__ u32 scaled(u32 difference) const {
    u32 product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(difference), "r"(scale));
    return product;
  }
  __device__ __forceinline__ u32 one(u32 large) const {
    u32 difference;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(large), "r"(zero));
    return scaled(difference);
  }
  template <int Bits> __device__ __forceinline__ void eight(u32 (&pairs)[4], const u32* words, int eighth) const {
    if constexpr (Bits == 4) {
      // A code four bits further up counts sixteen times.
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const u32 word = words[eighth] >> 8 * i, sixteenth = 0x2c002c00u;
        u32 difference;
        pairs[2 * i] = one((word & 0x000f000fu) | 0x64006400u);
        asm("fma.rn.f16x2 %0, %1, %2, %3;"
            : "=r"(difference) : "r"((word & 0x00f000f0u) | 0x64006400u), "r"(sixteenth), "r"(low_zero));
        pairs[2 * i + 1] = scaled(difference);
      }
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) pairs[j] = one(code_pair<Bits>(words, eighth, j) | 0x64006400u);
    }
  }
};
// What a tile has of one element for each Block places; or one for all.
template <class T, int Block, int Leading> struct BlockValues {
  typedef T Type;
  const T* from;
  __device__ __forceinline__ T operator()(int column, int k) const { return from[column * Leading + k / Block]; }
};
template <class T, int Block> struct BlocksInMemory {
  typedef T Type;
  const T* from;
  i64 stride;  // from column to column
  __device__ __forceinline__ T operator()(int column, int k) const { return from[column * stride + k / Block]; }
};
template <class T> struct OneValue {
  typedef T Type;
  T value;
  __device__ __forceinline__ T operator()(int, int) const { return value; }
};

// N words of memory; byte by byte where they are not aligned.
template <int N, bool Wide> GRAFT_DEVICE Pack<u32, N> read_words(const void* from) {
  if constexpr (Wide) return *(const Pack<u32, N>*)from;
  Pack<u32, N> words = {};
#pragma unroll
  for (int i = 0; i < 4 * N; ++i) words.at[i / 4] |= (u32)((const u8*)from)[i] << i % 4 * 8;
  return words;
}
// Sixteen elements of a row in the order of codes: for each of four steps pairs of elements four apart.
template <bool Wide = true, class T> GRAFT_DEVICE void load_sixteen(u32 (&steps)[4][2], const T* row, bool inside) {
#pragma unroll
  for (int eighth = 0; eighth < 2; ++eighth) {
    Pack<u32, 4> x = {};
    if (inside) x = read_words<4, Wide>(row + eighth * 8);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      steps[2 * eighth + i][0] = __byte_perm(x.at[i], x.at[i + 2], 0x5410);
      steps[2 * eighth + i][1] = __byte_perm(x.at[i], x.at[i + 2], 0x7632);
    }
  }
}
// The weights of sixteen places, in the same order.
template <int Bits, class D> GRAFT_DEVICE void decode_words(u32 (&steps)[4][2], const u32* words, const D& decoder) {
#pragma unroll
  for (int eighth = 0; eighth < 2; ++eighth) {
    u32 pairs[4];
    decoder.template eight<Bits>(pairs, words, eighth);
#pragma unroll
    for (int i = 0; i < 4; ++i) steps[2 * eighth + i / 2][i % 2] = pairs[i];
  }
}
template <int Bits, int CodesLeading, class T, class Scales, class Zeros>
GRAFT_DEVICE void decode_sixteen(u32 (&steps)[4][2], const u8* codes, const Scales& scales, const Zeros& zeros,
                                 int column, int first, T) {
  const Pack<u32, Bits / 2> words = *(const Pack<u32, Bits / 2>*)(codes + column * CodesLeading + first * Bits / 8);
  const Decoder<T, typename Scales::Type, typename Zeros::Type> decoder(scales(column, first), zeros(column, first));
  decode_words<Bits>(steps, words.at, decoder);
}

// acc += A * B over K places from `begin` on. a: rows, `codes`: columns, both along k.
template <int K, int Bits, int ALeading, int RowStep, int CodesLeading, int MTiles, int NTiles, class T, class Scales,
          class Zeros>
GRAFT_DEVICE void multiply_coded(f32 (&acc)[MTiles][NTiles][4], const T* a, const u8* codes, const Scales& scales,
                                 const Zeros& zeros, int begin) {
  const int row = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
  constexpr int kAtOnce = MTiles * NTiles >= 4 ? 1 : 2;
#pragma unroll kAtOnce
  for (int k = 0; k < K; k += 64) {
    const int first = begin + k + quad * 16;
    u32 ra[MTiles][4][4];
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 steps[4][2];
        load_sixteen(steps, a + (m * RowStep + half * 8 + row) * ALeading + first, true);
#pragma unroll
        for (int step = 0; step < 4; ++step) ra[m][step][half] = steps[step][0], ra[m][step][2 + half] = steps[step][1];
      }
    }
#pragma unroll
    for (int n = 0; n < NTiles; ++n) {
      u32 rb[4][2];
      decode_sixteen<Bits, CodesLeading>(rb, codes, scales, zeros, n * 8 + row, first, T());
#pragma unroll
      for (int step = 0; step < 4; ++step) {
#pragma unroll
        for (int m = 0; m < MTiles; ++m) multiply_step(acc[m][n], ra[m][step], rb[step][0], rb[step][1], T(), T());
      }
    }
  }
}

// The same of at most 8 rows, turned: acc[p] has the columns 16 p to 16 p + 15 as its rows.
template <int K, int Bits, int Rows, int ALeading, int CodesLeading, int Pairs, class T, class Scales, class Zeros>
GRAFT_DEVICE void multiply_few(f32 (&acc)[Pairs][4], const T* a, const u8* codes, const Scales& scales,
                               const Zeros& zeros, int begin) {
  const int row = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
#pragma unroll 2
  for (int k = 0; k < K; k += 64) {
    const int first = begin + k + quad * 16;
    u32 rb[4][2];
    load_sixteen(rb, a + row * ALeading + first, row < Rows);
#pragma unroll
    for (int p = 0; p < Pairs; ++p) {
      u32 low[4][2], high[4][2];
      decode_sixteen<Bits, CodesLeading>(low, codes, scales, zeros, p * 16 + row, first, T());
      decode_sixteen<Bits, CodesLeading>(high, codes, scales, zeros, p * 16 + 8 + row, first, T());
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const u32 ra[4] = {low[step][0], high[step][0], low[step][1], high[step][1]};
        multiply_step(acc[p], ra, rb[step][0], rb[step][1], T(), T());
      }
    }
  }
}
// multiply_few of all places, where each lane reads what it decodes from memory: in units of 128 places, 32 of each of
// the four lanes of a column. A slice takes every Slices-th unit, and has those of the next turn on their way. `codes`:
// of the first of `columns` columns. `follow` waits for what writes x. Wide: codes and rows are aligned.
template <bool Wide, int Places, int Bits, int Block, int Rows, int Slices, int Pairs, class T, class Scales,
          class Zeros, class Follow>
GRAFT_DEVICE void stream_few(f32 (&acc)[Pairs][4], const T* x, i64 x_stride, const u8* codes, i64 codes_stride,
                             const Scales& scales, const Zeros& zeros, int slice, int column, int columns,
                             const Follow& follow) {
  constexpr int kUnits = Places / 128, kMost = Wide ? 16 / (Pairs * Bits) : 1, kBatch = kMost > 1 ? kMost : 1;
  constexpr int kTurn = Slices * kBatch;
  constexpr int kBlocks = Block % 32 == 0 ? 1 : 2;  // in what a lane has of a unit
  constexpr bool kWhole = kUnits % kTurn == 0;
  const int row = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
  struct Unit {
    Pack<u32, Bits> words[Pairs][2];
    typename Scales::Type scale[Pairs][2][kBlocks];
    typename Zeros::Type zero[Pairs][2][kBlocks];
  };
  Unit next[kBatch];
  const auto request = [&](int first) {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int unit = first + b * Slices;
      if (unit >= kUnits) continue;
#pragma unroll
      for (int i = 0; i < 2 * Pairs; ++i) {
        const int own = column + i * 8 + row, at = own < columns ? own : columns - 1;
        const u8* const from = codes + at * codes_stride + (unit * 16 + quad * 4) * Bits;
        next[b].words[i / 2][i % 2] = read_words<Bits, Wide>(from);
#pragma unroll
        for (int j = 0; j < kBlocks; ++j) {
          const int place = unit * 128 + quad * 32 + j * 16;
          next[b].scale[i / 2][i % 2][j] = scales(at, place), next[b].zero[i / 2][i % 2][j] = zeros(at, place);
        }
      }
    }
  };
  request(slice);
  follow();
#pragma unroll 1
  for (int first = slice; first < kUnits; first += kTurn) {
    Unit now[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) now[b] = next[b];
    request(first + kTurn);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int unit = first + b * Slices;
      if (!kWhole && unit >= kUnits) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 rb[4][2];
        load_sixteen<Wide>(rb, x + row * x_stride + unit * 128 + quad * 32 + half * 16, row < Rows);
#pragma unroll
        for (int p = 0; p < Pairs; ++p) {
          u32 steps[2][4][2];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int j = half % kBlocks;
            const Decoder<T, typename Scales::Type, typename Zeros::Type> decoder(now[b].scale[p][i][j],
                                                                                  now[b].zero[p][i][j]);
            decode_words<Bits>(steps[i], now[b].words[p][i].at + half * Bits / 2, decoder);
          }
#pragma unroll
          for (int step = 0; step < 4; ++step) {
            const u32 ra[4] = {steps[0][step][0], steps[1][step][0], steps[0][step][1], steps[1][step][1]};
            multiply_step(acc[p], ra, rb[step][0], rb[step][1], T(), T());
          }
        }
      }
    }
  }
}
// acc += what Slices groups of warps have as multiply_few leaves it, of columns from `column` on. `area`: 32 bytes for
// each of a slice's Columns.
template <int Slices, int Columns, int NTiles>
GRAFT_DEVICE void sum_few(f32 (&acc)[1][NTiles][4], const f32 (&sums)[NTiles / 2][4], void* area, int slice,
                          int column) {
  const int row = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
  f32* const parts = (f32*)area;
  __syncthreads();
#pragma unroll
  for (int p = 0; p < NTiles / 2; ++p) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int place = (slice * Columns + column + p * 16 + half * 8 + row) * 8 + quad * 2;
      *(Pack<f32, 2>*)(parts + place) = {sums[p][2 * half], sums[p][2 * half + 1]};
    }
  }
  __syncthreads();
#pragma unroll
  for (int n = 0; n < NTiles; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      f32 sum = parts[(column + n * 8 + quad * 2 + e) * 8 + row];
#pragma unroll
      for (int s = 1; s < Slices; ++s) sum += parts[(s * Columns + column + n * 8 + quad * 2 + e) * 8 + row];
      acc[0][n][e] += sum;
    }
  }
}
// acc += the sum of what Slices groups of a block's threads have, so many tiles at once: `area` has 16 bytes for each
// of them and each thread.
template <int Threads, int Slices, int Tiles, int AtOnce>
GRAFT_DEVICE void sum_slices(f32* acc, const f32* sums, void* area) {
  constexpr int kGroup = Threads / Slices;
  Pack<f32, 4>* const parts = (Pack<f32, 4>*)area;
#pragma unroll
  for (int first = 0; first < Tiles; first += AtOnce) {
    __syncthreads();
#pragma unroll
    for (int i = first; i < first + AtOnce && i < Tiles; ++i) {
      parts[(i - first) * Threads + threadIdx.x] = {sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]};
    }
    __syncthreads();
#pragma unroll
    for (int i = first; i < first + AtOnce && i < Tiles; ++i) {
      const Pack<f32, 4>* const own = parts + (i - first) * Threads + threadIdx.x % kGroup;
      Pack<f32, 4> sum = own[0];
#pragma unroll
      for (int s = 1; s < Slices; ++s) {
        const Pack<f32, 4> part = own[s * kGroup];
#pragma unroll
        for (int j = 0; j < 4; ++j) sum.at[j] += part.at[j];
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) acc[4 * i + j] += sum.at[j];
    }
  }
}
)cuda";

}  // namespace

std::string prelude_of_codes() { return kCoded; }

}  // namespace graft::cuda
