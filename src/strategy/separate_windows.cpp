// SPDX-License-Identifier: Apache-2.0
#include "strategy/separate_windows.h"

#include <algorithm>

#include "fuse/rewrite_region.h"

namespace graft::tile {
namespace {

constexpr int64_t kMostStaged = int64_t{1} << 18;  // elements of a grid point's scratch, which L2 caches hold
constexpr int64_t kMostTaps = 64;                  // along one axis
constexpr int64_t kFarthest = 4;                   // elements from one result of a row to the next

/// A dimension that the window slides along: position = stride * result + step * tap + offset.
struct Slide {
  size_t dimension = 0;      ///< of the tensor, and of the result
  Axis taps, result, place;  ///< `place` numbers the positions that are read
  int64_t stride = 0, step = 0, offset = 0;
};

class Separation {
 public:
  explicit Separation(const Region& region) : region_(region) {}

  bool find() {
    reduce_ = region_.forms.empty() ? nullptr : std::get_if<Reduce>(&region_.forms[0]);
    if (!reduce_ || reduce_->lift.size() != 1 || reduce_->reduced.size() < 2) return false;
    const auto fold = reduce_->monoid.intrinsic();
    if (fold != Intrinsic::kMax && fold != Intrinsic::kMin && fold != Intrinsic::kAdd) return false;
    return find_load() && find_slides() && is_small();
  }

  Region run() {
    Region result = region_;
    std::vector<Axis> axes = reduce_->axes;
    for (const Slide& slide : slides_) axes[slide.dimension] = slide.place;
    // What nothing guards is read where it lies.
    const bool plain = reduce_->lift[0].get() == load_.get();
    int tensor = plain ? load_->tensor : declare(result, "staged", axes);
    std::vector<Form> forms;
    if (!plain) forms.push_back(Compute{axes, by_place(reduce_->lift[0]), tensor});
    for (size_t n = 0; n < slides_.size(); ++n) {
      const Slide& slide = slides_[n];
      std::vector<Expr> at;
      for (const Axis& axis : axes) at.push_back(axis.variable);
      at[slide.dimension] =
          slide.result.variable * make_index(slide.stride) + slide.taps.variable * make_index(slide.step);
      for (const Slide& each : slides_) {
        if (plain && n == 0) at[each.dimension] = at[each.dimension] + make_index(each.offset);
      }
      axes[slide.dimension] = slide.result;
      const bool last = n + 1 == slides_.size();
      const int output = last ? reduce_->outputs[0] : declare(result, "folded", axes);
      forms.push_back(Reduce{.axes = axes,
                             .reduced = {slide.taps},
                             .lift = {make_load(tensor, type(), at)},
                             .monoid = monoid(),
                             .outputs = {output}});
      tensor = output;
    }
    result.forms.erase(result.forms.begin());
    result.forms.insert(result.forms.begin(), forms.begin(), forms.end());
    return result;
  }

 private:
  DType type() const { return reduce_->lift[0]->type; }
  Monoid monoid() const { return make_monoid(*reduce_->monoid.intrinsic(), type()); }

  /// The only load of the lift, which reads an input of the region.
  bool find_load() {
    bool only = true;
    for_each(reduce_->lift[0], [&](const Expr& node) {
      only = only && !is_check(*node);
      if (node->kind != ExprKind::kLoad) return;
      only = only && !load_ && is_input(region_, node->tensor);
      load_ = node;
    });
    return only && load_ && load_->args.size() == reduce_->axes.size();
  }

  static std::optional<int64_t> constant(const Size& size) { return size.as_constant(); }

  /// Each axis of taps with the axis of the result beside it; all other dimensions are read where the result is.
  bool find_slides() {
    size_t taps_found = 0;
    for (size_t d = 0; d < load_->args.size(); ++d) {
      const Axis& own = reduce_->axes[d];
      const auto index = affine(load_->args[d]);
      if (!index) return false;
      if (load_->args[d]->kind == ExprKind::kVariable && load_->args[d]->variable == own.variable->variable) continue;
      Slide slide{.dimension = d, .result = own};
      for (const Axis& axis : reduce_->reduced) {
        if (index->coefficient(axis.variable->variable).is(0)) continue;
        slide.taps = axis;
        ++taps_found;
      }
      if (!slide.taps.variable || index->coefficients.size() != 2) return false;
      const auto stride = constant(index->coefficient(own.variable->variable));
      const auto step = constant(index->coefficient(slide.taps.variable->variable));
      const auto offset = constant(index->offset);
      const auto count = constant(slide.taps.extent);
      if (!stride || !step || !offset || !count || *stride < 1 || *step < 1 || *count < 1 || *count > kMostTaps) {
        return false;
      }
      slide.stride = *stride, slide.step = *step, slide.offset = *offset;
      slide.place = {make_variable(), (own.extent - Size(1)) * Size(*stride) + Size((*count - 1) * *step + 1)};
      slides_.push_back(std::move(slide));
    }
    const bool leading = slides_.size() < reduce_->axes.size();  // planes that grid points share out
    return leading && slides_.size() >= 2 && taps_found == reduce_->reduced.size() && slides_.size() == taps_found &&
           slides_.back().dimension + 1 == reduce_->axes.size() && slides_.back().stride <= kFarthest;
  }

  bool is_small() const {
    Size places = 1;
    for (const Slide& slide : slides_) places = places * slide.place.extent;
    return places.as_constant().value_or(0) <= kMostStaged && (by_place(reduce_->lift[0]), separable_);
  }

  int declare(Region& region, const char* name, const std::vector<Axis>& axes) const {
    TensorDecl tensor{.name = name, .type = type(), .shape = {}};
    for (const Axis& axis : axes) tensor.shape.push_back(axis.extent);
    region.tensors.push_back(std::move(tensor));
    return static_cast<int>(region.tensors.size()) - 1;
  }

  /// The lift in terms of places, in which every axis of the result and its taps have to occur together.
  Expr by_place(const Expr& e) const {
    if (e->type == DType::kInt64 && e->kind != ExprKind::kConstant) {
      if (const auto index = affine(e)) return place_of(e, *index);
    }
    if (e->args.empty()) return e;
    std::vector<Expr> args;
    for (const Expr& arg : e->args) args.push_back(by_place(arg));
    if (e->kind == ExprKind::kLoad) return make_load(e->tensor, e->type, std::move(args));
    if (e->intrinsic == Intrinsic::kCast) return make_cast(e->type, args[0]);
    if (e->intrinsic == Intrinsic::kBitcast) return make_bitcast(e->type, args[0]);
    return make_call(e->intrinsic, std::move(args));
  }

  Expr place_of(const Expr& e, const Affine& index) const {
    for (const Slide& slide : slides_) {
      const int taps = slide.taps.variable->variable, result = slide.result.variable->variable;
      const bool uses = !index.coefficient(taps).is(0) || !index.coefficient(result).is(0);
      if (!uses) continue;
      const bool fits = index.coefficients.size() == 2 && index.coefficient(taps).is(slide.step) &&
                        index.coefficient(result).is(slide.stride);
      separable_ = separable_ && fits;
      return slide.place.variable + make_size(index.offset);
    }
    return e;
  }

  const Region& region_;
  const Reduce* reduce_ = nullptr;
  Expr load_;
  std::vector<Slide> slides_;
  mutable bool separable_ = true;
};

}  // namespace

Region separate_windows(const Region& region) {
  Separation separation(region);
  return separation.find() ? separation.run() : region;
}

}  // namespace graft::tile
