// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions by tiles: the accumulator tile lives in scratch, operands that the micro-kernel
// cannot read where they are get packed into scratch, and the forms after the contraction run on the tile.
#include <algorithm>

#include <fmt/format.h>

#include "strategy/contract.h"
#include "base/error.h"
#include "fuse/rewrite_region.h"
#include "strategy/contract_tiles.h"
#include "strategy/window_copy.h"
#include "tile/split_words.h"

namespace graft::tile {
namespace {

class ContractLowering : ContractTiles {
 public:
  ContractLowering(const Region& region, const Layouts& layouts, const ContractSchedule& schedule, const Target& target)
      : ContractTiles(region, layouts, target), schedule_(schedule) {
    unit_ = schedule.unit;
  }

  Lowered run() {
    if (const std::string reason = analyse(); !reason.empty()) return reason;
    rows_ = tile_rows(schedule_.m);
    columns_ = tile_columns(schedule_.n, !packed_right());
    copies_windows_ = schedule_.window && needs_left_copy();
    if (copies_windows_) {
      if (const std::string reason = find_windows(); !reason.empty()) return reason;
    }
    make_grid();
    place_tiles(tile_lanes());
    lower_grid_point();
    return builder_.finish(region_.name);
  }

 private:
  std::string analyse() {
    if (std::string reason = find_main(); !reason.empty()) return reason;
    if (contraction_.m.empty()) return "the contraction has no rows";
    if (const std::string reason = schedule_.unit ? why_no_unit() : ""; !reason.empty()) return reason;
    if (const auto layout = packed_right(); layout && schedule_.n % layout->lanes != 0) {
      return "a tile's columns are not whole panels";
    }
    return why_not_on_tiles();
  }

  /// Why the schedule's unit does not multiply these operands, or nothing.
  std::string why_no_unit() {
    const ContractUnit& unit = *schedule_.unit;
    if (!has_unit(target_, unit)) return fmt::format("the target has no {}", unit.name);
    contraction_.a = unwidened(contraction_.a), contraction_.b = unwidened(contraction_.b);
    if (contraction_.a->type != unit.a || contraction_.b->type != unit.b || accumulator_type() != unit.sum) {
      return fmt::format("{} multiplies {} and {} into {}", unit.name, name_of(unit.a), name_of(unit.b),
                         name_of(unit.sum));
    }
    if (unit.splits() && schedule_.m > kMostSplitRows) {
      return fmt::format("{}: a tile has more than {} rows", unit.name, kMostSplitRows);
    }
    const auto layout = packed_right();
    const int64_t parts = unit.splits() ? kParts : 1;
    if (!layout || layout->pack != unit.pack || layout->step != unit.k || layout->parts != parts) {
      return fmt::format("{}: the right operand does not lie in panels of the unit", unit.name);
    }
    const Expr& innermost = contraction_.k.back().variable;
    if (!equal(contraction_.b->args[layout->rest.back()], innermost)) {
      return fmt::format("{}: the innermost reduced axis is no dimension of the right operand", unit.name);
    }
    const bool whole_steps = contraction_.k.size() > 1 || schedule_.k % unit.k == 0;
    if (schedule_.k != 0 && !(unit.splits() && whole_steps)) {
      return fmt::format("{}: the reduction is cut into pieces", unit.name);
    }
    return "";
  }

  /// The windows of a tile's rows: those of the split axis, and of whole axes inside of it.
  std::string find_windows() {
    if (schedule_.k != 0) return "the reduction is cut into pieces";
    std::vector<MovingAxis> moving{{*rows_.split, rows_.bound}};
    for (const graft::Axis& axis : rows_.whole) moving.push_back({axis, axis.extent.constant()});
    windows_.emplace(contraction_, std::move(moving), schedule_.unit ? schedule_.unit->k : 1);
    return windows_->why_not();
  }

  std::optional<PanelLayout> packed_right() const {
    const Expr& b = contraction_.b;
    if (b->kind != ExprKind::kLoad || b->tensor >= static_cast<int>(layouts_.size())) return std::nullopt;
    return layouts_[b->tensor];
  }

  Size tile_lanes() const {
    if (const auto layout = packed_right()) return ceil_div(columns_.bound, layout->lanes) * Size(layout->lanes);
    return Size(columns_.bound) * whole_extent(columns_.whole);
  }

