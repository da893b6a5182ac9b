// SPDX-License-Identifier: Apache-2.0
// If, whose functions become bodies, or nodes where it is known which one runs.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "frontend/control_flow.h"
#include "graph/infer.h"
#include "graph/symbols.h"

namespace graft::frontend {

std::vector<Operand> operands_of(const std::vector<ValueId>& values) {
  std::vector<Operand> made;
  for (const ValueId value : values) made.push_back({.value = value});
  return made;
}

std::vector<Operand> operands_of(Conversion& c, const Arguments& arguments) {
  std::vector<Operand> made;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* reference = std::get_if<Reference>(&arguments[i].is);
    const List* list = reference ? c.list_of(*reference) : nullptr;
    if (list) {
      made.push_back({.value = kNoValue, .list = *list});
      continue;
    }
    const auto* real = std::get_if<double>(&arguments[i].is);
    const std::string name = fmt::format("{}", i);
    made.push_back({.value = real ? c.real_constant(*real, DType::kFloat64) : c.value_of(arguments[i], name)});
    if (made.back().value == kNoValue) c.refuse("None among what its functions take");
  }
  return made;
}

std::vector<Given> given_to(Conversion& c, const std::vector<Operand>& operands) {
  std::vector<Given> made;
  for (const Operand& each : operands) {
    made.push_back(each.list ? Given{.list = true} : c.given(each.value));
  }
  return made;
}

ValueId condition_of(Conversion& c, ValueId value) {
  if (c.rank_of(value) != 0) c.refuse("a condition that has axes");
  return c.cast(value, DType::kBool);
}

