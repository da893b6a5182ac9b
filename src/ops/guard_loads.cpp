// SPDX-License-Identifier: Apache-2.0
#include "ops/guard_loads.h"

#include <map>

namespace graft {
namespace {

/// The extents of a form's axes, by variable.
std::map<int, Size> extents_of(const Form& form) {
  std::map<int, Size> extents;
  const auto add = [&](const Axis& axis) { extents.emplace(axis.variable->variable, axis.extent); };
  std::visit(
      [&](const auto& f) {
        for (const Axis& axis : f.axes) add(axis);
        if constexpr (requires { f.reduced; }) {
          for (const Axis& axis : f.reduced) add(axis);
        }
        if constexpr (requires { f.axis; }) add(f.axis);
      },
      form);
  return extents;
}

/// Whether 0 <= index < size at each point of the axes; loops of no points reach none, so extents are 1 at least.
bool is_inside(const Expr& index, const Size& size, const std::map<int, Size>& extents) {
  const auto sum = affine(index);
  if (!sum) return false;
  Size low = sum->offset, high = sum->offset;
  for (const auto& [variable, coefficient] : sum->coefficients) {
    const auto extent = extents.find(variable);
    if (extent == extents.end()) return false;
    const Size reach = coefficient * (extent->second - 1);
    if (coefficient.is_non_negative()) {
      high = high + reach;
    } else if ((Size(0) - coefficient).is_non_negative()) {
      low = low + reach;
    } else {
      return false;
    }
  }
  return low.is_non_negative() && (size - 1 - high).is_non_negative();
}

}  // namespace

Form guard_loads(const Form& form, const std::function<const Shape&(int tensor)>& shape_of) {
  const std::map<int, Size> extents = extents_of(form);
  const auto guarded = [&](const Expr& index, const Size& size) {
    return is_inside(index, size, extents) ? index : check_index(index, make_size(size));
  };
  Form result = map_exprs(form, [&](const Expr& e) {
    return !e ? e : transform(e, [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad) return Expr();
      const Shape& shape = shape_of(node->tensor);
      std::vector<Expr> indices;
      for (size_t axis = 0; axis < node->args.size(); ++axis) indices.push_back(guarded(node->args[axis], shape[axis]));
      return make_load(node->tensor, node->type, std::move(indices));
    });
  });
  if (auto* scatter = std::get_if<Scatter>(&result)) {
    const Shape& shape = shape_of(scatter->base);
    for (size_t axis = 0; axis < scatter->indices.size(); ++axis) {
      scatter->indices[axis] = guarded(scatter->indices[axis], shape[axis]);
    }
  }
  return result;
}

}  // namespace graft