  void make_grid() {
    fix(contraction_.batch);
    fix(rows_.outer);
    fix(columns_.outer);
    const auto add_rows = [&] {
      row_chunks_ = needs_right_copy() && schedule_.m_chunk > schedule_.m
                        ? ceil_div(rows_.split->extent, schedule_.m_chunk)
                        : rows_.tiles;
      if (!row_chunks_.is(1)) row_tile_ = builder_.add_grid(row_chunks_);
    };
    if (!schedule_.columns_outer) add_rows();
    const Size chunks = ceil_div(columns_.tiles, tiles_of_chunk());
    column_tile_ = chunks.is(1) ? make_index(0) : builder_.add_grid(chunks);
    if (schedule_.columns_outer) add_rows();
  }

  /// A load that the micro-kernel can read in place: affine, one dimension per role, and for the right side lanes with
  /// stride 1.
  bool readable(const Expr& e, const std::vector<graft::Axis>* lanes) const {
    if (e->kind != ExprKind::kLoad) return false;
    for (const Expr& index : e->args) {
      if (!affine(index)) return false;
    }
    if (!lanes) return true;
    if (e->args.empty()) return false;
    const int v = lanes->back().variable->variable;
    for (size_t d = 0; d + 1 < e->args.size(); ++d) {
      if (uses_variable(e->args[d], v)) return false;
    }
    return affine(e->args.back())->coefficient(v).is(1);
  }

  DType accumulator_type() const { return main_->lift[0]->type; }
  /// What the left operand is multiplied as.
  bool splits() const { return schedule_.unit && schedule_.unit->splits(); }
  DType left_type() const { return schedule_.unit ? schedule_.unit->a : accumulator_type(); }
  /// Operand types that the micro-kernel multiplies as they are.
  Expr direct(const Expr& operand) const {
    if (operand->kind != ExprKind::kLoad) return {};
    if (schedule_.unit || operand->type == accumulator_type()) return operand;
    return {};
  }
  bool needs_left_copy() const {
    if (splits()) return true;
    const Expr left = direct(contraction_.a);
    if (!left || !readable(left, nullptr) || !rows_.whole.empty()) return true;
    return schedule_.unit && (pads_k() || !runs_along_innermost(left));
  }
  /// Whether the innermost reduced axis is no whole number of instructions of the unit.
  bool pads_k() const { return schedule_.unit && !contraction_.k.back().extent.is_multiple_of(schedule_.unit->k); }
  /// Whether a step of the innermost reduced axis is one element.
  bool runs_along_innermost(const Expr& load) const {
    const int k = contraction_.k.back().variable->variable;
    for (size_t d = 0; d + 1 < load->args.size(); ++d) {
      if (uses_variable(load->args[d], k)) return false;
    }
    return !load->args.empty() && affine(load->args.back())->coefficient(k).is(1);
  }
  bool needs_right_copy() const {
    if (packed_right()) return false;
    const Expr right = direct(contraction_.b);
    return !right || !readable(right, &contraction_.n) || !columns_.whole.empty();
  }

  /// The k axes inside one pass, the first cut into pieces of schedule.k when asked.
  std::vector<Axis> make_k(Replacements& at) const {
    std::vector<Axis> k;
    for (const graft::Axis& axis : contraction_.k) {
      const bool cut = k.empty() && k_begin_;
      k.push_back(cut ? make_axis(min(make_index(schedule_.k), make_size(axis.extent) - k_begin_), schedule_.k)
                      : make_axis(axis.extent));
      at.emplace_back(axis.variable->variable, cut ? k_begin_ + k.back().variable : k.back().variable);
    }
    return k;
  }

  /// Instructions of the unit along the innermost reduced axis, in groups of elements that lie together.
  Size unit_groups() const {
    const ContractUnit& unit = *schedule_.unit;
    return ceil_div(contraction_.k.back().extent, unit.k) * Size(unit.k / unit.pack);
  }

  /// The same with the innermost axis as groups of elements and the elements of a group, or as words of split elements.
  std::vector<Axis> make_unit_k(Replacements& at) const {
    std::vector<Axis> k = make_k(at);
    if (splits()) {
      k.back() = cuts_innermost() ? make_axis(steps_of_piece() * make_index(kSplitWords), schedule_.k / kElementsOfWord)
                                  : make_axis(split_words_of_k());
      at.back() = {contraction_.k.back().variable->variable, k.back().variable};
      return k;
    }
    k.back() = make_axis(unit_groups());
    k.push_back(make_axis(Size(schedule_.unit->pack)));
    const Expr element = k[k.size() - 2].variable * make_index(schedule_.unit->pack) + k.back().variable;
    at.back() = {contraction_.k.back().variable->variable, element};
    return k;
  }

