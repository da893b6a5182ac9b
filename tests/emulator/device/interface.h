// SPDX-License-Identifier: Apache-2.0
// What compiled kernels ask of the emulated GPU that runs them. Compiled into each kernel, so it includes nothing.
#pragma once

#pragma GCC visibility push(default)
extern "C" {

struct graft_index {
  unsigned x, y, z;
};
/// Of the thread that runs now, and of its launch.
extern graft_index graft_thread_index, graft_block_index, graft_block_size, graft_grid_size;

/// Ends the launch with an error.
void graft_fail(const char* what);

// --- shared memory: an address of 32 bits names the block of a cluster (bits 24 and up) and a byte ---
void* graft_dynamic_shared();
bool graft_is_shared(const void* pointer);
unsigned graft_shared_address(const void* pointer);
/// Checks that so many bytes are there and lie at a multiple of their number.
void* graft_shared_pointer(unsigned address, unsigned bytes);
unsigned graft_shared_of_block(unsigned address, unsigned block);

// --- barriers ---
/// Waits until `threads` threads of the block are here; 0: all of them.
void graft_barrier_wait(unsigned barrier, unsigned threads);
void graft_barrier_arrive(unsigned barrier, unsigned threads);
/// Waits for all threads of the block; whether any of them gave true.
bool graft_barrier_any(bool value);
/// The current thread's warp has so many registers for each thread from now on; more when others of the block have
/// given up as many.
void graft_have_registers(unsigned count);
void graft_cluster_arrive();
void graft_cluster_wait();
void graft_mbarrier_init(unsigned address, unsigned arrivals);
void graft_mbarrier_arrive(unsigned address, unsigned bytes_to_come);
/// Whether the phase of that parity has ended; where it has not, others run before this returns.
bool graft_mbarrier_try(unsigned address, unsigned parity);

// --- warps ---
enum graft_shuffle_mode { graft_shuffle_from, graft_shuffle_up, graft_shuffle_down, graft_shuffle_xor };
unsigned graft_shuffle(unsigned mask, unsigned value, int lane, int width, graft_shuffle_mode mode);
unsigned graft_ballot(unsigned mask, bool value);
void graft_warp_barrier(unsigned mask);
void graft_load_matrices(unsigned* const* registers, int count, bool transposed, unsigned row);

enum graft_element { graft_f16, graft_bf16, graft_tf32, graft_s8, graft_u8, graft_e4m3, graft_e5m2 };
/// D += A * B of 16 x 8 x K elements; K is 16, of tf32 8, of 8 bits 32. Sums of 8-bit integers are integers.
void graft_multiply(graft_element a_type, graft_element b_type, void* const* d, const unsigned* const* a,
                    const unsigned* const* b);

// --- copies that a thread waits for ---
void graft_copy_start(unsigned to, const void* from, int bytes, int valid);
void graft_copy_commit();
void graft_copy_wait(int pending);
/// A box of the tensor that `map` describes, at `at`; the barrier learns when it is there.
void graft_copy_box(unsigned to, const void* map, unsigned barrier, int rank, const int* at);
/// So many bytes, a multiple of 16; the barrier learns when they are there.
void graft_copy_bytes(unsigned to, const void* from, unsigned bytes, unsigned barrier);

// --- products of warpgroups ---
struct graft_warpgroup_product {
  graft_element a_type, b_type;
  int columns, depth;
  void* d;            ///< columns / 2 of this thread's: floats, of integers integers
  unsigned a[4];      ///< its part of A where that is in registers
  bool a_in_registers;
  unsigned long long a_descriptor, b_descriptor;
  bool a_transposed, b_transposed, accumulates;
};
void graft_warpgroup_start(const graft_warpgroup_product* product);
void graft_warpgroup_commit();
void graft_warpgroup_wait(int pending);

// --- conversions ---
unsigned short graft_f16_bits(float value);
float graft_f16_value(unsigned short bits);
/// Of graft_e4m3 and graft_e5m2; what is too large becomes the largest.
unsigned char graft_float8_bits(graft_element type, float value);
float graft_float8_value(graft_element type, unsigned char bits);

// --- what a unit of kernels exports: graft_kernel_NAME ---
struct graft_parameters {
  int count;
  unsigned bytes[256];
};
struct graft_kernel {
  void (*entry)(void** arguments);
  unsigned most_threads, least_blocks, cluster;  ///< the first two are those of its launch bounds
  graft_parameters parameters;
};
}
#pragma GCC visibility pop
