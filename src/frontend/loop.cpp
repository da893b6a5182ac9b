// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "frontend/body_graph.h"
#include "frontend/control_flow.h"
#include "graph/insert_graph.h"
#include "graph/symbols.h"

namespace graft::frontend {
namespace {

constexpr int kMostRounds = 8;  // of finding the carried axes that a round changes

ValueId add_node(Graph& body, std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) {
  const ValueId made = body.add_value("list", DType::kUndefined);
  body.add_node({.name = "list", .domain = "", .op = std::string(op), .attributes = std::move(attributes),
                 .inputs = std::move(inputs), .outputs = {made}});
  return made;
}

/// Whether a function hands an input through to a result, both by number.
bool hands_through(const ForeignGraph& function, size_t input, size_t result) {
  return behind_identities(function, function.outputs[result]) == function.inputs[input];
}

}  // namespace

std::vector<int> taken_by(const ForeignNode& node) {
  std::vector<int> taken;
  visit_references(Argument(node.arguments), [&](int each) { taken.push_back(each); });
  return taken;
}

int behind_identities(const ForeignGraph& function, int value) {
  for (size_t steps = 0; steps <= function.nodes.size(); ++steps) {
    const auto makes = [&](const ForeignNode& node) {
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

Loop::Loop(Conversion& c, LoopForm form) : c_(c), form_(std::move(form)), known_(given_to(c, form_.operands)) {
  const ForeignGraph& function = c.function(form_.body);
  const size_t first_input = form_.numbered ? 1 : 0;
  std::vector<size_t> all(form_.operands.size());
  std::iota(all.begin(), all.end(), size_t{0});
  taken_ = form_.taken.value_or(all), tested_ = form_.tested.value_or(all);
  const size_t results = form_.collected_first ? form_.carried + form_.collected : first_collected() + form_.collected;
  bool fits = function.inputs.size() == taken_.size() + first_input && function.outputs.size() == results &&
              form_.carried + form_.sliced <= form_.operands.size();
  for (size_t i = 0; i < form_.carried + form_.sliced; ++i) fits = fits && place_of(i);
  if (!fits) c.refuse(fmt::format("its function '{}' gives other values than it takes", form_.body));
  for (size_t i = 0; i < form_.operands.size(); ++i) {
    stays_.push_back(i >= form_.carried || hands_through(function, *place_of(i) + first_input, i + first_carried()));
    if (!stays_[i] || is_sliced(i)) known_[i].constant = {}, known_[i].content.reset();
    if (!is_sliced(i)) continue;
    if (known_[i].list || !known_[i].shape || known_[i].shape->empty()) c.refuse("it takes parts of what has no axes");
    known_[i].shape->erase(known_[i].shape->begin());
  }
}

void Loop::replace(size_t operand, ValueId value) {
  form_.operands[operand].value = value;
  known_[operand].shape = c_.shape_of(value);
}

const BodyResult& Loop::result(const Body& round, size_t operand) const {
  return round.results[operand + first_carried()];
}

std::vector<Given> Loop::given_of_round() const {
  std::vector<Given> given;
  if (form_.numbered) given.push_back({.type = DType::kInt64, .shape = Shape{}});
  for (const size_t each : taken_) given.push_back(known_[each]);
  return given;
}

std::vector<Given> Loop::given_to_condition() const {
  std::vector<Given> given;
  for (const size_t each : tested_) given.push_back(known_[each]);
  return given;
}

/// Among the inputs of the body, behind the number; nothing where the condition alone takes it.
std::optional<size_t> Loop::place_of(size_t operand) const {
  const auto found = std::find(taken_.begin(), taken_.end(), operand);
  return found == taken_.end() ? std::nullopt : std::optional(static_cast<size_t>(found - taken_.begin()));
}

/// Among the inputs of a round's graph, of an operand that the body takes.
size_t Loop::input_of(size_t operand) const {
  size_t position = form_.numbered ? 1 : 0;
  const size_t place = *place_of(operand);
  for (size_t i = 0; i < place; ++i) position += is_variable(taken_[i]) ? 1 : 0;
  return position;
}

// ---- What holds in every round ----

Body Loop::settled_round() {
  for (int i = 0; i < kMostRounds; ++i) {
    Body round = c_.try_body(form_.body, given_of_round());
    if (adjust_ && round.reason.empty() && adjust_(*this, round)) continue;
    if (!widen(round)) return round;
  }
  c_.refuse("sizes that change from round to round");
}

/// An axis that a round changes is a symbol. Gives whether there are any that were none.
bool Loop::widen(const Body& round) {
  bool changed = false;
  for (size_t i = 0; i < form_.carried; ++i) {
    const ValueId made = result(round, i).value;
    if (stays_[i] || known_[i].list || made == kNoValue) continue;
    if (result(round, i).list) c_.refuse(fmt::format("value {} becomes a list in a round", i));
    const bool changes = widen(i, round.graph.value(made), round.graph.value(round.graph.inputs[input_of(i)]));
    changed = changed || changes;
  }
  return changed;
}

bool Loop::widen(size_t operand, const Value& made, const Value& taken) {
  if (made.type == DType::kUndefined || !made.shape) return false;  // nothing is known of it: the round is refused
  const bool changed = widen_carried(c_, operand, known_[operand], taken, made);
  for (size_t axis = 0; axis < made.shape->size(); ++axis) {
    if (!((*made.shape)[axis] == (*taken.shape)[axis])) (*known_[operand].shape)[axis].collect_symbols(open_);
  }
  return changed;
}

bool Loop::same_in_all_rounds(const Body& round, const Size& size) const {
  std::set<std::string, std::less<>> symbols, known;
  size.collect_symbols(symbols);
  for (const ValueId input : round.graph.inputs) {
    for (const Size& each : round.graph.value(input).shape.value_or(Shape{})) each.collect_symbols(known);
  }
  return std::ranges::all_of(symbols,
                             [&](const std::string& each) { return known.contains(each) && !open_.contains(each); });
}

ValueId Loop::size_outside(const Body& round, const Size& size) {
  if (const auto known = size.as_constant()) return c_.integers_constant({*known});
  for (size_t i = 0; i < form_.operands.size(); ++i) {
    if (!is_variable(i) || !place_of(i)) continue;
    const Shape shape = round.graph.value(round.graph.inputs[input_of(i)]).shape.value_or(Shape{});
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (!(shape[axis] == size)) continue;
      const auto at = static_cast<int64_t>(axis) + (is_sliced(i) ? 1 : 0);
      return c_.add("Shape", {form_.operands[i].value}, {{"start", at}, {"end", at + 1}});
    }
  }
  c_.refuse("a list of elements whose size is known in the loop alone");
}

// ---- Lists ----

std::vector<Loop::Added> Loop::added_to(const Body& round) {
  std::vector<Added> lists;
  for (size_t i = 0; i < form_.carried; ++i) {
    if (stays_[i] || !known_[i].list) continue;
    const BodyResult& made = result(round, i);
    const int own = static_cast<int>(*place_of(i)) + (form_.numbered ? 1 : 0);
    if (!made.list || made.continues != own) c_.refuse("a round replaces a list, and adds not only to it");
    if (made.value == kNoValue) continue;
    const Value& run = round.graph.value(made.value);
    if (!run.shape) c_.refuse("a list of tensors of an unknown number of axes");
    for (size_t axis = 1; axis < run.shape->size(); ++axis) {
      if (!same_in_all_rounds(round, (*run.shape)[axis])) {
        c_.refuse("a list of tensors whose sizes change from round to round");
      }
    }
    Added list{.operand = i, .run = made.value, .single = (*run.shape)[0].is(1)};
    if (!same_in_all_rounds(round, (*run.shape)[0])) list.start = no_elements(round, run);
    lists.push_back(list);
  }
  return lists;
}

ValueId Loop::no_elements(const Body& round, const Value& run) {
  std::vector<ValueId> sizes = {c_.integers_constant({0})};
  for (size_t axis = 1; axis < run.shape->size(); ++axis) sizes.push_back(size_outside(round, (*run.shape)[axis]));
  const ValueId zero = c_.constant(TensorData::zeros(run.type, {}));
  return c_.add("Expand", {zero, c_.add("Concat", std::move(sizes), {{"axis", int64_t{0}}})});
}

ValueId Loop::run_of(const Added& list, ValueId collected) {
  if (list.start != kNoValue || list.single) return collected;
  const ValueId sizes = c_.add("Shape", {collected}, {{"start", int64_t{2}}});
  return c_.add("Reshape", {collected, c_.add("Concat", {c_.integers_constant({-1}), sizes}, {{"axis", int64_t{0}}})});
}

// ---- The graph's Loop ----

void Loop::describe_carried() {
  for (size_t i = 0; i < form_.carried; ++i) {
    std::optional<Shape> shape = known_[i].shape;
    for (size_t axis = 0; shape && axis < shape->size(); ++axis) {
      if ((*shape)[axis].is_constant()) continue;
      (*shape)[axis] = Size::symbol(dimension_symbol(fmt::format("{}_{}_{}", c_.node().name, i, axis)));
    }
    if (!known_[i].list) c_.describe(i, known_[i].type, std::move(shape));
  }
}

Loop::Results Loop::convert() {
  const Body round = settled_round();
  if (!round.reason.empty()) {
    if (form_.describes) describe_carried();
    c_.refuse(round.reason);
  }
  const std::vector<Added> lists = added_to(round);
  const std::vector<ValueId> made = add_loop(round, lists);
  Results results{.values = std::vector<ValueId>(form_.carried, kNoValue), .lists = {}};
  results.lists.resize(form_.carried);
  size_t next = 0;
  for (size_t i = 0; i < form_.carried; ++i) {
    results.lists[i] = form_.operands[i].list;
    if (!known_[i].list) results.values[i] = stays_[i] ? form_.operands[i].value : made[next++];
  }
  for (const bool grows : {true, false}) {
    for (const Added& list : lists) {
      if ((list.start != kNoValue) != grows) continue;
      results.lists[list.operand]->parts.push_back({run_of(list, made[next++]), true});
    }
  }
  results.values.insert(results.values.end(), made.begin() + static_cast<std::ptrdiff_t>(next), made.end());
  return results;
}

std::vector<ValueId> Loop::add_loop(const Body& round, const std::vector<Added>& lists) {
  ValueId starts = form_.starts;
  if (!form_.condition.empty()) {
    std::vector<ValueId> values;
    for (const size_t each : tested_) values.push_back(form_.operands[each].value);
    ValueId holds = c_.call(form_.condition, values).at(0);
    if (form_.one_element) holds = c_.add("Reshape", {holds, c_.integers_constant({})});
    starts = condition_of(c_, holds);
  }
  std::vector<ValueId> inputs = {form_.limit, starts}, captured;
  for (size_t i = 0; i < form_.operands.size(); ++i) {
    if (known_[i].list) continue;
    if (!stays_[i]) inputs.push_back(form_.operands[i].value);
    if (stays_[i] && !known_[i].constant) captured.push_back(form_.operands[i].value);
  }
  for (const Added& list : lists) {
    if (list.start != kNoValue) inputs.push_back(list.start);
  }
  const auto collected = std::count_if(lists.begin(), lists.end(),
                                       [](const Added& list) { return list.start == kNoValue; });
  const int results = static_cast<int>(inputs.size() - 2 + form_.collected) + static_cast<int>(collected);
  if (results == 0) c_.refuse("a loop that changes nothing");
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  Attributes attributes;
  attributes["captures"] = std::vector<int64_t>{static_cast<int64_t>(captured.size())};
  attributes["body"] = std::shared_ptr<const Graph>(std::make_shared<Graph>(loop_body(round, lists)));
  return c_.add_several("Loop", std::move(inputs), std::move(attributes), results);
}

/// Number and condition of the round, carried values, lists that grow, captured ones -> whether another follows,
/// carried values, lists that grow, what is collected.
Graph Loop::loop_body(const Body& round, const std::vector<Added>& lists) {
  Graph body;
  body.name = round.graph.name;
  body.opsets = round.graph.opsets;
  add_input(body, {.name = "round", .type = DType::kInt64, .shape = Shape{}});
  add_input(body, {.name = "condition", .type = DType::kBool, .shape = Shape{}});
  std::vector<ValueId> arguments(round.graph.inputs.size(), kNoValue), growing;
  if (form_.numbered) arguments[0] = body.inputs[0];
  inside_.assign(form_.operands.size(), kNoValue);
  const auto take = [&](bool captured) {
    for (size_t i = 0; i < form_.operands.size(); ++i) {
      if (!is_variable(i) || stays_[i] != captured) continue;
      const Value& outer = c_.graph().value(form_.operands[i].value);
      const Value& inner = place_of(i) ? round.graph.value(round.graph.inputs[input_of(i)]) : outer;
      const Value& whole = is_sliced(i) ? outer : inner;
      inside_[i] = add_input(body, {.name = inner.name, .type = inner.type, .shape = whole.shape});
      if (is_sliced(i)) {
        inside_[i] = add_node(body, "Gather", {inside_[i], body.inputs[0]}, {{"axis", int64_t{0}}});
      }
      if (place_of(i)) arguments[input_of(i)] = inside_[i];
    }
  };
  take(false);
  for (const Added& list : lists) {
    if (list.start == kNoValue) continue;
    growing.push_back(add_input(body, {.name = "list", .type = round.graph.value(list.run).type}));
  }
  take(true);
  const std::vector<ValueId> copies = insert_graph(body, round.graph, arguments, "body");
  body.outputs = {goes_on(body, round, copies)};
  for (size_t i = 0; i < form_.carried; ++i) {
    if (!stays_[i] && !known_[i].list) body.outputs.push_back(copies[result(round, i).value]);
  }
  size_t next = 0;
  for (const Added& list : lists) {
    if (list.start == kNoValue) continue;
    body.outputs.push_back(add_node(body, "Concat", {growing[next++], copies[list.run]}, {{"axis", int64_t{0}}}));
  }
  for (const Added& list : lists) {
    if (list.start != kNoValue) continue;
    const ValueId axis = body.add_constant("list", TensorData::from_values<int64_t>(DType::kInt64, {1}, {0}));
    body.outputs.push_back(list.single ? add_node(body, "Squeeze", {copies[list.run], axis}) : copies[list.run]);
  }
  for (size_t i = 0; i < form_.collected; ++i) {
    body.outputs.push_back(copies[round.results[first_collected() + i].value]);
  }
  return body;
}

/// Whether another round follows.
ValueId Loop::goes_on(Graph& body, const Body& round, const std::vector<ValueId>& copies) {
  if (form_.counted) return add_node(body, "Identity", {body.inputs[1]});
  if (form_.condition.empty()) return copies[round.results[0].value];
  std::vector<ValueId> tested;
  for (const size_t each : tested_) {
    if (known_[each].constant) continue;
    tested.push_back(stays_[each] ? inside_[each] : copies[result(round, each).value]);
  }
  const Body test = c_.try_body(form_.condition, given_to_condition());
  if (!test.reason.empty()) c_.refuse(test.reason);
  const ValueId last = test.results.at(0).value;
  return truth_in(body, insert_graph(body, test.graph, tested, "cond")[last]);
}

ValueId Loop::truth_in(Graph& body, ValueId value) const {
  const DType type = body.value(value).type;
  const auto shape = body.value(value).shape;
  if (!form_.one_element && (!shape || !shape->empty())) c_.refuse("a condition that has axes");
  if (!shape || !shape->empty()) {
    const ValueId none = body.add_constant("holds", TensorData::from_values<int64_t>(DType::kInt64, {0}, {}));
    value = add_node(body, "Reshape", {value, none});
    body.value(value).type = type, body.value(value).shape = Shape{};
  }
  if (type == DType::kBool) return value;
  const ValueId cast = body.add_value("holds", DType::kBool, Shape{});
  body.add_node({.name = "holds", .domain = "", .op = "Cast", .attributes = {{"to", int64_t{onnx_code(DType::kBool)}}},
                 .inputs = {value}, .outputs = {cast}});
  return cast;
}

}  // namespace graft::frontend
