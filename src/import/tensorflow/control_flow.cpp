// SPDX-License-Identifier: Apache-2.0
// If and While, whose functions become bodies, and calls, whose functions become nodes.
#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "frontend/body_graph.h"
#include "graph/insert_graph.h"
#include "graph/symbols.h"
#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;
using frontend::Given;
using frontend::add_input;
using frontend::given_of;
using frontend::name_results;

constexpr int kMostRounds = 8;  // of finding the carried axes that a round changes

void call(Conversion& c) { c.give(c.call("f", c.tensors("args"))); }

/// TensorFlow takes numbers for conditions, too: of one element, whether it is not 0.
ValueId condition(Conversion& c, ValueId value) {
  if (c.rank_of(value) != 0) c.refuse("a condition that has axes");
  return c.cast(value, DType::kBool);
}

void branch(Conversion& c) {
  const std::vector<ValueId> given = c.tensors("input");
  const std::vector<Given> known = given_of(c, given);
  std::vector<ValueId> captured;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!known[i].constant) captured.push_back(given[i]);
  }
  Attributes attributes;
  int results = 0;
  for (const char* name : {"then_branch", "else_branch"}) {
    auto body = std::make_shared<Graph>(c.body(name, known));
    name_results(*body);
    if (results != 0 && results != static_cast<int>(body->outputs.size())) c.refuse("branches that give other counts");
    results = static_cast<int>(body->outputs.size());
    attributes[name] = std::shared_ptr<const Graph>(std::move(body));
  }
  const auto count = static_cast<int64_t>(captured.size());
  attributes["captures"] = std::vector<int64_t>{count, count};
  std::vector<ValueId> inputs = {condition(c, c.tensor("cond"))};
  for (int body = 0; body < 2; ++body) inputs.insert(inputs.end(), captured.begin(), captured.end());
  c.give(c.add_several("If", std::move(inputs), std::move(attributes), results));
}

std::vector<int> taken_by(const frontend::ForeignNode& node) {
  std::vector<int> taken;
  frontend::visit_references(frontend::Argument(node.arguments), [&](int each) { taken.push_back(each); });
  return taken;
}

/// The value that a function's value is another name of.
int behind_identities(const frontend::ForeignGraph& function, int value) {
  for (size_t steps = 0; steps <= function.nodes.size(); ++steps) {
    const auto makes = [&](const frontend::ForeignNode& node) {
      return std::find(node.outputs.begin(), node.outputs.end(), value) != node.outputs.end();
    };
    const auto maker = std::find_if(function.nodes.begin(), function.nodes.end(), makes);
    if (maker == function.nodes.end() || (maker->op != "Identity" && maker->op != "IdentityN")) return value;
    const std::vector<int> taken = taken_by(*maker);
    const auto index = static_cast<size_t>(std::find(maker->outputs.begin(), maker->outputs.end(), value) -
                                           maker->outputs.begin());
    if (index >= taken.size()) return value;
    value = taken[index];
  }
  return value;
}

/// Whether a function hands its input of that number through, to the result of that number.
bool hands_through(const frontend::ForeignGraph& function, size_t number) {
  return behind_identities(function, function.outputs[number]) == function.inputs[number];
}

/// A loop on its way to the graph's: TensorFlow hands all that it reads from round to round.
class While {
 public:
  explicit While(Conversion& c) : c_(c), values_(c.tensors("input")), known_(given_of(c, values_)) {
    const frontend::ForeignGraph& function = c.function("body");
    if (function.outputs.size() != values_.size() || function.inputs.size() != values_.size()) {
      c.refuse("its function 'body' gives other values than it takes");
    }
    for (size_t i = 0; i < values_.size(); ++i) {
      stays_.push_back(hands_through(function, i));
      if (!stays_[i]) known_[i].constant = {};
    }
  }

