// SPDX-License-Identifier: Apache-2.0
#include "codegen/llvm/traits.h"

#include "target/cpus.h"

namespace graft::codegen {
namespace {

void fill_x86_64(const Target& target, Traits& traits) {
  const bool avx = has_feature(target, "avx"), avx2 = has_feature(target, "avx2"),
             avx512 = has_feature(target, "avx512f");
  traits.register_bits = avx512 ? 512 : avx ? 256 : 128;
  traits.permutes = avx2;
  traits.permutes_words = avx2 && has_feature(target, "avx512bw") && has_feature(target, "avx512vl");
  traits.permutes_bytes = avx512 && has_feature(target, "avx512vbmi");
  traits.fma = has_feature(target, "fma") || avx512;
  traits.bfloat = has_feature(target, "avx512bf16");
  traits.half = has_feature(target, "f16c") || avx512;
  traits.rounding = has_feature(target, "sse4.1") || avx || avx2 || avx512;
  traits.forgets_known_masks = traits.register_bits < 512;
  traits.vector_constraint = traits.register_bits == 512 && traits.registers > 16 ? "v" : "x";
  traits.kept_bits = traits.register_bits;
}

void fill_aarch64(const Target& target, Traits& traits) {
  constexpr int kNeonBits = 128;  // all that inline assembly takes of a vector whose length is known
  traits.register_bits = has_scalable_vectors(target) ? target.vector_bits : kNeonBits;
  traits.fma = traits.half = traits.rounding = true;
  traits.takes_elements = traits.register_bits == kNeonBits;
  traits.vector_constraint = "w";
  traits.kept_bits = kNeonBits;
}

struct Row {
  std::string_view architecture;
  void (*fill)(const Target& target, Traits& traits);
};

constexpr Row kRows[] = {{"x86_64", fill_x86_64}, {"aarch64", fill_aarch64}};

}  // namespace

Traits traits_of(const Target& target) {
  Traits traits;
  traits.vector_bits = target.vector_bits;
  traits.registers = target.vector_registers;
  traits.masked = target.masked_memory;
  const Architecture* architecture = find_architecture(target);
  for (const Row& row : kRows) {
    if (architecture && row.architecture == architecture->name) row.fill(target, traits);
  }
  return traits;
}

}  // namespace graft::codegen
