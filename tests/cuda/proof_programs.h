// SPDX-License-Identifier: Apache-2.0
// Tile programs as lowering writes them, for tests of the CUDA generator; tests/device/cuda_proof.py runs them.
#pragma once

#include <string_view>

namespace graft::cuda {

/// y = a b + bias on tensor cores, every size free.
inline constexpr std::string_view kMatmulF16 = R"(program matmul_f16 {
  threads 256
  sizes k, m, n
  global a: f16[m, k] strides [k, 1]
  global b: f16[k, n] strides [n, 1]
  global bias: f16[n] strides [1]
  global y: f16[m, n] strides [n, 1] written
  fragment acc: f32[128, 128] strides [128, 1]
  grid [g0 < floor_div(m + 127, 128), g1 < floor_div(n + 127, 128)]
  body {
    contract m [i0 < min(128, sub(size(m), mul(128, g0))) bound 128]
        n [i1 < min(128, sub(size(n), mul(128, g1))) bound 128]
        k [i2 < size(k)] {
      acc[i0, i1] = a[add(mul(128, g0), i0), i2] * b[i2, add(mul(128, g1), i1)]
    }
    map [i0 < min(128, sub(size(m), mul(128, g0))) bound 128,
          i1 < min(128, sub(size(n), mul(128, g1))) bound 128] {
      y[add(mul(128, g0), i0), add(mul(128, g1), i1)] =
          cast<f16>(add(acc[i0, i1], cast<f32>(bias[add(mul(128, g1), i1)])))
    }
  }
}
)";

/// The same with the k loop written out, as a schedule with stages does, and b stored [n, k].
inline constexpr std::string_view kMatmulTransposedBf16 = R"(program matmul_transposed_bf16 {
  threads 128
  sizes k, m, n
  global a: bf16[m, k] strides [k, 1]
  global b: bf16[n, k] strides [k, 1]
  global y: f32[m, n] strides [n, 1] written
  fragment acc: f32[64, 64] strides [64, 1]
  grid [g0 < floor_div(m + 63, 64), g1 < floor_div(n + 63, 64)]
  body {
    map [i0 < 64 bound 64, i1 < 64 bound 64] {
      acc[i0, i1] = 0:f32
    }
    for i9 < floor_div(add(size(k), 31), 32) stages 3 {
      contract m [i0 < min(64, sub(size(m), mul(64, g0))) bound 64]
          n [i1 < min(64, sub(size(n), mul(64, g1))) bound 64]
          k [i2 < min(32, sub(size(k), mul(32, i9))) bound 32] {
        acc[i0, i1] += a[add(mul(64, g0), i0), add(mul(32, i9), i2)] *
              b[add(mul(64, g1), i1), add(mul(32, i9), i2)]
      }
    }
    map [i0 < min(64, sub(size(m), mul(64, g0))) bound 64, i1 < min(64, sub(size(n), mul(64, g1))) bound 64] {
      y[add(mul(64, g0), i0), add(mul(64, g1), i1)] = max(acc[i0, i1], 0:f32)
    }
  }
}
)";

/// Strict f32 on ordinary units.
inline constexpr std::string_view kMatmulF32 = R"(program matmul_f32 {
  threads 256
  sizes k, m, n
  global a: f32[m, k] strides [k, 1]
  global b: f32[k, n] strides [n, 1]
  global y: f32[m, n] strides [n, 1] written
  fragment acc: f32[128, 64] strides [64, 1]
  grid [g0 < floor_div(m + 127, 128), g1 < floor_div(n + 63, 64)]
  body {
    contract m [i0 < min(128, sub(size(m), mul(128, g0))) bound 128]
        n [i1 < min(64, sub(size(n), mul(64, g1))) bound 64]
        k [i2 < size(k)] {
      acc[i0, i1] = a[add(mul(128, g0), i0), i2] * b[i2, add(mul(64, g1), i1)]
    }
    map [i0 < min(128, sub(size(m), mul(128, g0))) bound 128,
          i1 < min(64, sub(size(n), mul(64, g1))) bound 64] {
      y[add(mul(128, g0), i0), add(mul(64, g1), i1)] = acc[i0, i1]
    }
  }
}
)";

