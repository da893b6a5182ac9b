// SPDX-License-Identifier: Apache-2.0
// Control flow of TensorFlow 1, written as text: what becomes If and While, and what stays as it is.
#include <gtest/gtest.h>

#include "import/tensorflow/graph.pb.h"
#include "import/tensorflow/import.h"
#include "import/tensorflow/inline_functions.h"
#include "import/tensorflow/raise_control_flow.h"
#include "support/graph_def_text.h"

namespace graft::tensorflow {
namespace {

using test::graph_of;

/// `while (i < n) { i += n; y = -y * k }`, as tf.while_loop writes it.
const std::string kLoop = R"(
    n      Placeholder                  : dtype=int32 shape=
    x      Placeholder                  : dtype=float shape=?,3
    k      Placeholder                  : dtype=float shape=3
    e_i    Enter          n             : T=int32 frame_name=loop
    e_x    Enter          x             : T=float frame_name=loop
    e_n    Enter          n             : T=int32 frame_name=loop is_constant=true
    e_k    Enter          k             : T=float frame_name=loop is_constant=true
    m_i    Merge          e_i n_i       : T=int32
    m_x    Merge          e_x n_x       : T=float
    less   Less           m_i e_n       : T=int32
    test   LoopCond       less
    s_i    Switch         m_i test      : T=int32
    s_x    Switch         m_x test      : T=float
    i      Identity       s_i:1         : T=int32
    pivot  Identity       s_x:1         : T=float
    add    AddV2          i e_n         : T=int32
    neg    Neg            pivot         : T=float
    mul    Mul            neg e_k       : T=float
    n_i    NextIteration  add           : T=int32
    n_x    NextIteration  mul           : T=float
    out    Exit           s_x           : T=float
    y      Relu           out           : T=float)";

/// `p ? -x : |x|`, twice.
const std::string kBranches = R"(
    p      Placeholder                  : dtype=bool shape=
    x      Placeholder                  : dtype=float shape=?,3
    again  Identity       p             : T=bool
    s      Switch         x again       : T=float
    neg    Neg            s:1           : T=float
    abs    Abs            s             : T=float
    one    Merge          abs neg       : T=float
    sq     Square         s:1           : T=float
    other  Merge          sq s          : T=float
    y      AddV2          one other     : T=float)";

