// SPDX-License-Identifier: Apache-2.0
#include "strategy/window_slides.h"

#include <algorithm>

namespace graft::tile {
namespace {

int variable_of(const graft::Axis& axis) { return axis.variable->variable; }

/// An affine index whose points and taps move as those of the slides do, or null.
Expr moved(const Expr& e, const Affine& form, const std::vector<Slide>& slides, const std::vector<Expr>& positions) {
  Expr rest = e;
  std::vector<Expr> parts;
  for (size_t n = 0; n < slides.size(); ++n) {
    const Slide& slide = slides[n];
    const auto point = form.coefficient(variable_of(slide.axis)).as_constant();
    const auto tap = form.coefficient(variable_of(slide.taps)).as_constant();
    if (!point || !tap || *point % slide.stride != 0) return {};
    const int64_t times = *point / slide.stride;
    if (*tap != times * slide.dilation) return {};
    const Expr zero = make_index(0);
    rest = substitute(rest, {{variable_of(slide.axis), zero}, {variable_of(slide.taps), zero}});
    if (times != 0) parts.push_back(positions[n] * make_index(times));
  }
  for (const Expr& part : parts) rest = rest + part;
  return rest;
}

}  // namespace

int64_t reach(const Slide& slide, int64_t points) {
  return (points - 1) * slide.stride + (slide.count - 1) * slide.dilation + 1;
}

std::optional<Slide> find_slide(const Expr& operand, const std::vector<graft::Axis>& results, const graft::Axis& taps) {
  const auto count = taps.extent.as_constant();
  if (!count || *count < 1) return std::nullopt;
  std::optional<Slide> found;
  for_each(operand, [&](const Expr& e) {
    if (e->kind != ExprKind::kLoad || found) return;
    for (const Expr& index : e->args) {
      const auto form = affine(index);
      for (size_t d = 0; form && !found && d < results.size(); ++d) {
        const auto stride = form->coefficient(variable_of(results[d])).as_constant();
        const auto dilation = form->coefficient(variable_of(taps)).as_constant();
        if (!stride || !dilation || *stride < 1 || *dilation < 1) continue;
        found = Slide{results[d], taps, *stride, *dilation, *count};
      }
    }
  });
  return found;
}

Expr at_positions(const Expr& e, const std::vector<Slide>& slides, const std::vector<Expr>& positions) {
  const bool moves = std::any_of(slides.begin(), slides.end(), [&](const Slide& slide) {
    return uses_variable(e, variable_of(slide.axis)) || uses_variable(e, variable_of(slide.taps));
  });
  if (!moves) return e;
  if (e->type == DType::kInt64) {
    if (const auto form = affine(e)) return moved(e, *form, slides, positions);
  }
  if (e->kind != ExprKind::kLoad && e->kind != ExprKind::kCall) return {};
  std::vector<Expr> arguments;
  for (const Expr& argument : e->args) {
    arguments.push_back(at_positions(argument, slides, positions));
    if (!arguments.back()) return {};
  }
  if (e->kind == ExprKind::kLoad) return make_load(e->tensor, e->type, std::move(arguments));
  if (e->intrinsic == Intrinsic::kCast) return make_cast(e->type, arguments[0]);
  return e->intrinsic == Intrinsic::kBitcast ? Expr() : make_call(e->intrinsic, std::move(arguments));
}

}  // namespace graft::tile