/// The same where tf32 may be used.
inline constexpr std::string_view kMatmulTf32 = R"(program matmul_tf32 {
  threads 256
  sizes k, m, n
  global a: f32[m, k] strides [k, 1]
  global b: f32[k, n] strides [n, 1]
  global y: f32[m, n] strides [n, 1] written
  fragment acc: f32[128, 64] strides [64, 1]
  grid [g0 < floor_div(m + 127, 128), g1 < floor_div(n + 63, 64)]
  body {
    contract m [i0 < min(128, sub(size(m), mul(128, g0))) bound 128]
        n [i1 < min(64, sub(size(n), mul(64, g1))) bound 64]
        k [i2 < size(k)] tf32 {
      acc[i0, i1] = a[add(mul(128, g0), i0), i2] * b[i2, add(mul(64, g1), i1)]
    }
    map [i0 < min(128, sub(size(m), mul(128, g0))) bound 128,
          i1 < min(64, sub(size(n), mul(64, g1))) bound 64] {
      y[add(mul(128, g0), i0), add(mul(64, g1), i1)] = acc[i0, i1]
    }
  }
}
)";

/// 3x3 convolution, NHWC, as a contraction with two m axes and three k axes.
inline constexpr std::string_view kConvolution = R"(program convolution_f16 {
  threads 128
  sizes channels, filters, height, width
  global x: f16[height + 2, width + 2, channels] strides [channels*width + 2*channels, channels, 1]
  global w: f16[3, 3, channels, filters] strides [3*channels*filters, channels*filters, filters, 1]
  global y: f16[height, width, filters] strides [width*filters, filters, 1] written
  fragment acc: f32[64, 64] strides [64, 1]
  grid [g0 < floor_div(height + 7, 8), g1 < floor_div(width + 7, 8), g2 < floor_div(filters + 63, 64)]
  body {
    contract m [i0 < min(8, sub(size(height), mul(8, g0))) bound 8, i1 < min(8, sub(size(width), mul(8, g1))) bound 8]
        n [i2 < min(64, sub(size(filters), mul(64, g2))) bound 64]
        k [i3 < 3 bound 3, i4 < 3 bound 3, i5 < size(channels)] {
      acc[add(mul(8, i0), i1), i2] =
          x[add(add(mul(8, g0), i0), i3), add(add(mul(8, g1), i1), i4), i5] * w[i3, i4, i5, add(mul(64, g2), i2)]
    }
    map [i0 < 64 bound 64, i1 < min(64, sub(size(filters), mul(64, g2))) bound 64] {
      let t0 = add(mul(8, g0), floor_div(i0, 8))
      let t1 = add(mul(8, g1), mod(i0, 8))
      where and(lt(t0, size(height)), lt(t1, size(width)))
      y[t0, t1, add(mul(64, g2), i1)] = cast<f16>(acc[i0, i1])
    }
  }
}
)";

