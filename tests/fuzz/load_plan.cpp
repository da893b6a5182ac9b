// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a plan: an error or an engine, never a crash. Checksums are repaired, so that the mutations reach
// what lies behind them; mutations start from a plan that uses every field.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "../plan/repair_checksums.h"
#include "../plan/sample_plan.h"
#include "base/error.h"
#include "base/random.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

void load(std::span<const std::byte> bytes) {
  const graft::AlignedCopy copy(bytes);
  try {
    const graft::Plan plan = graft::from_file(graft::parse_plan(copy.bytes(), copy.owner(), "fuzz"), "fuzz");
    // What is taken must also be written and taken again, the same.
    const std::vector<std::byte> first = graft::print_plan(graft::to_file(plan));
    const graft::AlignedCopy again(first);
    const graft::Plan second = graft::from_file(graft::parse_plan(again.bytes(), again.owner(), "fuzz"), "fuzz");
    if (graft::print_plan(graft::to_file(second)) != first) __builtin_trap();
    graft::CompileOptions options = graft::options_of(plan);
    options.interpret = true;  // up to the engine, without the code generator
    graft::build(plan, graft::host_cpu(2), options);
  } catch (const graft::Error& error) {
    if (error.kind() == graft::ErrorKind::kInternal) __builtin_trap();
  }
}

/// The sample as a file, perhaps with a text in it mutated as text.
std::vector<std::byte> changed_sample(graft::Random& random) {
  static const graft::PlanFile sample = [] {
    graft::CompileOptions options;
    options.threads = 2;
    options.tuning = graft::Tuning::kOff;
    return graft::to_file(graft::compile_from(graft::sample_graph(), graft::Stage::kImport, options).plan);
  }();
  graft::PlanFile plan = sample;
  std::string& text = random.chance(0.7) || plan.records.empty() ? plan.graph : plan.records[0];
  const size_t size = text.size();
  text.resize(size + 64);
  text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), size, text.size()));
  return graft::print_plan(plan);
}

}  // namespace

/// Keeps the frame of the file in order and mutates one section; now and then starts again from the sample, with its
/// graph or its record mutated as text.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  graft::Random random(seed);
  if (size < sizeof(graft::PlanHeader) || random.chance(0.1)) {
    const std::vector<std::byte> plan = changed_sample(random);
    size = std::min(plan.size(), max_size);
    std::memcpy(data, plan.data(), size);
  } else {
    constexpr size_t kTableEnd = sizeof(graft::PlanHeader) + 3 * sizeof(graft::Section);
    const size_t begin = random.chance(0.1) ? 0 : std::min(size, kTableEnd);
    const size_t first = begin + static_cast<size_t>(random.integer(0, static_cast<int64_t>(size - begin)));
    const size_t last = std::min(size, first + static_cast<size_t>(random.integer(1, 64)));
    if (last > first) LLVMFuzzerMutate(data + first, last - first, last - first);
  }
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), data, size);
  graft::repair_checksums(bytes);
  std::memcpy(data, bytes.data(), size);
  return size;
}

/// The sample is longer than what libFuzzer takes by default.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  static char length[] = "-max_len=16384";
  static std::vector<char*> extended(*arguments, *arguments + *count);
  extended.insert(extended.begin() + 1, length);
  extended.push_back(nullptr);
  *count += 1;
  *arguments = extended.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  load(std::as_bytes(std::span(data, size)));
  return 0;
}
