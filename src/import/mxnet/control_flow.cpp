// SPDX-License-Identifier: Apache-2.0
// _foreach, _while_loop and _cond, whose graphs become bodies of Loop and If. Attributes say where the operator's
// inputs stand among those of its graphs.
#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "frontend/body_graph.h"
#include "graph/insert_graph.h"
#include "graph/symbols.h"
#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;
using frontend::Given;

constexpr int kMostRounds = 8;  // of finding the carried axes that a round changes

// Graphs by their number in the node.
constexpr char kForeachBody[] = "0";
constexpr char kWhileCondition[] = "0", kWhileBody[] = "1";
constexpr char kCondCondition[] = "0", kCondThen[] = "1", kCondElse[] = "2";

/// Places among `count` inputs, which are as many as `wanted` where that is not -1.
std::vector<size_t> places(const Conversion& c, std::string_view name, size_t count, int64_t wanted = -1) {
  std::vector<size_t> made;
  for (const int64_t place : integers(c, name)) {
    if (place < 0 || place >= static_cast<int64_t>(count)) {
      c.refuse(fmt::format("its attribute '{}' names input {} of {}", name, place, count));
    }
    made.push_back(static_cast<size_t>(place));
  }
  if (wanted >= 0 && made.size() != static_cast<size_t>(wanted)) {
    c.refuse(fmt::format("its attribute '{}' has {} places, not {}", name, made.size(), wanted));
  }
  return made;
}

template <class T>
std::vector<T> chosen(const std::vector<T>& from, const std::vector<size_t>& indices) {
  std::vector<T> made;
  for (const size_t index : indices) made.push_back(from[index]);
  return made;
}

/// A graph on its way into a body, with what it gives.
class BodyBuilder {
 public:
  explicit BodyBuilder(const Conversion& c) : c_(c) {
    body_.name = c.node().name;
    body_.opsets[""] = kOpset;
  }

  Graph& graph() { return body_; }
  ValueId input(const Value& like) { return frontend::add_input(body_, like); }

  ValueId add(std::string_view op, std::vector<ValueId> inputs, DType type, std::optional<Shape> shape,
              Attributes attributes = {}) {
    const std::string name = fmt::format("{}/{}", c_.node().name, op);
    const ValueId made = body_.add_value(name, type, std::move(shape));
    body_.add_node({.name = name, .domain = "", .op = std::string(op), .attributes = std::move(attributes),
                    .inputs = std::move(inputs), .outputs = {made}});
    return made;
  }

  ValueId constant(TensorData data) { return body_.add_constant(c_.node().name + "/constant", std::move(data)); }

  /// The results of a function's graph, which is given the values of its inputs that are no constants.
  std::vector<ValueId> insert(const Graph& function, const std::vector<ValueId>& given, std::string_view prefix) {
    const std::vector<ValueId> copies = insert_graph(body_, function, given, prefix);
    return chosen(copies, {function.outputs.begin(), function.outputs.end()});
  }

  /// MXNet's conditions have one element, on whatever axes.
  ValueId condition(ValueId value) {
    const ValueId line = constant(TensorData::from_values<int64_t>(DType::kInt64, {0}, {}));
    const DType type = body_.value(value).type;
    const ValueId scalar = add("Reshape", {value, line}, type, Shape{});
    if (type == DType::kBool) return scalar;
    return add("Cast", {scalar}, DType::kBool, Shape{}, {{"to", int64_t{onnx_code(DType::kBool)}}});
  }

  std::shared_ptr<const Graph> finish(std::vector<ValueId> outputs) {
    body_.outputs = std::move(outputs);
    frontend::name_results(body_);
    body_.sort_nodes();
    return std::make_shared<Graph>(std::move(body_));
  }

 private:
  const Conversion& c_;
  Graph body_;
};

/// A loop whose rounds a function computes from carried values and others that stay as they are.
class Rounds {
 public:
  /// `given`: the function's inputs, as values of the graph around; `slices`: of them, those that each round gets an
  /// element of; `carried`: those that the last results replace.
  Rounds(Conversion& c, const char* function, std::vector<ValueId> given, std::vector<size_t> slices,
         std::vector<size_t> carried)
      : c_(c), function_(function), given_(std::move(given)), slices_(std::move(slices)), carried_(std::move(carried)),
        known_(frontend::given_of(c, given_)) {
    for (const size_t k : slices_) {
      known_[k].constant = {};
      if (!known_[k].shape || known_[k].shape->empty()) c.refuse("data without a first axis");
      known_[k].shape->erase(known_[k].shape->begin());
    }
    for (const size_t k : carried_) known_[k].constant = {};
    for (size_t k = 0; k < given_.size(); ++k) {
      if (!known_[k].constant && !is_carried(k)) captured_.push_back(k);
    }
    settle();
  }