/// Online-softmax attention, head size 64: scores never leave registers.
inline constexpr std::string_view kAttention = R"(program attention_f16 {
  threads 128
  sizes heads, keys, queries
  global q: f16[heads, queries, 64] strides [64*queries, 64, 1]
  global k_: f16[heads, keys, 64] strides [64*keys, 64, 1]
  global v: f16[heads, keys, 64] strides [64*keys, 64, 1]
  global o: f16[heads, queries, 64] strides [64*queries, 64, 1] written
  shared row_max: f32[64] strides [1]
  shared row_sum: f32[64] strides [1]
  shared tile_max: f32[64] strides [1]
  shared tile_sum: f32[64] strides [1]
  shared scale: f32[64] strides [1]
  fragment s: f32[64, 64] strides [64, 1]
  fragment p: f16[64, 64] strides [64, 1]
  fragment acc: f32[64, 64] strides [64, 1]
  grid [g0 < heads, g1 < floor_div(queries + 63, 64)]
  body {
    map [i0 < 64 bound 64] {
      row_max[i0] = -inf:f32
      row_sum[i0] = 0:f32
    }
    map [i0 < 64 bound 64, i1 < 64 bound 64] {
      acc[i0, i1] = 0:f32
    }
    for i9 < floor_div(add(size(keys), 63), 64) stages 2 {
      contract m [i0 < min(64, sub(size(queries), mul(64, g1))) bound 64]
          n [i1 < min(64, sub(size(keys), mul(64, i9))) bound 64]
          k [i2 < 64 bound 64] {
        s[i0, i1] = q[g0, add(mul(64, g1), i0), i2] * k_[g0, add(mul(64, i9), i1), i2]
      }
      map [i0 < 64 bound 64, i1 < 64 bound 64] {
        s[i0, i1] = select(lt(add(mul(64, i9), i1), size(keys)), mul(s[i0, i1], 0.125:f32), -inf:f32)
      }
      reduce [i0 < 64 bound 64] over [i1 < 64 bound 64] {
        state (a0: f32) (b0: f32)
        lift s[i0, i1]
        identity -inf:f32
        combine max(a0, b0)
        into tile_max[i0]
      }
      map [i0 < 64 bound 64] {
        tile_max[i0] = max(tile_max[i0], row_max[i0])
        scale[i0] = exp(sub(row_max[i0], tile_max[i0]))
        row_max[i0] = tile_max[i0]
      }
      map [i0 < 64 bound 64, i1 < 64 bound 64] {
        s[i0, i1] = exp(sub(s[i0, i1], row_max[i0]))
        p[i0, i1] = cast<f16>(s[i0, i1])
      }
      reduce [i0 < 64 bound 64] over [i1 < 64 bound 64] {
        state (a0: f32) (b0: f32)
        lift s[i0, i1]
        identity 0:f32
        combine add(a0, b0)
        into tile_sum[i0]
      }
      map [i0 < 64 bound 64] {
        row_sum[i0] = add(mul(row_sum[i0], scale[i0]), tile_sum[i0])
      }
      map [i0 < 64 bound 64, i1 < 64 bound 64] {
        acc[i0, i1] = mul(acc[i0, i1], scale[i0])
      }
      contract m [i0 < min(64, sub(size(queries), mul(64, g1))) bound 64]
          n [i1 < 64 bound 64]
          k [i2 < min(64, sub(size(keys), mul(64, i9))) bound 64] {
        acc[i0, i1] += p[i0, i2] * v[g0, add(mul(64, i9), i2), i1]
      }
    }
    map [i0 < min(64, sub(size(queries), mul(64, g1))) bound 64, i1 < 64 bound 64] {
      o[g0, add(mul(64, g1), i0), i1] = cast<f16>(div(acc[i0, i1], row_sum[i0]))
    }
  }
}
)";

/// Two products in f32: the first one's fragment, spread over two warps a row, is an operand of the second.
inline constexpr std::string_view kChainF32 = R"(program chain_f32 {
  threads 256
  sizes rows
  global a: f32[rows, 48] strides [48, 1]
  global b: f32[80, 48] strides [48, 1]
  global c: f32[80, 40] strides [40, 1]
  global y: f32[rows, 40] strides [40, 1] written
  shared largest: f32[32] strides [1]
  shared right: f32[80, 40] strides [40, 1]
  fragment first: f32[32, 80] strides [80, 1]
  fragment second: f32[32, 40] strides [40, 1]
  grid [g0 < floor_div(rows + 31, 32)]
  body {
    map [i0 < 80 bound 80, i1 < 40 bound 40] {
      right[i0, i1] = c[i0, i1]
    }
    contract m [i0 < min(32, sub(size(rows), mul(32, g0))) bound 32]
        n [i1 < 80 bound 80]
        k [i2 < 48 bound 48] {
      first[i0, i1] = a[add(mul(32, g0), i0), i2] * b[i1, i2]
    }
    reduce [i0 < 32 bound 32] over [i1 < 80 bound 80] {
      state (a0: f32) (b0: f32)
      lift first[i0, i1]
      identity -inf:f32
      combine max(a0, b0)
      into largest[i0]
    }
    map [i0 < 32 bound 32, i1 < 80 bound 80] {
      first[i0, i1] = sub(first[i0, i1], largest[i0])
    }
    contract m [i0 < 32 bound 32] n [i1 < 40 bound 40] k [i2 < 77 bound 80] {
      second[i0, i1] = first[i0, i2] * right[i2, i1]
    }
    map [i0 < min(32, sub(size(rows), mul(32, g0))) bound 32, i1 < 40 bound 40] {
      y[add(mul(32, g0), i0), i1] = second[i0, i1]
    }
  }
}
)";