namespace {

class Branches {
 public:
  Branches(Conversion& c, const std::vector<Operand>& operands, bool describes)
      : c_(c), operands_(operands), known_(given_to(c, operands)), describes_(describes) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!known_[i].constant && !known_[i].list) captured_.push_back(operands[i].value);
    }
  }

  /// The nodes of the function that runs.
  void inlined(std::string_view name) {
    const Body taken = c_.try_body(name, known_);
    if (!taken.reason.empty()) c_.refuse(taken.reason);
    const std::vector<ValueId> copies = c_.insert(taken.graph, captured_);
    std::vector<ValueId> results;
    for (size_t i = 0; i < taken.results.size(); ++i) {
      const BodyResult& each = taken.results[i];
      results.push_back(each.list || each.value == kNoValue ? kNoValue : copies[each.value]);
      if (each.list) give_list(i, each, each.value == kNoValue ? kNoValue : copies[each.value]);
    }
    c_.give(std::move(results));
  }

  void convert(ValueId condition, std::string_view then, std::string_view otherwise) {
    std::array<Body, 2> bodies = {c_.try_body(then, known_), c_.try_body(otherwise, known_)};
    for (const Body& each : bodies) {
      if (each.reason.empty()) continue;
      if (describes_) describe(bodies);
      c_.refuse(each.reason);
    }
    const size_t count = bodies[0].results.size();
    if (count != bodies[1].results.size()) c_.refuse("branches that give other counts");
    for (size_t i = 0; i < count; ++i) agree(bodies, i);
    const std::vector<ValueId> made = add_node(condition, bodies);
    std::vector<ValueId> results;
    size_t next = 0;
    for (size_t i = 0; i < count; ++i) {
      const BodyResult& each = bodies[0].results[i];
      const ValueId result = each.value == kNoValue ? kNoValue : made[next++];
      results.push_back(each.list ? kNoValue : result);
      if (each.list) give_list(i, each, result);
    }
    c_.give(std::move(results));
  }

 private:
  /// What both branches agree on, for those who read what the framework computes.
  void describe(const std::array<Body, 2>& bodies) {
    for (size_t i = 0; i < std::min(bodies[0].results.size(), bodies[1].results.size()); ++i) {
      const BodyResult &a = bodies[0].results[i], &b = bodies[1].results[i];
      if (a.list || b.list || a.value == kNoValue || b.value == kNoValue) continue;
      const Value &one = bodies[0].graph.value(a.value), &other = bodies[1].graph.value(b.value);
      const bool agree = one.type == other.type && one.shape && other.shape && one.shape->size() == other.shape->size();
      if (!agree) continue;
      Shape shape;
      for (size_t axis = 0; axis < one.shape->size(); ++axis) {
        const bool fixed = (*one.shape)[axis].is_constant() && (*one.shape)[axis] == (*other.shape)[axis];
        const std::string name = dimension_symbol(fmt::format("{}_{}_{}", c_.node().name, i, axis));
        shape.push_back(fixed ? (*one.shape)[axis] : Size::symbol(name));
      }
      c_.describe(i, one.type, std::move(shape));
    }
  }

  /// A list that branches went on with, and what they added.
  void give_list(size_t number, const BodyResult& result, ValueId run) {
    List list = result.continues < 0 ? List{} : *operands_[static_cast<size_t>(result.continues)].list;
    if (run != kNoValue) list.parts.push_back({run, true});
    c_.give_list(number, std::move(list));
  }

  /// Both give the same kind of thing; where one adds nothing to a list, it adds a run of no elements.
  void agree(std::array<Body, 2>& bodies, size_t number) {
    BodyResult &a = bodies[0].results[number], &b = bodies[1].results[number];
    if (a.list != b.list) c_.refuse(fmt::format("branches of which one gives a list for result {}", number));
    if (a.list && a.continues != b.continues) c_.refuse("branches that go on with different lists");
    if (a.value == kNoValue && b.value != kNoValue) add_nothing(bodies[0], a, bodies[1].graph.value(b.value));
    if (b.value == kNoValue && a.value != kNoValue) add_nothing(bodies[1], b, bodies[0].graph.value(a.value));
    if (a.value == kNoValue) return;
    const Value &one = bodies[0].graph.value(a.value), &other = bodies[1].graph.value(b.value);
    if (one.shape && other.shape && one.shape->size() != other.shape->size()) {
      c_.refuse(fmt::format("branches whose results {} differ in their number of axes", number));
    }
    if (one.type != other.type) {
      c_.refuse(fmt::format("one branch gives {}, the other {}", name_of(one.type), name_of(other.type)));
    }
  }

  /// Both functions have the same inputs, so that sizes have the same names.
  void add_nothing(Body& body, BodyResult& result, const Value& like) {
    Graph& graph = body.graph;
    if (!like.shape) c_.refuse("a branch adds tensors of an unknown number of axes to a list");
    std::vector<ValueId> sizes = {integers(graph, {0})};
    for (size_t axis = 1; axis < like.shape->size(); ++axis) sizes.push_back(size_in(graph, (*like.shape)[axis]));
    TensorData zero = TensorData::zeros(like.type, {});
    const ValueId shape = add(graph, "Concat", std::move(sizes), {{"axis", int64_t{0}}});
    result.value = add(graph, "Expand", {graph.add_constant("nothing", std::move(zero)), shape});
    Shape none = *like.shape;
    none[0] = Size(0);
    graph.value(result.value).type = like.type, graph.value(result.value).shape = std::move(none);
    // Outputs stand in the order of the results.
    graph.outputs.clear();
    for (const BodyResult& each : body.results) {
      if (each.value != kNoValue) graph.outputs.push_back(each.value);
    }
  }

  static ValueId add(Graph& graph, std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    const ValueId made = graph.add_value("nothing", DType::kUndefined);
    graph.add_node({.name = "nothing", .domain = "", .op = std::string(op), .attributes = std::move(attributes),
                    .inputs = std::move(inputs), .outputs = {made}});
    return made;
  }
  static ValueId integers(Graph& graph, const std::vector<int64_t>& elements) {
    const auto count = static_cast<int64_t>(elements.size());
    return graph.add_constant("nothing", TensorData::from_values(DType::kInt64, {count}, elements));
  }

  ValueId size_in(Graph& graph, const Size& size) const {
    if (const auto known = size.as_constant()) return integers(graph, {*known});
    for (const ValueId input : std::vector<ValueId>(graph.inputs)) {
      const Shape shape = graph.value(input).shape.value_or(Shape{});
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        if (!(shape[axis] == size)) continue;
        const auto at = static_cast<int64_t>(axis);
        return add(graph, "Shape", {input}, {{"start", at}, {"end", at + 1}});
      }
    }
    c_.refuse("a branch adds tensors to a list whose sizes are known there alone");
  }

  std::vector<ValueId> add_node(ValueId condition, std::array<Body, 2>& bodies) {
    const auto results = static_cast<int>(bodies[0].graph.outputs.size());
    if (results == 0) return {};
    Attributes attributes;
    attributes["then_branch"] = std::shared_ptr<const Graph>(std::make_shared<Graph>(std::move(bodies[0].graph)));
    attributes["else_branch"] = std::shared_ptr<const Graph>(std::make_shared<Graph>(std::move(bodies[1].graph)));
    const auto count = static_cast<int64_t>(captured_.size());
    attributes["captures"] = std::vector<int64_t>{count, count};
    std::vector<ValueId> inputs = {condition};
    for (int body = 0; body < 2; ++body) inputs.insert(inputs.end(), captured_.begin(), captured_.end());
    return c_.add_several("If", std::move(inputs), std::move(attributes), results);
  }

  Conversion& c_;
  const std::vector<Operand>& operands_;
  std::vector<Given> known_;
  std::vector<ValueId> captured_;
  bool describes_;
};

}  // namespace

void convert_branch(Conversion& c, ValueId condition, std::string_view then, std::string_view otherwise,
                    const std::vector<Operand>& operands, bool describes) {
  const ValueId truth = condition_of(c, condition);
  const auto known = known_content(c.graph().value(truth));
  if (known && known->size() == 1 && known->front().is_constant()) {
    return Branches(c, operands, describes).inlined(known->front().is(0) ? otherwise : then);
  }
  Branches(c, operands, describes).convert(truth, then, otherwise);
}

}  // namespace graft::frontend
