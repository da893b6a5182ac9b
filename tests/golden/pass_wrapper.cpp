// SPDX-License-Identifier: Apache-2.0
// The wrapper that runs passes, and the registry that steers it.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "passes/pass.h"

namespace graft {
namespace {

constexpr const char* kText = R"(graph "main" {
  opset "" 28
  input %x: f32[2]
  %a: f32[2] = Identity "identity" (%x)
  %y: f32[2] = Neg "neg" (%a)
  output %y
})";

Environment environment_with(Variable variable, const std::string& value) {
  std::vector<std::string> values;
  for (const VariableInfo& row : all_variables())
    values.emplace_back(row.variable == variable ? value : row.default_value);
  return parse_environment(values);
}

/// Breaks single assignment, as a pass with a bug would.
bool break_graph(Graph& graph, const PassContext&) {
  graph.nodes[1].inputs[0] = graph.nodes[1].outputs[0];
  return true;
}

/// Verifies, but computes something else.
bool change_meaning(Graph& graph, const PassContext&) {
  graph.nodes[1].op = "Abs";
  return true;
}

TEST(PassWrapper, counts_nodes_and_says_what_changed) {
  Graph graph = parse_graph(kText);
  std::vector<PassStatistics> statistics;
  PassContext context;
  context.statistics = &statistics;
  run_passes(graph, context);
  ASSERT_EQ(statistics.size(), pipeline().size());
  EXPECT_EQ(graph.nodes.size(), 1u);
  for (const PassStatistics& entry : statistics) {
    EXPECT_EQ(entry.changed && entry.pass != "infer", entry.nodes_before != entry.nodes_after) << entry.pass;
  }
}

TEST(PassWrapper, takes_the_branch_of_a_condition_that_folding_finds) {
  Graph graph = parse_graph(R"(
graph "main" {
  opset "" 28
  input %x: f32[2]
  constant %f: f32[] = {1}
  constant %g: f32[] = {2}
  %c: ? = Less "less" (%f, %g)
  %y: f32[2] = If "if" (%c, %x, %x) {then_branch = graph "then" {
    input %x: f32[2]
    %t: f32[2] = Relu "relu" (%x)
    output %t
  }, else_branch = graph "else" {
    input %x: f32[2]
    %e: f32[2] = Neg "neg" (%x)
    output %e
  }, captures = [1, 1]}
  output %y
}
)");
  run_passes(graph, PassContext());
  ASSERT_EQ(graph.nodes.size(), 1u) << print(graph);
  EXPECT_EQ(graph.nodes[0].op, "Relu");
}

TEST(PassWrapper, leaves_out_what_the_environment_disables) {
  Graph graph = parse_graph(kText);
  const Environment environment = environment_with(Variable::kDisable, "gelu, remove_identities");
  PassContext context;
  context.environment = &environment;
  EXPECT_FALSE(run_pass(graph, *find_pass("remove_identities"), context));
  EXPECT_EQ(graph.nodes.size(), 2u);
}

TEST(PassWrapper, stops_when_the_caller_asks) {
  Graph graph = parse_graph(kText);
  PassContext context;
  context.cancelled = [] { return true; };
  try {
    run_passes(graph, context);
    FAIL() << "it was not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  }
}

TEST(PassWrapper, names_the_pass_that_breaks_the_graph) {
  Graph graph = parse_graph(kText);
  try {
    run_pass(graph, {"break_graph", break_graph, ""}, PassContext());
    FAIL() << "the fault was not found";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_NE(std::string(error.what()).find("break_graph"), std::string::npos) << error.what();
  }
}

TEST(PassWrapper, names_the_pass_that_changes_the_meaning_when_validating) {
  const Environment environment = environment_with(Variable::kValidate, "1");
  PassContext context;
  context.environment = &environment;
  Graph graph = parse_graph(kText);
  EXPECT_NO_THROW(run_passes(graph, context));
  graph = parse_graph(kText);
  try {
    run_pass(graph, {"change_meaning", change_meaning, ""}, context);
    FAIL() << "the fault was not found";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("change_meaning"), std::string::npos) << error.what();
  }
}

TEST(PassWrapper, has_one_purpose_per_row) {
  for (const Pass& pass : pipeline()) {
    EXPECT_FALSE(pass.purpose.empty()) << pass.name;
    EXPECT_EQ(find_pass(pass.name)->function, pass.function);
  }
  EXPECT_EQ(find_pass("no_such_pass"), nullptr);
}

TEST(EnvironmentRegistry, parses_dumps_with_filters) {
  const Environment environment = environment_with(Variable::kDump, "graph[gelu,attention], plan");
  EXPECT_TRUE(environment.wants_dump("graph", "08-recognise_gelu"));
  EXPECT_FALSE(environment.wants_dump("graph", "01-inline_if"));
  EXPECT_TRUE(environment.wants_dump("plan", "anything"));
  EXPECT_FALSE(environment.wants_dump("tile", "anything"));
}

TEST(EnvironmentRegistry, rejects_what_it_does_not_know) {
  EXPECT_THROW(environment_with(Variable::kDump, "grpah"), Error);
  EXPECT_THROW(environment_with(Variable::kDump, "graph[open"), Error);
  EXPECT_THROW(environment_with(Variable::kDebug, "6"), Error);
  EXPECT_THROW(environment_with(Variable::kSeed, "-1"), Error);
}

TEST(Log, shows_messages_up_to_the_level_and_no_further) {
  std::vector<std::string> seen;
  set_log_callback([&](LogLevel level, std::string_view message) {
    seen.push_back(std::string(name_of(level)) + ": " + std::string(message));
  });
  set_log_level(LogLevel::kStep);
  log(LogLevel::kStep, "{} of {}", 1, 2);
  log(LogLevel::kReason, "hidden");
  set_log_callback({});
  set_log_level(LogLevel::kWarning);
  EXPECT_EQ(seen, std::vector<std::string>{"step: 1 of 2"});
}

}  // namespace
}  // namespace graft
