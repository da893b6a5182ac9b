// SPDX-License-Identifier: Apache-2.0
// The table of the expressions of each form.
#pragma once

#include <type_traits>

#include "expr/region.h"

namespace graft {

/// What an expression of a form is evaluated over: the points of its axes, with loads; or nothing but the states that a
/// fold combines, where loads are refused (code generators keep states in registers of no point).
enum class FieldScope : uint8_t { kPoints, kStates };

/// The table of the expressions of each form: calls `visit(name, scope, field)` on each field, which is an Expr (null
/// where it is optional) or a vector of them. Every visitor of expressions is over this table, so that none can forget
/// a field.
template <class AnyForm, class Visit>
void for_each_field(AnyForm& form, const Visit& visit) {
  constexpr FieldScope kPoints = FieldScope::kPoints, kStates = FieldScope::kStates;
  std::visit(
      [&]<class F>(F& f) {
        using Kind = std::remove_const_t<F>;
        if constexpr (std::is_same_v<Kind, Compute>) {
          visit("value", kPoints, f.value);
        } else if constexpr (std::is_same_v<Kind, Reduce>) {
          visit("lift", kPoints, f.lift), visit("identity", kStates, f.monoid.identity);
          visit("combine", kStates, f.monoid.combine);
        } else if constexpr (std::is_same_v<Kind, Scan>) {
          visit("initial", kPoints, f.initial), visit("step", kPoints, f.step), visit("emit", kPoints, f.emit);
        } else if constexpr (std::is_same_v<Kind, Scatter>) {
          visit("indices", kPoints, f.indices), visit("value", kPoints, f.value);
          visit("condition", kPoints, f.condition);
        } else if constexpr (std::is_same_v<Kind, Sort>) {
          visit("key", kPoints, f.key);
        } else {
          static_assert(std::is_same_v<Kind, Compact>);
          visit("condition", kPoints, f.condition), visit("values", kPoints, f.values);
        }
      },
      form);
}

/// Whether a tensor is read.
bool has_load(const Expr& e);

}  // namespace graft
