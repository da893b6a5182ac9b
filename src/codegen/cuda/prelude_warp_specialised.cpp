// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/prelude.h"

namespace graft::cuda {
namespace {

/// Warp-specialised blocks: mbarriers, setmaxnreg, TMA copies, sums over a cluster.
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

// --- warp specialisation: mbarriers between producer and consumer warps ---
struct alignas(64) TensorMap { u64 words[16]; };
GRAFT_DEVICE u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }
GRAFT_DEVICE void mbarrier_init(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
GRAFT_DEVICE void mbarrier_wait(u64* barrier, u32 parity) {
#if __CUDA_ARCH__ >= 900
  u32 done;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
  } while (!done);
#endif
}
GRAFT_DEVICE void mbarrier_arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Arrives, and lets the barrier wait for so many bytes of TMA copies.
GRAFT_DEVICE void mbarrier_arrive_expect_tx(u64* barrier, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}
// Barriers that were made are seen by all, by the copy engine too.
GRAFT_DEVICE void fence_mbarrier_init() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// A barrier of Threads threads of a block; number 0 is that of all.
template <int Threads> GRAFT_DEVICE void named_barrier_sync(u32 number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(Threads) : "memory");
}
// Warpgroups pass on registers: so many has each thread from here on.
template <int Registers> GRAFT_DEVICE void setmaxnreg_dec() {
#if __CUDA_ARCH__ == 900
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}
template <int Registers> GRAFT_DEVICE void setmaxnreg_inc() {
#if __CUDA_ARCH__ == 900
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}

// Neighbours in memory, a multiple of 16 bytes from and to such.
GRAFT_DEVICE void tma_copy_bulk(void* to, const void* from, u64* barrier, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
#endif
}
// The description of a tensor is on its way to the copy engine.
GRAFT_DEVICE void prefetch_tensor_map(const TensorMap& map) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}
// A box of a tensor, zero beyond its borders; its coordinates from the contiguous one outwards.
GRAFT_DEVICE void tma_copy_tile(void* to, const TensorMap& map, u64* barrier, int c0, int c1) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
               ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(c0), "r"(c1) : "memory");
#endif
}
GRAFT_DEVICE void tma_copy_tile(void* to, const TensorMap& map, u64* barrier, int c0, int c1, int c2) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
               "[%2];" ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
#endif
}
GRAFT_DEVICE void tma_copy_tile(void* to, const TensorMap& map, u64* barrier, int c0, int c1, int c2, int c3) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
               "%6}], [%2];" ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(c0), "r"(c1),
               "r"(c2), "r"(c3) : "memory");
#endif
}
GRAFT_DEVICE void tma_copy_tile(void* to, const TensorMap& map, u64* barrier, int c0, int c1, int c2, int c3, int c4) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
               "%6, %7}], [%2];" ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(c0), "r"(c1),
               "r"(c2), "r"(c3), "r"(c4) : "memory");
#endif
}

// --- clusters: blocks that share the sum of one tile ---
// What a thread of a cluster does before it arrives is seen by all after they have waited.
GRAFT_DEVICE void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
GRAFT_DEVICE void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
template <class C> GRAFT_DEVICE void write_to_block(void* shared, u32 block, const C* v) {
  static_assert(sizeof(C) == 4, "words");
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n.reg .u32 at;\nmapa.shared::cluster.u32 at, %4, %5;\n"
               "st.shared::cluster.v4.f32 [at], {%0, %1, %2, %3};\n}"
               ::"f"(bit_cast<f32>(v[0])), "f"(bit_cast<f32>(v[1])), "f"(bit_cast<f32>(v[2])), "f"(bit_cast<f32>(v[3])),
                 "r"(shared_address(shared)), "r"(block) : "memory");
#endif
}
// The sum over the blocks of a cluster, in the order of their numbers, in the first one; `area` is shared memory for
// the tiles of the others. All Threads threads of each block take part, and all of the cluster have arrived before.
template <int Threads, int Blocks, int Tiles, class C>
GRAFT_DEVICE void sum_over_cluster(C* acc, void* area, u32 block) {
  Pack<C, 4>* const mine = (Pack<C, 4>*)area + threadIdx.x;
  cluster_wait();
  if (block > 0) {
#pragma unroll
    for (int i = 0; i < Tiles; ++i) write_to_block(mine + ((block - 1) * Tiles + i) * Threads, 0, acc + 4 * i);
  }
  cluster_arrive();
  cluster_wait();
  if (block > 0) return;
#pragma unroll
  for (int b = 1; b < Blocks; ++b) {
#pragma unroll
    for (int i = 0; i < Tiles; ++i) {
      const Pack<C, 4> other = mine[((b - 1) * Tiles + i) * Threads];
#pragma unroll
      for (int j = 0; j < 4; ++j) acc[4 * i + j] += other.at[j];
    }
  }
}
)cuda";

}  // namespace

std::string prelude_of_warp_specialisation() { return kRoles; }

}  // namespace graft::cuda
