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

}  // namespace

std::vector<ContribOperator> contrib_activations() {
  return {{"Gelu", 1, {}, expand_gelu, "x times the normal distribution function."},
          {"BiasGelu", 2, {}, expand_gelu, "Gelu of x plus a bias."},
          {"FastGelu", 1, {}, expand_fast_gelu, "Gelu by its approximation with tanh, of x plus a bias."},
          {"QuickGelu", 1, {"alpha"}, expand_quick_gelu, "x sigmoid(alpha x)."},
          {"BiasSplitGelu", 2, {}, expand_bias_split_gelu, "Half of x plus a bias, times the Gelu of the other half."}};
}

}  // namespace graft
