// SPDX-License-Identifier: Apache-2.0
// Branches and loops as engines inside of engines: results as the graph's own, limits, deadlines, plans.
#include <gtest/gtest.h>

#include "base/error.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "plan/repair_checksums.h"
#include "runtime/session.h"

namespace graft {
namespace {

TensorData floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  return TensorData::from_values<float>(DType::kFloat32, std::move(shape), values);
}
TensorData integer(int64_t value) { return TensorData::from_values<int64_t>(DType::kInt64, {}, {value}); }
TensorData boolean(bool value) { return TensorData::from_values<int64_t>(DType::kBool, {}, {value}); }

CompileOptions quick() {
  CompileOptions options;
  options.interpret = true;
  options.threads = 1;
  return options;
}

/// The results of a session, in memory of their own.
struct Results {
  std::vector<BufferView> views;
  std::vector<std::vector<std::byte>> memory;
  Status status;
};

Results run(Session& session, const Graph& graph, const NamedTensors& inputs) {
  std::vector<BufferView> given;
  for (const ValueId id : graph.inputs) {
    const TensorData& data = inputs.at(graph.value(id).name);
    given.push_back({const_cast<std::byte*>(data.bytes().data()), data.type(), data.shape(), {}});
  }
  Results results;
  results.views.resize(graph.outputs.size());
  results.memory.resize(graph.outputs.size());
  const auto allocate = [](void* context, int output, DType, std::span<const int64_t>, size_t bytes) -> void* {
    auto& into = static_cast<Results*>(context)->memory[static_cast<size_t>(output)];
    into.resize(bytes + 64);
    return into.data();
  };
  results.status = session.run(given, results.views, allocate, &results);
  return results;
}

void expect_results(Session& session, const Graph& graph, const NamedTensors& inputs) {
  const std::vector<TensorData> expected = evaluate(graph, inputs);
  const Results actual = run(session, graph, inputs);
  ASSERT_TRUE(actual.status.ok()) << actual.status.message();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual.views[i].shape, expected[i].shape()) << "output " << i;
    const auto begin = static_cast<const std::byte*>(actual.views[i].data);
    const std::vector<std::byte> got(begin, begin + expected[i].byte_count());
    const auto wanted = expected[i].bytes();
    EXPECT_EQ(got, std::vector<std::byte>(wanted.begin(), wanted.end())) << "output " << i;
  }
}

Graph inferred(const std::string& text) {
  Graph graph = parse_graph(text);
  infer_types(graph);
  return graph;
}

/// Runs a graph on all inputs in one session, compiled and again from its plan.
void expect_results(const char* text, const std::vector<NamedTensors>& inputs) {
  const Graph graph = inferred(text);
  const Compiled compiled = compile_from(graph, Stage::kImport, quick());
  Session session(load_code(std::make_shared<const Engine>(compiled.engine)));
  for (const NamedTensors& each : inputs) expect_results(session, graph, each);
  const std::vector<std::byte> bytes = print_plan(to_file(compiled.plan));
  const AlignedCopy copy(bytes);
  const Plan again = from_file(parse_plan(copy.bytes(), copy.owner(), "compiled"), "compiled");
  EXPECT_EQ(print_plan(to_file(again)), bytes);
  Session loaded(load_code(std::make_shared<const Engine>(build(again, host_cpu(1), options_of(again)))));
  for (const NamedTensors& each : inputs) expect_results(loaded, graph, each);
}

/// `s` grows by the captured `x` each round; the values before each round are collected.
constexpr const char* kSums = R"(graph "sums" {
  opset "" 28
  input %x: f32[n]
  input %limit: i64[]
  input %start: f32[n]
  %sum: ?, %seen: ? = Loop "loop" (%limit, _, %start, %x) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: f32[n]
    input %x: f32[n]
    %next: ? = Add "add" (%s, %x)
    output %c
    output %next
    output %s
  }, captures = [1]}
  output %sum
  output %seen
})";

NamedTensors sums(int64_t limit) {
  return {{"x", floats({2}, {1, 2})}, {"limit", integer(limit)}, {"start", floats({2}, {0, 10})}};
}

TEST(ControlFlow, a_loop_with_a_captured_value_collects_its_rounds) { expect_results(kSums, {sums(3), sums(1)}); }

TEST(ControlFlow, a_loop_of_no_rounds_gives_what_it_starts_from) {
  expect_results(kSums, {sums(0), sums(-4), sums(2), sums(0)});
}

TEST(ControlFlow, a_loop_of_known_length_writes_into_outputs_of_known_size) {
  const char* text = R"(graph "known" {
  opset "" 28
  input %x: f32[n, 3]
  constant %limit: i64[] = {4}
  %sum: ?, %seen: ? = Loop "loop" (%limit, _, %x) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: ?
    %f: ? = Cast "number" (%i) {to = 1}
    %next: ? = Add "add" (%s, %f)
    output %c
    output %next
    output %next
  }, captures = [0]}
  output %sum
  output %seen
})";
  const Graph graph = inferred(text);
  EXPECT_FALSE(compile_from(graph, Stage::kImport, quick()).engine.has_computed_symbols);
  expect_results(text, {{{"x", floats({1, 3}, {1, 2, 3})}}, {{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}}});
}

