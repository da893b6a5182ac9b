// SPDX-License-Identifier: Apache-2.0
// Which programs are points in registers, and what their threads read: see point_program.cpp.
#include <algorithm>

#include "codegen/cuda/point_statement.h"
#include "tile/block_rules.h"

namespace graft::cuda {

using namespace points;

namespace {

constexpr int64_t kMostFolded = 64;  // elements of one window
constexpr int64_t kMostSlides = 16;  // points of a thread along the axis on which windows slide
constexpr int64_t kMostStep = 4;  // of a window

/// Comparisons of affine expressions, and conjunctions of such.
bool is_range(const Expr& e) {
  if (is_call(e, Intrinsic::kAnd)) return is_range(e->args[0]) && is_range(e->args[1]);
  if (e->kind != ExprKind::kCall || e->args.size() != 2) return false;
  const bool compares = is_call(e, Intrinsic::kLt) || is_call(e, Intrinsic::kLe) || is_call(e, Intrinsic::kGt) ||
                        is_call(e, Intrinsic::kGe);
  return compares && affine(e->args[0]) && affine(e->args[1]);
}

/// Whether `a` and `b` appear in the condition only as multiples of step_a * a + step_b * b.
bool moves_together(const Expr& e, int a, int64_t step_a, int b, int64_t step_b) {
  if (is_call(e, Intrinsic::kAnd)) {
    return moves_together(e->args[0], a, step_a, b, step_b) && moves_together(e->args[1], a, step_a, b, step_b);
  }
  return std::all_of(e->args.begin(), e->args.end(), [&](const Expr& side) {
    const auto sum = affine(side);
    return sum->coefficient(a) * Size(step_b) == sum->coefficient(b) * Size(step_a);
  });
}

/// The constant in the type of `load`, when it is the same number there.
bool is_exact_in(const Expr& constant, DType type) {
  if (constant->kind != ExprKind::kConstant) return false;
  if (constant->type == type) return true;
  if (!is_float(constant->type) || !is_float(type)) return false;
  return constant->real == 0 || constant->real != constant->real || constant->real - constant->real != 0;
}

/// The load that `e` is, or is a widening of.
Expr load_within(const Expr& e) {
  if (e->kind == ExprKind::kLoad) return e;
  const bool widens = is_call(e, Intrinsic::kCast) && is_float(e->type) && is_float(e->args[0]->type);
  return widens && e->args[0]->kind == ExprKind::kLoad ? e->args[0] : Expr();
}

/// The loads that happen at every point, those under a range with a constant elsewhere among them.
void find_windows(const Expr& e, std::unordered_set<const ExprNode*>& seen, std::vector<PointWindow>& windows) {
  if (!seen.insert(e.get()).second) return;
  if (is_call(e, Intrinsic::kSelect)) {
    const Expr load = load_within(e->args[1]);
    if (load && is_range(e->args[0]) && is_exact_in(e->args[2], load->type)) {
      windows.push_back({.load = load, .value = e, .guard = e->args[0]});
    } else {
      find_windows(e->args[0], seen, windows);
    }
    return;
  }
  if (const Expr load = load_within(e)) {
    windows.push_back({.load = load, .value = e, .guard = {}});
    return;
  }
  for (const Expr& arg : e->args) find_windows(arg, seen, windows);
}

}  // namespace

/// The place of a load in terms of the last axis, the sliding axis and the reduced ones; false when it is no box.
bool KernelWriter::shape_window(const PointPlan& plan, const tile::Statement& statement, PointWindow& window) const {
  const tile::Buffer& buffer = names_.buffer(window.load->tensor);
  const std::vector<tile::Axis>& axes = axes_of(statement);
  const std::vector<tile::Axis> reduced = reduced_of(statement);
  if (buffer.scope != tile::Scope::kGlobal || buffer.written || bit_width(buffer.type) < 8) return false;
  const int last = axes.back().variable->variable;
  const auto variable_of = [&](int axis) { return axis >= 0 ? axes[axis].variable->variable : -1; };
  const int slide = variable_of(plan.slide), beside = variable_of(plan.beside);
  for (size_t d = 0; d < window.load->args.size(); ++d) {
    const auto index = affine(window.load->args[d]);
    if (!index) return false;
    const auto step_of = [&](int variable) { return index->coefficient(variable).as_constant().value_or(-1); };
    std::vector<size_t> folded;
    for (size_t k = 0; k < reduced.size(); ++k) {
      if (step_of(reduced[k].variable->variable) != 0) folded.push_back(k);
    }
    const bool along = step_of(last) != 0, slides = slide >= 0 && step_of(slide) != 0;
    const bool besides = beside >= 0 && step_of(beside) != 0;
    if (!along && !slides && !besides) {
      for (const size_t k : folded) {
        if (std::find(window.boxes.begin(), window.boxes.end(), k) == window.boxes.end()) window.boxes.push_back(k);
      }
      continue;
    }
    WindowSide& side = along ? window.elements : slides ? window.rows : window.columns;
    const int variable = along ? last : slides ? slide : beside;
    if (side.step > 0 || along + slides + besides > 1 || folded.size() > 1) return false;
    if (along && !names_.stride(window.load->tensor, d).is(1)) return false;
    side.step = step_of(variable);
    side.folded = folded.empty() ? -1 : static_cast<int>(folded[0]);
    side.spread = folded.empty() ? 0 : step_of(reduced[folded[0]].variable->variable);
    if (side.step < 1 || side.step > kMostStep || side.spread < 0 || side.spread > kMostStep) return false;
    // Each place is that of some point and some element.
    if (side.step != 1 && side.spread != 1) return false;
    const int64_t reach = folded.empty() ? 0 : side.spread * (bound_of(reduced[folded[0]]) - 1);
    side.count = side.step * ((along ? plan.vector : slides ? plan.slides : plan.besides) - 1) + reach + 1;
    if (window.guard && side.folded >= 0) {
      const int other = reduced[folded[0]].variable->variable;
      if (!moves_together(window.guard, variable, side.step, other, side.spread)) return false;
    }
  }
  return is_placed_by_guard(plan, statement, window) && has_own_sides(window) && place_pieces(plan, statement, window);
}

/// Whether what decides if there is an element decides where it lies.
bool KernelWriter::is_placed_by_guard(const PointPlan& plan, const tile::Statement& statement,
                                      const PointWindow& window) {
  if (!window.guard) return true;
  const std::vector<tile::Axis>& axes = axes_of(statement);
  const auto decides = [&](const tile::Axis& axis) { return uses_variable(window.guard, axis.variable->variable); };
  if (window.elements.step == 0 && decides(axes.back())) return false;
  if (window.rows.step == 0 && plan.slide >= 0 && decides(axes[plan.slide])) return false;
  if (window.columns.step == 0 && plan.beside >= 0 && decides(axes[plan.beside])) return false;
  const std::vector<tile::Axis> reduced = reduced_of(statement);
  for (size_t k = 0; k < reduced.size(); ++k) {
    const int number = static_cast<int>(k);
    const bool placed = number == window.rows.folded || number == window.columns.folded ||
                        number == window.elements.folded ||
                        std::find(window.boxes.begin(), window.boxes.end(), k) != window.boxes.end();
    if (!placed && decides(reduced[k])) return false;
  }
  return true;
}

/// Whether each reduced axis goes along one side at most.
bool KernelWriter::has_own_sides(const PointWindow& window) {
  std::set<int> seen(window.boxes.begin(), window.boxes.end());
  for (const WindowSide* side : {&window.rows, &window.columns, &window.elements}) {
    if (side->folded >= 0 && !seen.insert(side->folded).second) return false;
  }
  return true;
}

/// Into which aligned pieces a row of the window falls.
bool KernelWriter::place_pieces(const PointPlan& plan, const tile::Statement& statement, PointWindow& window) const {
  const auto address = names_.address(window.load->tensor, window.load->args);
  if (!address) return false;
  const std::vector<tile::Axis> reduced = reduced_of(statement);
  const int last = axes_of(statement).back().variable->variable;
  const int beside = window.elements.folded >= 0 ? reduced[window.elements.folded].variable->variable : -1;
  int width = window.elements.step > 0 ? std::min(plan.vector, 16 / bytes_of(window.load->type)) : 1;
  const auto offset = address->offset.as_constant();
  if (!offset) width = 1;
  for (const auto& [variable, coefficient] : address->coefficients) {
    if (variable == last || variable == beside) continue;
    while (width > 1 && !coefficient.is_multiple_of(width)) width /= 2;
  }
  window.width = width;
  window.first = width > 1 ? static_cast<int>((*offset % width + width) % width) : 0;
  return true;
}

/// What a thread keeps of the window over all its points.
int64_t PointWindow::kept(const std::vector<tile::Axis>& reduced) const {
  int64_t count = rows.count * columns.count * elements.count;
  for (const size_t k : boxes) count *= bound_of(reduced[k]);
  return count;
}

/// Statements over the same points, each of which uses memory of the block at its own point only.
bool KernelWriter::plan_point_statement(PointPlan& plan, const tile::Statement& statement) const {
  const auto* map = std::get_if<tile::Map>(&statement.node);
  const auto* reduce = std::get_if<tile::Reduce>(&statement.node);
  if (!map && !reduce) return false;
  if (map && (map->ordered || map->condition)) return false;
  if (reduce && reduce->accumulate) return false;
  const std::vector<tile::Axis>& axes = axes_of(statement);
  if (axes.size() != plan.axes.size()) return false;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].bound != plan.axes[i].bound || !equal(axes[i].extent, plan.axes[i].extent)) return false;
  }
  int64_t folded = 1;
  for (const tile::Axis& axis : reduced_of(statement)) folded *= as_integer(axis.extent).value_or(kMostFolded + 1);
  if (folded < 1 || folded > kMostFolded) return false;
  const auto own = [&](int buffer, const std::vector<Expr>& indices) {
    if (names_.buffer(buffer).scope == tile::Scope::kGlobal) return true;
    if (names_.buffer(buffer).scope != tile::Scope::kShared || indices.size() != axes.size()) return false;
    for (size_t i = 0; i < axes.size(); ++i) {
      const bool here = indices[i]->kind == ExprKind::kVariable && indices[i]->variable == axes[i].variable->variable;
      if (!here) return false;
    }
    plan.buffers.insert(buffer);
    return true;
  };
  bool good = true;
  for (const tile::Store& store : stores_of(statement)) {
    const tile::Buffer& buffer = names_.buffer(store.buffer);
    good = good && own(store.buffer, store.indices) && store.mode == ScatterMode::kSet && bit_width(buffer.type) >= 8;
    const bool is_global = buffer.scope == tile::Scope::kGlobal;
    good = good && (!is_global || names_.address(store.buffer, store.indices));
  }
  for (const Expr& value : values_of(statement)) {
    for_each(value, [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad) return;
      const tile::Buffer& buffer = names_.buffer(node->tensor);
      good = good && own(node->tensor, node->args) && !(buffer.scope == tile::Scope::kGlobal && buffer.written);
    });
  }
  return good;
}

