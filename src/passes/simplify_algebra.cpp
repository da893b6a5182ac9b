// SPDX-License-Identifier: Apache-2.0
// Algebra that changes no result beyond the sign of a zero and the last bit of a power: each function below is one
// rewrite, tried in order.
#include <algorithm>
#include <cmath>

#include "base/convert.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

bool is_integral(const Graph& graph, ValueId value) { return is_integer(graph.value(value).type); }

/// Whether dividing by the number is multiplying by its inverse, exactly and without overflow.
bool has_exact_inverse(double number) {
  int exponent = 0;
  return std::isfinite(number) && std::abs(std::frexp(number, &exponent)) == 0.5 && std::abs(exponent) < 100;
}

/// A constant like `like` with another value in every element.
ValueId uniform_like(Graph& graph, std::string_view name, ValueId like, double value) {
  TensorData data = TensorData::zeros(graph.value(like).type, constant_of(graph, like)->shape());
  for (int64_t i = 0; i < data.element_count(); ++i) data.write_double(i, value);
  return graph.add_constant(name, std::move(data));
}

/// x * 1, x + 0, x - 0, x / 1, x ^ 1, x and true, x or false -> x
bool drop_neutral_operand(Graph& graph, const Matcher&, int index) {
  const Node& node = graph.nodes[index];
  struct Neutral {
    std::string_view op;
    double value;
    bool commutes;
  };
  static constexpr Neutral kRows[] = {{"Mul", 1, true},  {"Add", 0, true}, {"Sub", 0, false}, {"Div", 1, false},
                                      {"Pow", 1, false}, {"And", 1, true}, {"Or", 0, true}};
  for (const Neutral& row : kRows) {
    if (!is_op(node, {row.op})) continue;
    for (const size_t k : {1, 0}) {
      if ((k == 0 && !row.commutes) || uniform_of(graph, node.inputs[k]) != row.value) continue;
      const ValueId x = node.inputs[1 - k];
      if (same_shape(graph, x, node.outputs[0])) return bypass(graph, index, x);
    }
  }
  return false;
}

/// x / 2^k -> x * 2^-k
bool multiply_by_exact_inverse(Graph& graph, const Matcher&, int index) {
  const Node& node = graph.nodes[index];
  if (!is_op(node, {"Div"}) || !is_float(graph.value(node.inputs[1]).type)) return false;
  const ValueId divisor = node.inputs[1];
  const auto value = uniform_of(graph, divisor);
  if (!value || !has_exact_inverse(*value)) return false;
  const double inverse = 1 / *value;
  if (round_to_float(graph.value(divisor).type, inverse) != inverse) return false;
  const ValueId factor = uniform_like(graph, graph.value(divisor).name, divisor, inverse);
  replace_node(graph, index, "Mul", {node.inputs[0], factor});
  return true;
}

/// x ^ 2 -> x * x, x ^ 3 -> x * x * x, x ^ -1 -> 1 / x
bool expand_small_power(Graph& graph, const Matcher&, int index) {
  const Node& node = graph.nodes[index];
  if (!is_op(node, {"Pow"}) || !same_shape(graph, node.inputs[0], node.outputs[0])) return false;
  const auto exponent = uniform_of(graph, node.inputs[1]);
  const ValueId x = node.inputs[0];
  const DType type = graph.value(x).type;
  if (exponent == 2.0) {
    replace_node(graph, index, "Mul", {x, x});
  } else if (exponent == 3.0 && bit_width(type) >= 32) {
    const ValueId square = append_node(graph, node.name + "/square", "Mul", {x, x}, type, graph.value(x).shape);
    replace_node(graph, index, "Mul", {square, x});
  } else if (exponent == -1.0 && is_float(type)) {
    replace_node(graph, index, "Reciprocal", {x});
  } else {
    return false;
  }
  return true;
}

/// (x * c) * d -> x * (c * d), (x + c) + d -> x + (c + d), where that is exact: integers, and scaling by a power of
/// two.
bool merge_constant_operands(Graph& graph, const Matcher& matcher, int index) {
  const Node& node = graph.nodes[index];
  if (!is_op(node, {"Add", "Mul"})) return false;
  const std::string op = node.op;
  const auto match =
      matcher.find(passes::node(op, {passes::node(op, {any("x"), scalar("c")}), scalar("d")}), node.outputs[0]);
  if (!match) return false;
  const ValueId c = (*match)["c"], d = (*match)["d"], x = (*match)["x"];
  const double first = *scalar_of(graph, c), second = *scalar_of(graph, d);
  const bool exact = is_integral(graph, x) || (op == "Mul" && (has_exact_inverse(first) || has_exact_inverse(second)));
  const int constant_rank = std::max(rank_of(graph, c), rank_of(graph, d));
  if (!exact || constant_rank > rank_of(graph, x) || constant_of(graph, x)) return false;
  TensorData data = TensorData::zeros(graph.value(c).type, constant_of(graph, c)->shape());
  if (is_integral(graph, x)) {
    const auto a = static_cast<uint64_t>(constant_of(graph, c)->read_integer(0));
    const auto b = static_cast<uint64_t>(constant_of(graph, d)->read_integer(0));
    data.write_integer(0, static_cast<int64_t>(op == "Mul" ? a * b : a + b));
  } else {
    const double product = first * second;
    if (!std::isnormal(round_to_float(data.type(), product))) return false;
    data.write_double(0, product);
  }
  const std::string name = graph.value(c).name;
  replace_node(graph, index, op, {x, graph.add_constant(name, std::move(data))});
  take_first_name(graph, index, match->nodes);
  return true;
}

