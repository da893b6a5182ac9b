// SPDX-License-Identifier: Apache-2.0
#include "lowered.h"

#include <fmt/format.h>

#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"
#include "graph/infer.h"
#include "strategy/choose_schedule.h"
#include "plan/divide_steps.h"
#include "target/target.h"
#include "strategy/strategy.h"

namespace graft {
namespace {

constexpr const char* kTargets[] = {"x86-64-v3", "sm_90a"};
constexpr int64_t kTypical = 16;  // of a symbol without a range

/// What the symbols of the steps are taken for.
Bindings typical_sizes(const FusedProgram& program) {
  std::set<std::string, std::less<>> symbols;
  for (const FusedStep& step : program.steps) {
    for (const TensorDecl& tensor : step.region.tensors) {
      for (const Size& size : tensor.shape) size.collect_symbols(symbols);
    }
  }
  Bindings typical;
  for (const std::string& symbol : symbols) {
    const auto range = program.symbol_ranges.find(symbol);
    typical[symbol] = range == program.symbol_ranges.end() ? kTypical : range->second.opt;
  }
  return typical;
}

/// By region tensor: what is known when compiling.
std::vector<bool> constants_of(const FusedStep& step, const Region& region, const FusedProgram& program) {
  std::vector<bool> constant(region.tensors.size());
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const FusedTensor& tensor = program.tensors[static_cast<size_t>(step.inputs[i])];
    constant[static_cast<size_t>(region.inputs[i])] = tensor.constant.has_value();
  }
  return constant;
}

std::string lowered_for(const FusedStep& step, const FusedProgram& program, const Bindings& typical,
                        const Target& target, const char* machine) {
  Region region = step.region;
  normalise(region);
  const std::vector<Choice> choices =
      schedule_candidates(region, constants_of(step, region, program), typical, target);
  std::string text = fmt::format("{} on {}:\n", step.name, machine);
  for (const Choice& choice : choices) text += "  " + tile::print(choice.schedule) + "\n";
  if (choices.empty()) return text + "no schedule\n";
  const tile::Lowered result = tile::lower(region, choices[0].layouts, choices[0].schedule, target);
  const auto* made = std::get_if<tile::Program>(&result);
  return text + (made ? tile::print(*made) : "refused: " + std::get<std::string>(result) + "\n");
}

}  // namespace

std::string lowered(const golden::File&, const golden::Case& c) {
  Graph graph = parse_graph(c.input);
  verify(graph, false);
  infer_types(graph);
  std::string text;
  for (const char* machine : kTargets) {
    BuildOptions options{.target = find_target(machine, 2)};
    options.compile_kernels = [](const std::string&, const Target&) { return std::vector<std::byte>(); };
    FusedProgram program = fuse(graph);
    const Bindings typical = typical_sizes(program);
    divide_steps(program, typical, options);
    for (const FusedStep& step : program.steps) text += lowered_for(step, program, typical, options.target, machine);
  }
  return text;
}

}  // namespace graft