  /// What the function computes in a round; its results end with the carried values.
  const Graph& round() const { return round_; }
  size_t item_count() const { return round_.outputs.size() - carried_.size(); }
  const std::vector<Given>& known() const { return known_; }

  /// The values that the body captures.
  std::vector<ValueId> captured() const { return chosen(given_, captured_); }
  std::vector<ValueId> initial() const { return chosen(given_, carried_); }

  /// Inputs of a body for the carried values, by their order.
  std::vector<ValueId> add_carried(BodyBuilder& body) const {
    std::vector<ValueId> made;
    for (const size_t k : carried_) made.push_back(body.input(round_.value(input_of(k))));
    return made;
  }

  /// Inputs for the captured ones behind those, and the function's results in the round of that number.
  std::vector<ValueId> compute(BodyBuilder& body, ValueId number, const std::vector<ValueId>& carried) {
    arguments_.assign(given_.size(), kNoValue);
    for (size_t i = 0; i < carried_.size(); ++i) arguments_[carried_[i]] = carried[i];
    for (const size_t k : captured_) {
      const bool sliced = std::find(slices_.begin(), slices_.end(), k) != slices_.end();
      const Value& inner = round_.value(input_of(k));
      if (!sliced) {
        arguments_[k] = body.input(inner);
        continue;
      }
      const Value& outer = c_.graph().value(given_[k]);
      const ValueId whole = body.input({.name = inner.name + "/all", .type = outer.type, .shape = outer.shape});
      arguments_[k] = body.add("Gather", {whole, number}, inner.type, inner.shape, {{"axis", int64_t{0}}});
    }
    std::vector<ValueId> variable;
    for (size_t k = 0; k < given_.size(); ++k) {
      if (!known_[k].constant) variable.push_back(arguments_[k]);
    }
    return body.insert(round_, variable, "round");
  }

  /// The body's value of an input of the function, after compute(); kNoValue for a constant.
  ValueId argument(size_t k) const { return arguments_[k]; }

 private:
  bool is_carried(size_t k) const { return std::find(carried_.begin(), carried_.end(), k) != carried_.end(); }

  /// One round, of shapes that hold in every round.
  void settle() {
    for (int i = 0; i < kMostRounds; ++i) {
      round_ = c_.body(function_, known_);
      if (round_.outputs.size() < carried_.size()) c_.refuse("a graph that gives fewer values than it carries");
      bool changed = false;
      for (size_t n = 0; n < carried_.size(); ++n) {
        const Value& made = round_.value(round_.outputs[item_count() + n]);
        const Value& taken = round_.value(input_of(carried_[n]));
        changed = frontend::widen_carried(c_, n, known_[carried_[n]], taken, made) || changed;
      }
      if (!changed) return;
    }
    c_.refuse("sizes that change from round to round");
  }

  /// The round's input for an input of the function that is no constant.
  ValueId input_of(size_t k) const {
    size_t position = 0;
    for (size_t i = 0; i < k; ++i) position += known_[i].constant ? 0 : 1;
    return round_.inputs[position];
  }

  Conversion& c_;
  const char* function_;
  std::vector<ValueId> given_;
  std::vector<size_t> slices_, carried_, captured_;
  std::vector<Given> known_;
  std::vector<ValueId> arguments_;
  Graph round_;
};

std::vector<ValueId> add_loop(Conversion& c, ValueId limit, ValueId condition, const std::vector<ValueId>& carried,
                              const std::vector<ValueId>& captured, std::shared_ptr<const Graph> body, size_t results) {
  std::vector<ValueId> inputs = {limit, condition};
  inputs.insert(inputs.end(), carried.begin(), carried.end());
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  Attributes attributes;
  attributes["captures"] = std::vector<int64_t>{static_cast<int64_t>(captured.size())};
  attributes["body"] = std::move(body);
  return c.add_several("Loop", std::move(inputs), std::move(attributes), static_cast<int>(results));
}

