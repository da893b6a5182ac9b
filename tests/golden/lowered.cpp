// SPDX-License-Identifier: Apache-2.0
#include "lowered.h"

#include <fmt/format.h>

#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"
#include "fuse/split_step.h"
#include "graph/infer.h"
#include "plan/choose_schedule.h"
#include "plan/pack_channels.h"
#include "plan/spread_reduction.h"
#include "plan/spread_scatter.h"
#include "target/target.h"
#include "tile/lower.h"

namespace graft {
namespace {

constexpr const char* kTargets[] = {"x86-64-v3", "sm_90a"};
constexpr int64_t kTypical = 16;  // of a symbol without a range

/// What the symbols of a step are taken for.
Bindings typical_sizes(const Region& region, const FusedProgram& program) {
  std::set<std::string, std::less<>> symbols;
  for (const TensorDecl& tensor : region.tensors) {
    for (const Size& size : tensor.shape) size.collect_symbols(symbols);
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

/// Each step of the program becomes what `divide` makes of it.
template <class Divide>
void divide_each(FusedProgram& program, const Divide& divide) {
  std::vector<FusedStep> steps;
  for (FusedStep& step : program.steps) {
    for (FusedStep& part : divide(std::move(step), program.tensors)) steps.push_back(std::move(part));
  }
  program.steps = std::move(steps);
}

/// The steps that the machine does better as several, as an engine has them.
void divide_steps(FusedProgram& program, const Target& target) {
  using Tensors = std::vector<FusedTensor>;
  divide_each(program, [&](FusedStep step, Tensors& tensors) {
    return split_step(std::move(step), tensors, {}, target.kind == TargetKind::kCuda);
  });
  if (target.kind != TargetKind::kCuda) return;
  divide_each(program, [&](FusedStep step, Tensors& tensors) {
    return pack_channels(std::move(step), tensors, target);
  });
  divide_each(program, [&](FusedStep step, Tensors& tensors) {
    const Bindings typical = typical_sizes(step.region, program);
    return spread_reduction(std::move(step), tensors, typical, target);
  });
  divide_each(program, [&](FusedStep step, Tensors& tensors) {
    const Bindings typical = typical_sizes(step.region, program);
    return spread_scatter(std::move(step), tensors, typical);
  });
}

std::string lowered_for(const FusedStep& step, const FusedProgram& program, const Target& target,
                        const char* machine) {
  Region region = step.region;
  normalise(region);
  const Bindings typical = typical_sizes(region, program);
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
    const Target target = find_target(machine, 2);
    FusedProgram program = fuse(graph);
    divide_steps(program, target);
    for (const FusedStep& step : program.steps) text += lowered_for(step, program, target, machine);
  }
  return text;
}

}  // namespace graft
