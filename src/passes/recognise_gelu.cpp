// SPDX-License-Identifier: Apache-2.0
// x * 0.5 * (1 + erf(x / sqrt(2))) -> Gelu(x), and the form with tanh -> Gelu(x, approximate = tanh), in the orders in
// which exporters write the products.
#include <cmath>

#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

/// x * (1 + inner) / 2, in any order.
Pattern half_product(const Pattern& inner) {
  const Pattern x = any("x"), half = number(0.5);
  const Pattern sum = node("Add", {inner, number(1)});
  return either({
      scaled(node("Mul", {x, sum}), 0.5),
      node("Mul", {scaled(x, 0.5), sum}),
      node("Mul", {x, scaled(sum, 0.5)}),
      node("Mul", {x, node("Add", {scaled(inner, 0.5), half})}),
  });
}

Pattern exact_gelu() { return half_product(node("Erf", {scaled(any("x"), std::sqrt(0.5))})); }

/// sqrt(2 / pi) * (x + 0.044715 * x^3), in any order.
Pattern tanh_argument(double outer) {
  const double cubic = 0.044715;
  const Pattern x = any("x"), square = either({node("Mul", {x, x}), node("Pow", {x, number(2)})});
  const Pattern cube = either({node("Pow", {x, number(3)}), node("Mul", {x, square})});
  const Pattern term =
      either({node("Mul", {cube, number(cubic)}), node("Mul", {x, node("Mul", {square, number(cubic)})}),
              node("Mul", {node("Mul", {x, number(cubic)}), square}),
              node("Mul", {node("Mul", {node("Mul", {x, number(cubic)}), x}), x})});
  const Pattern factor = node(
      "Add",
      {either({node("Mul", {square, number(cubic)}), node("Mul", {node("Mul", {x, number(cubic)}), x})}), number(1)});
  return either({
      scaled(node("Add", {x, term}), outer),
      node("Mul", {scaled(x, outer), factor}),
      scaled(node("Mul", {x, factor}), outer),
      node("Mul", {x, scaled(factor, outer)}),
  });
}

/// The tanh form, also as x * sigmoid(2 * argument).
Pattern approximate_gelu() {
  const double outer = std::sqrt(2 / M_PI);
  return either({
      half_product(node("Tanh", {tanh_argument(outer)})),
      node("Mul", {any("x"), node("Sigmoid", {tanh_argument(2 * outer)})}),
  });
}

}  // namespace

bool recognise_gelu(Graph& graph, const PassContext& context) {
  const Pattern exact = exact_gelu(), approximate = approximate_gelu();
  return rewrite_nodes(graph, [&](Graph& g, const Matcher& matcher, int index) {
    const Node& root = g.nodes[index];
    if (!is_op(root, {"Mul", "Div"})) return false;
    auto match = matcher.find(exact, root.outputs[0]);
    const bool is_exact = match.has_value();
    if (!match) match = matcher.find(approximate, root.outputs[0]);
    if (!match) return false;
    if (!same_shape(g, (*match)["x"], root.outputs[0])) {
      context.left("recognise_gelu", root, "a constant widens the shape of the result");
      return false;
    }
    replace_node(g, index, "Gelu", {(*match)["x"]},
                 is_exact ? Attributes() : Attributes{{"approximate", std::string("tanh")}});
    take_first_name(g, index, match->nodes);
    return true;
  });
}

}  // namespace graft::passes
