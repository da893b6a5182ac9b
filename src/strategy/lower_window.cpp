// SPDX-License-Identifier: Apache-2.0
// Windows that slide over a tensor, one channel beside the other: depthwise convolutions and poolings on a CPU. A grid
// point makes a tile of the result for a few vectors of channels. What the window reads of its input is computed once
// into scratch, halo and padding included: then no tap asks whether it is inside, nor converts what it reads.
#include "strategy/window.h"

#include <algorithm>

#include <fmt/format.h>

#include "fuse/rewrite_region.h"
#include "tile/builder.h"
#include "strategy/window_slides.h"

namespace graft::tile {
namespace {

using Replacements = std::vector<std::pair<int, Expr>>;

constexpr int64_t kMostTaps = 1024;

class WindowLowering {
 public:
  WindowLowering(const Region& region, const Layouts& layouts, const WindowSchedule& schedule)
      : region_(inline_inputs(region)), layouts_(layouts), schedule_(schedule), builder_(region_, layouts) {}

  std::string analyse() {
    if (region_.forms.empty()) return "there is no window";
    main_ = std::get_if<graft::Reduce>(&region_.forms[0]);
    if (!main_ || main_->lift.size() != 1) return "the first form is no reduction of one component";
    if (main_->axes.size() < 2 || main_->reduced.empty()) return "the reduction has no window, or no channels";
    if (std::string reason = why_forms_do_not_follow(); !reason.empty()) return reason;
    int64_t taps = 1;
    for (const graft::Axis& axis : main_->reduced) {
      const auto extent = axis.extent.as_constant();
      if (!extent || *extent < 1 || *extent > kMostTaps) return "the window has no fixed size, or a large one";
      taps *= *extent;
      if (taps > kMostTaps) return "the window is too large";
    }
    if (taps < 2) return "the window has one tap";
    if (std::string reason = find_slides(); !reason.empty()) return reason;
    return find_staged();
  }

  Lowered run() {
    if (std::string reason = analyse(); !reason.empty()) return reason;
    make_grid();
    place();
    if (std::string reason = add_stage(); !reason.empty()) return reason;
    if (std::string reason = add_fold(); !reason.empty()) return reason;
    for (size_t f = 1; f < region_.forms.size(); ++f) add_map(std::get<Compute>(region_.forms[f]));
    return builder_.finish(region_.name);
  }

 private:
  /// The region whose window computes what maps before it make for it alone: the copy does so once for each element.
  static Region inline_inputs(Region region) {
    const auto is_window = [](const Form& form) { return std::holds_alternative<graft::Reduce>(form); };
    if (std::none_of(region.forms.begin(), region.forms.end(), is_window)) return region;
    while (!region.forms.empty()) {
      const auto* map = std::get_if<Compute>(&region.forms[0]);
      const bool is_output = map && std::find(region.outputs.begin(), region.outputs.end(), map->output) !=
                                        region.outputs.end();
      if (!map || is_output) break;
      const Compute first = *map;
      region.forms.erase(region.forms.begin());
      for (Form& form : region.forms) {
        const std::vector<int> read = read_tensors(form);
        if (std::find(read.begin(), read.end(), first.output) == read.end()) continue;
        form = map_exprs(form, [&](const Expr& e) {
          return transform(e, [&](const Expr& node) -> Expr {
            if (node->kind != ExprKind::kLoad || node->tensor != first.output) return {};
            Replacements at;
            for (size_t d = 0; d < first.axes.size(); ++d) at.emplace_back(variable_of(first.axes[d]), node->args[d]);
            return substitute(first.value, at);
          });
        });
      }
    }
    return region;
  }

  static int variable_of(const graft::Axis& axis) { return axis.variable->variable; }
  const graft::Axis& lanes() const { return main_->axes.back(); }