/// Doubles until the sum passes the bound, by a branch inside of the loop that takes other steps at odd rounds.
constexpr const char* kWhile = R"(graph "while" {
  opset "" 28
  input %x: f32[2]
  input %bound: f32[]
  input %going: bool[]
  constant %two: f32[] = {2}
  %y: ?, %rounds: ? = Loop "loop" (_, %going, %x, %bound, %two) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: ?
    input %bound: ?
    input %two: ?
    constant %even: i64[] = {2}
    constant %axes: i64[1] = {0}
    %m: ? = Mod "odd" (%i, %even)
    %odd: ? = Cast "is_odd" (%m) {to = 9}
    %next: ? = If "choose" (%odd, %s, %s, %two) {else_branch = graph "else" {
      input %s: ?
      %e: ? = Add "add" (%s, %s)
      output %e
    }, then_branch = graph "then" {
      input %s: ?
      input %two: ?
      %t: ? = Add "by_two" (%s, %two)
      output %t
    }, captures = [1, 2]}
    %sum: ? = ReduceSum "sum" (%next, %axes) {keepdims = 0}
    %more: ? = Less "less" (%sum, %bound)
    output %more
    output %next
    output %i
  }, captures = [2]}
  output %y
  output %rounds
})";

TEST(ControlFlow, a_condition_ends_a_loop_early_and_branches_nest_in_it) {
  const auto given = [](float bound, bool going) {
    return NamedTensors{{"x", floats({2}, {1, 2})}, {"bound", floats({}, {bound})}, {"going", boolean(going)}};
  };
  expect_results(kWhile, {given(100, true), given(1, true), given(100, false), given(1e6f, true)});
}

TEST(ControlFlow, a_carried_shape_may_grow_in_each_round) {
  expect_results(R"(graph "grows" {
  opset "" 28
  input %x: f32[n]
  input %limit: i64[]
  %y: ? = Loop "loop" (%limit, _, %x, %x) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: ?
    input %x: ?
    %next: ? = Concat "join" (%s, %x) {axis = 0}
    output %c
    output %next
  }, captures = [1]}
  %z: ? = Neg "negate" (%y)
  output %z
})",
                 {{{"x", floats({2}, {1, 2})}, {"limit", integer(5)}},
                  {{"x", floats({1}, {3})}, {"limit", integer(0)}},
                  {{"x", floats({3}, {1, 2, 3})}, {"limit", integer(40)}}});
}

TEST(ControlFlow, branches_may_give_other_shapes) {
  const char* text = R"(graph "branches" {
  opset "" 28
  input %x: f32[n, 2]
  input %c: bool[]
  %y: ?, %k: ? = If "if" (%c, %x, %x) {else_branch = graph "else" {
    input %x: ?
    %e: ? = Concat "twice" (%x, %x) {axis = 0}
    %f: ? = Neg "negate" (%x)
    output %e
    output %f
  }, then_branch = graph "then" {
    input %x: ?
    %t: ? = Exp "exponential" (%x)
    output %t
    output %x
  }, captures = [1, 1]}
  %z: ? = Neg "behind" (%y)
  output %z
  output %k
})";
  const TensorData x = floats({2, 2}, {0, 1, 2, 3});
  expect_results(text, {{{"x", x}, {"c", boolean(true)}}, {{"x", x}, {"c", boolean(false)}}});
}

/// Rounds that never end, of a value that stays as it is or grows.
std::string endless(const char* round) {
  return std::string(R"(graph "endless" {
  opset "" 28
  input %x: f32[n]
  %y: ? = Loop "loop" (_, _, %x) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: ?
    %next: ? = )") + round + R"(
    output %c
    output %next
  }, captures = [0]}
  output %y
})";
}

TEST(ControlFlow, a_deadline_ends_an_endless_loop_and_the_session_stays_usable) {
  const std::string text = endless("Neg \"negate\" (%s)");
  const Graph graph = inferred(text);
  const Compiled compiled = compile_from(graph, Stage::kImport, quick());
  Session session(load_code(std::make_shared<const Engine>(compiled.engine)));
  session.set_deadline(0.05);
  for (int i = 0; i < 2; ++i) {
    const Results results = run(session, graph, {{"x", floats({2}, {1, 2})}});
    EXPECT_EQ(results.status.kind(), ErrorKind::kCancelled) << results.status.message();
  }
}

TEST(ControlFlow, the_memory_limit_ends_a_loop_that_grows_for_ever) {
  const std::string text = endless("Concat \"join\" (%s, %s) {axis = 0}");
  const Graph graph = inferred(text);
  const Compiled compiled = compile_from(graph, Stage::kImport, quick());
  Session session(load_code(std::make_shared<const Engine>(compiled.engine)));
  session.set_memory_limit(int64_t{1} << 20);
  const Results results = run(session, graph, {{"x", floats({2}, {1, 2})}});
  EXPECT_EQ(results.status.kind(), ErrorKind::kOutOfMemory) << results.status.message();
}

TEST(ControlFlow, names_the_carried_value_whose_type_a_round_changes) {
  const std::string text = endless("Cast \"cast\" (%s) {to = 7}");
  try {
    compile_from(parse_graph(text), Stage::kImport, quick());
    FAIL() << "it was compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel);
    EXPECT_NE(std::string(error.what()).find("'s' is carried as f32"), std::string::npos) << error.what();
  }
}

TEST(ControlFlow, refuses_graphs_that_are_nested_too_deeply) {
  std::string text = "graph \"deep\" {\n opset \"\" 28\n input %c: bool[]\n input %x: f32[2]\n", end;
  for (int depth = 0; depth < 1000; ++depth) {
    text += "%y: ? = If \"if\" (%c, %x, %c, %x) {else_branch = graph \"e\" { input %x: ?\n output %x }, "
            "then_branch = graph \"t\" { input %c: ?\n input %x: ?\n";
    end += " output %y }, captures = [1, 2]}";
  }
  text += "%y: ? = Neg \"n\" (%x)\n" + end + "\n output %y\n}";
  try {
    parse_graph(text);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nested too deeply"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace graft
