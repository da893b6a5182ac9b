// SPDX-License-Identifier: Apache-2.0
#include "passes/match.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "passes/edit.h"

namespace graft::passes {
namespace {

bool is_commutative(std::string_view op) {
  static constexpr std::string_view kOps[] = {"Add", "Mul", "And", "Or", "Xor", "Equal", "Max", "Min"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

/// How far a constant of the type may be from the number it was rounded from.
double relative_rounding(DType type) {
  switch (type) {
    case DType::kFloat64:
      return 1e-7;  // exporters write f64 constants that once were f32
    case DType::kFloat32:
      return 1e-6;
    case DType::kFloat16:
      return 1e-3;
    case DType::kBFloat16:
      return 8e-3;
    default:
      return 0;
  }
}

bool is_number(const Graph& graph, ValueId id, double number) {
  const auto value = scalar_of(graph, id);
  return value && std::abs(*value - number) <= relative_rounding(graph.value(id).type) * std::abs(number);
}

/// Binds the pattern's name; false when it stands for another value already.
bool bind(const Pattern& pattern, ValueId value, Match& match) {
  if (pattern.name.empty()) return true;
  return match.values.emplace(pattern.name, value).first->second == value;
}

}  // namespace

Pattern any(std::string_view name) { return {.kind = Pattern::Kind::kAny, .name = std::string(name)}; }
Pattern constant(std::string_view name) { return {.kind = Pattern::Kind::kConstant, .name = std::string(name)}; }
Pattern scalar(std::string_view name) { return {.kind = Pattern::Kind::kScalar, .name = std::string(name)}; }
Pattern number(double value) { return {.kind = Pattern::Kind::kNumber, .number = value}; }

Pattern node(std::string_view op, std::vector<Pattern> inputs, std::string_view name) {
  return {
      .kind = Pattern::Kind::kNode, .name = std::string(name), .op = std::string(op), .arguments = std::move(inputs)};
}

Pattern either(std::vector<Pattern> alternatives) {
  return {.kind = Pattern::Kind::kEither, .arguments = std::move(alternatives)};
}

Pattern scaled(const Pattern& x, double factor) {
  return either({node("Mul", {x, number(factor)}), node("Div", {x, number(1 / factor)})});
}

ValueId Match::operator[](std::string_view name) const {
  const auto it = values.find(name);
  GRAFT_CHECK(it != values.end(), "the pattern names no value " + std::string(name));
  return it->second;
}

bool Matcher::solve_node(const Goal& goal, const std::vector<Goal>& rest, Match& match) const {
  const int index = graph_.value(goal.value).producer;
  if (index < 0) return false;
  const Node& node = graph_.nodes[index];
  const std::vector<Pattern>& arguments = goal.pattern->arguments;
  const size_t count = input_count(node);
  if (node.op != goal.pattern->op || !node.domain.empty() || node.outputs[0] != goal.value) return false;
  if (count != arguments.size()) return false;
  const Match before = match;
  for (const bool swapped : {false, true}) {
    if (swapped && (count != 2 || !is_commutative(node.op) || node.inputs[0] == node.inputs[1])) break;
    match = before;
    if (std::find(match.nodes.begin(), match.nodes.end(), index) == match.nodes.end()) match.nodes.push_back(index);
    std::vector<Goal> goals = rest;
    for (size_t i = count; i-- > 0;) goals.push_back({&arguments[i], node.inputs[swapped ? 1 - i : i]});
    if (bind(*goal.pattern, goal.value, match) && solve(std::move(goals), match)) return true;
  }
  match = before;
  return false;
}

/// Solves the last goal first, so that the inputs of a node are looked at from left to right.
bool Matcher::solve(std::vector<Goal> goals, Match& match) const {
  if (goals.empty()) return true;
  const Goal goal = goals.back();
  goals.pop_back();
  if (goal.value == kNoValue) return false;
  const Value& value = graph_.value(goal.value);
  const Match before = match;
  bool holds = false;
  switch (goal.pattern->kind) {
    case Pattern::Kind::kNode:
      return solve_node(goal, goals, match);
    case Pattern::Kind::kEither:
      for (const Pattern& alternative : goal.pattern->arguments) {
        std::vector<Goal> with = goals;
        with.push_back({&alternative, goal.value});
        if (solve(std::move(with), match)) return true;
        match = before;
      }
      return false;
    case Pattern::Kind::kAny:
      holds = true;
      break;
    case Pattern::Kind::kConstant:
      holds = value.constant.has_value();
      break;
    case Pattern::Kind::kScalar:
      holds = scalar_of(graph_, goal.value).has_value();
      break;
    case Pattern::Kind::kNumber:
      holds = is_number(graph_, goal.value, goal.pattern->number);
      break;
  }
  if (holds && bind(*goal.pattern, goal.value, match) && solve(std::move(goals), match)) return true;
  match = before;
  return false;
}

std::optional<Match> Matcher::find(const Pattern& pattern, ValueId root) const {
  Match match;
  if (!solve({{&pattern, root}}, match)) return std::nullopt;
  if (!match.nodes.empty() && !is_closed(match.nodes, match.nodes.front())) return std::nullopt;
  return match;
}

int Matcher::only_consumer(ValueId value) const {
  if (value == kNoValue || is_new(value) || graph_.is_output(value)) return -1;
  return consumers_[value].size() == 1 ? consumers_[value].front() : -1;
}

bool Matcher::is_closed(const std::vector<int>& nodes, int root) const {
  const auto inside = [&](int node) { return std::find(nodes.begin(), nodes.end(), node) != nodes.end(); };
  for (const int index : nodes) {
    if (index == root) continue;
    for (const ValueId output : graph_.nodes[index].outputs) {
      if (output == kNoValue) continue;
      if (is_new(output)) return false;
      const auto& readers = consumers_[output];
      if (graph_.is_output(output) || !std::all_of(readers.begin(), readers.end(), inside)) return false;
    }
  }
  return true;
}

}  // namespace graft::passes