GraphFile file_of(const std::string& text) {
  const auto kept = std::make_shared<const std::string>(graph_of(text).SerializeAsString());
  return GraphFile(std::as_bytes(std::span(*kept)), kept);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::vector<std::string> operators_of(const GraphFile& file) {
  std::vector<std::string> found;
  for (const FileNode& node : file.nodes()) {
    if (node.op != "NoOp") found.push_back(node.op);
  }
  return found;
}

TEST(RaiseControlFlow, a_loop_becomes_a_while_at_the_place_of_its_condition) {
  const GraphFile file = file_of(kLoop);
  const auto raised = raise_control_flow(file, false);
  ASSERT_TRUE(raised);
  EXPECT_EQ(operators_of(raised->file),
            (std::vector<std::string>{"Placeholder", "Placeholder", "Placeholder", "While", "Relu"}));
  const int loop = raised->file.find("test");
  ASSERT_EQ(loop, file.find("test"));
  const FileNode& made = raised->file.nodes()[static_cast<size_t>(loop)];
  ASSERT_EQ(made.inputs.size(), 4U);  // i, x, n, k
  EXPECT_EQ(raised->stands_for[static_cast<size_t>(loop)].size(), 18U);  // from e_i to out
  EXPECT_EQ(raised->before("test:1"), "out");
  EXPECT_EQ(raised->now({.node = "out"}).index, 1);
  const FunctionGraph body = read_function(raised->file, made.attribute("body")->func().name(), "test");
  EXPECT_EQ(body.inputs.size(), 4U);
  EXPECT_EQ(body.outputs, (std::vector<std::string>{"add", "mul", body.inputs[2], body.inputs[3]}));
}

TEST(RaiseControlFlow, merges_by_one_predicate_become_one_if) {
  const auto raised = raise_control_flow(file_of(kBranches), false);
  ASSERT_TRUE(raised);
  const FileNode& made = raised->file.nodes()[static_cast<size_t>(raised->file.find("one"))];
  EXPECT_EQ(made.op, "If");
  ASSERT_EQ(made.inputs.size(), 2U);
  EXPECT_EQ(made.inputs[0].node, "p");
  EXPECT_EQ(made.inputs[1].node, "x");
  EXPECT_EQ(raised->now({.node = "other"}).index, 1);
  const FunctionGraph then = read_function(raised->file, made.attribute("then_branch")->func().name(), "test");
  EXPECT_EQ(then.outputs, (std::vector<std::string>{"neg", "sq"}));
  const FunctionGraph otherwise = read_function(raised->file, made.attribute("else_branch")->func().name(), "test");
  EXPECT_EQ(otherwise.outputs, (std::vector<std::string>{"abs", otherwise.inputs[0]}));
}

TEST(RaiseControlFlow, a_graph_without_it_is_left_alone) {
  EXPECT_FALSE(raise_control_flow(file_of("x Placeholder : dtype=float\n y Relu x : T=float"), false));
}

TEST(RaiseControlFlow, a_check_in_a_loop_stays_unless_checks_are_dropped) {
  const std::string text = kLoop + "\n    print  Print  mul mul  : T=float\n";
  EXPECT_FALSE(raise_control_flow(file_of(text), false));
  EXPECT_TRUE(raise_control_flow(file_of(text), true));
}

TEST(RaiseControlFlow, what_does_not_look_like_a_loop_or_a_conditional_stays) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"m_x    Merge          e_x n_x", "m_x    Merge          e_x e_x"},     // no next round
           {"m_i    Merge          e_i n_i", "m_i    Merge          e_i n_i n_x"},
           {"s_x    Switch         m_x test", "s_x    Switch         m_x less"},   // no LoopCond
           {"test   LoopCond       less", "test   LoopCond"},
           {"n_x    NextIteration  mul", "n_x    NextIteration"},
           {"e_x    Enter          x", "e_x    Enter"},
           {"mul    Mul            neg e_k", "mul    Mul            neg k"},       // from outside, without an Enter
           {"add    AddV2          i e_n", "add    AddV2          i m_i"},         // what the condition alone may take
           {"y      Relu           out", "y      AddN           mul out"}}) {      // out of a round
    EXPECT_FALSE(raise_control_flow(file_of(replaced(kLoop, from, to)), false)) << to;
  }
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"one    Merge          abs neg", "one    Merge          neg neg"},     // one side twice
           {"abs    Abs            s  ", "abs    Abs            again"},           // a side that depends on nothing is
           {"s      Switch         x again", "s      Switch         x"}}) {        // the other one
    const auto raised = raise_control_flow(file_of(replaced(kBranches, from, to)), false);
    EXPECT_TRUE(!raised || to.find("Abs") != std::string::npos) << to;
  }
}

TEST(RaiseControlFlow, a_whole_model_with_it_is_imported) {
  for (const std::string* text : {&kLoop, &kBranches}) {
    const std::string bytes = graph_of(*text).SerializeAsString();
    ASSERT_TRUE(is_model(std::as_bytes(std::span(bytes))));
    const Graph graph = import_model(std::as_bytes(std::span(bytes)), {.outputs = {"y"}});
    ASSERT_EQ(graph.outputs.size(), 1U);
    EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
    bool flows = false;
    for (const Node& node : graph.nodes) flows = flows || node.op == "Loop" || node.op == "If";
    EXPECT_TRUE(flows);
  }
}

}  // namespace
}  // namespace graft::tensorflow
