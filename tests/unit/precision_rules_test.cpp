// SPDX-License-Identifier: Apache-2.0
// How operators behave by precision, as their definitions say or the list of exceptions: the definitions take what they
// are given, and what they sum stays wide.
#include <cmath>
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "amp/narrowing.h"
#include "graph/infer.h"
#include "graph/op_def.h"
#include "passes/pass.h"
#include "passes/precision_rules.h"

namespace graft {
namespace {

using amp::conversion_fault;
using passes::find_precision_row;
using passes::PrecisionRow;
using passes::PrecisionRule;

/// The rows of precision_rules.inc: a rule, or nothing where only inputs are named.
std::map<std::string, std::optional<PrecisionRule>> stated() {
  std::map<std::string, std::optional<PrecisionRule>> rows;
  const auto add = [&](const char* op, std::optional<PrecisionRule> rule) {
    EXPECT_TRUE(rows.emplace(op, rule).second) << op << " comes twice";
  };
#define GRAFT_PRECISION(rule, op, kept) add(#op, PrecisionRule::rule);
#define GRAFT_PRECISION_KEEPS(op, kept) add(#op, std::nullopt);
#include "passes/precision_rules.inc"
  return rows;
}

TEST(PrecisionRules, state_what_definitions_do_not_tell_and_nothing_else) {
  auto rows = stated();
  for (const OpDef& op : all_ops()) {
    const auto row = rows.find(std::string(op.name));
    if (row == rows.end()) continue;
    EXPECT_NE(row->second, std::optional(passes::derived_rule(op))) << op.name << " need not be listed";
    rows.erase(row);
  }
  for (const auto& [name, rule] : rows) ADD_FAILURE() << name << " is no operator";
}

TEST(PrecisionRules, are_derived_from_definitions) {
  struct Case {
    PrecisionRule rule;
    std::vector<const char*> ops;
  };
  for (const Case& each : std::initializer_list<Case>{
           {PrecisionRule::kLow, {"MatMul", "Conv", "ConvTranspose", "Gemm", "Einsum", "Attention", "LSTM", "GRUCell"}},
           {PrecisionRule::kFollow, {"Relu", "Softmax", "Gelu", "Elu", "Softplus", "Add", "Mul", "MaxPool", "Tanh",
                                     "AveragePool", "GlobalAveragePool", "Transpose", "Gather", "TopK", "Concat"}},
           {PrecisionRule::kWide, {"Exp", "Log", "Pow", "Sqrt", "Reciprocal", "Tan", "Cosh", "ReduceSum", "ReduceProd",
                                   "ReduceSumSquare", "ReduceLogSumExp", "CumSum", "Det", "And", "BitShift",
                                   "HannWindow", "RandomNormal", "MatMulInteger"}}}) {
    for (const char* name : each.ops) {
      const OpDef* op = find_op("", name);
      if (!op) op = find_op("graft", name);
      ASSERT_NE(op, nullptr) << name;
      EXPECT_EQ(passes::derived_rule(*op), each.rule) << name;
    }
  }
}

Node node_of(const OpDef& op) {
  Node node;
  node.domain = op.domain;
  node.op = op.name;
  node.name = op.name;
  return node;
}

/// A graph of one node: the sample's f32 inputs in f16 where the list does not keep them.
Graph lowered_sample(const OpDef& op, const Sample& sample, const PrecisionRow& row) {
  Graph graph;
  graph.opsets[""] = kOpset;
  Node node = node_of(op);
  node.attributes = sample.attributes;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const SampleInput& input = sample.inputs[i];
    const bool lowers = input.type == DType::kFloat32 && !row.keeps(i);
    const DType type = lowers ? DType::kFloat16 : input.type;
    if (input.absent) {
      node.inputs.push_back(kNoValue);
    } else if (input.constant && !lowers) {
      node.inputs.push_back(graph.add_constant("c", input.data ? *input.data : TensorData::zeros(type, input.shape)));
    } else {
      const std::vector<int64_t>& shape = input.data ? input.data->shape() : input.shape;
      node.inputs.push_back(graph.add_value("x", type, Shape(shape.begin(), shape.end())));
      graph.inputs.push_back(node.inputs.back());
    }
  }
  for (int i = 0; i < sample.outputs; ++i) node.outputs.push_back(graph.add_value("y", DType::kUndefined));
  graph.add_node(std::move(node));
  return graph;
}

bool is_narrow(const Expr& e) { return is_float(e->type) && bit_width(e->type) < 32; }

/// A form that adds up, or carries on, in a float narrower than 32 bits.
bool accumulates_narrowly(const Form& form) {
  if (const auto* reduce = std::get_if<Reduce>(&form)) {
    const auto intrinsic = reduce->monoid.intrinsic();
    const bool selects = intrinsic == Intrinsic::kMin || intrinsic == Intrinsic::kMax;
    return !selects && std::any_of(reduce->lift.begin(), reduce->lift.end(), is_narrow);
  }
  const auto* scan = std::get_if<Scan>(&form);
  return scan && std::any_of(scan->state.begin(), scan->state.end(), is_narrow);
}

bool has_f32(const Sample& sample) {
  return std::any_of(sample.inputs.begin(), sample.inputs.end(),
                     [](const SampleInput& input) { return !input.absent && input.type == DType::kFloat32; });
}

TEST(PrecisionRules, definitions_take_the_low_type_and_sum_in_a_wide_one) {
  int tried = 0;
  for (const OpDef& op : all_ops()) {
    const PrecisionRow* row = find_precision_row(node_of(op));
    if (!row || row->rule == PrecisionRule::kWide || !op.samples) continue;
    for (const Sample& sample : op.samples()) {
      if (!has_f32(sample)) continue;
      SCOPED_TRACE(std::string(op.name) + " " + sample.name);
      Graph graph = lowered_sample(op, sample, *row);
      EXPECT_EQ(infer_node(graph, 0).value_or(""), "");
      for (const Form& form : define(graph.nodes[0], graph).region.forms) EXPECT_FALSE(accumulates_narrowly(form));
      ++tried;
    }
  }
  EXPECT_GT(tried, 200);
}

TEST(PrecisionRules, an_operator_of_another_domain_has_none) {
  Node node;
  node.domain = "com.example";
  node.op = "MatMul";
  EXPECT_EQ(find_precision_row(node), nullptr);
  Graph graph = parse_graph(R"(graph "main" {
  opset "" 28
  opset "com.example" 1
  input %x: f32[2, 2]
  %y: f32[2, 2] = com.example::MatMul "own" (%x, %x)
  output %y
}
)");
  std::vector<std::string> reasons;
  PassContext context{.low_type = DType::kFloat16};
  context.reasons = &reasons;
  EXPECT_FALSE(run_pass(graph, *find_pass("lower_precision"), context));
  ASSERT_EQ(reasons.size(), 1U);
  EXPECT_NE(reasons[0].find("no definition says how it behaves in a lower precision"), std::string::npos);
}

