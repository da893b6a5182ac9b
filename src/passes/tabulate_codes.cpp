// SPDX-License-Identifier: Apache-2.0
// What is computed of one tensor of 8-bit codes and quantised again becomes a lookup table of 256 codes:
//   q: u8;  Q(f(DQ(q), constants))            -> LookupTable(q, table)
//   Q(DQ(q) * DQ(LookupTable(q, sigmoid)))    -> LookupTable(q, table of both)
// where f is element-wise: activations as quantisers write them, each of whose operators is quantised by itself. The
// table is computed here, by the definitions.
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/evaluate_graph.h"
#include "passes/edit.h"
#include "passes/node_behaviour.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

constexpr int64_t kCodes = 256;

bool is_code(DType type) { return type == DType::kInt8 || type == DType::kUint8; }

bool is_lookup(const Node& node) { return node.domain == "graft" && node.op == "LookupTable"; }

/// All codes of the type, the smallest first.
TensorData all_codes(DType type) {
  TensorData codes = TensorData::zeros(type, {kCodes});
  for (int64_t n = 0; n < kCodes; ++n) codes.write_integer(n, type == DType::kInt8 ? n - 128 : n);
  return codes;
}

/// The nodes between a tensor of codes and a value that follows from it, element by element.
class Cone {
 public:
  explicit Cone(const Graph& graph) : graph_(graph) {}

  /// Whether the node's result follows from one tensor of codes and constants of one element.
  bool reach(int node) { return visit(node) && source_ != kNoValue; }
  ValueId source() const { return source_; }
  /// Nodes in order, the last is the one that was asked for.
  const std::vector<int>& nodes() const { return nodes_; }
  /// Whether one of the nodes does more than to quantise, or to undo it.
  bool computes() const { return computes_; }

  /// The result of each code, in order; nothing where a definition does not take them.
  std::optional<TensorData> table() const {
    try {
      const TensorData results = evaluated();
      return results.element_count() == kCodes ? std::optional(results.reshaped({kCodes})) : std::nullopt;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInternal) throw;
      return std::nullopt;
    }
  }

 private:
  TensorData evaluated() const {
    std::map<ValueId, TensorData> known;
    known.emplace(source_, all_codes(graph_.value(source_).type));
    for (const int index : nodes_) {
      const Node& node = graph_.nodes[index];
      std::vector<TensorData> inputs;
      for (const ValueId value : node.inputs) {
        const auto at = known.find(value);
        if (at != known.end()) inputs.push_back(at->second);
        else inputs.push_back(value == kNoValue ? TensorData() : *constant_of(graph_, value));
      }
      known[node.outputs[0]] = evaluate_node(node, inputs)[0];
    }
    return known.at(graph_.nodes[nodes_.back()].outputs[0]);
  }

  bool visit(int index) {
    const Node& node = graph_.nodes[index];
    if (!visited_.insert(index).second) return true;
    if (node.outputs.size() != 1 || is_random(node) || has_subgraph(node) || visited_.size() > kMostNodes) return false;
    const size_t operands = is_lookup(node) ? 1 : node.inputs.size();
    if (!is_lookup(node) && !is_elementwise(graph_, node)) return false;
    for (size_t n = 0; n < operands; ++n) {
      if (!is_operand(node.inputs[n])) return false;
    }
    computes_ |= !is_op(node, {"QuantizeLinear", "DequantizeLinear"});
    nodes_.push_back(index);
    return true;
  }

  bool is_operand(ValueId value) {
    if (value == kNoValue) return true;
    if (const TensorData* constant = constant_of(graph_, value)) return constant->element_count() == 1;
    const int producer = graph_.value(value).producer;
    const bool is_table = producer >= 0 && is_lookup(graph_.nodes[producer]);
    if (!is_code(graph_.value(value).type) || is_table) return producer >= 0 && visit(producer);
    if (source_ == kNoValue) source_ = value;
    return source_ == value;
  }

  static constexpr size_t kMostNodes = 64;

  const Graph& graph_;
  ValueId source_ = kNoValue;
  std::set<int> visited_;
  std::vector<int> nodes_;
  bool computes_ = false;
};

bool tabulate(Graph& graph, int index) {
  const Node node = graph.nodes[index];
  if (!is_op(node, {"QuantizeLinear"}) || !is_code(graph.value(node.outputs[0]).type)) return false;
  Cone cone(graph);
  if (!cone.reach(index) || !cone.computes() || !same_shape(graph, cone.source(), node.outputs[0])) return false;
  std::optional<TensorData> codes = cone.table();
  if (!codes) return false;
  const ValueId table = graph.add_constant(fmt::format("{}/table", node.name), *std::move(codes));
  graph.opsets.try_emplace("graft", 1);
  replace_node(graph, index, "LookupTable", {cone.source(), table});
  graph.nodes[index].domain = "graft";
  return true;
}

}  // namespace

bool tabulate_codes(Graph& graph, const PassContext& context) {
  if (!context.looks_up_bytes) return false;
  return rewrite_nodes(graph, [](Graph& g, const Matcher&, int index) { return tabulate(g, index); });
}

}  // namespace graft::passes