  /// Scratch extents of the k axes.
  Size k_extent() const {
    Size extent = 1;
    for (size_t i = 0; i < contraction_.k.size(); ++i) {
      const bool padded = schedule_.unit && i + 1 == contraction_.k.size();
      extent = extent * (padded                ? unit_groups() * Size(schedule_.unit->pack)
                         : i == 0 && cuts_k() ? Size(schedule_.k)
                                               : contraction_.k[i].extent);
    }
    return extent;
  }
  /// Words of the innermost reduced axis, and of all of a piece.
  Size split_words_of_k() const { return ceil_div(contraction_.k.back().extent, kSplitStep) * Size(kSplitWords); }
  Size split_words_of_row() const {
    if (cuts_innermost()) return Size(schedule_.k / kElementsOfWord);
    Size words = split_words_of_k();
    for (size_t i = 0; i + 1 < contraction_.k.size(); ++i) {
      words = words * (i == 0 && cuts_k() ? Size(schedule_.k) : contraction_.k[i].extent);
    }
    return words;
  }
  /// Whether pieces are of the axis whose elements lie in words; then its instructions in the piece at hand.
  bool cuts_innermost() const { return splits() && cuts_k() && contraction_.k.size() == 1; }
  Expr steps_of_piece() const {
    const Expr left = make_size(contraction_.k[0].extent) - k_begin_;
    return ceil_div_expr(min(make_index(schedule_.k), left), make_index(kSplitStep));
  }
  bool cuts_k() const {
    if (schedule_.k == 0) return false;
    const auto extent = contraction_.k[0].extent.as_constant();
    return !extent || *extent > schedule_.k;
  }

  Expr converted(const Expr& e, const Replacements& at) const { return builder_.to_buffers(substitute(e, at)); }

  /// Copies what the windows of a tile read.
  Statement copy_windows() const {
    const Pass pass = make_pass();
    std::vector<Expr> begins(pass.m.size(), make_index(0));
    begins[0] = row_begin_;
    Replacements at = pass.at;
    auto [axes, value] = windows_->copy(pass.m, begins, replacements_, at);
    Map map{.axes = std::move(axes), .condition = {}, .stores = {}};
    std::vector<Expr> indices = variables(map.axes);
    if (splits()) return split_copy(std::move(map), std::move(indices), converted(value, at));
    map.stores.push_back({left_copy_, std::move(indices), converted(value, at), ScatterMode::kSet});
    return {std::move(map)};
  }

  /// A copy of the left operand in words of its parts: the map's last axis runs over elements, padded to whole steps,
  /// and is the last index. Two vectors of elements make a vector of words of each part.
  Statement split_copy(Map map, std::vector<Expr> indices, const Expr& value) const {
    const Axis elements = map.axes.back();
    const Size steps = ceil_div(contraction_.k.back().extent, kSplitStep);
    map.axes.back() = cuts_innermost() ? make_axis(steps_of_piece(), schedule_.k / kSplitStep) : make_axis(steps);
    map.axes.push_back(make_axis(Size(kSplitWords)));
    const Expr &step = map.axes[map.axes.size() - 2].variable, &word = map.axes.back().variable;
    const auto element = [&](int64_t offset) {
      const Expr at = step * make_index(kSplitStep) + (word + make_index(offset));
      return substitute(value, {{elements.variable->variable, at}});
    };
    const SplitExprs words = split_words(element(0), element(kSplitWords));
    const Expr place = step * make_index(kSplitWords) + word;
    indices.back() = substitute(indices.back(), {{elements.variable->variable, place}});
    indices.insert(indices.end() - 1, make_index(0));
    for (size_t p = 0; p < words.size(); ++p) {
      indices[indices.size() - 2] = make_index(static_cast<int64_t>(p));
      map.stores.push_back({left_copy_, indices, words[p], ScatterMode::kSet});
    }
    return {std::move(map)};
  }