  /// Maps at the points of the reduction, which read its result and theirs there.
  std::string why_forms_do_not_follow() const {
    for (size_t f = 1; f < region_.forms.size(); ++f) {
      const auto* map = std::get_if<Compute>(&region_.forms[f]);
      if (!map) return "a form behind the window is no map";
      if (map->axes.size() != main_->axes.size()) return "a map runs over other axes than the window";
      for (size_t d = 0; d < map->axes.size(); ++d) {
        if (variable_of(map->axes[d]) != variable_of(main_->axes[d])) {
          return "a map runs over other axes than the window";
        }
      }
      bool elsewhere = false;
      for_each_load(region_.forms[f], [&](const Expr& load) {
        if (!is_local(load->tensor)) return;
        for (size_t d = 0; d < map->axes.size(); ++d) elsewhere |= !equal(load->args[d], map->axes[d].variable);
      });
      if (elsewhere) return "a map reads a result at another point";
    }
    return "";
  }

  /// Whether a form of the region makes the tensor.
  bool is_local(int tensor) const {
    return std::any_of(region_.forms.begin(), region_.forms.end(), [&](const Form& form) {
      const auto defined = defined_tensors(form);
      return std::find(defined.begin(), defined.end(), tensor) != defined.end();
    });
  }

  /// For each axis of taps the axis of the result with which it says where the input is read.
  std::string find_slides() {
    const std::vector<graft::Axis> results(main_->axes.begin(), main_->axes.end() - 1);
    for (const graft::Axis& taps : main_->reduced) {
      const auto found = find_slide(main_->lift[0], results, taps);
      if (!found) return "an axis of the window slides along no axis of the result";
      slides_.push_back(*found);
    }
    const auto place = [&](const Slide& slide) {
      return std::find_if(results.begin(), results.end(), [&](const graft::Axis& axis) {
        return variable_of(axis) == variable_of(slide.axis);
      });
    };
    std::sort(slides_.begin(), slides_.end(), [&](const Slide& a, const Slide& b) { return place(a) < place(b); });
    for (size_t n = 1; n < slides_.size(); ++n) {
      if (place(slides_[n - 1]) == place(slides_[n])) return "two axes of the window slide along one axis";
    }
    if (place(slides_.back()) + 1 != results.end()) {
      return "the window does not slide along the axis beside the channels";
    }
    return "";
  }

  bool slides(const Expr& e) const {
    return std::any_of(slides_.begin(), slides_.end(),
                       [&](const Slide& slide) { return uses_variable(e, variable_of(slide.axis)); });
  }

  /// What moves with the window: the lifted element, or one factor of it.
  std::string find_staged() {
    const Expr& lift = main_->lift[0];
    staged_ = lift;
    if (is_call(lift, Intrinsic::kMul)) {
      const bool left = slides(lift->args[0]), right = slides(lift->args[1]);
      if (left && right) return "both factors move with the window";
      staged_ = lift->args[left ? 0 : 1];
      weights_ = lift->args[left ? 1 : 0];
    }
    bool reads_local = false;
    for_each(lift, [&](const Expr& e) { reads_local |= e->kind == ExprKind::kLoad && is_local(e->tensor); });
    if (reads_local) return "the window reads what the region makes";
    // In memory as it is used: nothing would be won by a copy.
    stages_ = staged_->kind != ExprKind::kLoad;
    const std::vector<Expr> anywhere(slides_.size(), make_index(0));
    if (stages_ && !at_positions(staged_, slides_, anywhere)) {
      return "the window's input depends on more than where it is read";
    }
    return "";
  }

  int64_t tile_of(size_t slide) const {
    return slide + 1 == slides_.size() ? schedule_.columns : slide + 2 == slides_.size() ? schedule_.rows : 1;
  }

  /// Points of a tile, of which the last tile may have fewer.
  Axis tile_axis(const Expr& base, const Size& extent, int64_t tile) const {
    if (extent.is_multiple_of(tile)) return make_axis(Size(tile));
    return make_axis(min(make_index(tile), make_size(extent) - base), tile);
  }

  void make_grid() {
    for (size_t d = 0; d + 1 < main_->axes.size(); ++d) {
      const graft::Axis& axis = main_->axes[d];
      const auto slide = std::find_if(slides_.begin(), slides_.end(), [&](const Slide& each) {
        return variable_of(each.axis) == variable_of(axis);
      });
      if (slide == slides_.end()) {
        grid_.emplace_back(variable_of(axis), builder_.add_grid(axis.extent));
        continue;
      }
      const int64_t tile = tile_of(static_cast<size_t>(slide - slides_.begin()));
      const Size tiles = ceil_div(axis.extent, tile);
      bases_.push_back(tiles.is(1) ? make_index(0) : builder_.add_grid(tiles) * make_index(tile));
    }
    const Size tiles = ceil_div(lanes().extent, schedule_.lanes);
    lane_base_ = tiles.is(1) ? make_index(0) : builder_.add_grid(tiles) * make_index(schedule_.lanes);
  }

