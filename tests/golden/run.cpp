// SPDX-License-Identifier: Apache-2.0
// Runs each golden file of passes/ and fuse/, one test per case. `graft_golden_tests --update` rewrites expectations.
#include <cstring>

#include <gtest/gtest.h>

#include "base/error.h"
#include "fuse/fused_program.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "passes/pass.h"
#include "support/golden_file.h"

namespace graft {
namespace {

/// The type that a case asks floats to be lowered to, in its first line: `// low type: f16`.
DType low_type(const golden::Case& c) {
  constexpr std::string_view kLine = "// low type: ";
  if (!c.input.starts_with(kLine)) return DType::kUndefined;
  const std::string word = c.input.substr(kLine.size(), c.input.find('\n') - kLine.size());
  return parse_dtype(word).value();
}

/// What the pass makes of the case's graph: its text, or `unchanged`. Near misses follow as `// left:` lines.
std::string apply(const Pass& pass, const golden::Case& c) {
  Graph graph = parse_graph(c.input);
  verify(graph, false);
  infer_types(graph);
  const Graph before = graph;
  std::vector<std::string> reasons;
  const Environment plain;
  PassContext context;
  context.environment = &plain;
  context.low_type = low_type(c);
  context.reasons = &reasons;
  const bool changed = run_pass(graph, pass, context);
  std::string text;
  for (const std::string& reason : reasons) text += "// left: " + reason + "\n";
  if (!changed) {
    EXPECT_EQ(print(before), print(graph)) << "the pass says that it changed nothing";
    return text + "unchanged\n";
  }
  const auto weights = large_constants(graph);
  EXPECT_EQ(print(parse_graph(print(graph), &weights)), print(graph)) << "the text form does not read back";
  return text + print(graph);
}

/// What a pass made must compute what was there before.
void compare_results(const golden::Case& c, const Pass& pass) {
  Graph before = parse_graph(c.input);
  infer_types(before);
  Graph after = before;
  const Environment plain;
  PassContext context;
  context.environment = &plain;
  context.low_type = low_type(c);
  run_pass(after, pass, context);
  const NamedTensors inputs = random_inputs(before, 7);
  const auto expected = evaluate(before, inputs), actual = evaluate(after, inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    const DType type = expected[i].type();
    const bool rounds = pass.rounds && is_float(type);
    const auto difference = first_difference(expected[i], actual[i], usual_tolerance(rounds ? low_type(c) : type));
    EXPECT_FALSE(difference) << after.value(after.outputs[i]).name << ": " << *difference;
    EXPECT_EQ(before.value(before.outputs[i]).name, after.value(after.outputs[i]).name);
  }
}

/// What the pass of the file's name makes of a case.
std::string passed(const golden::File& file, const golden::Case& c) {
  const Pass* pass = find_pass(file.path.stem().string());
  if (!pass) throw std::runtime_error("the pipeline has no pass " + file.path.stem().string());
  compare_results(c, *pass);
  return apply(*pass, c);
}

/// The steps that a graph is fused into.
std::string fused(const golden::File&, const golden::Case& c) {
  Graph graph = parse_graph(c.input);
  verify(graph, false);
  infer_types(graph);
  return print(fuse(graph));
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--update") == 0) graft::golden::set_updating(true);
  }
  graft::golden::register_tests("passes", graft::passed);
  graft::golden::register_tests("fuse", graft::fused);
  return RUN_ALL_TESTS();
}
