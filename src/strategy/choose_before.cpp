// SPDX-License-Identifier: Apache-2.0
#include "strategy/choose_before.h"

#include <algorithm>
#include <optional>

namespace graft::tile {
namespace {

constexpr int kMostMaps = 512;  // a map each is code of its own

bool loads(const Expr& e) {
  bool found = false;
  for_each(e, [&](const Expr& node) { found |= node->kind == ExprKind::kLoad; });
  return found;
}

std::optional<int64_t> constant_of(const Expr& e) {
  const auto a = affine(e);
  return a && a->coefficients.empty() ? a->offset.as_constant() : std::nullopt;
}

class Choices {
 public:
  /// Nothing when there are too many.
  std::optional<Body> run(const Map& map) {
    Body body = divide(map);
    return maps_ <= kMostMaps ? std::optional(std::move(body)) : std::nullopt;
  }

 private:
  /// A place on an axis at which a choice turns.
  struct Turn {
    size_t axis = 0;
    int64_t at = 0;
  };

  Body divide(const Map& map) {
    const Expr& value = map.stores[0].value;
    Expr condition;
    for_each(value, [&](const Expr& node) {
      if (is_choice(map, node)) condition = node->args[0];  // the outermost comes last
    });
    if (!condition || maps_ > kMostMaps) {
      ++maps_;
      return {{map}};
    }
    if (const auto turn = turn_of(map, condition)) {
      Body both = divide(part(map, *turn, condition, true));
      for (Statement& statement : divide(part(map, *turn, condition, false))) both.push_back(std::move(statement));
      return both;
    }
    return {{If{condition, divide(assume(map, condition, true))}},
            {If{logical_not(condition), divide(assume(map, condition, false))}}};
  }

  /// Between tensors, by a condition that reads nothing and is the same at all points, or turns at a place of an axis.
  static bool is_choice(const Map& map, const Expr& node) {
    if (!is_call(node, Intrinsic::kSelect) || loads(node->args[0])) return false;
    if (!loads(node->args[1]) || !loads(node->args[2])) return false;
    const bool own = std::any_of(map.axes.begin(), map.axes.end(), [&](const Axis& axis) {
      return uses_variable(node->args[0], axis.variable->variable);
    });
    return !own || turn_of(map, node->args[0]).has_value();
  }

  /// `variable + constant < constant` within an axis of known length.
  static std::optional<Turn> turn_of(const Map& map, const Expr& condition) {
    if (!is_call(condition, Intrinsic::kLt)) return std::nullopt;
    const auto left = affine(condition->args[0]);
    const auto right = constant_of(condition->args[1]);
    if (!left || left->coefficients.size() != 1 || !left->offset.is_constant() || !right) return std::nullopt;
    const int64_t at = *right - left->offset.constant();
    for (size_t a = 0; a < map.axes.size(); ++a) {
      const auto extent = constant_of(map.axes[a].extent);
      const bool one = left->coefficient(map.axes[a].variable->variable).is(1);
      if (one && extent && at > 0 && at < *extent) return Turn{a, at};
    }
    return std::nullopt;
  }

  static Map assume(const Map& map, const Expr& condition, bool holds) {
    Map result = map;
    result.stores[0].value = transform(map.stores[0].value, [&](const Expr& node) -> Expr {
      const bool chosen = is_call(node, Intrinsic::kSelect) && equal(node->args[0], condition);
      return chosen ? node->args[holds ? 1 : 2] : Expr();
    });
    return result;
  }

  /// The map before or behind the turn.
  static Map part(const Map& map, const Turn& turn, const Expr& condition, bool before) {
    Map result = assume(map, condition, before);
    Axis& axis = result.axes[turn.axis];
    const int64_t extent = *constant_of(axis.extent), length = before ? turn.at : extent - turn.at;
    const int old = axis.variable->variable;
    axis = {make_variable(), make_index(length), length};
    const Expr index = before ? axis.variable : axis.variable + make_index(turn.at);
    const auto moved = [&](const Expr& e) { return substitute(e, {{old, index}}); };
    result.stores[0].value = moved(result.stores[0].value);
    for (Expr& at : result.stores[0].indices) at = moved(at);
    if (result.condition) result.condition = moved(result.condition);
    return result;
  }

  int maps_ = 0;
};

}  // namespace

Body choose_before(const Map& map) {
  if (map.stores.size() == 1 && !map.ordered) {
    if (auto body = Choices().run(map)) return std::move(*body);
  }
  return {{map}};
}

}  // namespace graft::tile