  /// The axes of one pass over the tile, and what the region's variables are at a point of it.
  struct Pass {
    std::vector<Axis> axes;
    Replacements at;
    std::vector<Expr> position;  ///< in scratch
  };

  Pass make_pass() const {
    Pass pass{.axes = {}, .at = grid_, .position = {}};
    for (size_t n = 0; n < slides_.size(); ++n) {
      pass.axes.push_back(tile_axis(bases_[n], slides_[n].axis.extent, tile_of(n)));
      pass.at.emplace_back(variable_of(slides_[n].axis), bases_[n] + pass.axes.back().variable);
    }
    pass.axes.push_back(tile_axis(lane_base_, lanes().extent, schedule_.lanes));
    pass.at.emplace_back(variable_of(lanes()), lane_base_ + pass.axes.back().variable);
    pass.position = variables(pass.axes);
    return pass;
  }

  void place() {
    Shape tile, staged;
    for (size_t n = 0; n < slides_.size(); ++n) {
      tile.push_back(tile_of(n));
      staged.push_back(reach(slides_[n], tile_of(n)));
    }
    tile.push_back(schedule_.lanes);
    staged.push_back(schedule_.lanes);
    if (stages_) stage_ = builder_.add_scratch("window", staged_->type, staged);
    for (const Form& form : region_.forms) {
      const int tensor = defined_tensors(form)[0];
      const bool is_main = std::holds_alternative<graft::Reduce>(form);
      if (builder_.buffer_of(tensor) >= 0 && !(is_main && region_.forms.size() > 1)) continue;
      const TensorDecl& decl = region_.tensors[tensor];
      tiles_.emplace_back(tensor, builder_.add_scratch(decl.name, decl.type, tile));
    }
  }

  std::optional<int> scratch_of(int tensor) const {
    for (const auto& [known, buffer] : tiles_) {
      if (known == tensor) return buffer;
    }
    return std::nullopt;
  }

  /// Loads of the region's tensors -> of buffers; what the region makes lies in scratch.
  Expr in_buffers(const Expr& e, const Pass& pass) const {
    return transform(substitute(e, pass.at), [&](const Expr& node) -> Expr {
      if (node->kind != ExprKind::kLoad) return {};
      if (const auto tile = scratch_of(node->tensor)) return make_load(*tile, node->type, pass.position);
      return make_load(builder_.buffer_of(node->tensor), node->type, node->args);
    });
  }

  /// An expression of the window, with weights that lie in panels read there.
  Expr of_inputs(const Expr& e, const Replacements& at) const {
    const Expr laid = transform(e, [&](const Expr& node) -> Expr {
      const bool packed = node->kind == ExprKind::kLoad && node->tensor < static_cast<int>(layouts_.size()) &&
                          layouts_[node->tensor];
      if (!packed) return {};
      const Shape& shape = region_.tensors[node->tensor].shape;
      return make_load(node->tensor, node->type, packed_indices(*layouts_[node->tensor], shape, node->args));
    });
    return builder_.to_buffers(substitute(laid, at));
  }

  /// Whether every load lies side by side along the channels, or is the same for all of them.
  bool runs_along(const Expr& e, const Expr& lane) const {
    bool good = true;
    for_each(e, [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad) return;
      for (size_t d = 0; d < node->args.size(); ++d) {
        if (!uses_variable(node->args[d], lane->variable)) continue;
        const auto form = affine(node->args[d]);
        good = good && d + 1 == node->args.size() && form && form->coefficient(lane->variable).is(1);
      }
    });
    return good;
  }