  void convert() {
    Graph round = settled_round();
    const ValueId first = condition(c_, c_.call("cond", values_).at(0));
    std::vector<ValueId> inputs = {kNoValue, first}, captured;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!stays_[i]) inputs.push_back(values_[i]);
      if (stays_[i] && !known_[i].constant) captured.push_back(values_[i]);
    }
    const int carried = static_cast<int>(inputs.size()) - 2;
    if (carried == 0) c_.refuse("a loop that changes nothing");
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    Attributes attributes;
    attributes["captures"] = std::vector<int64_t>{static_cast<int64_t>(captured.size())};
    attributes["body"] = std::shared_ptr<const Graph>(std::make_shared<Graph>(loop_body(round)));
    const std::vector<ValueId> made = c_.add_several("Loop", std::move(inputs), std::move(attributes), carried);
    std::vector<ValueId> results;
    size_t next = 0;
    for (size_t i = 0; i < values_.size(); ++i) results.push_back(stays_[i] ? values_[i] : made[next++]);
    c_.give(std::move(results));
  }

 private:
  /// One round, of shapes that hold in every round: an axis that a round changes is a symbol.
  Graph settled_round() {
    for (int i = 0; i < kMostRounds; ++i) {
      Graph round = c_.body("body", known_);
      if (!widen_lists(round) && !widen(round)) return round;
    }
    c_.refuse("sizes that change from round to round");
  }

  /// Lists whose elements' sizes nobody has stated have 1 there (tensor_lists): they begin as wide as what a round puts
  /// into them.
  bool widen_lists(const Graph& round) {
    bool changed = false;
    for (size_t i = 0; i < values_.size(); ++i) {
      const auto& made = round.value(round.outputs[i]).shape;
      if (stays_[i] || !known_[i].shape || !made || made->size() != known_[i].shape->size()) continue;
      if (!takes_items(i)) continue;
      std::vector<ValueId> sizes;
      bool wider = false;
      for (size_t axis = 0; axis < made->size(); ++axis) {
        const bool open = axis > 0 && (*known_[i].shape)[axis] == Size(1) && !((*made)[axis] == Size(1));
        sizes.push_back(open ? size_outside(round, (*made)[axis]) : c_.integers_constant({1}));
        wider = wider || open;
      }
      if (!wider) continue;
      values_[i] = c_.add("Expand", {values_[i], c_.add("Concat", sizes, {{"axis", int64_t{0}}})});
      known_[i].shape = c_.shape_of(values_[i]);
      changed = true;
    }
    return changed;
  }

  /// Whether a round puts something into the list that this value is.
  bool takes_items(size_t number) const {
    const frontend::ForeignGraph& function = c_.function("body");
    return std::any_of(function.nodes.begin(), function.nodes.end(), [&](const frontend::ForeignNode& node) {
      if (node.op != "TensorListSetItem" && node.op != "TensorArrayWriteV3") return false;
      const std::vector<int> taken = taken_by(node);
      const size_t list = node.op == "TensorListSetItem" ? 0 : 3;
      return taken.size() > list && behind_identities(function, taken[list]) == function.inputs[number];
    });
  }

  /// A size of a round as a tensor of one element outside of the loop: that of a value that the loop is given.
  ValueId size_outside(const Graph& round, const Size& size) {
    if (const auto known = size.as_constant()) return c_.integers_constant({*known});
    for (size_t i = 0; i < values_.size(); ++i) {
      if (known_[i].constant) continue;
      const Shape shape = round.value(input_of(round, i)).shape.value_or(Shape{});
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        if (!(shape[axis] == size)) continue;
        return c_.add("Gather", {c_.add("Shape", {values_[i]}), c_.integers_constant({static_cast<int64_t>(axis)})});
      }
    }
    c_.refuse("a list of elements whose size is known in the loop alone");
  }

  bool widen(const Graph& round) {
    bool changed = false;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (stays_[i]) continue;
      const Value &taken = round.value(input_of(round, i)), &made = round.value(round.outputs[i]);
      changed = frontend::widen_carried(c_, i, known_[i], taken, made) || changed;
    }
    return changed;
  }

  /// The round's input for a value that is no constant.
  ValueId input_of(const Graph& round, size_t value) const {
    size_t position = 0;
    for (size_t i = 0; i < value; ++i) position += known_[i].constant ? 0 : 1;
    return round.inputs[position];
  }

  /// Number and condition of the round, carried values, captured ones -> whether another follows, carried values.
  Graph loop_body(const Graph& round) {
    Graph body;
    body.name = round.name;
    body.opsets = round.opsets;
    add_input(body, {.name = "round", .type = DType::kInt64, .shape = Shape{}});
    add_input(body, {.name = "condition", .type = DType::kBool, .shape = Shape{}});
    std::vector<ValueId> arguments(round.inputs.size(), kNoValue);
    for (const bool captured : {false, true}) {
      for (size_t i = 0, position = 0; i < values_.size(); ++i) {
        if (known_[i].constant) continue;
        if (stays_[i] == captured) arguments[position] = add_input(body, round.value(round.inputs[position]));
        ++position;
      }
    }
    const std::vector<ValueId> copies = insert_graph(body, round, arguments, "body");
    std::vector<ValueId> next, tested;
    std::vector<Given> given;
    for (size_t i = 0; i < values_.size(); ++i) {
      const ValueId result = copies[round.outputs[i]];
      const ValueId value = stays_[i] && !known_[i].constant ? copies[input_of(round, i)] : result;
      if (!stays_[i]) next.push_back(value);
      given.push_back({known_[i].type, known_[i].shape, known_[i].constant});
      if (!known_[i].constant) tested.push_back(value);
    }
    const Graph test = c_.body("cond", given);
    const ValueId last = test.outputs.at(0);
    const auto& shape = test.value(last).shape;
    if (!shape || !shape->empty()) c_.refuse("a condition that has axes");
    ValueId holds = insert_graph(body, test, tested, "cond")[last];
    if (body.value(holds).type != DType::kBool) {
      const ValueId cast = body.add_value("holds", DType::kBool, Shape{});
      body.add_node({.name = "holds", .domain = "", .op = "Cast",
                     .attributes = {{"to", int64_t{onnx_code(DType::kBool)}}}, .inputs = {holds}, .outputs = {cast}});
      holds = cast;
    }
    body.outputs = {holds};
    body.outputs.insert(body.outputs.end(), next.begin(), next.end());
    name_results(body);
    return body;
  }

  Conversion& c_;
  std::vector<ValueId> values_;
  std::vector<Given> known_;
  std::vector<bool> stays_;  // by value: each round gives it as it is
};

void loop(Conversion& c) { While(c).convert(); }

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
