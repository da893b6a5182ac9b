// SPDX-License-Identifier: Apache-2.0
// If and While, whose functions become bodies, and calls, whose functions become nodes.
#include <algorithm>
#include <utility>

#include "frontend/control_flow.h"
#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Body;
using frontend::Conversion;
using frontend::Loop;

void call(Conversion& c) { c.give(c.call("f", c.tensors("args"))); }

void branch(Conversion& c) {
  const ValueId condition = c.tensor("cond");
  frontend::convert_branch(c, condition, "then_branch", "else_branch", frontend::operands_of(c.tensors("input")));
}

/// Whether a round puts something into the list that this value is.
bool takes_items(const Conversion& c, size_t number) {
  const frontend::ForeignGraph& function = c.function("body");
  return std::any_of(function.nodes.begin(), function.nodes.end(), [&](const frontend::ForeignNode& node) {
    if (node.op != "TensorListSetItem" && node.op != "TensorArrayWriteV3") return false;
    const std::vector<int> taken = frontend::taken_by(node);
    const size_t list = node.op == "TensorListSetItem" ? 0 : 3;
    return taken.size() > list && frontend::behind_identities(function, taken[list]) == function.inputs[number];
  });
}

/// Lists whose elements' sizes nobody has stated have 1 there (tensor_lists): they begin as wide as what a round puts
/// into them.
bool widen_lists(Conversion& c, Loop& loop, const Body& round) {
  bool changed = false;
  for (size_t i = 0; i < loop.form().carried; ++i) {
    if (loop.stays(i) || !takes_items(c, i)) continue;
    const auto& known = loop.known(i).shape;
    const auto& made = round.graph.value(loop.result(round, i).value).shape;
    if (!known || !made || made->size() != known->size()) continue;
    std::vector<ValueId> sizes;
    bool wider = false;
    for (size_t axis = 0; axis < made->size(); ++axis) {
      const bool open = axis > 0 && (*known)[axis] == Size(1) && !((*made)[axis] == Size(1));
      sizes.push_back(open ? loop.size_outside(round, (*made)[axis]) : c.integers_constant({1}));
      wider = wider || open;
    }
    if (!wider) continue;
    const ValueId list = loop.form().operands[i].value;
    loop.replace(i, c.add("Expand", {list, c.add("Concat", sizes, {{"axis", int64_t{0}}})}));
    changed = true;
  }
  return changed;
}

/// TensorFlow hands all that a loop reads from round to round.
void loop(Conversion& c) {
  const std::vector<ValueId> values = c.tensors("input");
  Loop made(c, {.body = "body", .condition = "cond", .carried = values.size(),
                .operands = frontend::operands_of(values)});
  made.adjust_by([&](Loop& each, const Body& round) { return widen_lists(c, each, round); });
  c.give(made.convert().values);
}

}  // namespace

std::vector<frontend::Row> control_flow_rows() {
  return {
      {"If(Tcond cond, Tin* input)", branch},
      {"StatelessIf(Tcond cond, Tin* input)", branch},
      {"While(T* input)", loop},
      {"StatelessWhile(T* input)", loop},
      {"PartitionedCall(Tin* args)", call},
      {"StatefulPartitionedCall(Tin* args)", call},
  };
}

}  // namespace graft::tensorflow
