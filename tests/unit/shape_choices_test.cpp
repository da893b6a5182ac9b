// SPDX-License-Identifier: Apache-2.0
// What a caller's range of a size makes of it.
#include <gtest/gtest.h>

#include "driver/shape_choices.h"
#include "graph/graph.h"

namespace graft {
namespace {

/// The first size of the input, and whether it has a range, after a range was chosen for it.
std::pair<std::string, bool> chosen(Graph::Range range) {
  Graph graph = parse_graph("graph \"sizes\" {\n  opset \"\" 28\n  input %x: f32[n, 4]\n"
                            "  %y: ? = Relu \"relu\" (%x)\n  output %y\n}\n");
  CompileOptions options;
  options.dims["n"] = range;
  apply_shape_choices(graph, options);
  return {graph.value(graph.inputs[0]).shape->at(0).to_string(), graph.symbol_ranges.contains("n")};
}

TEST(ShapeChoices, fix_a_size_that_has_one_value) {
  EXPECT_EQ(chosen({3, 3, 3}), std::pair(std::string("3"), false));
  EXPECT_EQ(chosen({0, 0, 0}), std::pair(std::string("0"), false));
}

TEST(ShapeChoices, leave_a_size_open_that_may_be_none_and_has_no_bound) {
  EXPECT_EQ(chosen({0, 8, 0}), std::pair(std::string("n"), true));
  EXPECT_EQ(chosen({1, 8, 64}), std::pair(std::string("n"), true));
}

}  // namespace
}  // namespace graft
