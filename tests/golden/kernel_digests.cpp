// SPDX-License-Identifier: Apache-2.0
#include "kernel_digests.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/hash.h"
#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"
#include "graph/infer.h"
#include "modules/kernel_source.h"
#include "passes/pass.h"
#include "strategy/choose_schedule.h"
#include "support/random_block.h"
#include "support/random_contraction.h"
#include "support/random_forms.h"
#include "support/random_graph.h"
#include "support/run_generated.h"
#include "support/sample_case.h"
#include "target/target.h"
#include "strategy/strategy.h"

namespace graft {
namespace {

constexpr const char* kTargets[] = {"x86-64-v4", "x86-64-v3", "portable", "sm_90a", "sm_80"};
constexpr size_t kTurns = 3;  ///< on one of so many machines a graph shows other schedules than the cost model's

/// The samples of an operator, as graphs of known and of open sizes.
std::vector<Graph> graphs_of_operator(std::string_view name) {
  std::vector<Graph> graphs;
  for (const SampleCase& c : all_sample_cases()) {
    if (c.op->name != name) continue;
    for (const Openness openness : {Openness::kContents, Openness::kSizes}) {
      graphs.push_back(make_graph(c, openness));
    }
  }
  return graphs;
}

std::vector<Graph> graphs_of_golden_file(const std::string& folder, std::string_view stem) {
  std::vector<Graph> graphs;
  for (const golden::File& file : golden::read_folder(folder)) {
    if (file.path.stem().string() != stem) continue;
    for (const golden::Case& c : file.cases) graphs.push_back(parse_graph(c.input));
  }
  return graphs;
}

Graph random_graph_of(std::string_view kind, uint64_t seed) {
  if (kind == "operators") return random_graph(seed, 10);
  if (kind == "image_block") return random_image_block(seed);
  if (kind == "attention") return random_attention(seed);
  if (kind == "contraction") return random_contraction(seed);
  if (kind == "reduction") return random_reduction(seed);
  if (kind == "einsum") return random_einsum(seed);
  if (kind == "window") return random_window(seed);
  if (kind == "masked_attention") return random_masked_attention(seed);
  throw std::runtime_error(fmt::format("there is no random graph of {}", kind));
}

/// What a case compiles its graphs with: less precision than they state, or nothing.
struct Lowering {
  DType low_type = DType::kUndefined;
  bool tf32 = false;
};

/// The end of a case's input: `at f16`, `at bf16` or `at tf32`.
Lowering lowering_of(const std::string& input) {
  const size_t at = input.find(" at ");
  if (at == std::string::npos) return {};
  const std::string word = input.substr(at + 4, input.find('\n') - at - 4);
  if (word == "tf32") return {.tf32 = true};
  return {.low_type = parse_dtype(word).value()};
}

/// What the passes make of a graph whose floats are to be of another type.
void lower_floats(Graph& graph, DType low_type) {
  const Environment plain;
  PassContext context{.low_type = low_type};
  context.environment = &plain;
  run_passes(graph, context);
}

/// What the input of a case names: `operator Softmax`, `file lower/lowered_maps`, `folds` or `random attention 1 8`.
std::vector<Graph> graphs_of(const std::string& input) {
  std::istringstream words(input);
  std::string kind, name;
  words >> kind >> name;
  std::vector<Graph> graphs;
  if (kind == "operator") {
    graphs = graphs_of_operator(name);
  } else if (kind == "file") {
    graphs = graphs_of_golden_file(name.substr(0, name.find('/')), name.substr(name.find('/') + 1));
  } else if (kind == "folds") {
    graphs = graphs_of_folds();
  } else if (uint64_t first = 0, last = 0; kind == "random" && words >> first >> last) {
    for (uint64_t seed = first; seed <= last; ++seed) graphs.push_back(random_graph_of(name, seed));
  }
  if (graphs.empty()) throw std::runtime_error("nothing is compiled for the case `" + input + "`");
  return graphs;
}

/// Texts one after the other; their digest is what a golden file keeps.
class Texts {
 public:
  explicit Texts(const std::string& name) {
    if (const char* folder = std::getenv("GRAFT_KERNEL_TEXTS")) {
      std::filesystem::create_directories(folder);
      file_.open(std::filesystem::path(folder) / (name + ".txt"));
    }
  }
  void add(const std::string& text) {
    digest_ = hash64(text, digest_);
    if (file_.is_open()) file_ << text << "\n";
  }
  std::string digest() const { return fmt::format("{:08x}", digest_ & 0xffffffff); }

 private:
  uint64_t digest_ = 0;
  std::ofstream file_;
};

/// What `make` gives, or with which words it refuses: some samples want to know more when they are compiled, and some
/// types no kernel has.
template <class Make>
std::string text_or_refusal(const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported && error.kind() != ErrorKind::kInternal) throw;
    return std::string("refused: ") + error.what();
  }
}

