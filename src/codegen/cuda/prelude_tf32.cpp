// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/prelude.h"

namespace graft::cuda {
namespace {

/// Products of f32 tiles on tensor cores, which multiply 11 significant bits of each operand and add in f32.
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
#endif
)cuda";

}  // namespace

std::string prelude_of_tf32() { return kTf32; }

}  // namespace graft::cuda
