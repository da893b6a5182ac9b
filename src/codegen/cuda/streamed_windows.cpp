// SPDX-License-Identifier: Apache-2.0
// Windows as streams: a row is loaded some rows ahead of its turn, widened once, and folded into the results of all
// points whose windows it lies in. Registers hold those results and a row instead of windows, so that more warps work
// while others wait; terms are added in the order of a window, whatever a thread makes.
#include "codegen/cuda/point_statement.h"

namespace graft::cuda {

using namespace points;

namespace {

/// Whether a statement of the program divides floats.
bool divides(const tile::Program& program) {
  bool found = false;
  for (const tile::Statement& each : program.body) {
    for (const Expr& value : values_of(each)) {
      for_each(value, [&](const Expr& node) { found |= is_call(node, Intrinsic::kDiv) && is_float(node->type); });
    }
  }
  return found;
}

}  // namespace

/// The window that can stream, the only one of the program along the sliding axis, or -1.
int KernelWriter::find_stream(const PointPlan& plan) const {
  if (plan.slide < 0 || points_together(plan) == 0) return -1;
  for (size_t s = 0; s < program_.body.size(); ++s) {
    if (std::holds_alternative<tile::Reduce>(program_.body[s].node) != (s == 0)) return -1;
  }
  int found = -1;
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    if (plan.windows[w].rows.step == 0) continue;
    if (found >= 0 || plan.windows[w].statement != 0) return -1;
    found = static_cast<int>(w);
  }
  if (found < 0) return -1;
  // Rows come in the order of terms, and channels lie beside each other.
  const PointWindow& window = plan.windows[found];
  const int last = plan.axes.back().variable->variable;
  const bool rows = window.rows.folded == 0 && window.elements.folded < 0 && window.elements.step == 1 &&
                    !(window.guard && uses_variable(window.guard, last));
  if (!rows) return -1;
  // Points that are not there are computed too, of what is there or filled.
  const bool exact = plan.beside < 0 || as_integer(plan.axes[plan.beside].extent) == bound_of(plan.axes[plan.beside]);
  if (!exact && !reads_windows_beside(plan)) return -1;
  bool windows = true;
  for (const Expr& value : values_of(program_.body[0])) {
    for_each(value, [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad) return;
      windows = windows && std::any_of(plan.windows.begin(), plan.windows.end(), [&](const PointWindow& each) {
        return each.load.get() == node.get();
      });
    });
  }
  return windows ? found : -1;
}

/// Rows are loaded as far ahead as registers hold that leave many warps to each multiprocessor.
void KernelWriter::plan_windows_stream(PointPlan& plan, const tile::WindowReads& reads) const {
  constexpr int64_t kMostAhead = 3, kRegisters = 1 << 16, kDivision = 16;
  plan.stream = find_stream(plan);
  if (plan.stream < 0) return;
  const tile::ThreadPoints points{plan.besides, plan.vector};
  const int64_t others = divides(program_) ? kDivision : 0;
  const auto blocks = [&](int64_t ahead) {
    const int64_t registers = std::max<int64_t>(tile::registers_of_stream(reads, points, ahead) + others, 64);
    return std::max<int64_t>(kRegisters / (program_.threads * (ceil_quotient(registers, 8) * 8)), 1);
  };
  plan.blocks = blocks(1);
  while (plan.ahead < kMostAhead && blocks(plan.ahead + 1) == plan.blocks) ++plan.ahead;
}

/// All points along the sliding axis, by the rows that their windows share.
void KernelWriter::stream_windows(const PointPlan& plan, const std::vector<std::string>& extents) {
  const PointWindow& window = plan.windows[plan.stream];
  const auto& reduce = std::get<tile::Reduce>(program_.body[0].node);
  const bool exact = as_integer(plan.axes[plan.slide].extent) == plan.slides;
  const int64_t last = (bound_of(reduce.reduced[0]) - 1) * window.rows.spread;
  begin_monoid(reduce);
  for (int64_t u = 0; u < plan.slides; ++u) code_.line("State a{}[{}];", u, plan.besides * plan.vector);
  for (int64_t row = 0; row < std::min(plan.ahead, window.rows.count); ++row) request_stream_row(plan, row);
  for (int64_t row = 0; row < window.rows.count; ++row) {
    if (row + plan.ahead < window.rows.count) request_stream_row(plan, row + plan.ahead);
    code_.open("");
    keep_stream_row(plan, row);
    for (int64_t u = 0; u < plan.slides; ++u) fold_stream_row(plan, u, row);
    code_.close();
    const int64_t done = row - last;  // a window ends here
    if (done < 0 || done % window.rows.step != 0 || done / window.rows.step >= plan.slides) continue;
    const int64_t u = done / window.rows.step;
    code_.open(exact ? "" : fmt::format("if ({} < {})", u, extents[plan.slide]));
    point_statements(plan, u);
    code_.close();
  }
}

