// SPDX-License-Identifier: Apache-2.0
// What enters the compiler is verified once: operands of operators, names of symbols, sizes.
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/infer.h"
#include "graph/op_def.h"
#include "graph/symbols.h"
#include "passes/pass.h"
#include "runtime/bind.h"

namespace graft {
namespace {

std::set<std::string> listed() {
  std::set<std::string> names;
#define GRAFT_OPERANDS(op, types) EXPECT_TRUE(names.insert(#op).second) << #op << " comes twice";
#include "ops/operand_types.inc"
#undef GRAFT_OPERANDS
  return names;
}

/// The message with which a text is refused; empty when it is not.
std::string refusal(const std::string& statements) {
  try {
    Graph graph = parse_graph("graph \"g\" {\n  opset \"\" 28\n" + statements + "}\n");
    infer_types(graph);
    run_passes(graph, {});
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel) << error.what();
    return error.what();
  }
}

/// Whether the message has all parts.
void expect_refused(const std::string& statements, std::initializer_list<std::string_view> parts) {
  const std::string message = refusal(statements);
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), message.npos) << "'" << message << "' lacks '" << part << "'\n" << statements;
  }
}

TEST(Operands, have_a_row_for_every_operator_and_no_other) {
  std::set<std::string> known;
  for (const OpDef& op : all_ops()) known.insert(std::string(op.name));
  EXPECT_EQ(known, listed());
}

TEST(Operands, of_a_wrong_type_are_refused_with_node_input_and_remedy) {
  for (const std::string op : {"Exp", "Sqrt", "Abs", "Neg", "Softmax"}) {
    expect_refused("  input %x: bool[4]\n  %y: ? = " + op + " \"odd\" (%x)\n  output %y\n",
                   {"node 'odd'", "is bool", op + " takes", "add a Cast"});
  }
  expect_refused("  input %x: f32[4]\n  input %i: i64[4]\n  %y: ? = Add \"odd\" (%x, %i)\n  output %y\n",
                 {"node 'odd' (Add)", "'a' and 'b'", "f32 and i64"});
}

TEST(Operands, of_which_a_block_is_beyond_all_images_are_refused) {
  for (const std::string op : {"SpaceToDepth", "DepthToSpace"}) {
    expect_refused("  input %x: f32[1, 4, 4, 4]\n  %y: ? = " + op +
                       " \"n\" (%x) {blocksize = 9007199254740992}\n  output %y\n",
                   {"blocksize", "beyond all images"});
  }
}

TEST(Operands, that_have_no_arithmetic_are_moved_and_not_computed_with) {
  for (const std::string type : {"str", "c64"}) {
    const std::string inputs = "  input %x: " + type + "[4]\n  input %z: " + type + "[4]\n";
    std::vector<std::string> nodes = {"NonZero \"odd\" (%x)"};
    if (type != "str") nodes.push_back("Equal \"odd\" (%x, %z)");  // which strings are compared by
    for (const std::string& node : nodes) {
      Graph graph = parse_graph("graph \"g\" {\n  opset \"\" 28\n" + inputs + "  %y: ? = " + node +
                                "\n  output %y\n}\n");
      const std::optional<std::string> reason = infer_node(graph, 0);
      ASSERT_TRUE(reason) << node << " of " << type;
      EXPECT_NE(reason->find("can only be moved"), std::string::npos) << *reason;
    }
    EXPECT_EQ(refusal(inputs + "  %y: ? = Concat \"moved\" (%x, %z) {axis = 0}\n  output %y\n"), "");
  }
}

TEST(Operands, are_counted_also_when_no_rank_is_known) {
  for (const std::string op : {"Sub", "Add", "Or", "Pow", "Where", "Reshape"}) {
    const std::string type = op == "Or" || op == "Where" ? "bool" : "f32";
    expect_refused("  input %x: " + type + "\n  %y: ? = " + op + " \"odd\" (%x)\n  output %y\n",
                   {"node 'odd'", "is missing"});
  }
  expect_refused("  input %x: f32[2]\n  %y: ? = Concat \"odd\" () {axis = 0}\n  output %y\n", {"'odd'", "is missing"});
  expect_refused("  input %x: f32[2]\n  %y: ?, %z: ? = Relu \"odd\" (%x)\n  output %y\n", {"'odd'", "2 outputs"});
}

