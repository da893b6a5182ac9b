// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/prelude.h"

namespace graft::cuda {
namespace {

/// Blocks whose warps have roles: barriers in shared memory, copies of boxes of tensors, sums over a cluster.
constexpr char kRoles[] = R"cuda(
// Row and column of a point where Group rows go with each column before the next rows; the number of the whole
// rows-by-columns area it lies in.
template <int Group> GRAFT_DEVICE u32 in_groups(u32 point, u32 rows, u32 columns, int& row, int& column) {
  const u32 area = point / (rows * columns), within = point - area * (rows * columns);
  const u32 first = within / (Group * columns) * Group, rest = within - first * columns;
  const u32 left = rows - first < Group ? rows - first : Group;
  column = rest / left, row = first + rest - rest / left * left;
  return area;
}

// --- roles: barriers in shared memory between warps that copy and warps that multiply ---
struct alignas(64) TensorMap { u64 words[16]; };
GRAFT_DEVICE u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }
GRAFT_DEVICE void barrier_init(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
GRAFT_DEVICE void barrier_wait(u64* barrier, u32 parity) {
#if __CUDA_ARCH__ >= 900
  u32 done;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
  } while (!done);
#endif
}
GRAFT_DEVICE void barrier_arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Arrives, and lets the barrier wait for so many bytes of copies of boxes.
GRAFT_DEVICE void barrier_expect(u64* barrier, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}
// Barriers that were made are seen by all, by the copy engine too.
GRAFT_DEVICE void barriers_made() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// A barrier of the first Threads threads of a block.
template <int Threads> GRAFT_DEVICE void barrier_of_threads() {
  asm volatile("bar.sync 1, %0;" ::"n"(Threads) : "memory");
}

// Neighbours in memory, a multiple of 16 bytes from and to such.
GRAFT_DEVICE void copy_run(void* to, const void* from, u64* barrier, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
#endif
}
// A box of a tensor, zero beyond its borders; its coordinates from the contiguous one outwards.
GRAFT_DEVICE void copy_box(void* to, const TensorMap& map, u64* barrier, int c0, int c1) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
               ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(c0), "r"(c1) : "memory");
#endif
}
GRAFT_DEVICE void copy_box(void* to, const TensorMap& map, u64* barrier, int c0, int c1, int c2) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
               "[%2];" ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
#endif
}
GRAFT_DEVICE void copy_box(void* to, const TensorMap& map, u64* barrier, int c0, int c1, int c2, int c3) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
               "%6}], [%2];" ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(c0), "r"(c1),
               "r"(c2), "r"(c3) : "memory");
#endif
}
GRAFT_DEVICE void copy_box(void* to, const TensorMap& map, u64* barrier, int c0, int c1, int c2, int c3, int c4) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
               "%6, %7}], [%2];" ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(c0), "r"(c1),
               "r"(c2), "r"(c3), "r"(c4) : "memory");
#endif
}

// --- clusters: blocks that share the sum of one tile ---
GRAFT_DEVICE void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#endif
}
GRAFT_DEVICE Pack<f32, 4> read_of_block(const void* shared, u32 block) {
  Pack<f32, 4> v = {};
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n.reg .u32 at;\nmapa.shared::cluster.u32 at, %4, %5;\n"
               "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [at];\n}"
               : "=f"(v.at[0]), "=f"(v.at[1]), "=f"(v.at[2]), "=f"(v.at[3]) : "r"(shared_address(shared)), "r"(block)
               : "memory");
#endif
  return v;
}
// The sum over the blocks of a cluster, in the order of their numbers, in the first one; `area` is shared memory for
// the tile. All Threads threads of each block take part.
template <int Threads, int Blocks, int Tiles> GRAFT_DEVICE void sum_over_cluster(f32* acc, void* area, u32 block) {
  Pack<f32, 4>* const mine = (Pack<f32, 4>*)area + threadIdx.x;
  if (block > 0) {
#pragma unroll
    for (int i = 0; i < Tiles; ++i) mine[i * Threads] = {acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]};
  }
  cluster_barrier();
  if (block == 0) {
#pragma unroll 1
    for (int b = 1; b < Blocks; ++b) {
#pragma unroll
      for (int i = 0; i < Tiles; ++i) {
        const Pack<f32, 4> other = read_of_block(mine + i * Threads, b);
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[4 * i + j] += other.at[j];
      }
    }
  }
  cluster_barrier();
}
)cuda";

}  // namespace

std::string prelude_of_roles() { return kRoles; }

}  // namespace graft::cuda
