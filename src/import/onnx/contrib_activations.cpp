// SPDX-License-Identifier: Apache-2.0
// Activations of com.microsoft, some with a bias before them.
#include "import/onnx/contrib_call.h"

namespace graft {
namespace {

ValueId with_bias(ContribCall& call) {
  return call.has(1) ? call.emit("Add", {call.in(0), call.in(1)}) : call.in(0);
}

void expand_gelu(ContribCall& call) { call.out(0, call.emit("Gelu", {with_bias(call)})); }

void expand_fast_gelu(ContribCall& call) {
  call.out(0, call.emit("Gelu", {with_bias(call)}, {{"approximate", std::string("tanh")}}));
}

void expand_quick_gelu(ContribCall& call) {
  call.out(0, call.emit("Swish", {call.in(0)}, {{"alpha", call.real("alpha", 1.702)}}));
}

/// The first half of the last axis times the Gelu of the second.
void expand_bias_split_gelu(ContribCall& call) {
  const ValueId sum = call.emit("Add", {call.in(0), call.in(1)});
  const std::vector<ValueId> halves =
      call.emit(2, "Split", {sum}, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}});
  call.out(0, call.emit("Mul", {halves[0], call.emit("Gelu", {halves[1]})}));
}

/// Softmax over the axes from `axis` on, of the sum with a bias that broadcasts.
void expand_bias_softmax(ContribCall& call) {
  const ValueId sum = call.emit("Add", {call.in(0), call.in(1)});
  const int64_t rank = call.rank(sum), given = call.integer("axis", 1), axis = given < 0 ? given + rank : given;
  if (axis == rank - 1) return call.out(0, call.emit("Softmax", {sum}, {{"axis", int64_t{-1}}}));
  const ValueId flat = call.emit("Softmax", {call.emit("Flatten", {sum}, {{"axis", axis}})}, {{"axis", int64_t{1}}});
  call.out(0, call.emit("Reshape", {flat, call.emit("Shape", {sum})}, {{"allowzero", int64_t{1}}}));
}

void expand_bias_add(ContribCall& call) {
  call.out(0, call.emit("Add", {call.emit("Add", {call.in(0), call.in(1)}), call.in(2)}));
}

/// At inference nothing is dropped.
void expand_bias_dropout(ContribCall& call) {
  const ValueId sum = call.emit("Add", {call.in(0), call.in(1)});
  call.out(0, call.has(2) ? call.emit("Add", {sum, call.in(2)}) : sum);
  if (!call.wants(1)) return;
  const ValueId kept = call.constant("kept", TensorData::from_values<bool>(DType::kBool, {}, {true}));
  call.out(1, call.emit("Expand", {kept, call.emit("Shape", {sum})}));
}

}  // namespace

std::vector<ContribOperator> contrib_activations() {
  return {{"Gelu", 1, {}, expand_gelu, "x times the normal distribution function."},
          {"BiasGelu", 2, {}, expand_gelu, "Gelu of x plus a bias."},
          {"FastGelu", 1, {}, expand_fast_gelu, "Gelu by its approximation with tanh, of x plus a bias."},
          {"QuickGelu", 1, {"alpha"}, expand_quick_gelu, "x sigmoid(alpha x)."},
          {"BiasSplitGelu", 2, {}, expand_bias_split_gelu, "Half of x plus a bias, times the Gelu of the other half."},
          {"BiasSoftmax", 2, {"axis", "is_inner_broadcast"}, expand_bias_softmax, "Softmax of x plus a bias."},
          {"BiasAdd", 3, {}, expand_bias_add, "x plus a bias plus a residual."},
          {"BiasDropout", 2, {"seed"}, expand_bias_dropout, "x plus a bias plus a residual; nothing is dropped."}};
}

}  // namespace graft
