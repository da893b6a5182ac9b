// SPDX-License-Identifier: Apache-2.0
// Why steps of a program were not fused, as `graft check --reasons` lists it.
#include <gtest/gtest.h>

#include "fuse/fused_program.h"
#include "graph/infer.h"

namespace graft {
namespace {

/// The notes on a graph of the given nodes.
std::vector<std::string> notes_on(const std::string& nodes) {
  Graph graph = parse_graph("graph \"main\" {\n  opset \"\" 28\n" + nodes + "}\n");
  infer_types(graph);
  return fuse(graph).notes;
}

using Notes = std::vector<std::string>;

TEST(FuseNotes, nothing_is_said_of_nodes_that_run_together) {
  EXPECT_EQ(notes_on(R"(
    input %x: f32[2, 3]
    constant %w: f32[3, 2] = {1, 2, 3, 4, 5, 6}
    %p: ? = MatMul "product" (%x, %w)
    %r: ? = Relu "clamp" (%p)
    %y: ? = Exp "grow" (%r)
    output %y
)"), Notes{});
}

TEST(FuseNotes, reductions_and_products_read_whole_operands) {
  EXPECT_EQ(notes_on(R"(
    input %x: f32[2, 3]
    constant %w: f32[3, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9}
    %p: ? = MatMul "first" (%x, %w)
    %s: ? = Softmax "normalise" (%p)
    %y: ? = MatMul "second" (%s, %w)
    output %y
)"), (Notes{"fuse: 'first' (MatMul) and 'normalise' (Softmax) run apart: reductions read whole rows",
           "fuse: 'normalise' (Softmax) and 'second' (MatMul) run apart: products read whole operands"}));
}

TEST(FuseNotes, a_result_that_others_need_stays_in_memory) {
  EXPECT_EQ(notes_on(R"(
    input %x: f32[2, 3]
    %a: ? = Relu "clamp" (%x)
    %b: ? = Exp "grow" (%a)
    %c: ? = Sqrt "root" (%a)
    %d: ? = Neg "turn" (%b)
    output %b
    output %c
    output %d
)"), (Notes{"fuse: 'clamp' (Relu) and 'grow' (Exp) run apart: 2 nodes read the result",
           "fuse: 'clamp' (Relu) and 'root' (Sqrt) run apart: 2 nodes read the result",
           "fuse: 'grow' (Exp) and 'turn' (Neg) run apart: the result of the first is an output of the model"}));
}

TEST(FuseNotes, a_node_has_one_step_and_keeps_its_shape) {
  EXPECT_EQ(notes_on(R"(
    input %x: f32[1, 3]
    input %z: f32[2, 3]
    %a: ? = Relu "clamp" (%x)
    %b: ? = Exp "grow" (%z)
    %c: ? = Add "sum" (%a, %b)
    output %c
)"), Notes{"fuse: 'clamp' (Relu) and 'sum' (Add) run apart: the second runs with 'grow' (Exp)"});
  EXPECT_EQ(notes_on(R"(
    input %x: f32[1, 3]
    input %z: f32[2, 3]
    %a: ? = Relu "clamp" (%x)
    %c: ? = Add "sum" (%a, %z)
    output %c
)"), Notes{"fuse: 'clamp' (Relu) and 'sum' (Add) run apart: the shape goes from [1, 3] to [2, 3]"});
}

TEST(FuseNotes, a_view_between_is_named_and_its_makers_once) {
  EXPECT_EQ(notes_on(R"(
    input %x: f32[2, 3]
    %a: ? = Relu "clamp" (%x)
    %t: ? = Transpose "turn" (%a) {perm = [1, 0]}
    %y: ? = Mul "square" (%t, %t)
    output %y
)"), Notes{"fuse: 'clamp' (Relu) and 'square' (Mul) run apart: 'turn' (Transpose) lies between"});
}

/// The operators of each step.
std::vector<std::vector<std::string>> steps_of(const std::string& nodes, const FusionChoices& choices) {
  Graph graph = parse_graph("graph \"main\" {\n  opset \"\" 28\n" + nodes + "}\n");
  infer_types(graph);
  std::vector<std::vector<std::string>> steps;
  for (const FusedStep& step : fuse(graph, choices).steps) steps.push_back(step.operators);
  return steps;
}

TEST(FusionChoices, a_sum_goes_with_the_rows_that_alone_read_it_where_that_is_better) {
  const std::string nodes = R"(
    input %x: f32[2, 3]
    input %r: f32[2, 3]
    constant %w: f32[3, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9}
    constant %b: f32[3] = {1, 2, 3}
    %p: ? = MatMul "product" (%x, %w)
    %q: ? = Add "bias" (%p, %b)
    %t: ? = Add "residual" (%q, %r)
    %y: ? = Softmax "normalise" (%t)
    output %y
)";
  using Steps = std::vector<std::vector<std::string>>;
  EXPECT_EQ(steps_of(nodes, {}), (Steps{{"MatMul", "Add", "Add"}, {"Softmax"}}));
  EXPECT_EQ(steps_of(nodes, {.sums_with_rows = true}), (Steps{{"MatMul", "Add"}, {"Add", "Softmax"}}));
  const std::string shown = nodes + "    output %t\n";
  EXPECT_EQ(steps_of(shown, {.sums_with_rows = true}), (Steps{{"MatMul", "Add", "Add"}, {"Softmax"}}));
}

}  // namespace
}  // namespace graft