/// raw[...] = the row of the window, or what stands for it at the edges: only there it has conditions.
void KernelWriter::request_stream_row(const PointPlan& plan, int64_t row) {
  const auto number = static_cast<size_t>(plan.stream);
  const PointWindow& window = plan.windows[number];
  const std::vector<tile::Axis>& axes = axes_of(program_.body[0]);
  const std::vector<tile::Axis> reduced = reduced_of(program_.body[0]);
  code_.line("{} {}[{}];", keeps_pairs(window) ? "u32" : type_name(window.load->type), raw_rows(number, row),
             window.kept(reduced) / window.rows.count / (keeps_pairs(window) ? 2 : 1));
  for (const tile::Axis& axis : reduced) bind_constant(axis.variable, 0);
  // A place is that of the first point's row of that number, or of the first row of the point of that number.
  const bool by_row = window.rows.spread == 1;
  bind_constant(axes[plan.slide].variable, by_row ? 0 : row);
  bind_constant(reduced[0].variable, by_row ? row : 0);
  int64_t boxes = 1;
  for (const size_t k : window.boxes) boxes *= bound_of(reduced[k]);
  for (int64_t place = 0; place < window.columns.count * boxes; ++place) {
    const int64_t column = place / boxes;
    if (window.columns.folded >= 0 && window.columns.spread == 1) {
      bind_constant(reduced[window.columns.folded].variable, column);
    } else if (window.columns.step > 0) {
      bind_index(axes[plan.beside].variable, fmt::format("({} + {})", plan.column, column),
                 bound_of(axes[plan.beside]) + window.columns.count);
    }
    int64_t rest = place % boxes;
    for (size_t k = window.boxes.size(); k-- > 0;) {
      const tile::Axis& axis = reduced[window.boxes[k]];
      bind_constant(axis.variable, rest % bound_of(axis));
      rest /= bound_of(axis);
    }
    request_stream_place(plan, raw_rows(number, row), place, window.columns.step > 0 ? std::to_string(column) : "");
  }
  if (plan.beside >= 0) bind_index(axes[plan.beside].variable, plan.column, bound_of(axes[plan.beside]));
}

/// The neighbours at one place of a row, whose indices are bound.
void KernelWriter::request_stream_place(const PointPlan& plan, const std::string& raw, int64_t place,
                                        const std::string& column) {
  const auto number = static_cast<size_t>(plan.stream);
  const PointWindow& window = plan.windows[number];
  const int64_t count = window.elements.count, words = keeps_pairs(window) ? count / 2 : count;
  expressions_.enter();
  const std::string there = presence(plan, window, column, false);
  if (!there.empty()) code_.open(fmt::format("if ({})", there));
  for (int64_t piece = 0; piece * window.width - window.first < count; ++piece) {
    load_piece(plan, number, raw, std::to_string(place * count), piece * window.width - window.first);
  }
  if (!there.empty()) code_.close();
  if (window.guard && !there.empty()) {
    code_.open("else");
    for (int64_t e = 0; e < words; ++e) code_.line("{}[{}] = empty{};", raw, place * words + e, number);
    code_.close();
  }
  expressions_.leave();
}

/// w[...] = the row, widened
void KernelWriter::keep_stream_row(const PointPlan& plan, int64_t row) {
  const auto number = static_cast<size_t>(plan.stream);
  const PointWindow& window = plan.windows[number];
  const int64_t elements = window.kept(reduced_of(program_.body[0])) / window.rows.count;
  code_.line("{} w{}[{}];", type_name(window.value->type), number, elements);
  code_.line("#pragma unroll");
  code_.line("for (int e = 0; e < {}; ++e) w{}[e] = {};", elements, number,
             widened_element(window, pair_element(window, raw_rows(number, row))));
}

/// Folds the row into the results of the points at place `slide`, where it lies in their windows.
void KernelWriter::fold_stream_row(const PointPlan& plan, int64_t slide, int64_t row) {
  const WindowSide& rows = plan.windows[plan.stream].rows;
  const auto& reduce = std::get<tile::Reduce>(program_.body[0].node);
  const int64_t distance = row - slide * rows.step;
  if (distance < 0 || distance % rows.spread != 0 || distance / rows.spread >= bound_of(reduce.reduced[0])) return;
  const std::string beside = plan.beside >= 0 ? code_.fresh("b") : "0";
  open_besides(plan, beside);
  open_neighbours(plan, 0);
  const std::string state = fmt::format("a{}[{} * {} + j]", slide, beside, plan.vector);
  if (distance == 0) code_.line("{} = identity;", state);
  bind_constant(reduce.reduced[0].variable, distance / rows.spread);
  fold_window(plan, 0, {slide, beside}, state, 1);
  close_neighbours(plan, 0);
  if (plan.beside >= 0) code_.close();
}

}  // namespace graft::cuda
