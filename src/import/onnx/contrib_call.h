// SPDX-License-Identifier: Apache-2.0
// A node of com.microsoft or ai.onnx.ml while it is written as operators of ai.onnx.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/onnx/convert_opset.h"

namespace graft {

/// The node's operands and attributes, and what writes its composition. Faults name the node.
class ContribCall {
 public:
  ContribCall(NodeWriter& writer, const Node& node) : writer_(writer), node_(node) {}

  bool has(size_t input) const { return input < node_.inputs.size() && node_.inputs[input] != kNoValue; }
  /// An input that has to be there.
  ValueId in(size_t input) const;
  /// An input, or kNoValue.
  ValueId maybe(size_t input) const { return has(input) ? node_.inputs[input] : kNoValue; }
  size_t input_count() const { return node_.inputs.size(); }
  bool wants(size_t output) const { return output < node_.outputs.size() && node_.outputs[output] != kNoValue; }
  const std::string& op() const { return node_.op; }

  bool has(std::string_view attribute) const { return node_.attributes.count(attribute) != 0; }
  int64_t integer(std::string_view attribute, int64_t otherwise) const;
  double real(std::string_view attribute, double otherwise) const;
  std::string text(std::string_view attribute, std::string_view otherwise) const;
  std::vector<int64_t> integers(std::string_view attribute) const;
  std::vector<double> reals(std::string_view attribute) const;
  std::vector<std::string> texts(std::string_view attribute) const;
  /// A tensor among the attributes, or null.
  const TensorData* tensor(std::string_view attribute) const;

  DType type(ValueId id) const { return writer_.graph().value(id).type; }
  /// The shape of a value whose rank has to be known.
  const Shape& shape(ValueId id) const;
  int64_t rank(ValueId id) const { return static_cast<int64_t>(shape(id).size()); }
  /// The elements of a list of integers, where they are known.
  std::optional<std::vector<int64_t>> known_integers(ValueId id) const;
  /// A size that has to be known when compiling.
  int64_t constant_size(ValueId id, int axis) const;

  /// An operator of one output; inputs at the end may be left out as kNoValue.
  ValueId emit(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    return emit(1, op, std::move(inputs), std::move(attributes))[0];
  }
  /// An operator of several outputs.
  std::vector<ValueId> emit(size_t outputs, std::string_view op, std::vector<ValueId> inputs,
                            Attributes attributes = {});
  /// An operator of our own.
  std::vector<ValueId> emit_own(size_t outputs, std::string_view op, std::vector<ValueId> inputs,
                                Attributes attributes = {});
  /// A composition: the nodes of `part`, whose inputs are `arguments`. Gives its outputs.
  std::vector<ValueId> compose(const Graph& part, const std::vector<ValueId>& arguments);
  ValueId constant(std::string_view name, TensorData data);
  ValueId integer(int64_t value) { return writer_.integer(value); }
  ValueId integers(const std::vector<int64_t>& values) { return writer_.integers(values); }
  ValueId floats(const std::vector<float>& values) { return writer_.floats(values); }
  ValueId scalar_like(double value, ValueId like) { return writer_.scalar_like(value, like); }
  ValueId cast(ValueId x, DType type);
  ValueId unsqueeze(ValueId x, const std::vector<int64_t>& axes) { return emit("Unsqueeze", {x, integers(axes)}); }
  ValueId squeeze(ValueId x, const std::vector<int64_t>& axes) { return emit("Squeeze", {x, integers(axes)}); }
  ValueId transpose(ValueId x, std::vector<int64_t> permutation);
  /// One size of a value, as an i64 list of one element.
  ValueId size_of(ValueId x, int64_t axis);
  /// The parts of `x` along an axis.
  std::vector<ValueId> split(ValueId x, const std::vector<int64_t>& sizes, int64_t axis);
  /// The constant with the same bytes, read as `type` under `shape`; kNoValue when `x` is none or they do not fit. Of
  /// each row the first `taken` elements, where that is not negative.
  ValueId reread_constant(ValueId x, DType type, const std::vector<int64_t>& shape, int64_t taken = -1);

  /// States an output, if it is wanted.
  void out(size_t output, ValueId value);
  [[noreturn]] void reject(const std::string& message) const;
  [[noreturn]] void unsupported(const std::string& reason) const;

 private:
  template <class T>
  const T* attribute(std::string_view name) const;
  std::vector<ValueId> add_node(std::string_view domain, size_t outputs, std::string_view op,
                                std::vector<ValueId> inputs, Attributes attributes);

  NodeWriter& writer_;
  const Node& node_;
};

/// The attributes that convolutions and poolings have in common.
Attributes convolution_attributes(const ContribCall& call);
/// The activation that a fused operator names, with its parameters.
ValueId activated(ContribCall& call, ValueId x, const std::string& name, const std::vector<double>& parameters);

/// One operator of com.microsoft, of a domain below it, or of ai.onnx.ml, as a composition: shapes, fusion, kernels,
/// precision and gradients of what it is made of are those of ai.onnx.
struct ContribOperator {
  std::string_view name;
  size_t least_inputs;
  std::vector<std::string_view> attributes;  ///< all that it may have
  void (*expand)(ContribCall& call);
  std::string_view doc;  ///< one sentence: what it computes
  std::string_view domain = "com.microsoft";
};
inline constexpr std::string_view kMachineLearning = "ai.onnx.ml";

std::vector<ContribOperator> contrib_activations();
std::vector<ContribOperator> contrib_normalizations();
std::vector<ContribOperator> contrib_attention();
std::vector<ContribOperator> contrib_quantization();
std::vector<ContribOperator> contrib_quantized_layers();
std::vector<ContribOperator> contrib_positions();
std::vector<ContribOperator> contrib_experts();
std::vector<ContribOperator> contrib_standard();
std::vector<ContribOperator> contrib_products();
std::vector<ContribOperator> contrib_blocked();
std::vector<ContribOperator> learning_features();
std::vector<ContribOperator> learning_encoders();
std::vector<ContribOperator> learning_linear();
std::vector<ContribOperator> learning_vectors();
std::vector<ContribOperator> learning_trees();

}  // namespace graft