  /// Copies an operand into scratch: [k][lanes] for the right side, [rows][k] for the left.
  Statement copy_operand(const Expr& operand, int buffer, bool right) const {
    Pass pass = make_pass();
    std::vector<Axis> k = make_k(pass.at);
    Expr value = operand;
    if (pads_k() && splits()) {
      const graft::Axis& innermost = contraction_.k.back();
      value = select(lt(innermost.variable, make_size(innermost.extent)), value, make_constant(value->type, 0));
    } else if (pads_k()) {
      const graft::Axis& innermost = contraction_.k.back();
      k.back().extent = make_size(unit_groups() * Size(schedule_.unit->pack));
      k.back().bound = unit_groups().as_constant().value_or(0) * schedule_.unit->pack;
      value = select(lt(innermost.variable, make_size(innermost.extent)), value, make_constant(value->type, 0));
    }
    Map map;
    const std::vector<Axis>& across = right ? pass.n : pass.m;
    map.axes = right ? k : across;
    const std::vector<Axis>& last = right ? across : k;
    map.axes.insert(map.axes.end(), last.begin(), last.end());
    const Expr row = right ? flattened(k) : flattened(across);
    if (!right && splits()) {
      // Words of the last axis are half as many as its elements.
      std::vector<Axis> words = k;
      words.back().bound = split_words_of_k().as_constant().value_or(0);
      words.back().extent = make_size(split_words_of_k());
      return split_copy(std::move(map), {row, flattened(words)}, converted(value, pass.at));
    }
    const Expr column = right ? flattened(across) : flattened(k);
    map.stores.push_back({buffer, {row, column}, converted(value, pass.at), ScatterMode::kSet});
    return {std::move(map)};
  }

  Statement contract(bool accumulate) const {
    Pass pass = make_pass();
    Contract c;
    c.m = pass.m;
    c.n = pass.n;
    c.unit = schedule_.unit;
    c.k = c.unit ? make_unit_k(pass.at) : make_k(pass.at);
    c.c = *tile_of(main_->outputs[0]);
    c.accumulate = accumulate;
    if (copies_windows_) {
      std::vector<Expr> indices = windows_->indices(pass.m, pass.at);
      if (splits()) indices.insert(indices.end() - 1, make_index(0));
      c.a = make_load(left_copy_, left_type(), std::move(indices));
    } else if (left_copy_ >= 0) {
      c.m = {flat_axis(pass.m)};
      std::vector<Expr> indices{c.m[0].variable, flattened(c.k)};
      if (splits()) indices.insert(indices.end() - 1, make_index(0));
      c.a = make_load(left_copy_, left_type(), std::move(indices));
      pass.position[0] = c.m[0].variable;
    } else {
      c.a = converted(direct(contraction_.a), pass.at);
    }
    if (const auto layout = packed_right()) {
      use_panels(*layout, pass, c);
    } else if (right_copy_ >= 0) {
      c.n = {flat_axis(pass.n)};
      c.b = make_load(right_copy_, accumulator_type(), {flattened(c.k), c.n[0].variable});
      pass.position[1] = c.n[0].variable;
    } else {
      c.b = converted(direct(contraction_.b), pass.at);
    }
    c.c_indices = pass.position;
    c.tf32 = rounds_to_tf32(c, region_, target_);
    return {std::move(c)};
  }

  Expr first_panel(const PanelLayout& layout) const {
    return column_tile_ * make_index(columns_.bound / layout.lanes);
  }
  Axis panels_of_tile(const PanelLayout& layout) const {
    const int64_t panels = columns_.bound / layout.lanes;
    const Size total = ceil_div(columns_.split->extent, layout.lanes);
    if (total.is_multiple_of(panels)) return make_axis(Size(panels));
    return make_axis(min(make_index(panels), make_size(total) - first_panel(layout)), panels);
  }

  /// The lane axis becomes (panel, lane): b = packed[..., first panel + panel, k..., lane].
  void use_panels(const PanelLayout& layout, Pass& pass, Contract& c) const {
    const Expr first = first_panel(layout);
    const Axis panel = panels_of_tile(layout), lane = make_axis(Size(layout.lanes));
    c.n = {panel, lane};
    const Expr load = substitute(contraction_.b, pass.at);
    std::vector<Expr> indices(load->args.begin(), load->args.begin() + layout.keep);
    indices.push_back(first + panel.variable);
    for (const int d : layout.rest) indices.push_back(load->args[d]);
    if (splits()) {
      indices.back() = c.k.back().variable;
      if (cuts_innermost()) {
        indices.back() = k_piece_ * make_index(schedule_.k / kElementsOfWord) + c.k.back().variable;
      }
      indices.push_back(make_index(0));
    } else if (c.unit) {
      indices.back() = c.k[c.k.size() - 2].variable;
    }
    indices.push_back(lane.variable);
    if (c.unit && !splits()) indices.push_back(c.k.back().variable);
    c.b = make_load(builder_.buffer_of(load->tensor), load->type, indices);
    pass.position[1] = panel.variable * make_index(layout.lanes) + lane.variable;
  }

