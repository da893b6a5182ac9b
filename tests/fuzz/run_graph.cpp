// SPDX-License-Identifier: Apache-2.0
// Texts of graphs, compiled and run by the interpreter and as kernels: results or an error within the limits, and no
// access beyond the caller's memory.
#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "shared/graph_texts.h"
#include "shared/run_engine.h"

namespace {

using namespace graft;

/// Where compiling begins, and in which precision: mostly as for a model in fp32.
struct Manner {
  Stage done = Stage::kImport;
  Precision precision = Precision::kFp32;
};

Manner manner_of(uint64_t seed) {
  constexpr Manner kManners[] = {{}, {}, {}, {}, {}, {Stage::kPasses}, {.precision = Precision::kFp16},
                                 {.precision = Precision::kBf16}};
  return kManners[seed % 8];
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  fuzz::prepare(count, arguments, 8192);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  std::string text(reinterpret_cast<const char*>(data), size);
  if (size < 16 || random.chance(0.4)) text = fuzz::draw_graph(random);
  text = fuzz::mutate_graph(std::move(text), random);
  size = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), size);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const uint64_t seed = hash64(std::as_bytes(std::span(data, size)));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto make = [&](CompileOptions options) {
    const Manner manner = manner_of(seed);
    options.precision = manner.precision;
    return compile_from(parse_graph(text), manner.done, options).engine;
  };
  fuzz::run_both_ways(make, seed);
  return 0;
}