/// Inputs: data, whose elements along the first axis the rounds take, states, and what stays. Results: what the rounds
/// give, on a new first axis, and the last states.
void foreach(Conversion& c) {
  const std::vector<ValueId> inputs = c.inputs();
  const size_t count = c.function(kForeachBody).inputs.size();
  const std::vector<size_t> data = places(c, "in_data_locs", count), states = places(c, "in_state_locs", count);
  const std::vector<size_t> rest = places(c, "remain_locs", count);
  if (data.empty()) c.refuse("a loop over no data");
  if (inputs.size() != data.size() + states.size() + rest.size()) c.refuse("inputs that its attributes do not name");
  std::vector<ValueId> given(count, kNoValue);
  size_t next = 0;
  for (const auto* group : {&data, &states, &rest}) {
    for (const size_t place : *group) given[place] = inputs[next++];
  }
  if (std::find(given.begin(), given.end(), kNoValue) != given.end()) c.refuse("an input of its graph is not given");
  Rounds rounds(c, kForeachBody, given, data, states);
  BodyBuilder body(c);
  const ValueId number = body.input({.name = "round", .type = DType::kInt64, .shape = Shape{}});
  const ValueId goes_on = body.input({.name = "condition", .type = DType::kBool, .shape = Shape{}});
  const std::vector<ValueId> made = rounds.compute(body, number, rounds.add_carried(body));
  const auto items = static_cast<std::ptrdiff_t>(rounds.item_count());
  std::vector<ValueId> outputs = {goes_on};
  outputs.insert(outputs.end(), made.begin() + items, made.end());
  outputs.insert(outputs.end(), made.begin(), made.begin() + items);
  const ValueId length = c.add("Shape", {inputs[0]}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  std::vector<ValueId> results = add_loop(c, length, kNoValue, rounds.initial(), rounds.captured(),
                                          body.finish(std::move(outputs)), made.size());
  std::rotate(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(states.size()), results.end());
  c.give(std::move(results));
}

/// A condition that MXNet computes from a graph of its own, as a truth value without axes.
ValueId first_condition(Conversion& c, const char* function, const std::vector<ValueId>& given) {
  const std::vector<ValueId> made = c.call(function, given);
  if (made.size() != 1) c.refuse("a condition of several values");
  return c.cast(c.add("Reshape", {made[0], c.integers_constant({})}), DType::kBool);
}

/// Results of the rounds of a while loop lie in arrays of as many elements as there can be rounds, whose last ones
/// nobody writes: they are carried from round to round.
class While {
 public:
  explicit While(Conversion& c)
      : c_(c), inputs_(c.inputs()), tested_(places(c, "cond_input_locs", inputs_.size())),
        computed_(places(c, "func_input_locs", inputs_.size())),
        variables_(places(c, "func_var_locs", computed_.size())), most_(integer(c, "max_iterations")),
        rounds_(c, kWhileBody, chosen(inputs_, computed_), {}, variables_) {
    if (most_ < 0) c.refuse("a negative number of rounds");
    if (tested_.size() != c.function(kWhileCondition).inputs.size()) c.refuse("inputs of its condition are not given");
  }

  void convert() {
    BodyBuilder body(c_);
    const ValueId number = body.input({.name = "round", .type = DType::kInt64, .shape = Shape{}});
    body.input({.name = "condition", .type = DType::kBool, .shape = Shape{}});
    const std::vector<ValueId> carried = rounds_.add_carried(body);
    const size_t items = rounds_.item_count();
    std::vector<ValueId> arrays, empty;
    for (size_t i = 0; i < items; ++i) {
      empty.push_back(empty_array(rounds_.round().value(rounds_.round().outputs[i])));
      const Value& array = c_.graph().value(empty.back());
      arrays.push_back(body.input({.name = fmt::format("items_{}", i), .type = array.type, .shape = array.shape}));
    }
    const std::vector<ValueId> made = rounds_.compute(body, number, carried);
    const std::vector<ValueId> next(made.begin() + static_cast<std::ptrdiff_t>(items), made.end());
    std::vector<ValueId> outputs = {test(body, next)};
    outputs.insert(outputs.end(), next.begin(), next.end());
    for (size_t i = 0; i < items; ++i) outputs.push_back(put(body, arrays[i], number, made[i]));
    std::vector<ValueId> initial = rounds_.initial(), captured = rounds_.captured();
    initial.insert(initial.end(), empty.begin(), empty.end());
    captured.insert(captured.end(), of_condition_.begin(), of_condition_.end());
    std::vector<ValueId> results =
        add_loop(c_, c_.add("Reshape", {c_.integers_constant({most_}), c_.integers_constant({})}),
                 first_condition(c_, kWhileCondition, chosen(inputs_, tested_)), initial, captured,
                 body.finish(std::move(outputs)), made.size());
    std::rotate(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(next.size()), results.end());
    c_.give(std::move(results));
  }

 private:
  /// Zeros for so many items, whose sizes are numbers or those of what the loop is given.
  ValueId empty_array(const Value& item) {
    if (!item.shape) c_.refuse("a result of a round whose number of axes is not known");
    std::vector<ValueId> sizes = {c_.integers_constant({most_})};
    for (const Size& size : *item.shape) sizes.push_back(size_outside(size));
    return c_.add("Expand", {c_.real_constant(0, item.type), c_.add("Concat", sizes, {{"axis", int64_t{0}}})});
  }

  ValueId size_outside(const Size& size) {
    if (const auto known = size.as_constant()) return c_.integers_constant({*known});
    for (const ValueId value : inputs_) {
      const auto& shape = c_.graph().value(value).shape;
      for (size_t axis = 0; shape && axis < shape->size(); ++axis) {
        const auto at = static_cast<int64_t>(axis);
        if ((*shape)[axis] == size) return c_.add("Shape", {value}, {{"start", at}, {"end", at + 1}});
      }
    }
    c_.refuse("a result of a round whose size is known in the loop alone");
  }

  /// The array with an item at its place.
  ValueId put(BodyBuilder& body, ValueId array, ValueId number, ValueId item) const {
    const Value whole = body.graph().value(array);
    const ValueId one_one = body.constant(TensorData::from_values<int64_t>(DType::kInt64, {2}, {1, 1}));
    const ValueId first = body.constant(TensorData::from_values<int64_t>(DType::kInt64, {1}, {0}));
    const ValueId place = body.add("Reshape", {number, one_one}, DType::kInt64, Shape{Size(1), Size(1)});
    Shape shape = body.graph().value(item).shape.value_or(Shape{});
    shape.insert(shape.begin(), Size(1));
    const ValueId row = body.add("Unsqueeze", {item, first}, whole.type, shape);
    return body.add("ScatterND", {array, place, row}, whole.type, whole.shape);
  }

  /// Whether another round follows these variables.
  ValueId test(BodyBuilder& body, const std::vector<ValueId>& next) {
    std::vector<Given> known;
    std::vector<ValueId> given;
    for (const size_t input : tested_) {
      const auto place = std::find(computed_.begin(), computed_.end(), input);
      const auto k = static_cast<size_t>(place - computed_.begin());
      const auto variable = std::find(variables_.begin(), variables_.end(), k);
      if (place != computed_.end()) {
        known.push_back(rounds_.known()[k]);
      } else {
        known.push_back(c_.given(inputs_[input]));
      }
      if (known.back().constant) continue;
      if (variable != variables_.end()) {
        given.push_back(next[static_cast<size_t>(variable - variables_.begin())]);
      } else if (place != computed_.end()) {
        given.push_back(rounds_.argument(k));
      } else {
        given.push_back(body.input(c_.graph().value(inputs_[input])));
        of_condition_.push_back(inputs_[input]);
      }
    }
    const Graph condition = c_.body(kWhileCondition, known);
    return body.condition(body.insert(condition, given, "condition").at(0));
  }

  Conversion& c_;
  std::vector<ValueId> inputs_;
  std::vector<size_t> tested_, computed_, variables_;  // inputs of the graphs among the operator's, and variables there
  int64_t most_;
  Rounds rounds_;
  std::vector<ValueId> of_condition_;  // captured for it alone
};

void while_loop(Conversion& c) { While(c).convert(); }

void cond(Conversion& c) {
  const std::vector<ValueId> inputs = c.inputs();
  const std::vector<size_t> tested = places(c, "cond_input_locs", inputs.size());
  const ValueId condition = first_condition(c, kCondCondition, chosen(inputs, tested));
  std::vector<ValueId> given = {condition};
  std::vector<int64_t> captures;
  Attributes attributes;
  size_t results = 0;
  for (const auto& [attribute, function, locations] :  // in the order of the attributes' names
       {std::tuple{"else_branch", kCondElse, "else_input_locs"}, {"then_branch", kCondThen, "then_input_locs"}}) {
    const std::vector<ValueId> values = chosen(inputs, places(c, locations, inputs.size()));
    const std::vector<Given> known = frontend::given_of(c, values);
    auto body = std::make_shared<Graph>(c.body(function, known));
    frontend::name_results(*body);
    if (results != 0 && results != body->outputs.size()) c.refuse("branches that give other counts");
    results = body->outputs.size();
    captures.push_back(0);
    for (size_t i = 0; i < values.size(); ++i) {
      if (known[i].constant) continue;
      given.push_back(values[i]);
      ++captures.back();
    }
    attributes[attribute] = std::shared_ptr<const Graph>(std::move(body));
  }
  attributes["captures"] = std::move(captures);
  c.give(c.add_several("If", std::move(given), std::move(attributes), static_cast<int>(results)));
}

}  // namespace

std::vector<Row> control_flow_rows() {
  return {
      {"_foreach", "... data, num_args=0, num_outputs, num_out_data, in_state_locs, in_data_locs, remain_locs", foreach,
       true},
      {"_while_loop", "... data, num_args=0, num_outputs, num_out_data, max_iterations, cond_input_locs, "
       "func_input_locs, func_var_locs", while_loop, true},
      {"_cond", "... data, num_args=0, num_outputs, cond_input_locs, then_input_locs, else_input_locs", cond, true},
  };
}

}  // namespace graft::mxnet
