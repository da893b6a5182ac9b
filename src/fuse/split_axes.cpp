// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fuse/rewrite_region.h"

namespace graft {
namespace {

/// The constant by which a value divides the axis to find an element of a tensor that the region makes; 0 for none.
int64_t divisor_of(const Region& region, const Expr& value, int variable) {
  int64_t divisor = 0;
  for_each(value, [&](const Expr& node) {
    if (node->kind != ExprKind::kLoad) return;
    if (is_input(region, node->tensor)) return;
    for (const Expr& index : node->args) {
      if (!is_call(index, Intrinsic::kFloorDiv) || index->args[0]->kind != ExprKind::kVariable) continue;
      const auto by = as_integer(index->args[1]);
      if (index->args[0]->variable == variable && by && *by > 1) divisor = *by;
    }
  });
  return divisor;
}

/// By tensor: whether a form reads it.
std::vector<bool> read_flags(const Region& region) {
  std::vector<bool> read(region.tensors.size(), false);
  for (const Form& form : region.forms) {
    for (const int tensor : read_tensors(form)) read[static_cast<size_t>(tensor)] = true;
  }
  return read;
}

/// over (i < n * k): ... i / k ... i mod k ... -> over (a < n, b < k): ... a ... b ...
void split(Region& region, Compute& compute, size_t d, int64_t divisor) {
  const Axis axis = compute.axes[d];
  const Axis outer{make_variable(), floor_div(axis.extent, divisor)}, inner{make_variable(), Size(divisor)};
  const Expr whole = outer.variable * make_index(divisor) + inner.variable;
  const Expr by_parts = transform(compute.value, [&](const Expr& node) -> Expr {
    const bool divides = is_call(node, Intrinsic::kFloorDiv) || is_call(node, Intrinsic::kMod);
    if (!divides || node->args[0]->kind != ExprKind::kVariable) return {};
    if (node->args[0]->variable != axis.variable->variable || as_integer(node->args[1]) != divisor) return {};
    return is_call(node, Intrinsic::kMod) ? inner.variable : outer.variable;
  });
  compute.value = substitute(by_parts, {{axis.variable->variable, whole}});
  const auto place = compute.axes.begin() + static_cast<std::ptrdiff_t>(d);
  *place = inner;
  compute.axes.insert(place, outer);
  Shape& shape = region.tensors[compute.output].shape;
  shape[d] = inner.extent;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d), outer.extent);
}

}  // namespace

void split_divided_axes(Region& region) {
  const std::vector<bool> is_read = read_flags(region);  // splitting changes how a tensor is read, not whether
  for (Form& form : region.forms) {
    auto* compute = std::get_if<Compute>(&form);
    if (!compute || is_read[static_cast<size_t>(compute->output)]) continue;
    for (size_t d = 0; d < compute->axes.size(); ++d) {
      const int64_t divisor = divisor_of(region, compute->value, compute->axes[d].variable->variable);
      if (divisor > 1 && compute->axes[d].extent.is_multiple_of(divisor)) split(region, *compute, d, divisor);
    }
  }
}

}  // namespace graft
