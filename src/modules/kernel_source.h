// SPDX-License-Identifier: Apache-2.0
// Where kernels come from: the cache, and on a miss the code generator module, opened then and not before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/build_options.h"
#include "target/target.h"

namespace graft {

/// Code for printed tile programs. Throws Error{device} when there is no code generator for the target, which is told
/// once in the log, and Error{internal} with the generator's message when it fails. Safe from any thread.
std::vector<std::byte> kernel_code(const std::string& programs, const Target& target);

/// Asked while kernels are compiled, at least once for each: gets the name of one that is finished, or nothing; true
/// stops. Called from the thread that compiles, or on its behalf, one call at a time; may throw.
using KernelProgress = std::function<bool(std::string_view finished)>;

/// Told of all code that is used, with its key in the kernel cache; from any thread, several at a time.
using KernelUse = std::function<void(const std::string& key, std::span<const std::byte> code)>;

/// kernel_code that asks `progress` unless the code comes from the cache, and tells `use`. Throws Error{cancelled} when
/// `progress` says stop, and what it throws; then nothing is in the cache.
std::vector<std::byte> interruptible_kernel_code(const std::string& programs, const Target& target,
                                                 const KernelProgress& progress, const KernelUse& use = {});

/// What made the code that kernel keys name, whether its module is there or not.
std::string generator_identity();

/// What the generator makes of the programs on the way to code, for inspection: LLVM IR or CUDA C++.
std::string kernel_source_text(const std::string& programs, const Target& target);
/// The same as the generator emits it, before LLVM optimises it.
std::string emitted_source_text(const std::string& programs, const Target& target);

/// What becomes of programs outside of Graft: texts to be compiled elsewhere, and code that is compiled already.
struct KernelTexts {
  std::string source;  ///< CUDA C++
  std::string launch;  ///< of each kernel a line, as parse_launch_line reads it
  std::string ptx, cubin;
};

/// The CUDA C++ of programs, and on request their PTX and cubin, for which NVRTC is needed. Throws as kernel_code does.
KernelTexts kernel_texts(const std::string& programs, const Target& target, bool with_ptx, bool with_cubin);

/// Times measured on this machine, kept beside the kernels. `machine`: what they depend on beside the target, such as a
/// GPU's name and the versions of its driver and libraries.
TimingCache timing_cache(const Target& target, const std::string& machine = {});

/// How often this process has asked a code generator for kernels.
uint64_t compilation_count();

/// What this process has asked for kernels.
struct KernelCounts {
  uint64_t compilations = 0, compile_nanoseconds = 0;  ///< by code generators; the time of all threads together
  uint64_t cache_hits = 0, cache_misses = 0;           ///< of the kernel cache, by groups of kernels
};
KernelCounts kernel_counts();

/// Empty when the code generator for the target is there and opens, else what is missing.
std::string why_no_generator(const Target& target);

/// The version text of the generator for the target; opens it. Empty when there is none.
std::string generator_version(const Target& target);

}  // namespace graft
