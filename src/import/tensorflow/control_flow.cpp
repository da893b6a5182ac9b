// SPDX-License-Identifier: Apache-2.0
// If and While, whose functions become bodies, and calls, whose functions become nodes.
#include <algorithm>
#include <numeric>
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
    const bool array = node.op == "TensorArrayWriteV3";
    if (node.op != "TensorListSetItem" && node.op != "TensorListPushBack" && !array) return false;
    const std::vector<int> taken = frontend::taken_by(node);
    const size_t list = array ? 3 : 0;
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
    if (!known || !made || (made->size() != known->size() && known->size() != 1)) continue;
    std::vector<ValueId> sizes;
    bool wider = made->size() != known->size();  // of axes that nobody has stated
    for (size_t axis = 0; axis < made->size(); ++axis) {
      const bool told = axis >= known->size();
      const bool open = axis > 0 && (told || ((*known)[axis] == Size(1) && !((*made)[axis] == Size(1))));
      sizes.push_back(open ? loop.size_outside(round, (*made)[axis]) : c.integers_constant({1}));
      wider = wider || open;
    }
    if (!wider) continue;
    ValueId list = loop.form().operands[i].value;
    if (made->size() != known->size()) {
      std::vector<int64_t> axes(made->size() - 1);
      std::iota(axes.begin(), axes.end(), 1);
      list = c.add("Unsqueeze", {list, c.integers_constant(axes)});
    }
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

/// Case: branches by number, the last one for all numbers that there are none for. Two at a time are an If.
void choose(Conversion& c) {
  const ValueId index = c.cast(c.tensor("branch_index"), DType::kInt64);
  const std::vector<ValueId> operands = c.tensors("input");
  std::vector<std::string> names;
  while (c.node().bodies.contains(branch_name(names.size()))) names.push_back(branch_name(names.size()));
  if (names.empty()) c.refuse("its branches are not known");
  const auto number = [&](size_t element) {
    return c.constant(TensorData::from_values(DType::kInt64, {}, std::vector{static_cast<int64_t>(element)}));
  };
  const ValueId last = number(names.size() - 1);
  const ValueId outside = c.add("Or", {c.add("Less", {index, number(0)}), c.add("Greater", {index, last})});
  const ValueId chosen = c.add("Where", {outside, last, index});
  std::vector<ValueId> results;
  for (size_t i = 0; i < names.size(); i += 2) {
    std::vector<ValueId> made;
    if (i + 1 < names.size()) {
      const ValueId condition = c.add("Equal", {chosen, number(i)});
      frontend::convert_branch(c, condition, names[i], names[i + 1], frontend::operands_of(operands));
      made = c.results();
    } else {
      made = c.call(names[i], operands);
    }
    for (size_t r = 0; r < made.size() && i > 0; ++r) {
      made[r] = c.add("Where", {c.add("GreaterOrEqual", {chosen, number(i)}), made[r], results[r]});
    }
    results = std::move(made);
  }
  c.give(std::move(results));
}

}  // namespace

std::string branch_name(size_t number) { return "branches:" + std::to_string(number); }

std::vector<frontend::Row> control_flow_rows() {
  return {
      {"If(Tcond cond, Tin* input)", branch},
      {"StatelessIf(Tcond cond, Tin* input)", branch},
      {"Case(int32:0 branch_index, Tin* input)", choose},
      {"StatelessCase(int32:0 branch_index, Tin* input)", choose},
      {"While(T* input)", loop},
      {"StatelessWhile(T* input)", loop},
      {"PartitionedCall(Tin* args)", call},
      {"StatefulPartitionedCall(Tin* args)", call},
  };
}

}  // namespace graft::tensorflow
