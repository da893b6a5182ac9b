// SPDX-License-Identifier: Apache-2.0
#include "strategy/window_copy.h"

#include <algorithm>

#include "tile/builder.h"

namespace graft::tile {
namespace {

bool same(const graft::Axis& a, const graft::Axis& b) { return a.variable->variable == b.variable->variable; }

}  // namespace

WindowCopy::WindowCopy(const Contraction& contraction, std::vector<MovingAxis> moving, int64_t multiple)
    : contraction_(contraction), moving_(std::move(moving)), multiple_(multiple) {
  for (const graft::Axis& axis : contraction_.k) {
    if (const auto slide = find_slide(contraction_.a, contraction_.m, axis)) slides_.push_back(*slide);
  }
  for (size_t n = 0; n < moving_.size(); ++n) {
    const bool slides = std::any_of(slides_.begin(), slides_.end(),
                                    [&](const Slide& slide) { return same(slide.axis, moving_[n].axis); });
    if (!slides && uses_variable(contraction_.a, moving_[n].axis.variable->variable)) still_.push_back(n);
  }
}

std::string WindowCopy::why_not() const {
  if (std::none_of(slides_.begin(), slides_.end(), [&](const Slide& slide) { return moving_along(slide) >= 0; })) {
    return "no window slides along the rows";
  }
  if (slide_of(contraction_.k.back())) return "the innermost reduced axis is one of taps";
  const std::vector<Expr> anywhere(slides_.size(), make_index(0));
  return at_positions(contraction_.a, slides_, anywhere) ? "" : "the left operand moves in more than one way";
}

const Slide* WindowCopy::slide_of(const graft::Axis& reduced) const {
  const auto found =
      std::find_if(slides_.begin(), slides_.end(), [&](const Slide& slide) { return same(slide.taps, reduced); });
  return found == slides_.end() ? nullptr : &*found;
}

int WindowCopy::moving_along(const Slide& slide) const {
  for (size_t n = 0; n < moving_.size(); ++n) {
    if (same(slide.axis, moving_[n].axis)) return static_cast<int>(n);
  }
  return -1;
}

Size WindowCopy::padded_extent() const { return ceil_div(contraction_.k.back().extent, multiple_) * Size(multiple_); }

Shape WindowCopy::shape() const {
  Shape shape;
  for (const size_t n : still_) shape.push_back(moving_[n].most);
  for (const graft::Axis& axis : contraction_.k) {
    const Slide* slide = slide_of(axis);
    const int along = slide ? moving_along(*slide) : -1;
    const int64_t points = along < 0 ? 1 : moving_[static_cast<size_t>(along)].most;
    shape.push_back(slide ? Size(reach(*slide, points)) : axis.extent);
  }
  shape.back() = padded_extent();
  return shape;
}

std::pair<std::vector<Axis>, Expr> WindowCopy::copy(const std::vector<Axis>& rows, const std::vector<Expr>& begins,
                                                    const Replacements& standing, Replacements& at) const {
  std::vector<Axis> axes;
  std::vector<Expr> positions(slides_.size());
  for (const size_t n : still_) {
    const int variable = moving_[n].axis.variable->variable;
    axes.push_back(make_axis(rows[n].extent, moving_[n].most));
    std::erase_if(at, [&](const auto& replaced) { return replaced.first == variable; });
    at.emplace_back(variable, begins[n] + axes.back().variable);
  }
  for (const graft::Axis& axis : contraction_.k) {
    const Slide* slide = slide_of(axis);
    if (!slide) {
      const bool is_last = same(axis, contraction_.k.back());
      axes.push_back(make_axis(is_last ? padded_extent() : axis.extent));
      at.emplace_back(axis.variable->variable, axes.back().variable);
      continue;
    }
    const int along = moving_along(*slide);
    const auto n = static_cast<size_t>(std::max(along, 0));
    const Expr points = along >= 0 ? rows[n].extent : make_index(1);
    const Expr begin = along >= 0 ? begins[n] : substitute(slide->axis.variable, standing);
    axes.push_back(make_axis((points - make_index(1)) * make_index(slide->stride) +
                                 make_index((slide->count - 1) * slide->dilation + 1),
                             reach(*slide, along >= 0 ? moving_[n].most : 1)));
    positions[static_cast<size_t>(slide - slides_.data())] = begin * make_index(slide->stride) + axes.back().variable;
  }
  Expr value = at_positions(contraction_.a, slides_, positions);
  const graft::Axis& innermost = contraction_.k.back();
  if (!innermost.extent.is_multiple_of(multiple_)) {
    value = select(lt(innermost.variable, make_size(innermost.extent)), value, make_constant(value->type, 0));
  }
  return {std::move(axes), value};
}

std::vector<Expr> WindowCopy::indices(const std::vector<Axis>& rows, const Replacements& at) const {
  std::vector<Expr> indices;
  for (const size_t n : still_) indices.push_back(rows[n].variable);
  for (const graft::Axis& axis : contraction_.k) {
    const Expr element = substitute(axis.variable, at);
    const Slide* slide = slide_of(axis);
    const int along = slide ? moving_along(*slide) : -1;
    Expr index = slide ? element * make_index(slide->dilation) : element;
    if (along >= 0) index = rows[static_cast<size_t>(along)].variable * make_index(slide->stride) + index;
    indices.push_back(index);
  }
  return indices;
}

}  // namespace graft::tile
