// SPDX-License-Identifier: Apache-2.0
// Sizes that grow from node to node are named, bound once in a run, and mean what they meant.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/derived_sizes.h"
#include "base/error.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "driver/shape_choices.h"
#include "graph/infer.h"
#include "support/run_on_engine.h"

namespace graft {
namespace {

Graph inferred(const std::string& statements) {
  Graph graph = parse_graph("graph \"main\" {\n  opset \"\" 28\n" + statements + "}\n");
  infer_types(graph);
  return graph;
}

/// x[1:-1] along its first axis, `count` times.
std::string slices(int count, const std::string& first = "input %v0: f32[n, 2]\n") {
  std::string text = first + "constant %a: i64[1] = {1}\nconstant %b: i64[1] = {-1}\nconstant %c: i64[1] = {0}\n";
  for (int i = 0; i < count; ++i) {
    text += fmt::format("%v{}: ? = Slice \"n{}\" (%v{}, %a, %b, %c)\n", i + 1, i, i);
  }
  return text + fmt::format("output %v{}\n", count);
}

/// Pooling that rounds up and down in turns, so that no size is a polynomial.
std::string pools(int count) {
  std::string text = "input %v0: f32[1, 1, height, width]\n";
  for (int i = 0; i < count; ++i) {
    text += fmt::format(
        "%v{}: ? = MaxPool \"n{}\" (%v{}) {{ceil_mode = {}, kernel_shape = [2, 2], strides = [2, 2], "
        "pads = [1, 1, 1, 1]}}\n",
        i + 1, i, i, i % 2);
  }
  return text + fmt::format("output %v{}\n", count);
}

size_t longest_size(const Graph& graph) {
  size_t longest = 0;
  for (const Value& value : graph.values) {
    if (!value.shape) continue;
    for (const Size& size : *value.shape) longest = std::max(longest, size.to_string().size());
  }
  return longest;
}

/// Compiles, runs, and compares with the interpretation of the graph.
void expect_right_results(const Graph& graph, const Bindings& symbols, bool interpret = false) {
  CompileOptions options;
  options.tuning = Tuning::kOff;
  options.interpret = interpret;
  options.threads = 1;
  const auto loaded = load(compile_from(graph, Stage::kImport, options).engine, "cpu");
  expect_results_of(graph, loaded, random_inputs(graph, symbols, 3), 1e-6);
}

TEST(LongSizes, texts_of_shapes_stay_short) {
  EXPECT_LT(longest_size(inferred(slices(300))), 400u);
  EXPECT_LT(longest_size(inferred(pools(120))), 400u);
}

TEST(LongSizes, short_sizes_have_no_other_name) {
  EXPECT_TRUE(inferred(slices(1)).derived.empty());
  EXPECT_TRUE(inferred(pools(3)).derived.empty());
}

TEST(LongSizes, runs_of_cut_dimensions_are_right) {
  for (const int count : {2, 10, 20}) {
    for (const int64_t n : {60, 41, 40}) expect_right_results(inferred(slices(count)), {{"n", n}}, count == 20);
  }
  expect_right_results(inferred(slices(10)), {{"n", 64}});
}

TEST(LongSizes, runs_of_pooled_dimensions_are_right) {
  expect_right_results(inferred(pools(12)), {{"height", 500}, {"width", 333}});
}

TEST(LongSizes, what_the_usual_sizes_have_no_room_for_is_not_measured) {
  CompileOptions options;
  options.tuning = Tuning::kFast;
  options.threads = 1;
  std::string text = "input %v0: f32[1, 1, height, 3]\n";
  for (int i = 0; i < 120; ++i) {
    text += fmt::format("%v{}: ? = MaxPool \"n{}\" (%v{}) {{kernel_shape = [3, 1]}}\n", i + 1, i, i);
  }
  const Graph graph = inferred(text + "output %v120\n");
  const auto loaded = load(compile_from(graph, Stage::kImport, options).engine, "cpu");
  expect_results_of(graph, loaded, random_inputs(graph, {{"height", 250}}, 3), 1e-6);
}

TEST(LongSizes, sizes_that_a_run_counts_lead_to_others) {
  const std::string counted = slices(8,
                                     "input %x: f32[n]\n%where: ? = NonZero \"where\" (%x)\n"
                                     "%v0: ? = Transpose \"pairs\" (%where) {perm = [1, 0]}\n");
  expect_right_results(inferred(counted), {{"n", 90}}, true);
  expect_right_results(inferred(counted), {{"n", 90}});
}

TEST(LongSizes, equal_sizes_get_one_name) {
  Graph graph = inferred(slices(12) + R"(
    %w: ? = Neg "first" (%v12)
    %u: ? = Exp "second" (%v12)
    %y: ? = Add "sum" (%w, %u)
    output %y
)");
  const auto shape = [&](const char* name) { return *graph.value(graph.find_value(name)).shape; };
  EXPECT_FALSE(graph.derived.empty());
  EXPECT_EQ(shape("y"), shape("v12"));
  const Graph again = inferred(slices(12));
  EXPECT_EQ(*again.value(again.find_value("v12")).shape, shape("v12"));
}

TEST(LongSizes, the_text_of_a_graph_keeps_them) {
  const Graph graph = inferred(slices(20));
  Graph read = parse_graph(print(graph));
  EXPECT_EQ(print(read), print(graph));
  infer_types(read);
  EXPECT_EQ(print(read), print(graph));
}

TEST(LongSizes, a_text_cannot_give_a_name_two_meanings) {
  const std::string text = print(inferred(slices(20)));
  const size_t first = text.find("derived ");
  const std::string name = text.substr(first + 8, text.find(' ', first + 8) - first - 8);
  const auto with = [&](const std::string& added) { return text.substr(0, first) + added + text.substr(first); };
  EXPECT_THROW(parse_graph(with(fmt::format("derived {} = [n + 1]\n", name))), Error);
  EXPECT_THROW(parse_graph(with("derived n = [m + 1]\n")), Error);
}

TEST(LongSizes, a_chosen_dimension_makes_them_constant) {
  Graph graph = inferred(slices(20));
  CompileOptions options;
  options.dims["n"] = {60, 60, 60};
  apply_shape_choices(graph, options);
  infer_types(graph);
  EXPECT_EQ(*graph.value(graph.find_value("v20")).shape, (Shape{20, 2}));
}

TEST(LongSizes, products_of_known_elements_stay_short) {
  std::string text = "input %x: f32[n]\n%q0: ? = Shape \"shape\" (%x)\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("%q{}: ? = Mul \"n{}\" (%q{}, %q{})\n", i + 1, i, i, i);
  expect_right_results(inferred(text + "output %q60\n"), {{"n", 1}});
}

TEST(LongSizes, a_size_below_zero_is_an_error_of_the_run) {
  const DerivedSize negative{":d0123456789abcdef", Size::symbol("n") - Size(5)};
  Bindings bindings{{"n", 3}};
  EXPECT_THROW(bind_derived({&negative, 1}, bindings), Error);
  const DerivedSize number{"$d0123456789abcdef", negative.value};
  bind_derived({&number, 1}, bindings);
  EXPECT_EQ(bindings.at(number.symbol), -2);
}

/// What is said of a node that wants more axes than tensors have.
std::string refusal_of(const std::string& statements) {
  try {
    fuse(inferred(statements));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RanksBeyondTheHighest, are_refused_naming_the_node) {
  const std::string inputs = "input %x: f32[64]\ninput %s: i64[4096]\ninput %t: i64[4096]\n";
  for (const std::string node : {"Reshape \"wide\" (%x, %s)", "Expand \"wide\" (%x, %s)", "Tile \"wide\" (%x, %s)",
                                 "Pad \"wide\" (%x, %s)", "Slice \"wide\" (%x, %s, %t)", "Squeeze \"wide\" (%x, %s)",
                                 "Unsqueeze \"wide\" (%x, %s)", "ReduceSum \"wide\" (%x, %s)"}) {
    const std::string refusal = refusal_of(inputs + "%y: ? = " + node + "\noutput %y\n");
    EXPECT_NE(refusal.find("'wide'"), refusal.npos) << node << ": " << refusal;
    EXPECT_NE(refusal.find("4096 elements"), refusal.npos) << node << ": " << refusal;
  }
}

TEST(RanksBeyondTheHighest, are_refused_where_the_sizes_are_known) {
  std::string ones = "1";
  for (int i = 1; i < 100; ++i) ones += ", 1";
  const std::string refusal = refusal_of("input %x: f32[1]\nconstant %s: i64[100] = {" + ones +
                                         "}\n%y: ? = Reshape \"wide\" (%x, %s)\noutput %y\n");
  EXPECT_NE(refusal.find("'wide'"), refusal.npos) << refusal;
  EXPECT_NE(refusal.find("100 axes"), refusal.npos) << refusal;
}

}  // namespace
}  // namespace graft
