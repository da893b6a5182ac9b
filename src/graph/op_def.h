// SPDX-License-Identifier: Apache-2.0
// What an operator is: one definition, from which shapes, reference, kernels, tests and documentation derive.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "expr/build.h"
#include "graph/graph.h"

namespace graft {

/// An attribute an operator takes. A monostate default means it is required or, if `optional`, may be absent.
struct AttributeSpec {
  std::string_view name;
  Attribute default_value = {};
  bool optional = false;
};

/// An input of a sample: random values of `type` in [low, high], or the given `data`.
struct SampleInput {
  DType type = DType::kFloat32;
  std::vector<int64_t> shape = {};
  double low = -2, high = 2;
  std::optional<TensorData> data = {};
  bool absent = false;
  bool constant = false;  ///< known when compiling (an initializer)
};

/// A case that tests are generated from, on every device, in interpreter and generated form.
struct Sample {
  std::string name;  ///< a sentence in snake_case
  std::vector<SampleInput> inputs = {};
  Attributes attributes = {};
  int outputs = 1;
  double tolerance = 1e-5;  ///< relative to the largest reference magnitude, for float results
};

class Definition;

/// One operator.
struct OpDef {
  std::string_view domain;
  std::string_view name;
  int since = 1;  ///< the opset whose meaning this is; older ones are converted on import
  std::vector<std::string_view> inputs;   ///< names; a trailing '?' is optional, '*' variadic
  std::vector<std::string_view> outputs;
  std::vector<AttributeSpec> attributes;
  void (*define)(Definition&) = nullptr;
  std::vector<Sample> (*samples)() = nullptr;
  std::string_view doc;  ///< one sentence: what it computes
  bool keeps_order = false;  ///< output 0 holds the elements of input 0 in the same order: no work, only a new shape
};

/// A run-time size: the symbol takes the value of element `element` of node input `input` when the node is reached.
struct SizeSource {
  std::string symbol;
  int input = 0;
  int64_t element = 0;
};

/// A condition on sizes that the run checks when its symbols are known: `value` must be zero (or at least zero).
struct SizeCheck {
  Size value;
  bool at_least_zero = false;
  std::string message;
};

/// What a node means: a region, and how its tensors map to the node's.
struct NodeDefinition {
  Region region;
  std::vector<int> inputs;   ///< region input k is node input inputs[k]
  std::vector<int> outputs;  ///< region output k is node output outputs[k]
  std::vector<SizeSource> size_sources;
  std::vector<SizeCheck> checks;
};

/// The context in which a definition function runs: the node's attributes and inputs, and a builder for its region.
class Definition : public RegionBuilder {
 public:
  Definition(const OpDef& op, const Node& node, const Graph& graph);

  const Node& node() const { return node_; }
  int input_count() const { return static_cast<int>(node_.inputs.size()); }
  int output_count() const { return static_cast<int>(node_.outputs.size()); }
  bool has_input(int index) const;
  bool wants_output(int index) const;
  DType input_type(int index) const;
  const Shape& input_shape(int index) const;
  /// The tensor of input `index` (declared as a region input on first use).
  Tensor in(int index);

  bool has(std::string_view attribute) const;
  int64_t integer(std::string_view attribute) const;
  double real(std::string_view attribute) const;
  std::string text(std::string_view attribute) const;
  std::vector<int64_t> integers(std::string_view attribute) const;
  std::vector<double> reals(std::string_view attribute) const;
  const TensorData* tensor(std::string_view attribute) const;
  DType type(std::string_view attribute) const;  ///< an ONNX type code

  /// The constant behind an input, or null.
  const TensorData* constant(int index) const;
  /// Whether sizes_of gives an input's values; otherwise it gives symbols of a run, which may be negative.
  bool knows(int index) const;
  /// The elements of a small integer input as sizes: known ones, or symbols bound when the run reaches this node.
  /// The number of elements must be known, or be `length`, which a run then checks.
  std::vector<Size> sizes_of(int index, std::optional<int64_t> length = {});
  /// The same for one element.
  Size size_of(int index, int64_t element = 0);
  /// A symbol of this node's own for a size that the node's region computes (Compact::count).
  std::string fresh_symbol(std::string_view hint);

  /// An axis in [-rank, rank) made non-negative; rejects others.
  int axis(int64_t value, int rank) const;
  /// The run checks that a == b, at once when decidable.
  void require_equal(const Size& a, const Size& b, std::string_view message);
  void require_at_least(const Size& a, const Size& least, std::string_view message);
  /// The same for all axes of a tensor; another number of axes is rejected. Kernels do not check the indices that a
  /// definition computes: whatever it reads beside input 0 has to fit what it reads it for.
  void require_shape(const Tensor& t, const Shape& shape, std::string_view message);
  /// Each axis of the tensor is 1 or as large as that of `shape` it stands for, counted from the last.
  void require_fits(const Tensor& t, const Shape& shape, std::string_view message);
  /// Broadcasts two sizes by numpy's rule. Dimensions that callers choose may be 1 in a run, which then repeats what
  /// has them; other sizes that differ are checked at run time to be equal.
  Size broadcast(const Size& a, const Size& b);
  Shape broadcast(const Shape& a, const Shape& b);
  /// Element of `t` at the broadcast position `indices`, cast to compute type when `wide`. More axes than there are
  /// indices are the model's fault.
  Expr at(const Tensor& t, const Indices& indices, bool wide = true) const;
  /// The index of an axis of that size at a broadcast position.
  Expr broadcast_index(const Size& size, const Expr& index) const;

  /// States output `index`.
  void out(int index, const Tensor& tensor);
  /// The model is wrong: throws invalid_model naming the node.
  [[noreturn]] void reject(const std::string& message) const;
  /// The model is right but this is outside what definitions cover: throws unsupported naming the node.
  [[noreturn]] void unsupported(const std::string& reason) const;

  NodeDefinition finish();

 private:
  using Dimensions = std::set<std::string, std::less<>>;

  const Attribute& attribute(std::string_view name) const;
  std::optional<Dimensions> dimensions_of(const Size& size) const;
  static Size common_size(const Dimensions& dimensions);
  bool may_repeat(const Size& size, const Size& whole) const;
  void repeat(const Size& size, const Size& whole, std::string_view message);

  const OpDef& op_;
  const Node& node_;
  const Graph& graph_;
  std::vector<Tensor> input_tensors_;
  std::vector<Tensor> output_tensors_;
  std::set<Size> repeated_;  ///< sizes that may be 1 where what reads them is larger
  NodeDefinition result_;
};

/// The operator's definition, or null when there is none.
const OpDef* find_op(std::string_view domain, std::string_view name);
/// All operators, in the order of all_ops.inc.
const std::vector<OpDef>& all_ops();
/// The name of an operator's input or output without the marks of optional and variadic ones: `x`, `inputs_2`.
std::string operand_name(const std::vector<std::string_view>& names, size_t index);
/// Why a node does not fit its operator (the number of its inputs and outputs, the element types of those whose type is
/// known, names of attributes), with the remedy; an empty text when it does.
std::string operand_fault(const OpDef& op, const Node& node, const Graph& graph);
/// Runs the definition of a node whose inputs have known types and ranks.
/// Throws invalid_model or unsupported, naming the node.
NodeDefinition define(const Node& node, const Graph& graph);

}  // namespace graft
