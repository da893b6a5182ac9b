// SPDX-License-Identifier: Apache-2.0
// The graph: ONNX operators over values, in memory of our own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/derived_sizes.h"
#include "graph/attribute.h"

namespace graft {

/// The most axes that a tensor may have.
inline constexpr int kHighestRank = 64;

/// Index of a value in its graph; -1 stands for an input or output that is left out.
using ValueId = int;
inline constexpr ValueId kNoValue = -1;

/// A tensor between nodes. Known sizes may be symbolic; an unknown rank has no shape.
struct Value {
  std::string name;  ///< unique in the graph; the model's own name where it has one
  DType type = DType::kUndefined;
  std::optional<Shape> shape;
  std::optional<TensorData> constant;         ///< an initializer or a folded value
  std::optional<std::vector<Size>> content;   ///< elements of a small integer tensor, symbolically, when known
  int producer = -1;                          ///< node index, -1 for inputs and constants
  std::string dynamic_type;                   ///< not a tensor: `seq(f32[2, n])`, `optional(...)`, `map(i64, ...)`
};

/// An operator applied to values.
struct Node {
  std::string name;    ///< unique; the model's own name where it has one, used in errors, profiles and traces
  std::string domain;  ///< "" is ai.onnx; "graft" holds operators of our own
  std::string op;
  Attributes attributes;
  std::vector<ValueId> inputs;   ///< kNoValue for an optional input left out
  std::vector<ValueId> outputs;  ///< kNoValue for an optional output nobody wants
};

/// A graph in static single assignment: each value is an input, a constant, or an output of one node; `nodes` is in
/// topological order (verify checks it). Passes edit it through the functions below. A graph is owned by one thread.
class Graph {
 public:
  std::string name;
  std::map<std::string, int64_t, std::less<>> opsets;  ///< by domain; after import always kOpset for ""
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;   ///< run-time inputs only (initializers are constants)
  std::vector<ValueId> outputs;
  /// Ranges of symbols as given by profiles: [min, opt, max].
  struct Range {
    int64_t min = 1, opt = 1, max = 0;   ///< max 0: unbounded
    std::vector<int64_t> others = {};  ///< further optima: sizes that the network is compiled for as well
  };
  std::map<std::string, Range, std::less<>> symbol_ranges;
  /// The long sizes of its shapes, which inference names.
  DerivedSizes derived;
  std::vector<std::pair<std::string, std::string>> metadata;

  const Value& value(ValueId id) const { return values[id]; }
  Value& value(ValueId id) { return values[id]; }
  /// Adds a value; a taken or empty name gets a number appended.
  ValueId add_value(std::string_view name, DType type, std::optional<Shape> shape = std::nullopt);
  ValueId add_constant(std::string_view name, TensorData data);
  /// Appends a node whose outputs exist already; sets their producer. Its name is made unique.
  Node& add_node(Node node);
  ValueId find_value(std::string_view name) const;
  /// Names are found by an index, so they are changed here only; a taken one gets a number appended.
  void rename_value(ValueId id, std::string_view name);
  /// Whether the model's outputs include the value.
  bool is_output(ValueId id) const;
  /// Every use of `from` in nodes and graph outputs becomes a use of `to`.
  void replace_uses(ValueId from, ValueId to);
  /// For each value, the indices of the nodes that read it (once per node).
  std::vector<std::vector<int>> consumers() const;
  /// Removes the nodes marked true; later node indices shift. Values stay until remove_unused_values.
  void erase_nodes(const std::vector<bool>& erased);
  /// Restores topological order (stable) and producers after nodes were appended out of order;
  /// throws invalid_model naming the nodes of a cycle.
  void sort_nodes();
  /// Drops values that nothing names, renumbering the rest.
  void remove_unused_values();

 private:
  std::string unique_name(std::string_view base);
  std::map<std::string, ValueId, std::less<>> by_name_;
  std::map<std::string, int, std::less<>> node_names_;
};

/// The ONNX opset that graphs speak after import.
inline constexpr int64_t kOpset = 28;

/// The constants that print leaves out, by the names under which parse_graph looks for them; those of subgraphs are
/// named `NODE/ATTRIBUTE/VALUE`.
std::map<std::string, TensorData, std::less<>> large_constants(const Graph& graph);
/// How the text names a constant that is too large for it.
enum class LargeConstants : uint8_t {
  kHash,     ///< `= #HASH`: the contents are confirmed when the text is read
  kWeights,  ///< `= weights`: somebody else vouches for them, and nobody reads them here
};
/// The canonical text; parse_graph reads it back. Constants up to 16 elements print inline; larger ones travel in
/// `weights` (name -> data).
std::string print(const Graph& graph, LargeConstants large = LargeConstants::kHash);
Graph parse_graph(std::string_view text, const std::map<std::string, TensorData, std::less<>>* weights = nullptr);
/// Throws invalid_model (or internal, when `trusted`) naming the node that breaks single assignment, order or arity.
void verify(const Graph& graph, bool trusted = true);

}  // namespace graft
