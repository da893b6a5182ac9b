// SPDX-License-Identifier: Apache-2.0
// Records of choices, forged for real networks: a record may be refused, and it may choose badly, but the network gives
// the results that the interpreter gives. An input is the number of a network in a line, then the record's text.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "../plan/sample_plan.h"
#include "base/error.h"
#include "shared/mutate_text.h"
#include "shared/run_engine.h"
#include "support/text_network.h"

namespace {

using namespace graft;

constexpr uint64_t kSeeds[] = {1, 2};  // of the runs

struct Network {
  Plan plan;      ///< with the record of the cost model's choices
  std::string record;
  std::vector<std::optional<std::vector<fuzz::Output>>> expected;  ///< by kSeeds
};

/// The text network, with weights other than all the same.
Graph read_network(std::string_view text) {
  Graph graph = parse_graph(text);
  Random random(1);
  for (Value& value : graph.values) {
    if (!value.constant || value.constant->element_count() <= 16 || !is_float(value.type)) continue;
    TensorData& data = *value.constant;
    const double size = data.read_double(0);
    for (int64_t i = 0; i < data.element_count(); ++i) data.write_double(i, random.uniform(-size, size));
  }
  return graph;
}

std::vector<Network> make_networks() {
  std::vector<Graph> graphs = {sample_graph()};
  for (const graft_test::TextNetwork& network : graft_test::kTextNetworks) {
    graphs.push_back(read_network(network.text));
  }
  std::vector<Network> networks;
  for (const Graph& graph : graphs) {
    CompileOptions options = fuzz::fuzz_options(false, 0);
    Network& network = networks.emplace_back();
    network.plan = compile_from(graph, Stage::kImport, options).plan;
    network.record = print(network.plan.records.at(0));
    options.interpret = true;
    const auto engine = fuzz::load_engine(compile_from(graph, Stage::kImport, options).engine);
    for (const uint64_t seed : kSeeds) {
      network.expected.push_back(fuzz::run_once(engine, seed, fuzz::Contents::kTame, 0));
      if (!network.expected.back()) fuzz::report_finding("the reference does not run: " + graph.name);
    }
  }
  return networks;
}

const std::vector<Network>& networks() {
  static const auto* const made = new std::vector<Network>(make_networks());
  return *made;
}

/// All ways that the cost model judged, of all networks.
const std::vector<std::string>& known_ways() {
  static const auto* const ways = [] {
    auto* made = new std::vector<std::string>;
    for (const Network& network : networks()) {
      for (const auto& [key, choice] : network.plan.records[0].regions) {
        made->push_back(choice.way);
        for (const Candidate& lost : choice.lost) made->push_back(lost.name);
      }
    }
    return made;
  }();
  return *ways;
}

/// Another way for one of the regions, or another region or machine for the choices.
void forge(Record& record, Random& random) {
  const auto any_way = [&] {
    return known_ways()[static_cast<size_t>(random.integer(0, std::ssize(known_ways()) - 1))];
  };
  if (record.regions.empty() || random.chance(0.03)) {
    record.target = fuzz::mutate_text(record.target, record.target, random);
    return;
  }
  const auto at = std::next(record.regions.begin(), random.integer(0, std::ssize(record.regions) - 1));
  const auto other = std::next(record.regions.begin(), random.integer(0, std::ssize(record.regions) - 1));
  RegionChoice& choice = at->second;
  const int64_t kind = random.integer(0, 9);
  if (kind == 0) {
    std::swap(choice, other->second);
  } else if (kind == 1) {
    record.regions.erase(at);
  } else if (kind <= 4) {
    choice.way = any_way();
  } else {
    choice.way = fuzz::mutate_text(choice.way, any_way(), random);
  }
}

/// The number of the network, and the record's text.
std::pair<size_t, std::string_view> split_input(std::string_view input) {
  size_t number = 0;
  const size_t end = std::min(input.find('\n'), input.size());
  std::from_chars(input.data(), input.data() + end, number);
  return {number % networks().size(), input.substr(std::min(end + 1, input.size()))};
}

/// Whether floats are near each other, and everything else is equal.
void compare(const Network& network, const std::vector<fuzz::Output>& expected,
             const std::vector<fuzz::Output>& given) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto tensor = [](const fuzz::Output& output) {
      const std::span<const std::byte> bytes(output.memory.data(), output.memory.bytes());
      return TensorData::from_bytes(output.view.type, output.view.shape, bytes);
    };
    const TensorData a = tensor(expected[i]), b = tensor(given[i]);
    bool same = a.type() == b.type() && a.shape() == b.shape();
    for (int64_t e = 0; same && e < a.element_count(); ++e) {
      const double x = a.read_double(e), y = b.read_double(e);
      same = x == y || std::abs(x - y) <= 1e-3 * (1 + std::abs(x));
      if (!same) fmt::print(stderr, "element {} of {}: {} instead of {}\n", e, describe(a), y, x);
    }
    if (!same) {
      fuzz::report_finding(fmt::format("a record changes output {} of {}", i, network.plan.graph.name));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  fuzz::prepare(count, arguments, 16384);
  networks();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  const std::string input(reinterpret_cast<const char*>(data), size);
  auto [number, text] = split_input(input);
  if (size < 16 || random.chance(0.3)) {
    number = static_cast<size_t>(random.integer(0, std::ssize(networks()) - 1));
    text = networks()[number].record;
  }
  std::string changed(text);
  try {
    Record record = parse_record(text);
    const int64_t changes = fuzz::draw_changes(random);
    for (int64_t change = 0; change < changes; ++change) forge(record, random);
    changed = print(record);
  } catch (const Error&) {
    changed = networks()[number].record;
  }
  if (random.chance(0.1)) changed = fuzz::mutate_text(std::move(changed), networks()[number].record, random);
  changed = fmt::format("{}\n{}", number, changed);
  size = std::min(changed.size(), max_size);
  std::memcpy(data, changed.data(), size);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto [number, text] = split_input({reinterpret_cast<const char*>(data), size});
  const Network& network = networks()[number];
  const fuzz::Execution execution;
  Engine engine;
  const bool built = fuzz::Execution::attempt([&, text = text] {
    Plan plan = network.plan;
    plan.records = {parse_record(text)};
    const double deadline = execution.deadline(fuzz::Execution::kCompileSeconds);
    run_by_deadline(fuzz::fuzz_options(false, deadline), [&](const CompileOptions& options) {
      engine = build(plan, targets_of(options)[0], options);
    });
  });
  if (!built) return 0;
  const auto loaded = fuzz::load_engine(std::move(engine));
  if (!loaded) return 0;
  for (size_t run = 0; run < std::size(kSeeds); ++run) {
    const auto given = fuzz::run_once(loaded, kSeeds[run], fuzz::Contents::kTame,
                                      execution.deadline(fuzz::Execution::kRunSeconds));
    if (given) compare(network, *network.expected[run], *given);
  }
  return 0;
}