  void lower_grid_point() {
    const Expr rows = make_size(rows_.split->extent);
    const bool chunked = !(row_chunks_ == rows_.tiles);
    const Size chunk = chunked ? Size(schedule_.m_chunk) : rows_.step;
    const Expr tile = row_tile_ ? row_tile_ : make_index(0);
    row_begin_ = tile * make_size(chunk);
    row_end_ = min(rows, row_begin_ + make_size(chunk));
    if (needs_right_copy()) {
      const Size lanes = Size(columns_.bound) * whole_extent(columns_.whole);
      right_copy_ = builder_.add_scratch("right", accumulator_type(), {k_extent(), lanes});
    }
    if (splits()) {
      add_split_copy();
    } else if (copies_windows_) {
      left_copy_ = builder_.add_scratch("window", left_type(), windows_->shape());
    } else if (needs_left_copy()) {
      left_copy_ = builder_.add_scratch("left", left_type(), {row_bound(), k_extent()});
    }
    Body body;
    if (right_copy_ >= 0 && !cuts_k()) body.push_back(copy_operand(contraction_.b, right_copy_, true));
    if (!chunked) {
      add_row_tile(body);
    } else {
      // Several row tiles share the packed right operand.
      For loop{
          .axis = make_axis(ceil_div_expr(row_end_ - row_begin_, make_size(rows_.step)), 0), .stages = 1, .body = {}};
      row_begin_ = row_begin_ + loop.axis.variable * make_size(rows_.step);
      add_row_tile(loop.body);
      body.push_back({std::move(loop)});
    }
    for (Statement& statement : body) builder_.add(std::move(statement));
  }

  /// Scratch for words of the left operand's parts.
  void add_split_copy() {
    finite_ = builder_.add_scratch("finite", DType::kFloat32, {Size(1)});
    if (copies_windows_) {
      Shape shape = windows_->shape();
      shape.back() = split_words_of_k();
      shape.insert(shape.end() - 1, Size(kParts));
      left_copy_ = builder_.add_scratch("window", left_type(), shape);
      return;
    }
    left_copy_ = builder_.add_scratch("left", left_type(), {row_bound(), Size(kParts), split_words_of_row()});
    // Rows an odd number of cache lines apart share no sets.
    constexpr int64_t kLineWords = 16;
    Shape& strides = builder_.program.buffers[static_cast<size_t>(left_copy_)].strides;
    const auto lines = ceil_div(strides[0], kLineWords).as_constant();
    if (lines && *lines % 2 == 0) strides[0] = (*lines + 1) * kLineWords;
  }

  /// What a unit that splits its operands cannot do is done again by multiply-adds: sums are not finite where an
  /// element of an operand is not, is too large to be split, or where a sum is above 2^80.
  void add_exact_product(Body& body) const {
    const int result = *tile_of(main_->outputs[0]);
    const PanelLayout layout = *packed_right();
    Pass pass = make_pass();
    std::vector<Axis> axes = pass.m;
    axes.insert(axes.end(), pass.n.begin(), pass.n.end());
    const Expr sum = make_load(result, accumulator_type(), pass.position);
    Reduce zeros{.axes = {}, .reduced = std::move(axes), .lift = {sum * make_constant(sum->type, 0)},
                 .monoid = make_monoid(Intrinsic::kAdd, sum->type), .outputs = {}};
    zeros.outputs.push_back({finite_, {make_index(0)}, {}, ScatterMode::kSet});
    body.push_back({std::move(zeros)});
    pass = make_pass();
    const Axis panel = panels_of_tile(layout), lane = make_axis(Size(layout.lanes));
    Reduce product{.axes = pass.m, .reduced = make_k(pass.at), .lift = {}, .monoid = main_->monoid, .outputs = {}};
    product.axes.push_back(panel), product.axes.push_back(lane);
    product.lift = {converted(contraction_.a, pass.at) * split_right(layout, pass.at, panel.variable, lane.variable)};
    const Expr column = panel.variable * make_index(layout.lanes) + lane.variable;
    product.outputs.push_back({result, {pass.position[0], column}, {}, ScatterMode::kSet});
    const Expr flag = make_load(finite_, accumulator_type(), {make_index(0)});
    If again{.condition = ne(flag, make_constant(flag->type, 0)), .body = {}};
    again.body.push_back({std::move(product)});
    body.push_back({std::move(again)});
  }