TEST(Operands, that_an_operator_does_not_give_are_no_outputs) {
  // Running statistics come out of training only.
  expect_refused(R"(  input %x: f32[2, 3, 4]
  input %c: f32[3]
  %y: ?, %m: ?, %v: ? = BatchNormalization "odd" (%x, %c, %c, %c, %c)
  output %m
)",
                 {"node 'odd'", "'running_mean' has no value", "leave it out"});
}

TEST(Operands, of_bodies_fit_their_node) {
  const std::string branch = "graph \"b\" { constant %c: f32[1] = {1} output %c }";
  const auto branches = [&](const std::string& captures) {
    return "  input %c: bool[]\n  %y: ? = If \"odd\" (%c) {captures = " + captures + ", else_branch = " + branch +
           ", then_branch = " + branch + "}\n  output %y\n";
  };
  EXPECT_EQ(refusal(branches("[0, 0]")), "");
  expect_refused(branches("[0, 5]"), {"'odd'", "capture more values"});
  expect_refused(branches("[-1, 1]"), {"'odd'", "capture more values"});
  expect_refused("  input %c: bool[]\n  %y: ? = If \"odd\" (%c) {then_branch = " + branch + "}\n  output %y\n",
                 {"'odd'", "'else_branch' is missing"});
}

TEST(Symbols, of_the_compiler_are_refused_in_texts) {
  expect_refused("  input %x: f32[$s:0]\n  output %x\n", {"line 3", "$s:0", "kept for sizes"});
  expect_refused("  input %x: f32[2*:nz:count + 1]\n  output %x\n", {":nz:count"});
  expect_refused("  input %x: i64[1] as [$s:0]\n  output %x\n", {"line 3"});
  expect_refused("  range $s:0 1 2 3\n  input %x: f32[n]\n  output %x\n", {"line 3"});
}

TEST(Symbols, differ_when_names_do) {
  std::set<std::string> symbols;
  std::vector<std::string> names;
  for (const char a : std::string("-+ a_$:2\xc3")) {
    names.emplace_back(1, a);
    for (const char b : std::string("-+ a_$:2\xc3")) names.push_back({a, b});
  }
  names.insert(names.end(), {"a$2d", "a-", "$2d$2d", "--", "a:0", "a"});
  const std::set<std::string> distinct(names.begin(), names.end());
  for (const std::string& name : distinct) {
    EXPECT_TRUE(symbols.insert(number_symbol(name, 0)).second) << name;
    EXPECT_TRUE(symbols.insert(number_symbol(name, 10)).second) << name;
    EXPECT_TRUE(symbols.insert(count_symbol(name, "count")).second) << name;
    EXPECT_FALSE(is_reserved_symbol(dimension_symbol(name))) << name;
    EXPECT_EQ(parse_size(number_symbol(name, 0)).as_symbol(), number_symbol(name, 0));
  }
}

TEST(Symbols, have_one_value_in_a_run) {
  Bindings bindings;
  bind_symbol(bindings, "$s:0", 4, "input 's'");
  bind_symbol(bindings, "$s:0", 4, "input 's'");
  try {
    bind_symbol(bindings, "$s:0", 5, "node 'late'");
    FAIL() << "a second value was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "node 'late': the size $s:0 is 5 here and 4 elsewhere");
  }
  EXPECT_EQ(bindings.at("$s:0"), 4);
}

TEST(Folding, makes_no_constant_above_its_ceiling) {
  // The size is a float's, which inference does not follow: only the folded Cast tells it.
  Graph graph = parse_graph(R"(graph "g" {
  opset "" 28
  constant %f: f32[1] = {2147483648}
  %n: ? = Cast "cast" (%f) {to = 7}
  %y: ? = ConstantOfShape "large" (%n)
  output %y
})");
  std::vector<std::string> reasons;
  run_passes(graph, {.reasons = &reasons});
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].op, "ConstantOfShape");
  EXPECT_FALSE(graph.value(graph.outputs[0]).constant);
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("larger than the limit"), std::string::npos) << reasons[0];
}

TEST(Sizes, that_overflow_are_refused) {
  expect_refused("  input %x: f32[4294967296, 4294967296]\n  output %x\n", {"'x'", "overflows 64 bits"});
  EXPECT_EQ(refusal("  input %x: f32[4294967296, 4294967296, 0]\n  output %x\n"), "");
}

}  // namespace
}  // namespace graft
