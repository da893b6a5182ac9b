// SPDX-License-Identifier: Apache-2.0
#include "target/cpus.h"

#include <elf.h>

namespace graft {
namespace {

constexpr Cpu kCpus[] = {
#define GRAFT_CPU(name, architecture, features, bits, registers, masked, l1, l2, l3) \
  {name, architecture, features, bits, registers, masked, l1, l2, l3},
#include "target/cpus.inc"
#undef GRAFT_CPU
};

constexpr Architecture kArchitectures[] = {
    {"x86_64", "x86-64", EM_X86_64, "", 0},
    {"aarch64", "generic", EM_AARCH64, "sve", 128},
};

#if defined(__x86_64__)
constexpr const Architecture& kHost = kArchitectures[0];
#elif defined(__aarch64__)
constexpr const Architecture& kHost = kArchitectures[1];
#else
#error "this architecture has no row in src/target/cpus.cpp"
#endif

}  // namespace

std::span<const Cpu> all_cpus() { return kCpus; }

const Cpu* find_cpu(std::string_view name) {
  for (const Cpu& cpu : kCpus) {
    if (name == "portable" ? cpu.architecture == kHost.name : cpu.name == name) return &cpu;
  }
  return nullptr;
}

const Architecture* find_architecture(const Target& target) {
  if (target.kind != TargetKind::kCpu) return nullptr;
  for (const Architecture& architecture : kArchitectures) {
    if (target.architecture.empty() || architecture.name == target.architecture) return &architecture;
  }
  return nullptr;
}

const Architecture& host_architecture() { return kHost; }

bool has_scalable_vectors(const Target& target) {
  const Architecture* architecture = find_architecture(target);
  return architecture && !architecture->scalable_feature.empty() &&
         has_feature(target, architecture->scalable_feature);
}

}  // namespace graft