/// Transpose(Transpose(x)) -> Transpose(x)
bool merge_transposes(Graph& graph, const Matcher&, int index) {
  const Node& outer = graph.nodes[index];
  const Node* inner = is_op(outer, {"Transpose"}) ? producer(graph, outer.inputs[0]) : nullptr;
  if (!inner || !is_op(*inner, {"Transpose"})) return false;
  const std::vector<int64_t> first = integers(*inner, "perm"), second = integers(outer, "perm");
  if (first.empty() || first.size() != second.size()) return false;
  std::vector<int64_t> both;
  for (const int64_t axis : second) both.push_back(first[axis]);
  if (std::is_sorted(both.begin(), both.end())) return bypass(graph, index, inner->inputs[0]);
  replace_node(graph, index, "Transpose", {inner->inputs[0]}, {{"perm", both}});
  return true;
}

bool is_reshape(const Node& node) { return is_op(node, {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}); }

/// The second input of the Reshape from `x` to `value`: constants, 0 where the size of x is copied, and -1 for one
/// other size; nothing when more are open or a size of zero would be mistaken.
std::optional<std::vector<int64_t>> as_reshape_operand(const Graph& graph, ValueId x, ValueId value) {
  if (rank_of(graph, value) < 0 || rank_of(graph, x) < 0) return std::nullopt;
  const Shape &from = *graph.value(x).shape, &to = *graph.value(value).shape;
  std::vector<int64_t> extents;
  int open = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].is(0)) return std::nullopt;
    const bool copied = !to[i].is_constant() && i < from.size() && from[i] == to[i];
    open += !copied && !to[i].is_constant();
    extents.push_back(copied ? 0 : to[i].is_constant() ? to[i].constant() : -1);
  }
  return open <= 1 ? std::optional(extents) : std::nullopt;
}

/// Reshape(x, computed shape) -> Reshape(x, constant), so that nothing need compute the shape
bool fix_reshape(Graph& graph, const Matcher&, int index) {
  const Node& node = graph.nodes[index];
  if (!is_op(node, {"Reshape"}) || constant_of(graph, node.inputs[1])) return false;
  const ValueId x = node.inputs[0];
  const auto extents = as_reshape_operand(graph, x, node.outputs[0]);
  if (!extents) return false;
  const ValueId shape = add_integers(graph, graph.value(node.outputs[0]).name + "/shape", *extents);
  replace_node(graph, index, "Reshape", {x, shape});
  return true;
}

/// Reshape(Reshape(x)) -> Reshape(x), also for Flatten, Squeeze and Unsqueeze
bool merge_reshapes(Graph& graph, const Matcher&, int index) {
  const Node& outer = graph.nodes[index];
  const Node* inner = is_reshape(outer) ? producer(graph, outer.inputs[0]) : nullptr;
  if (!inner || !is_reshape(*inner)) return false;
  const ValueId x = inner->inputs[0];
  if (same_shape(graph, x, outer.outputs[0])) return bypass(graph, index, x);
  if (const auto extents = as_reshape_operand(graph, x, outer.outputs[0])) {
    const ValueId shape = add_integers(graph, graph.value(outer.outputs[0]).name + "/shape", *extents);
    replace_node(graph, index, "Reshape", {x, shape});
    return true;
  }
  const auto given = outer.op == "Reshape" ? graph.value(outer.inputs[1]).content : std::nullopt;
  const bool copies_none =
      given && std::none_of(given->begin(), given->end(), [](const Size& size) { return size.is(0); });
  if (!copies_none) return false;
  graph.nodes[index].inputs[0] = x;
  return true;
}

/// Where(all true, x, y) -> x; Where(all false, x, y) -> y
bool choose_branch(Graph& graph, const Matcher&, int index) {
  const Node& node = graph.nodes[index];
  const auto condition = is_op(node, {"Where"}) ? uniform_of(graph, node.inputs[0]) : std::nullopt;
  if (!condition) return false;
  const ValueId branch = node.inputs[*condition != 0 ? 1 : 2];
  return same_shape(graph, branch, node.outputs[0]) && bypass(graph, index, branch);
}

/// Neg(Neg(x)) -> x, Not(Not(x)) -> x
bool cancel_involution(Graph& graph, const Matcher&, int index) {
  const Node& node = graph.nodes[index];
  const Node* inner = is_op(node, {"Neg", "Not"}) ? producer(graph, node.inputs[0]) : nullptr;
  return inner && is_op(*inner, {node.op}) && bypass(graph, index, inner->inputs[0]);
}

}  // namespace

bool simplify_algebra(Graph& graph, const PassContext&) {
  static constexpr bool (*kRewrites[])(Graph&, const Matcher&, int) = {
      fix_reshape,        drop_neutral_operand,    multiply_by_exact_inverse,
      expand_small_power, merge_constant_operands, merge_transposes,
      merge_reshapes,     choose_branch,           cancel_involution};
  return rewrite_nodes(graph, [](Graph& g, const Matcher& matcher, int index) {
    return std::any_of(std::begin(kRewrites), std::end(kRewrites),
                       [&](const auto rewrite) { return rewrite(g, matcher, index); });
  });
}

}  // namespace graft::passes