  /// The right operand's element at a point, of the words of its parts.
  Expr split_right(const PanelLayout& layout, const Replacements& at, const Expr& panel, const Expr& lane) const {
    const Expr load = substitute(contraction_.b, at);
    const Expr words = make_index(kSplitWords), step = make_index(kSplitStep);
    const Expr& depth = load->args[static_cast<size_t>(layout.rest.back())];
    std::vector<Expr> indices(load->args.begin(), load->args.begin() + layout.keep);
    indices.push_back(first_panel(layout) + panel);
    for (const int d : layout.rest) indices.push_back(load->args[static_cast<size_t>(d)]);
    indices.back() = floor_div(depth, step) * words + mod(depth, words);
    indices.push_back(make_index(0));
    indices.push_back(lane);
    SplitExprs parts;
    for (size_t p = 0; p < parts.size(); ++p) {
      indices[indices.size() - 2] = make_index(static_cast<int64_t>(p));
      parts[p] = make_load(builder_.buffer_of(load->tensor), load->type, indices);
    }
    return joined_word(parts, ge(mod(depth, step), words));
  }

  /// The product of one row tile, then the maps on it.
  void add_row_tile(Body& body) {
    if (!cuts_k()) {
      if (copies_windows_) {
        body.push_back(copy_windows());
      } else if (left_copy_ >= 0) {
        body.push_back(copy_operand(contraction_.a, left_copy_, false));
      }
      return add_column_tiles(body);
    } else {
      body.push_back(clear_tile());
      For loop{.axis = make_axis(ceil_div(contraction_.k[0].extent, schedule_.k)), .stages = 1, .body = {}};
      k_piece_ = loop.axis.variable;
      k_begin_ = loop.axis.variable * make_index(schedule_.k);
      if (right_copy_ >= 0) loop.body.push_back(copy_operand(contraction_.b, right_copy_, true));
      if (left_copy_ >= 0) loop.body.push_back(copy_operand(contraction_.a, left_copy_, false));
      loop.body.push_back(contract(true));
      k_begin_ = {};
      body.push_back({std::move(loop)});
      if (splits()) add_exact_product(body);
    }
    for (const Form& form : region_.forms) add_epilogue(form, body);
  }

  /// The products of the column tiles that share a copy of the left operand.
  void add_column_tiles(Body& body) {
    const int64_t several = tiles_of_chunk();
    if (several == 1) return add_tile(body);
    const Expr first = column_tile_ * make_index(several);
    const Expr left = make_size(columns_.tiles) - first;
    For loop{.axis = make_axis(min(make_index(several), left), several), .stages = 1, .body = {}};
    column_tile_ = first + loop.axis.variable;
    add_tile(loop.body);
    body.push_back({std::move(loop)});
  }

  void add_tile(Body& body) {
    body.push_back(contract(false));
    if (splits()) add_exact_product(body);
    for (const Form& form : region_.forms) add_epilogue(form, body);
  }

  /// Column tiles that a grid point does.
  int64_t tiles_of_chunk() const {
    if (schedule_.n_chunk <= schedule_.n || !needs_left_copy() || cuts_k() || needs_right_copy()) return 1;
    return schedule_.n_chunk / schedule_.n;
  }

  static constexpr int64_t kMostSplitRows = 256;
  static constexpr int64_t kElementsOfWord = kSplitStep / kSplitWords;
  const ContractSchedule& schedule_;
  Expr row_tile_, k_begin_, k_piece_;
  Size row_chunks_ = 1;
  int left_copy_ = -1, right_copy_ = -1;
  int finite_ = -1;  ///< 0 where all sums of a tile are finite, else NaN
  bool copies_windows_ = false;
  std::optional<WindowCopy> windows_;
};

}  // namespace

Lowered lower_contract(const Region& region, const Layouts& layouts, const ContractSchedule& schedule,
                       const Target& target) {
  if (target.kind == TargetKind::kCuda) return "a GPU makes products in blocks";
  return ContractLowering(region, layouts, schedule, target).run();
}

}  // namespace graft::tile
