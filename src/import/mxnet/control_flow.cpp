// SPDX-License-Identifier: Apache-2.0
// _foreach, _while_loop and _cond, whose graphs become bodies of Loop and If. Attributes say where the operator's
// inputs stand among those of its graphs.
#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "frontend/body_graph.h"
#include "frontend/control_flow.h"
#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;
using frontend::Given;
using frontend::LoopForm;

// Graphs by their number in the node.
constexpr char kForeachBody[] = "0";
constexpr char kWhileCondition[] = "0", kWhileBody[] = "1";
constexpr char kCondCondition[] = "0", kCondThen[] = "1", kCondElse[] = "2";

/// Places among `count` inputs.
std::vector<size_t> places(const Conversion& c, std::string_view name, size_t count) {
  std::vector<size_t> made;
  for (const int64_t place : integers(c, name)) {
    if (place < 0 || place >= static_cast<int64_t>(count)) {
      c.refuse(fmt::format("its attribute '{}' names input {} of {}", name, place, count));
    }
    made.push_back(static_cast<size_t>(place));
  }
  return made;
}

template <class T>
std::vector<T> chosen(const std::vector<T>& from, const std::vector<size_t>& indices) {
  std::vector<T> made;
  for (const size_t index : indices) made.push_back(from[index]);
  return made;
}

/// Results of a function beside the values that it carries.
size_t collected(const Conversion& c, const char* function, size_t carried) {
  const size_t results = c.function(function).outputs.size();
  if (results < carried) c.refuse("a graph that gives fewer values than it carries");
  return results - carried;
}

/// What rounds gave, and zeros for those that there could have been.
ValueId filled_up(Conversion& c, ValueId items, int64_t most) {
  const ValueId run = c.add("Shape", {items}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  std::vector<ValueId> sizes = {c.add("Sub", {c.integers_constant({most}), run})};
  if (c.rank_of(items) > 1) sizes.push_back(c.add("Shape", {items}, {{"start", int64_t{1}}}));
  const ValueId zero = c.constant(TensorData::zeros(c.type_of(items), {}));
  const ValueId zeros = c.add("Expand", {zero, c.add("Concat", sizes, {{"axis", int64_t{0}}})});
  return c.add("Concat", {items, zeros}, {{"axis", int64_t{0}}});
}

/// Gives what rounds collect, of the length that is stated, and then the last of what they carry.
void give_rounds(Conversion& c, LoopForm form, std::optional<int64_t> most = {}) {
  const size_t carried = form.carried;
  const std::vector<ValueId> made = frontend::Loop(c, std::move(form)).convert().values;
  std::vector<ValueId> results;
  for (size_t i = carried; i < made.size(); ++i) results.push_back(most ? filled_up(c, made[i], *most) : made[i]);
  results.insert(results.end(), made.begin(), made.begin() + static_cast<std::ptrdiff_t>(carried));
  c.give(std::move(results));
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
  std::vector<ValueId> operands = inputs;  // the states before the data
  std::rotate(operands.begin(), operands.begin() + std::ssize(data),
              operands.begin() + std::ssize(data) + std::ssize(states));
  std::vector<size_t> taken(count, operands.size());
  size_t next = 0;
  for (const auto* group : {&states, &data, &rest}) {
    for (const size_t place : *group) taken[place] = next++;
  }
  if (std::find(taken.begin(), taken.end(), operands.size()) != taken.end()) {
    c.refuse("an input of its graph is not given");
  }
  if (c.rank_of(inputs[0]) == 0) c.refuse("data without a first axis");
  const ValueId length = c.add("Shape", {inputs[0]}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  give_rounds(c, {.body = kForeachBody,
                  .counted = true,
                  .limit = c.add("Squeeze", {length, c.integers_constant({0})}),
                  .carried = states.size(),
                  .sliced = data.size(),
                  .collected = collected(c, kForeachBody, states.size()),
                  .collected_first = true,
                  .operands = frontend::operands_of(operands),
                  .taken = std::move(taken)});
}

/// Variables that rounds change, as long as a condition of them holds. Of the results of rounds there are as many as
/// there can be rounds.
void while_loop(Conversion& c) {
  const std::vector<ValueId> inputs = c.inputs();
  const std::vector<size_t> tested = places(c, "cond_input_locs", inputs.size());
  const std::vector<size_t> computed = places(c, "func_input_locs", inputs.size());
  const std::vector<size_t> variables = places(c, "func_var_locs", computed.size());
  const int64_t most = integer(c, "max_iterations");
  if (most < 0) c.refuse("a negative number of rounds");
  std::vector<size_t> order = chosen(computed, variables);  // operands, as inputs of the node
  const auto place_of = [&](size_t input) {
    const auto found = std::find(order.begin(), order.end(), input);
    if (found == order.end()) return order.push_back(input), order.size() - 1;
    return static_cast<size_t>(found - order.begin());
  };
  std::vector<size_t> taken, condition;
  for (const size_t input : computed) taken.push_back(place_of(input));
  for (const size_t input : tested) condition.push_back(place_of(input));
  give_rounds(c, {.body = kWhileBody,
                  .condition = kWhileCondition,
                  .limit = c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {most})),
                  .carried = variables.size(),
                  .collected = collected(c, kWhileBody, variables.size()),
                  .collected_first = true,
                  .one_element = true,
                  .operands = frontend::operands_of(chosen(inputs, order)),
                  .taken = std::move(taken),
                  .tested = std::move(condition)}, most);
}

/// A condition that MXNet computes from a graph of its own, as a truth value without axes.
ValueId first_condition(Conversion& c, const char* function, const std::vector<ValueId>& given) {
  const std::vector<ValueId> made = c.call(function, given);
  if (made.size() != 1) c.refuse("a condition of several values");
  return c.cast(c.add("Reshape", {made[0], c.integers_constant({})}), DType::kBool);
}

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