  std::string add_stage() {
    if (!stages_) return "";
    const Pass pass = make_pass();
    Map map;
    Replacements at = grid_;
    std::vector<Expr> positions;
    for (size_t n = 0; n < slides_.size(); ++n) {
      const Slide& slide = slides_[n];
      const Expr first = bases_[n] * make_index(slide.stride);
      const Expr points = pass.axes[n].extent;
      map.axes.push_back(make_axis((points - make_index(1)) * make_index(slide.stride) +
                                       make_index((slide.count - 1) * slide.dilation + 1),
                                   reach(slide, tile_of(n))));
      positions.push_back(first + map.axes.back().variable);
    }
    map.axes.push_back(pass.axes.back());
    at.emplace_back(variable_of(lanes()), lane_base_ + map.axes.back().variable);
    const Expr value = of_inputs(at_positions(staged_, slides_, positions), at);
    if (!runs_along(value, map.axes.back().variable)) return "the input does not lie along the channels";
    map.stores.push_back({stage_, variables(map.axes), value, ScatterMode::kSet});
    builder_.add({std::move(map)});
    return "";
  }

  std::string add_fold() {
    Pass pass = make_pass();
    Reduce reduce;
    reduce.axes = pass.axes;
    reduce.points = schedule_.points;
    std::vector<Expr> place;
    for (const graft::Axis& axis : main_->reduced) {
      reduce.reduced.push_back(make_axis(axis.extent));
      pass.at.emplace_back(variable_of(axis), reduce.reduced.back().variable);
    }
    for (size_t n = 0; n < slides_.size(); ++n) {
      const Expr tap = substitute(slides_[n].taps.variable, pass.at);
      place.push_back(pass.axes[n].variable * make_index(slides_[n].stride) + tap * make_index(slides_[n].dilation));
    }
    place.push_back(pass.axes.back().variable);
    const Expr moved = stages_ ? make_load(stage_, staged_->type, place) : of_inputs(staged_, pass.at);
    const Expr weights = weights_ ? of_inputs(weights_, pass.at) : Expr();
    const Expr& lane = pass.axes.back().variable;
    if (!runs_along(moved, lane) || (weights && !runs_along(weights, lane))) {
      return "what the window reads does not lie along the channels";
    }
    reduce.lift = {weights ? make_call(Intrinsic::kMul, {moved, weights}) : moved};
    reduce.monoid = main_->monoid;
    const int tensor = main_->outputs[0];
    if (const auto tile = scratch_of(tensor)) {
      reduce.outputs.push_back({*tile, pass.position, {}, ScatterMode::kSet});
    } else {
      reduce.outputs.push_back(store_to(tensor, main_->axes, pass, {}));
    }
    builder_.add({std::move(reduce)});
    return "";
  }

  Store store_to(int tensor, const std::vector<graft::Axis>& axes, const Pass& pass, const Expr& value) const {
    std::vector<Expr> indices;
    for (const graft::Axis& axis : axes) indices.push_back(substitute(axis.variable, pass.at));
    return builder_.store(tensor, indices, value);
  }

  void add_map(const Compute& form) {
    const Pass pass = make_pass();
    Map map{.axes = pass.axes, .condition = {}, .stores = {}};
    const Expr value = in_buffers(form.value, pass);
    if (const auto tile = scratch_of(form.output)) {
      map.stores.push_back({*tile, pass.position, value, ScatterMode::kSet});
    } else {
      map.stores.push_back(store_to(form.output, form.axes, pass, value));
    }
    builder_.add({std::move(map)});
  }

  const Region region_;
  const Layouts& layouts_;
  const WindowSchedule& schedule_;
  ProgramBuilder builder_;
  const graft::Reduce* main_ = nullptr;
  std::vector<Slide> slides_;  ///< in the order of the result's axes
  Expr staged_, weights_;
  bool stages_ = true;
  Replacements grid_;        ///< axes of which a grid point has one point
  std::vector<Expr> bases_;  ///< where the tile begins, by slide
  Expr lane_base_;
  int stage_ = -1;
  std::vector<std::pair<int, int>> tiles_;  ///< region tensor -> scratch
};

}  // namespace

Lowered lower_window(const Region& region, const Layouts& layouts, const WindowSchedule& schedule,
                     const Target& target) {
  if (target.kind == TargetKind::kCuda) return "a GPU folds windows in blocks";
  return WindowLowering(region, layouts, schedule).run();
}

std::string why_no_window(const Region& region) {
  return WindowLowering(region, {}, WindowSchedule{}).analyse();
}

}  // namespace graft::tile