/// Neighbours of a thread along the last axis: 16 bytes of what is stored, where rows allow it.
void KernelWriter::choose_point_vector(PointPlan& plan) const {
  int narrowest = 8;
  const auto halve_for = [&](const Size& size) {
    while (plan.vector > 1 && !size.is_multiple_of(plan.vector)) plan.vector /= 2;
  };
  for (const tile::Statement& statement : program_.body) {
    for (const tile::Store& store : stores_of(statement)) {
      const tile::Buffer& buffer = names_.buffer(store.buffer);
      if (buffer.scope == tile::Scope::kGlobal) narrowest = std::min(narrowest, bytes_of(buffer.type));
    }
  }
  plan.vector = 16 / narrowest;
  while (plan.vector > 1 &&
         (bound_of(plan.axes.back()) % plan.vector != 0 || !is_whole(plan.axes.back().extent, plan.vector))) {
    plan.vector /= 2;
  }
  for (const tile::Statement& statement : program_.body) {
    const int last = axes_of(statement).back().variable->variable;
    for (const tile::Store& store : stores_of(statement)) {
      if (names_.buffer(store.buffer).scope != tile::Scope::kGlobal) continue;
      const auto address = names_.address(store.buffer, store.indices);
      if (!address->coefficient(last).is(1)) plan.vector = 1;
      halve_for(address->offset);
      for (const auto& [variable, coefficient] : address->coefficients) {
        if (variable != last) halve_for(coefficient);
      }
    }
  }
}

