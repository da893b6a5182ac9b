// SPDX-License-Identifier: Apache-2.0
// What an operator's definition says about lower precision, on the first of its samples that computes floats.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "graph/infer.h"
#include "graph/op_def.h"
#include "passes/precision_rules.h"
#include "passes/value_ranges.h"

namespace graft::passes {
namespace {

/// Elements of the first operand are within this, those of others, which scale it or are added to it, within 1; results
/// up to so many times as large are still about as large.
constexpr double kMagnitude = 16, kGrowth = 8;

/// Sizes of floats are open: an axis may be as long as the network likes.
Shape shape_of(const SampleInput& input, bool open) {
  const std::vector<int64_t>& sizes = input.data ? input.data->shape() : input.shape;
  Shape shape(sizes.begin(), sizes.end());
  for (Size& size : shape) {
    if (open && input.type == DType::kFloat32 && *size.as_constant() > 1) {
      size = Size::symbol(fmt::format("n{}", *size.as_constant()));
    }
  }
  return shape;
}

/// A graph of one node.
Graph graph_of(const OpDef& op, const Sample& sample, bool open) {
  Graph graph;
  graph.opsets[""] = kOpset;
  Node node;
  node.domain = op.domain, node.op = op.name, node.name = op.name;
  node.attributes = sample.attributes;
  for (const SampleInput& input : sample.inputs) {
    if (input.absent) {
      node.inputs.push_back(kNoValue);
    } else if (input.constant) {
      node.inputs.push_back(
          graph.add_constant("c", input.data ? *input.data : TensorData::zeros(input.type, input.shape)));
    } else {
      node.inputs.push_back(graph.add_value("x", input.type, shape_of(input, open)));
      graph.inputs.push_back(node.inputs.back());
    }
  }
  for (int i = 0; i < sample.outputs; ++i) node.outputs.push_back(graph.add_value("y", DType::kUndefined));
  graph.add_node(std::move(node));
  return graph;
}

bool is_f32(const Region& region, int tensor) { return region.tensors[tensor].type == DType::kFloat32; }

/// The tensors whose elements are multiplied with each other in an expression that is a product.
void collect_factors(const Expr& e, std::set<int>& factors) {
  if (e->kind == ExprKind::kLoad && is_float(e->type)) factors.insert(e->tensor);
  if (e->kind != ExprKind::kCall) return;
  if (e->intrinsic == Intrinsic::kMul || e->intrinsic == Intrinsic::kCast) {
    for (const Expr& each : e->args) collect_factors(each, factors);
  }
  if (e->intrinsic == Intrinsic::kSelect) {  // zeros beside an image
    for (size_t k = 1; k < e->args.size(); ++k) collect_factors(e->args[k], factors);
  }
}

/// A sum of products of two tensors' elements.
bool is_contraction(const Form& form) {
  const auto* reduce = std::get_if<Reduce>(&form);
  if (!reduce || reduce->monoid.intrinsic() != Intrinsic::kAdd) return false;
  std::set<int> factors;
  collect_factors(reduce->lift[0], factors);
  return factors.size() > 1;
}

PrecisionRule rule_of(const NodeDefinition& definition) {
  const Region& region = definition.region;
  std::vector<ValueRange> inputs;
  for (size_t k = 0; k < region.inputs.size(); ++k) {
    const double magnitude = definition.inputs[k] == 0 ? kMagnitude : 1;
    inputs.push_back({-magnitude, magnitude});
  }
  if (std::any_of(region.forms.begin(), region.forms.end(), is_contraction)) return PrecisionRule::kLow;
  const std::vector<ValueRange> ranges = value_ranges(region, inputs);
  const bool large = std::any_of(region.outputs.begin(), region.outputs.end(), [&](int output) {
    return is_f32(region, output) && !(ranges[output].magnitude() <= kGrowth * kMagnitude);
  });
  return large ? PrecisionRule::kWide : PrecisionRule::kFollow;
}

}  // namespace

PrecisionRule derived_rule(const OpDef& op) {
  const std::vector<Sample> samples = op.samples ? op.samples() : std::vector<Sample>();
  for (const Sample& sample : samples) {
    const auto is_float_input = [](const SampleInput& input) { return input.type == DType::kFloat32; };
    if (std::none_of(sample.inputs.begin(), sample.inputs.end(), is_float_input)) continue;
    for (const bool open : {true, false}) {
      Graph graph = graph_of(op, sample, open);
      if (infer_node(graph, 0)) continue;
      return rule_of(define(graph.nodes[0], graph));
    }
  }
  return PrecisionRule::kWide;
}

}  // namespace graft::passes
