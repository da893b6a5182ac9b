// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/prelude.h"

namespace graft::cuda {
namespace {

/// Products of f32 tiles on tensor cores, which multiply 11 significant bits of each operand and add in f32: of rounded
/// operands, or of both parts of operands that are split.
constexpr char kTf32[] = R"cuda(
#if __CUDA_ARCH__ >= 800
GRAFT_DEVICE u32 tf32_bits(f32 x) { u32 r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }
GRAFT_DEVICE void multiply_16x8x8(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// acc += A * B over K (a multiple of 8), operands as multiply_plain has them.
template <int K, bool Masked, bool ATransposed, int ALeading, int RowStep, bool BTransposed, int BLeading, int MTiles,
          int NTiles>
GRAFT_DEVICE void multiply_tf32(f32 (&acc)[MTiles][NTiles][4], const f32* a, const f32* b, i64 valid) {
  const int lane = threadIdx.x % 32, outer = lane / 4, inner = lane % 4;
#pragma unroll
  for (int k = 0; k < K; k += 8) {
    const bool inside[2] = {!Masked || k + inner < valid, !Masked || k + inner + 4 < valid};
    u32 ra[MTiles][4];
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = m * RowStep + i % 2 * 8 + outer, depth = k + i / 2 * 4 + inner;
        ra[m][i] = inside[i / 2] ? tf32_bits(a[ATransposed ? depth * ALeading + row : row * ALeading + depth]) : 0u;
      }
    }
#pragma unroll
    for (int n = 0; n < NTiles; ++n) {
      u32 rb[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = n * 8 + outer, depth = k + i * 4 + inner;
        rb[i] = inside[i] ? tf32_bits(b[BTransposed ? column * BLeading + depth : depth * BLeading + column]) : 0u;
      }
#pragma unroll
      for (int m = 0; m < MTiles; ++m) multiply_16x8x8(acc[m][n], ra[m], rb[0], rb[1]);
    }
  }
}
// x * 2^24 as a sum of two tf32, to 2^-23 of its magnitude. Scaled so, the low part is none of those that are too small
// for a tf32: the smallest x has one. What overflows gives infinity or NaN.
GRAFT_DEVICE void split_tf32(u32 bits, u32& high, u32& low) {
  const f32 x = bit_cast<f32>(bits), scale = 16777216.0f;
  high = bit_cast<u32>(x * scale) + 0x1000u & 0xffffe000u;
  low = bit_cast<u32>(__fmaf_rn(x, scale, -bit_cast<f32>(high)));
}
// A of one 16-row step, and B of two steps of 8 columns, as load_a and load_b have them: words by matrices where k is
// innermost, else one by one.
template <bool Transposed, int Leading> GRAFT_DEVICE void load_words_a(u32 (&r)[4], const f32* tile, int m, int k) {
  if constexpr (!Transposed && Leading % 4 == 0) {
    load_a<false, Leading>(r, tile, m, k);
  } else {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = m + i % 2 * 8 + lane / 4, depth = k + i / 2 * 4 + lane % 4;
      r[i] = bit_cast<u32>(tile[Transposed ? depth * Leading + row : row * Leading + depth]);
    }
  }
}
template <bool Transposed, int Leading> GRAFT_DEVICE void load_words_b(u32 (&r)[4], const f32* tile, int k, int n) {
  if constexpr (Transposed && Leading % 4 == 0) {
    load_b<true, Leading>(r, tile, k, n);
  } else {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = n + i / 2 * 8 + lane / 4, depth = k + i % 2 * 4 + lane % 4;
      r[i] = bit_cast<u32>(tile[Transposed ? column * Leading + depth : depth * Leading + column]);
    }
  }
}
// The same product by multiply-adds, in the order of k: what multiply_plain does, in fewer registers.
template <int K, bool Masked, bool ATransposed, int ALeading, int RowStep, bool BTransposed, int BLeading, int MTiles,
          int NTiles>