void KernelWriter::find_point_windows(PointPlan& plan) const {
  plan.windows.clear();
  for (size_t s = 0; s < program_.body.size(); ++s) {
    std::vector<PointWindow> found;
    std::unordered_set<const ExprNode*> seen;
    for (const Expr& value : values_of(program_.body[s])) find_windows(value, seen, found);
    for (PointWindow& window : found) {
      window.statement = s;
      const bool along = shape_window(plan, program_.body[s], window);
      // Single elements wait in registers where several points read the same one.
      const bool is_scalar = window.kept(reduced_of(program_.body[s])) == 1;
      const bool repeats = plan.slides * plan.besides > 1 && window.rows.step + window.columns.step == 0;
      if (along && (!is_scalar || (repeats && !window.guard))) plan.windows.push_back(std::move(window));
    }
  }
}

/// A thread has all points along an axis on which a window slides when they are few, and some along another.
void KernelWriter::find_slides(PointPlan& plan) const {
  const auto overlaps = [&](WindowSide PointWindow::* side) {
    find_point_windows(plan);
    return std::any_of(plan.windows.begin(), plan.windows.end(),
                       [&](const PointWindow& window) { return (window.*side).folded >= 0; });
  };
  for (size_t i = 0; i + 1 < plan.axes.size() && plan.slide < 0; ++i) {
    const int64_t bound = bound_of(plan.axes[i]);
    if (bound < 2 || bound > kMostSlides) continue;
    plan.slide = static_cast<int>(i), plan.slides = bound;
    if (!overlaps(&PointWindow::rows)) plan.slide = -1, plan.slides = 1;
  }
  for (size_t i = 0; i + 1 < plan.axes.size() && plan.beside < 0; ++i) {
    if (static_cast<int>(i) == plan.slide || bound_of(plan.axes[i]) < 2) continue;
    plan.beside = static_cast<int>(i);
    if (!overlaps(&PointWindow::columns)) plan.beside = -1;
  }
}

