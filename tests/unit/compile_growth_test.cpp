// SPDX-License-Identifier: Apache-2.0
// What compiling costs per node does not grow with the number of nodes: chains and fans of 100 to 20,000 nodes, through
// all stages but the code generator, which is called once per kernel.
#include <ctime>
#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "driver/compile.h"
#include "engine/memory_plan.h"
#include "fuse/fused_program.h"
#include "graph/infer.h"
#include "plan/build_engine.h"

namespace graft {
namespace {

/// A graph's text of `count` nodes.
using Family = std::function<std::string(int count)>;

std::string graph_text(const std::string& statements) {
  return "graph \"main\" {\n  opset \"\" 28\n" + statements + "}\n";
}

std::string relu_chain(int count) {
  std::string text = "input %v0: f32[64]\n";
  for (int i = 0; i < count; ++i) text += fmt::format("%v{}: ? = Relu \"n{}\" (%v{})\n", i + 1, i, i);
  return graph_text(text + fmt::format("output %v{}\n", count));
}

std::string sigmoid_add_chain(int count) {
  std::string text = "input %v0: f32[64]\ninput %c: f32[64]\n";
  for (int i = 0; i < count; i += 2) {
    text += fmt::format("%v{}: ? = Sigmoid \"s{}\" (%v{})\n", i + 1, i, i);
    text += fmt::format("%v{}: ? = Add \"a{}\" (%v{}, %c)\n", i + 2, i, i + 1);
  }
  return graph_text(text + fmt::format("output %v{}\n", (count + 1) / 2 * 2));
}

/// x + x, over and over: each node is read twice.
std::string doubling_chain(int count) {
  std::string text = "input %v0: f32[64]\n";
  for (int i = 0; i < count; ++i) text += fmt::format("%v{}: ? = Add \"n{}\" (%v{}, %v{})\n", i + 1, i, i, i);
  return graph_text(text + fmt::format("output %v{}\n", count));
}

std::string view_chain(int count) {
  std::string text = "input %v0: f32[2, 3, 4]\n";
  for (int i = 0; i < count; ++i) {
    text += fmt::format("%v{}: ? = Trilu \"n{}\" (%v{})\n", 2 * i + 1, i, 2 * i);
    text += fmt::format("%v{}: ? = Transpose \"t{}\" (%v{}) {{perm = [1, 2, 0]}}\n", 2 * i + 2, i, 2 * i + 1);
  }
  return graph_text(text + fmt::format("output %v{}\n", 2 * count));
}

std::string split_text(int count) {
  std::string parts;
  for (int i = 0; i < count; ++i) parts += fmt::format("{}%p{}: ?", i ? ", " : "", i);
  return fmt::format("input %x: f32[{}, 4]\n{} = Split \"split\" (%x) {{num_outputs = {}}}\n", count, parts, count);
}

std::string split_outputs(int count) {
  std::string text = split_text(count);
  for (int i = 0; i < count; ++i) text += fmt::format("output %p{}\n", i);
  return graph_text(text);
}

std::string split_fan(int count) {
  std::string text = split_text(count), outputs;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("%r{}: ? = Exp \"e{}\" (%p{})\n", i, i, i);
    outputs += fmt::format("output %r{}\n", i);
  }
  return graph_text(text + outputs);
}

std::string join_of(const std::string& node, int count) {
  std::string text, arguments;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("input %x{}: f32[4]\n", i);
    arguments += fmt::format("{}%x{}", i ? ", " : "", i);
  }
  return graph_text(text + fmt::format(fmt::runtime(node), arguments) + "output %y\n");
}

std::string sum_of_all(int count) { return join_of("%y: ? = Sum \"sum\" ({})\n", count); }
std::string concat_of_all(int count) { return join_of("%y: ? = Concat \"concat\" ({}) {{axis = 0}}\n", count); }

std::string add_tree(int count) {
  std::string text;
  std::vector<std::string> level;
  for (int i = 0; i <= count; ++i) {
    level.push_back(fmt::format("%x{}", i));
    text += fmt::format("input %x{}: f32[4]\n", i);
  }
  for (int made = 0; level.size() > 1;) {
    std::vector<std::string> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2, ++made) {
      next.push_back(fmt::format("%t{}", made));
      text += fmt::format("{}: ? = Add \"a{}\" ({}, {})\n", next.back(), made, level[i], level[i + 1]);
    }
    if (level.size() % 2) next.push_back(level.back());
    level = next;
  }
  return graph_text(text + "output " + level[0] + "\n");
}

