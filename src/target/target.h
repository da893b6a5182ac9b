// SPDX-License-Identifier: Apache-2.0
// What a compiler must know of a machine. A target is text, so a build may name a machine that is not here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace graft {

enum class TargetKind : uint8_t { kCpu, kCuda };

/// A machine description. Two machines with equal text run each other's kernels.
struct Target {
  TargetKind kind = TargetKind::kCpu;
  std::string name;          ///< "x86-64-v4", "neoverse-n1", "portable", "native", "sm_90a"
  std::string architecture;  ///< LLVM's triple architecture for CPUs: x86_64, aarch64; "sm_90a" for CUDA
  std::string features;      ///< LLVM feature string: "+avx512f,+fma,..."; CUDA: "+wgmma" or empty
  int vector_bits = 128;     ///< widest vector register to use
  int vector_registers = 16;
  bool masked_memory = false;                                            ///< cheap masked loads and stores
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 16 << 20;  ///< per core, per core, shared
  int threads = 1;                                                       ///< team size a plan is scheduled for
  int multiprocessors = 0;                                               ///< CUDA
  int64_t shared_bytes = 0;                                              ///< CUDA: shared memory per block
};

/// The machine this process runs on, with `threads` threads (0: as many as this process can use).
Target host_cpu(int threads = 0);
/// A built-in description by name, one of target_names() (cpus.h): native, portable, a row of cpus.inc, a GPU (sm_90a);
/// or the text of one. Throws invalid_argument listing the known names.
Target find_target(std::string_view name_or_text, int threads = 0);
std::string print(const Target& target);
Target parse_target(std::string_view text);
/// The number in the name of a GPU's architecture: 90 of sm_90a; 0 of anything else.
int gpu_generation(std::string_view architecture);
/// The same of a target; 0 of a CPU.
int gpu_generation(const Target& target);
/// Whether it has matrix units that multiply tf32: NVIDIA GPUs from sm_80 on.
bool multiplies_tf32(const Target& target);
/// Whether it converts f8e4m3fn and f8e5m2 by instructions: NVIDIA GPUs from sm_89 on.
bool converts_float8(const Target& target);
/// Empty when kernels built for `built` run on `machine`, else the reason.
std::string why_not_runnable(const Target& built, const Target& machine);

}  // namespace graft