std::string fused_text(const Graph& graph, const ChangeProgram& change) {
  return text_or_refusal([&] {
    FusedProgram program = fuse(graph);
    change(program);
    return print(program);
  });
}

/// The programs of schedules that a step could have but for the cost model: of each kind of schedule that there are
/// candidates of, one, by `turn`.
std::vector<std::string> other_programs(const EngineStep& step, const Engine& engine, const Target& target,
                                        size_t turn) {
  if (step.kind != StepKind::kKernel) return {};
  Region region = parse_region(step.region);
  normalise(region);
  std::vector<bool> constant(region.tensors.size());
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    const EngineTensor& tensor = engine.tensors[static_cast<size_t>(step.tensors[i])];
    constant[static_cast<size_t>(region.inputs[i])] = tensor.storage == Storage::kConstant;
  }
  std::map<size_t, std::vector<Choice>> by_kind;
  for (Choice& choice : schedule_candidates(region, constant, engine.typical, target)) {
    const auto rows = tile::strategies();
    const auto row = std::find(rows.rbegin(), rows.rend(), choice.schedule.strategy);  // general ones first
    const auto kind = static_cast<size_t>(row - rows.rbegin());
    if (tile::print(choice.schedule) != step.schedule) by_kind[kind].push_back(std::move(choice));
  }
  std::vector<std::string> programs;
  for (const auto& [kind, choices] : by_kind) {
    const Choice& choice = choices[turn % choices.size()];
    const tile::Lowered lowered = tile::lower(region, choice.layouts, choice.schedule, target);
    const auto* program = std::get_if<tile::Program>(&lowered);
    programs.push_back(program ? tile::print(*program) : "refused: " + std::get<std::string>(lowered));
  }
  return programs;
}

}  // namespace

std::string why_no_digests(const golden::File& file) {
  for (const char* machine : {"native", "sm_90a"}) {
    const Target target = find_target(machine, 1);
    if (const std::string reason = why_no_generator(target); !reason.empty()) return reason;
    const std::string version = generator_version(target);
    const size_t llvm = version.find("LLVM ");
    if (llvm == std::string::npos) continue;
    const std::string major = version.substr(llvm, version.find('.', llvm) - llvm);
    if (file.heading.find(major + "\n") == std::string::npos) return "the digests are of another LLVM than " + version;
  }
  return "";
}

std::string kernel_digests(const golden::File&, const golden::Case& c) {
  std::vector<Graph> graphs = graphs_of(c.input);
  const Lowering lowering = lowering_of(c.input);
  const ChangeProgram prepare = [&](FusedProgram& program) {
    if (lowering.tf32) for_each_program(program, allow_tf32);
  };
  Texts fused(c.name + ".fused");
  std::erase_if(graphs, [&](Graph& graph) {
    infer_types(graph);
    if (lowering.low_type != DType::kUndefined) lower_floats(graph, lowering.low_type);
    const std::string text = fused_text(graph, prepare);
    fused.add(text);
    return text.starts_with("refused");  // and has no kernels
  });
  std::string digests = fmt::format("{:10} {}\n", "fused", fused.digest());
  for (size_t t = 0; t < std::size(kTargets); ++t) {
    const char* machine = kTargets[t];
    const Target target = find_target(machine, 2);
    Texts programs(fmt::format("{}.{}.tile", c.name, machine)), sources(fmt::format("{}.{}.source", c.name, machine));
    std::set<std::string> known;
    const auto add = [&](const std::string& program) {
      if (!known.insert(program).second) return;
      programs.add(program);
      if (program.starts_with("refused")) return;
      sources.add(text_or_refusal([&] { return emitted_source_text(program, target); }));
    };
    for (size_t g = 0; g < graphs.size(); ++g) {
      const Engine engine = engine_without_code(graphs[g], target, prepare);
      for (const EngineKernel& kernel : engine.kernels) add(kernel.program);
      if ((g + t) % kTurns != 0) continue;
      for (const EngineStep& step : engine.steps) {
        for (const std::string& program : other_programs(step, engine, target, g)) add(program);
      }
    }
    digests += fmt::format("{:10} {} {}\n", machine, programs.digest(), sources.digest());
  }
  return digests;
}

std::vector<std::string> operators_without_case(const golden::File& file) {
  std::vector<std::string> missing;
  for (const SampleCase& c : all_sample_cases()) {
    const std::string input = fmt::format("operator {}\n", c.op->name);
    const bool known = std::any_of(file.cases.begin(), file.cases.end(),
                                   [&](const golden::Case& other) { return other.input == input; });
    if (!known && (missing.empty() || missing.back() != c.op->name)) missing.emplace_back(c.op->name);
  }
  return missing;
}

}  // namespace graft