GRAFT_DEVICE void multiply_in_order(f32 (&acc)[MTiles][NTiles][4], const f32* a, const f32* b, i64 valid) {
  const int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
  const int end = Masked && valid < K ? (int)valid : K;
#pragma unroll 1
  for (int k = 0; k < end; ++k) {
    f32 fa[MTiles][2];
#pragma unroll
    for (int i = 0; i < MTiles * 2; ++i) {
      const int r = i / 2 * RowStep + row + i % 2 * 8;
      fa[i / 2][i % 2] = a[ATransposed ? k * ALeading + r : r * ALeading + k];
    }
#pragma unroll
    for (int n = 0; n < NTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int c = n * 8 + column + e;
        const f32 fb = b[BTransposed ? c * BLeading + k : k * BLeading + c];
#pragma unroll
        for (int i = 0; i < MTiles * 2; ++i) {
          f32& sum = acc[i / 2][n][i % 2 * 2 + e];
          sum = __fmaf_rn(fa[i / 2][i % 2], fb, sum);
        }
      }
    }
  }
}
// acc += A * B over K (a multiple of 8), operands as multiply_plain has them, each split in two: low * high, high * low
// and high * high. Tensor cores truncate their sums, so those of 8 products are added up in f32.
template <int K, bool Masked, bool ATransposed, int ALeading, int RowStep, bool BTransposed, int BLeading, int MTiles,
          int NTiles>
