// SPDX-License-Identifier: Apache-2.0
#include "fuse/place_constants.h"

#include <algorithm>
#include <cmath>

namespace graft {
namespace {

/// The value of a constant of one integer, as indices are, of a zero of another type, or of the float 1; null for
/// anything else.
Expr placed_constant(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.constant || value.constant->element_count() != 1) return {};
  if (is_integer(value.type) && bit_width(value.type) >= 8) {
    const int64_t integer = value.constant->read_integer(0);
    const bool is_index = value.type == DType::kInt64 || value.type == DType::kInt32;
    return is_index || integer == 0 ? make_integer(value.type, integer) : Expr();
  }
  const bool is_one = value.type == DType::kFloat32 && value.constant->read_double(0) == 1;
  return is_one ? make_constant(value.type, 1) : Expr();
}

/// Whether all that is done with a tensor of one element is to bound others by it.
bool only_bounds(const Region& region, int tensor) {
  const auto is_load = [&](const Expr& e) { return e->kind == ExprKind::kLoad && e->tensor == tensor; };
  int loads = 0, bounds = 0;
  for (const Form& form : region.forms) {
    for_each_expr(form, [&](const Expr& root) {
      for_each(root, [&](const Expr& e) {
        loads += is_load(e);
        if (!is_call(e, Intrinsic::kMin) && !is_call(e, Intrinsic::kMax)) return;
        for (const Expr& operand : e->args) {
          bounds += is_load(is_call(operand, Intrinsic::kCast) ? operand->args[0] : operand);
        }
      });
    });
  }
  return loads > 0 && loads == bounds;
}

/// The float that bounds others, if it is a constant and no NaN, for which code would have to be ready.
Expr placed_bound(const Graph& graph, ValueId id, const Region& region, int tensor) {
  const Value& value = graph.value(id);
  if (!value.constant || value.constant->element_count() != 1) return {};
  if (!is_float(value.type) || bit_width(value.type) < 16 || !only_bounds(region, tensor)) return {};
  const double bound = value.constant->read_double(0);
  return std::isnan(bound) ? Expr() : make_constant(value.type, bound);
}

}  // namespace

void place_constants(const Graph& graph, const Node& node, NodeDefinition& definition) {
  Region& region = definition.region;
  for (size_t k = definition.inputs.size(); k-- > 0;) {
    const ValueId id = node.inputs[static_cast<size_t>(definition.inputs[k])];
    const int tensor = region.inputs[k];
    Expr placed = id == kNoValue ? Expr() : placed_constant(graph, id);
    if (!placed && id != kNoValue) placed = placed_bound(graph, id, region, tensor);
    const bool is_base = std::any_of(region.forms.begin(), region.forms.end(), [&](const Form& form) {
      const auto* scatter = std::get_if<Scatter>(&form);
      return scatter && scatter->base == tensor;
    });
    const bool is_size = std::any_of(definition.size_sources.begin(), definition.size_sources.end(),
                                     [&](const SizeSource& source) { return source.input == definition.inputs[k]; });
    if (!placed || is_base || is_size) continue;
    for (Form& form : region.forms) {
      form = map_exprs(form, [&](const Expr& e) {
        return transform(e, [&](const Expr& n) {
          return n->kind == ExprKind::kLoad && n->tensor == tensor ? placed : Expr();
        });
      });
    }
    region.inputs.erase(region.inputs.begin() + static_cast<std::ptrdiff_t>(k));
    definition.inputs.erase(definition.inputs.begin() + static_cast<std::ptrdiff_t>(k));
  }
}

}  // namespace graft
