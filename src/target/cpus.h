// SPDX-License-Identifier: Apache-2.0
// Processor architectures and the processors that a target can name. Loaders and code generators read these rows and
// ask no other question about the architecture.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "target/target.h"

namespace graft {

/// A row of cpus.inc.
struct Cpu {
  std::string_view name, architecture, features;
  int vector_bits, vector_registers;
  bool masked_memory;
  int l1_kilobytes, l2_kilobytes, l3_kilobytes;
};

/// All rows; those of one architecture follow each other, the least first.
std::span<const Cpu> all_cpus();
/// The row of that name, or null. "portable" is the least of this process's architecture.
const Cpu* find_cpu(std::string_view name);

struct Architecture {
  std::string_view name;       ///< as targets and LLVM's triples spell it
  std::string_view processor;  ///< LLVM's name of the least processor
  uint16_t elf_machine;        ///< e_machine of its objects
  /// The feature whose vectors have a length that the machine chooses, and the unit of that length; empty and 0 of an
  /// architecture without one.
  std::string_view scalable_feature;
  int scalable_unit_bits;
};

/// The architecture of a CPU target, x86_64 where it names none; null when it is not known.
const Architecture* find_architecture(const Target& target);
/// Of this process.
const Architecture& host_architecture();
/// Whether the length of the target's vectors is the machine's choice, so that its kernels are made for a least length.
bool has_scalable_vectors(const Target& target);

/// All names that find_target takes: native; portable, the least processor of this process's architecture; all_cpus();
/// GPUs.
std::vector<std::string> target_names();
/// Whether the feature string names the feature, as `avx2` in "+avx,+avx2".
bool has_feature(const Target& target, std::string_view feature);

/// Fills in features, vectors and registers of the machine that this process runs on (host_ARCHITECTURE.cpp).
void detect_host(Target& target);

}  // namespace graft