TensorData floats(const std::vector<float>& values) {
  return TensorData::from_values<float>(DType::kFloat32, {static_cast<int64_t>(values.size())}, values);
}

TEST(PrecisionRules, constants_fit_unless_they_overflow_or_vanish) {
  const DType half = DType::kFloat16, brain = DType::kBFloat16;
  EXPECT_EQ(conversion_fault(floats({0, 65504, -65504, INFINITY, NAN}), half), "");
  EXPECT_EQ(conversion_fault(floats({65519}), half), "");
  EXPECT_NE(conversion_fault(floats({65520}), half).find("beyond the largest f16"), std::string::npos);
  EXPECT_EQ(conversion_fault(floats({65520, 3e38F}), brain), "");
  EXPECT_NE(conversion_fault(floats({-3.4028235e38F}), brain).find("beyond the largest bf16"), std::string::npos);
  EXPECT_NE(conversion_fault(floats({1e-9F}), half).find("too small for f16"), std::string::npos);
  EXPECT_EQ(conversion_fault(floats({1e-9F}), brain), "");
  EXPECT_EQ(conversion_fault(floats({1, 1e-9F}), half), "");
  EXPECT_EQ(conversion_fault(floats({}), half), "");
  EXPECT_EQ(conversion_fault(floats({0, 0}), half), "");
}

TEST(PrecisionRules, converted_constants_are_rounded_to_the_nearest) {
  const TensorData half = amp::converted(floats({1, 1 + 0x1p-11F, 1 + 0x1.8p-10F, 1e-9F}), DType::kFloat16);
  EXPECT_EQ(half.type(), DType::kFloat16);
  EXPECT_EQ(half.read_double(0), 1);
  EXPECT_EQ(half.read_double(1), 1);
  EXPECT_EQ(half.read_double(2), 1 + 0x1p-9);
  EXPECT_EQ(half.read_double(3), 0);
  EXPECT_EQ(amp::converted(floats({1 + 0x1.8p-7F}), DType::kBFloat16).read_double(0), 1 + 0x1p-6);
}

}  // namespace
}  // namespace graft
