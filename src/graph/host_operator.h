// SPDX-License-Identifier: Apache-2.0
// Operators that are no tensor expressions: they take or give sequences, optionals, maps, or look inside of strings and
// images. A definition says the types of what they give; a kernel of the same name in kernels/ does the work.
#pragma once

#include <optional>
#include <string>

#include "graph/dynamic_type.h"
#include "graph/op_def.h"

namespace graft {

class HostInference;

/// An operator of the host. Where the table of tensor expressions has it too, `when` says which nodes are the host's.
struct HostOp {
  std::string_view domain, name;
  int since = 1;  ///< see OpDef
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributeSpec> attributes;
  void (*infer)(HostInference&) = nullptr;  ///< says the types of its results
  std::string_view doc;                     ///< one sentence: what it does
  bool (*when)(const Node&, const Graph&) = nullptr;
};
/// The operators of the host, in the order of ops/host_ops.inc.
const std::vector<HostOp>& host_ops();
const HostOp* find_host_op(std::string_view domain, std::string_view name);

/// How many inputs and outputs a node has, and the names of its attributes, against what its operator has; an empty
/// text when they fit.
std::string arity_fault(const std::vector<std::string_view>& inputs, const std::vector<std::string_view>& outputs,
                        const std::vector<AttributeSpec>& attributes, const Node& node);
/// Whether plain C++ runs the node.
bool runs_on_host(const Node& node, const Graph& graph);
/// Whether the node takes or gives a value that is no tensor.
bool has_dynamic_values(const Node& node, const Graph& graph);

/// What the definition of an operator of the host is asked with, and what it answers.
class HostInference {
 public:
  HostInference(const HostOp& op, const Node& node, Graph& graph) : op_(op), node_(node), graph_(graph) {}

  const Node& node() const { return node_; }
  bool has_input(size_t index) const { return index < node_.inputs.size() && node_.inputs[index] != kNoValue; }
  /// Rejects the node when the input is left out.
  const Value& input(size_t index) const;
  DynamicType type(size_t index) const { return type_of(input(index)); }
  /// The type of a sequence's elements; rejects what is no sequence.
  DynamicType element_type(size_t index) const;
  /// Rejects an input of another element type, and what is no tensor.
  void require_type(size_t index, DType type) const;

  int64_t integer(std::string_view attribute) const;
  std::string text(std::string_view attribute) const;
  bool has(std::string_view attribute) const { return node_.attributes.find(attribute) != node_.attributes.end(); }
  const Attribute* attribute(std::string_view name) const;

  /// A size that the run finds: axis `axis` of output `output`.
  Size counted(size_t output, size_t axis) const;
  /// A tensor; without a shape, of the rank that the model declares, if it does.
  void give(size_t output, DType type, std::optional<Shape> shape) const;
  /// A tensor of a known rank whose sizes the run finds.
  void give_counted(size_t output, DType type, int rank) const;
  /// A value of this type, which may be a tensor.
  void give(size_t output, const DynamicType& type) const;
  /// numpy's broadcast of two shapes; the run finds the sizes that nobody knows, and checks that they fit.
  Shape broadcast(const Shape& a, const Shape& b, size_t output) const;

  [[noreturn]] void reject(const std::string& message) const;
  [[noreturn]] void unsupported(const std::string& reason) const;

 private:
  const HostOp& op_;
  const Node& node_;
  Graph& graph_;
};

/// Infers the outputs of a node that runs on the host. Returns why nothing could be said, or nothing.
std::optional<std::string> infer_host_node(Graph& graph, int index);

}  // namespace graft