std::string matmul_relu(int count) {
  std::string text = "input %v0: f32[2, 3]\ninput %w: f32[3, 3]\n";
  for (int i = 0; i < count; i += 2) {
    text += fmt::format("%v{}: ? = MatMul \"m{}\" (%v{}, %w)\n", i + 1, i, i);
    text += fmt::format("%v{}: ? = Relu \"r{}\" (%v{})\n", i + 2, i, i + 1);
  }
  return graph_text(text + fmt::format("output %v{}\n", (count + 1) / 2 * 2));
}

/// Products that are all made before a chain of sums takes them, the last one first.
std::string reversed_sums(int count) {
  std::string text = "input %x: f32[3, 3]\n";
  for (int i = 0; i < count / 2; ++i) {
    text += fmt::format("input %w{}: f32[3, 3]\n%m{}: ? = MatMul \"m{}\" (%x, %w{})\n", i, i, i, i);
  }
  text += fmt::format("%s{}: ? = Exp \"e\" (%x)\n", count / 2);
  for (int i = count / 2; i-- > 0;) text += fmt::format("%s{}: ? = Add \"a{}\" (%m{}, %s{})\n", i, i, i, i + 1);
  return graph_text(text + "output %s0\n");
}

/// Cuts of a dimension that is known only in a run.
std::string symbolic_slices(int count) {
  std::string text =
      "input %v0: f32[n, 2]\nconstant %a: i64[1] = {1}\nconstant %b: i64[1] = {-1}\n"
      "constant %c: i64[1] = {0}\n";
  for (int i = 0; i < count; ++i) {
    text += fmt::format("%v{}: ? = Slice \"n{}\" (%v{}, %a, %b, %c)\n", i + 1, i, i);
  }
  return graph_text(text + fmt::format("output %v{}\n", count));
}

/// All stages; kernels count as generated, but have no code.
void compile_without_code(const std::string& text) {
  CompileOptions options;
  options.targets = {"portable"};
  Graph graph = parse_graph(text);
  verify(graph, false);
  rewrite(graph, options);
  const auto weights = large_constants(graph);
  graph = parse_graph(print(graph), &weights);
  infer_types(graph);
  const Target target = targets_of(options)[0];
  BuildOptions build{.target = target};
  build.compile_kernels = [](const std::string&, const Target&) { return std::vector<std::byte>(1); };
  const Engine engine = build_engine(fuse(graph), build).engine;
  std::vector<Lifetime> lifetimes;
  for (const EngineTensor& tensor : engine.tensors) {
    if (tensor.storage == Storage::kArena) lifetimes.push_back({64, tensor.first_step, tensor.last_step});
  }
  plan_memory(lifetimes);
}

/// Microseconds of processor time per node.
double cost_per_node(const Family& family, int count) {
  const std::string text = family(count);
  const std::clock_t start = std::clock();
  compile_without_code(text);
  return static_cast<double>(std::clock() - start) * 1e6 / CLOCKS_PER_SEC / count;
}

struct GrowthCase {
  const char* name;
  std::string (*family)(int);
  int largest = 20000;

  friend std::ostream& operator<<(std::ostream& out, const GrowthCase& c) { return out << c.name; }
};

class CompileGrowth : public testing::TestWithParam<GrowthCase> {};

/// A stage that is quadratic costs 20 times as much per node of 20,000 as of 1,000.
TEST_P(CompileGrowth, cost_per_node_does_not_grow) {
  constexpr double kMostGrowth = 5;
  const GrowthCase& c = GetParam();
  cost_per_node(c.family, 100);  // tables that are made once
  std::string row = fmt::format("{:>20}", c.name);
  double middle = 0, last = 0;
  for (const int count : {100, 1000, c.largest}) {
    last = cost_per_node(c.family, count);
    if (count == 1000) middle = last;
    row += fmt::format("  {:>6}: {:>7.1f} us", count, last);
  }
  fmt::print("{} per node\n", row);
  EXPECT_LT(last, kMostGrowth * middle);
}

INSTANTIATE_TEST_SUITE_P(
    ChainsAndFans, CompileGrowth,
    testing::Values(GrowthCase{"relu_chain", relu_chain}, GrowthCase{"sigmoid_add_chain", sigmoid_add_chain},
                    GrowthCase{"doubling_chain", doubling_chain}, GrowthCase{"view_chain", view_chain, 10000},
                    GrowthCase{"split_outputs", split_outputs}, GrowthCase{"split_fan", split_fan},
                    GrowthCase{"sum_of_all", sum_of_all}, GrowthCase{"concat_of_all", concat_of_all},
                    GrowthCase{"add_tree", add_tree}, GrowthCase{"matmul_relu", matmul_relu},
                    GrowthCase{"reversed_sums", reversed_sums}, GrowthCase{"symbolic_slices", symbolic_slices, 4000}),
    [](const testing::TestParamInfo<GrowthCase>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace graft