/// What a thread with one neighbour along the last axis reads of the windows that overlap.
tile::WindowReads KernelWriter::reads_of_points(const PointPlan& plan) const {
  tile::WindowReads reads;
  for (const PointWindow& window : plan.windows) {
    const int64_t all = window.kept(reduced_of(program_.body[window.statement]));
    if (all == 1 || std::holds_alternative<tile::Map>(program_.body[window.statement].node)) continue;
    const bool slides = window.rows.step > 0 || window.columns.step > 0;
    if (!slides) reads.kept += all;
    const int64_t rows = window.rows.count - window.rows.step * (plan.slides - 1), columns = all / window.rows.count;
    if (!slides || rows * columns < reads.rows * reads.columns * reads.places) continue;
    reads.rows = rows, reads.rows_step = std::max<int64_t>(window.rows.step, 1);
    reads.columns = columns / window.elements.count, reads.columns_step = window.columns.step;
    reads.places = window.elements.count, reads.places_step = window.elements.step;
    reads.converts = bit_width(window.load->type) < 32;
  }
  reads.streams = find_stream(plan) >= 0;
  return reads;
}

/// The points that a thread makes along the axis beside the sliding one, and its neighbours along the last one.
tile::WindowReads KernelWriter::choose_thread_points(PointPlan& plan) const {
  const int most = plan.vector;
  plan.vector = 1;
  find_point_windows(plan);
  const tile::WindowReads reads = reads_of_points(plan);
  const int64_t bound = plan.beside >= 0 ? bound_of(plan.axes[plan.beside]) : 1;
  int64_t others = 1;
  for (size_t i = 0; i + 1 < plan.axes.size(); ++i) {
    if (static_cast<int>(i) != plan.slide && static_cast<int>(i) != plan.beside) others *= bound_of(plan.axes[i]);
  }
  const tile::ThreadPoints points =
      reads.streams ? tile::points_of_block(reads, bound, most, bound_of(plan.axes.back()), program_.threads / others)
                    : tile::points_of_thread(reads, bound, most);
  plan.besides = points.besides, plan.vector = static_cast<int>(points.vector);
  if (plan.besides == 1 && !reads.streams) plan.beside = -1;
  return reads;
}

std::optional<PointPlan> KernelWriter::plan_points() const {
  PointPlan plan;
  bool folds = false;
  for (const tile::Statement& each : program_.body) {
    const auto* reduce = std::get_if<tile::Reduce>(&each.node);
    if (!reduce) continue;
    folds |= !reduce->reduced.empty();
    if (plan.axes.empty()) plan.axes = reduce->axes;
  }
  if (!folds || plan.axes.empty()) return std::nullopt;
  int64_t points = 1;
  for (const tile::Axis& axis : plan.axes) {
    const int64_t bound = bound_of(axis);
    if (bound <= 0 || bound > (int64_t{1} << 30) / points) return std::nullopt;
    points *= bound;
  }
  for (const tile::Statement& each : program_.body) {
    if (!plan_point_statement(plan, each)) return std::nullopt;
  }
  choose_point_vector(plan);
  find_slides(plan);
  const tile::WindowReads reads = choose_thread_points(plan);
  find_point_windows(plan);
  plan_windows_stream(plan, reads);
  return plan.windows.empty() ? std::nullopt : std::optional(plan);
}

}  // namespace graft::cuda