GRAFT_DEVICE void multiply_split(f32 (&acc)[MTiles][NTiles][4], const f32* a, const f32* b, i64 valid, bool exact) {
  if (exact) {
    return multiply_in_order<K, Masked, ATransposed, ALeading, RowStep, BTransposed, BLeading, MTiles, NTiles>(
        acc, a, b, valid);
  }
  const f32 unscaled = 3.5527136788005009e-15f;  // 2^-48
  const int inner = threadIdx.x % 4;
#pragma unroll 1  // parts of one step take registers enough
  for (int k = 0; k < K; k += 8) {
    const bool inside[2] = {!Masked || k + inner < valid, !Masked || k + inner + 4 < valid};
    u32 high_a[MTiles][4], low_a[MTiles][4];
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
      u32 ra[4];
      load_words_a<ATransposed, ALeading>(ra, a, m * RowStep, k);
#pragma unroll
      for (int i = 0; i < 4; ++i) split_tf32(inside[i / 2] ? ra[i] : 0u, high_a[m][i], low_a[m][i]);
    }
#pragma unroll
    for (int n = 0; n < NTiles; n += 2) {
      u32 words[4], high_b[4], low_b[4];
      load_words_b<BTransposed, BLeading>(words, b, k, n * 8);
#pragma unroll
      for (int i = 0; i < 4; ++i) split_tf32(inside[i % 2] ? words[i] : 0u, high_b[i], low_b[i]);
      f32 sums[MTiles][2][4] = {};
#pragma unroll
      for (int part = 0; part < 3; ++part) {
        const u32 (&rb)[4] = part == 1 ? low_b : high_b;
#pragma unroll
        for (int m = 0; m < MTiles; ++m) {
          const u32 (&ra)[4] = part == 0 ? low_a[m] : high_a[m];
          multiply_16x8x8(sums[m][0], ra, rb[0], rb[1]);
          multiply_16x8x8(sums[m][1], ra, rb[2], rb[3]);
        }
      }
#pragma unroll
      for (int i = 0; i < MTiles * 8; ++i) {
        f32& sum = acc[i / 8][n + i / 4 % 2][i % 4];
        sum = __fmaf_rn(sums[i / 8][i / 4 % 2][i % 4], unscaled, sum);
      }
    }
  }
}
// The same by wgmma, of tiles in swizzled lines of Width bytes along k: A is split on its way to registers, both parts
// of B lie in shared memory. `row` is the warp's first one of A; sums of K products are added up in f32. Small products
// come first: what is cut off of a sum is then as small as they are.
template <int Width> GRAFT_DEVICE int swizzled_piece(int line, int piece) {
  constexpr int kPieces = Width / 16;
  return line * Width + (piece ^ line / (8 / kPieces) % kPieces) * 16;
}
template <int K, int Width, int RowStep, int MTiles, int NTiles, class B>
GRAFT_DEVICE void multiply_split_groups(f32 (&acc)[MTiles][NTiles][4], const u8* a, int row, const B& high_b,
                                        const B& low_b) {
#if __CUDA_ARCH__ == 900
  static_assert(K * 4 <= Width, "a line of a tile lies together");
  const f32 unscaled = 3.5527136788005009e-15f;  // 2^-48
  const int part = threadIdx.x % 32 / 8, line = row + part % 2 * 8 + threadIdx.x % 8;
#pragma unroll
  for (int m = 0; m < MTiles; ++m) {
    u32 high_a[K / 8][4], low_a[K / 8][4];
#pragma unroll
    for (int k = 0; k < K; k += 8) {
      u32 words[4];
      load_matrices(words, a + swizzled_piece<Width>(line + m * RowStep, k / 4 + part / 2));
#pragma unroll
      for (int i = 0; i < 4; ++i) split_tf32(words[i], high_a[k / 8][i], low_a[k / 8][i]);
    }
    f32 sums[1][NTiles][4];
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < K; k += 8) {
      WarpgroupProduct<NTiles * 8, f32, f32>::apply(sums[0], low_a[k / 8], high_b.at(0, k), k > 0);
      WarpgroupProduct<NTiles * 8, f32, f32>::apply(sums[0], high_a[k / 8], low_b.at(0, k), 1);
    }
#pragma unroll
    for (int k = 0; k < K; k += 8) {
      WarpgroupProduct<NTiles * 8, f32, f32>::apply(sums[0], high_a[k / 8], high_b.at(0, k), 1);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    wait_for_warpgroups<0>();
    hold(sums);
#pragma unroll
    for (int i = 0; i < NTiles * 4; ++i) {
      f32& sum = (&acc[m][0][0])[i];
      sum = __fmaf_rn((&sums[0][0][0])[i], unscaled, sum);
    }
  }
#endif
}
// Both by multiply-adds, of tiles of which none is split.
template <int K, int Width, int RowStep, int MTiles, int NTiles>
GRAFT_DEVICE void multiply_swizzled_in_order(f32 (&acc)[MTiles][NTiles][4], const u8* a, int row, const u8* b,
                                             int column) {
  row += threadIdx.x % 32 / 4, column += threadIdx.x % 4 * 2;
#pragma unroll 1
  for (int k = 0; k < K; ++k) {
    const auto word = [&](const u8* tile, int line) {
      return *(const f32*)(tile + swizzled_piece<Width>(line, k / 4) + k % 4 * 4);
    };
    f32 fa[MTiles][2];
#pragma unroll
    for (int i = 0; i < MTiles * 2; ++i) fa[i / 2][i % 2] = word(a, row + i / 2 * RowStep + i % 2 * 8);
#pragma unroll
    for (int j = 0; j < NTiles * 2; ++j) {
      const f32 fb = word(b, column + j / 2 * 8 + j % 2);
#pragma unroll
      for (int i = 0; i < MTiles * 2; ++i) {
        f32& sum = acc[i / 2][j / 2][i % 2 * 2 + j % 2];
        sum = __fmaf_rn(fa[i / 2][i % 2], fb, sum);
      }
    }
  }
}
// Splits a tile where it lies; low parts go to the same places of `low`. Warpgroups see both.
template <int Bytes, int Threads> GRAFT_DEVICE void split_tile(u8* tile, u8* low, int thread) {
#pragma unroll 4
  for (int at = thread * 16; at < Bytes; at += Threads * 16) {
    const Pack<u32, 4> words = *(const Pack<u32, 4>*)(tile + at);
    Pack<u32, 4> high_parts, low_parts;
#pragma unroll
    for (int i = 0; i < 4; ++i) split_tf32(words.at[i], high_parts.at[i], low_parts.at[i]);
    *(Pack<u32, 4>*)(tile + at) = high_parts, *(Pack<u32, 4>*)(low + at) = low_parts;
  }
  show_to_warpgroups();
}
// Whether a sum is infinite or NaN.
template <int MTiles, int NTiles> GRAFT_DEVICE bool has_special(const f32 (&acc)[MTiles][NTiles][4]) {
  bool special = false;
#pragma unroll
  for (int i = 0; i < MTiles * NTiles * 4; ++i) special |= !(fabsf((&acc[0][0][0])[i]) <= 3.4028235e38f);
  return special;
}
#endif
)cuda";

}  // namespace

std::string prelude_of_tf32() { return kTf32; }

}  // namespace graft::cuda
