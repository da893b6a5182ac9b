// SPDX-License-Identifier: Apache-2.0
// Forged plans, loaded and run by the interpreter and as kernels: their checksums hold, and their graph, constants,
// options and records are changed one by one.
#include <algorithm>
#include <cstring>

#include "../plan/repair_checksums.h"
#include "../plan/sample_plan.h"
#include "base/error.h"
#include "base/hash.h"
#include "shared/graph_texts.h"
#include "shared/mutate_text.h"
#include "shared/run_engine.h"
#include "support/text_network.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace graft;

constexpr int kLongestInput = 1 << 16;

/// Plans of small networks, with packed weights and a record.
const std::vector<PlanFile>& seeds() {
  static const auto* const made = [] {
    auto* plans = new std::vector<PlanFile>{sample_plan()};
    CompileOptions options;
    options.threads = 2;
    options.tuning = Tuning::kOff;
    for (const graft_test::TextNetwork& network : graft_test::kTextNetworks) {
      plans->push_back(to_file(compile_from(parse_graph(network.text), Stage::kImport, options).plan));
    }
    return plans;
  }();
  return *made;
}

template <class Container>
auto& draw(Container& items, Random& random) {
  return items[static_cast<size_t>(random.integer(0, std::ssize(items) - 1))];
}

/// Extents with one changed, added or taken away.
void forge_extents(std::vector<int64_t>& extents, Random& random) {
  constexpr int64_t kOdd[] = {0, 1, -1, 2, 3, 1 << 20, INT64_MAX, INT64_MIN};
  const int64_t kind = random.integer(0, 4);
  const int64_t fresh = random.chance(0.5) ? random.integer(0, 48) : kOdd[random.integer(0, 7)];
  if (kind == 0 || extents.empty()) {
    extents.push_back(fresh);
  } else if (kind == 1) {
    extents.pop_back();
  } else if (kind == 2) {
    std::swap(extents.front(), extents.back());
  } else {
    draw(extents, random) = fresh;
  }
}

void forge_constant(PlanFile& plan, Random& random) {
  if (plan.constants.empty()) return;
  StoredConstant& constant = draw(plan.constants, random);
  switch (random.integer(0, 7)) {
    case 0:
      constant.name = draw(plan.constants, random).name;
      break;
    case 1:
      constant.type = draw(plan.constants, random).type;
      if (random.chance(0.5)) constant.type = static_cast<DType>(random.integer(1, 24));
      break;
    case 2:
      forge_extents(constant.shape, random);
      break;
    case 3:
      constant.layout = fuzz::mutate_text(constant.layout, draw(plan.constants, random).layout, random);
      break;
    case 4:
      forge_extents(constant.view, random);
      break;
    case 5:
      constant.data = TensorData::zeros(DType::kFloat32, {random.integer(0, 2000)});
      break;
    case 6:
      plan.constants.push_back(constant);
      break;
    default:
      constant.data = draw(plan.constants, random).data;
  }
}

void forge_option(PlanFile& plan, Random& random) {
  constexpr std::pair<const char*, const char*> kKnown[] = {
      {"threads", "3"}, {"threads", "4096"},       {"mode", "interpret"}, {"precision", "fp16"},
      {"tune", "full"}, {"disable", "sink_casts"}, {"mode", "generated"}, {"disable", "onednn"}};
  if (plan.options.empty() || random.chance(0.5)) {
    plan.options.emplace_back(kKnown[random.integer(0, 7)]);
    return;
  }
  auto& [key, value] = draw(plan.options, random);
  std::string& text = random.chance(0.2) ? key : value;
  text = fuzz::mutate_text(text, draw(plan.options, random).second, random);
}

void forge(PlanFile& plan, Random& random) {
  const PlanFile& donor = draw(seeds(), random);
  const double part = random.unit();
  if (part < 0.5) {
    plan.graph = random.chance(0.5) ? fuzz::mutate_text(plan.graph, donor.graph, random)
                                    : fuzz::mutate_graph(std::move(plan.graph), random);
  } else if (part < 0.7) {
    forge_constant(plan, random);
  } else if (part < 0.75) {
    forge_option(plan, random);
  } else if (plan.records.empty() || random.chance(0.1)) {
    plan.records.push_back(draw(donor.records, random));
  } else {
    std::string& record = draw(plan.records, random);
    record = fuzz::mutate_text(std::move(record), draw(donor.records, random), random);
  }
}

/// The plan in the bytes, or one of the seeds where there is none.
PlanFile read_or_begin_again(std::span<const std::byte> bytes, Random& random) {
  if (random.chance(0.3)) return draw(seeds(), random);
  try {
    const AlignedCopy copy(bytes);
    return parse_plan(copy.bytes(), copy.owner(), "fuzz");
  } catch (const Error&) {
    return draw(seeds(), random);
  }
}

/// Bytes of any section are changed, and the checksums made to hold.
size_t mutate_bytes(uint8_t* data, size_t size, Random& random) {
  const auto first = static_cast<size_t>(random.integer(0, static_cast<int64_t>(size) - 1));
  const size_t length = std::min(size - first, static_cast<size_t>(random.integer(1, 16)));
  LLVMFuzzerMutate(data + first, length, length);
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), data, size);
  repair_checksums(bytes);
  std::memcpy(data, bytes.data(), size);
  return size;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  fuzz::prepare(count, arguments, kLongestInput);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  if (size > sizeof(PlanHeader) && random.chance(0.15)) return mutate_bytes(data, size, random);
  PlanFile plan = read_or_begin_again(std::as_bytes(std::span(data, size)), random);
  const int64_t changes = fuzz::draw_changes(random);
  for (int64_t change = 0; change < changes; ++change) forge(plan, random);
  try {
    const std::vector<std::byte> bytes = print_plan(plan);
    if (bytes.size() > max_size) return size;
    std::memcpy(data, bytes.data(), bytes.size());
    return bytes.size();
  } catch (const Error&) {  // no file can say so
    return size;
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const AlignedCopy copy(bytes);
  const auto make = [&](const CompileOptions& limits) {
    const Plan plan = from_file(parse_plan(copy.bytes(), copy.owner(), "fuzz"), "fuzz");
    CompileOptions chosen = options_of(plan);
    chosen.interpret |= limits.interpret;
    chosen.threads = limits.threads;
    chosen.deadline = limits.deadline;
    Engine engine;
    run_by_deadline(chosen, [&](const CompileOptions& options) {
      engine = build(plan, targets_of(options)[0], options);
    });
    return engine;
  };
  fuzz::run_both_ways(make, hash64(bytes));
  return 0;
}