/// Softmax of rows of any length, a block per row.
inline constexpr std::string_view kSoftmax = R"(program softmax_f32 {
  threads 256
  sizes length, rows
  global x: f32[rows, length] strides [length, 1]
  global y: f32[rows, length] strides [length, 1] written
  shared best: f32[1] strides [1]
  shared total: f32[1] strides [1]
  grid [g0 < rows]
  body {
    reduce [i0 < 1 bound 1] over [i1 < size(length)] {
      state (a0: f32) (b0: f32)
      lift x[g0, i1]
      identity -inf:f32
      combine max(a0, b0)
      into best[i0]
    }
    reduce [i0 < 1 bound 1] over [i1 < size(length)] {
      state (a0: f32) (b0: f32)
      lift exp(sub(x[g0, i1], best[0]))
      identity 0:f32
      combine add(a0, b0)
      into total[i0]
    }
    map [i1 < size(length)] {
      y[g0, i1] = div(exp(sub(x[g0, i1], best[0])), total[0])
    }
  }
}
)";

/// A fused chain with a lazy gather, in 16-byte pieces.
inline constexpr std::string_view kElementwise = R"(program elementwise_f16 {
  threads 256
  sizes count
  global x: f16[count] strides [1]
  global w: f32[count] strides [1]
  global table: f32[16] strides [1]
  global index: i64[count] strides [1]
  global y: f16[count] strides [1] written
  grid [g0 < floor_div(count + 4095, 4096)]
  body {
    map [i0 < min(4096, sub(size(count), mul(4096, g0))) bound 4096] {
      let t0 = add(mul(4096, g0), i0)
      let t1 = cast<f32>(x[t0])
      y[t0] =
          cast<f16>(add(mul(tanh(t1), w[t0]), select(lt(index[t0], 0), 0.5:f32, table[check_index(index[t0], 16)])))
    }
  }
}
)";

/// The statements that the others lack: argmax (an ordered monoid), sorting, atomics, ordered maps, branches.
inline constexpr std::string_view kMixed = R"(program mixed {
  threads 128
  sizes length, rows
  global x: f32[rows, length] strides [length, 1]
  global best: f32[rows] strides [1] written
  global where_: i64[rows] strides [1] written
  global sorted: f32[rows, length] strides [length, 1] written
  global rank: i64[rows, length] strides [length, 1] written
  global histogram: i32[4] strides [1] written
  global largest: f32[1] strides [1] written
  global prefix: f32[rows, length] strides [length, 1] written
  shared running: f32[1] strides [1]
  grid [g0 < rows]
  body {
    reduce [] over [i1 < size(length)] {
      state (a0: f32, a1: i64) (b0: f32, b1: i64)
      lift x[g0, i1], i1
      identity -inf:f32, -1
      combine select(lt(a0, b0), b0, a0), select(lt(a0, b0), b1, a1)
      into best[g0], where_[g0]
    }
    map [i1 < size(length)] {
      sorted[g0, i1] = x[g0, i1]
      rank[g0, i1] = i1
    }
    sort sorted[g0, 0] positions rank[g0, 0] length size(length) descending
    map [i1 < size(length)] {
      histogram[min(3, max(0, cast<i64>(floor(x[g0, i1]))))] += 1:i32
      largest[0] max= x[g0, i1]
    }
    map [] {
      running[0] = 0:f32
    }
    if lt(0, size(length)) {
      map [i1 < size(length)] ordered {
        running[0] += x[g0, i1]
        prefix[g0, i1] = running[0]
      }
    }
  }
}
)";

inline constexpr std::string_view kProofPrograms[] =
          {kMatmulF16, kMatmulTransposedBf16, kMatmulF32, kMatmulTf32, kConvolution,
                                                      kAttention, kChainF32, kSoftmax, kElementwise, kMixed};

}  // namespace graft::cuda
