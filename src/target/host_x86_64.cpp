// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include <fmt/format.h>

#include "target/cpus.h"
#include "target/tile_registers.h"

namespace graft {
namespace {

const Cpu& host_level() {
  __builtin_cpu_init();
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  return *find_cpu(v4 && v3 ? "x86-64-v4" : v3 ? "x86-64-v3" : v2 ? "x86-64-v2" : "x86-64");
}

}  // namespace

/// The level, and what the host has beyond it: dot products, bf16 and products of tiles.
void detect_host(Target& target) {
  const Cpu& level = host_level();
  target.features = level.features;
  target.vector_bits = level.vector_bits;
  target.vector_registers = level.vector_registers;
  target.masked_memory = level.masked_memory;
  const auto add = [&](bool has, std::string_view feature) {
    if (has) target.features += fmt::format(",{}", feature);
  };
  const bool v4 = level.vector_bits == 512;
  add(v4 && __builtin_cpu_supports("avx512vnni"), "+avx512vnni");
  add(v4 && __builtin_cpu_supports("avx512vbmi"), "+avx512vbmi");
  add(v4 && __builtin_cpu_supports("avx512bf16"), "+avx512bf16");
  add(v4 && may_use_tile_registers(), "+amx-tile,+amx-int8,+amx-bf16");
}

}  // namespace graft
#endif
