// SPDX-License-Identifier: Apache-2.0
// What point programs read: the rows of windows, loaded while earlier points are computed and widened once.
#include "codegen/cuda/point_statement.h"

namespace graft::cuda {

using namespace points;

namespace {

/// Whether it differs within a piece whether there is something to load.
bool depends_on_elements(const PointWindow& window, const std::vector<tile::Axis>& axes,
                         const std::vector<tile::Axis>& reduced) {
  if (window.elements.step == 0) return false;
  const int folded = window.elements.folded;
  return uses_variable(window.guard, axes.back().variable->variable) ||
         (folded >= 0 && uses_variable(window.guard, reduced[folded].variable->variable));
}

/// Whether the condition holds for all or none of `width` elements from `begin` on; `last` and `folded` move along
/// them.
bool holds_for_pieces(const Expr& e, int last, int folded, int64_t begin, int width) {
  if (is_call(e, Intrinsic::kAnd)) {
    return holds_for_pieces(e->args[0], last, folded, begin, width) &&
           holds_for_pieces(e->args[1], last, folded, begin, width);
  }
  if (!uses_variable(e, last) && (folded < 0 || !uses_variable(e, folded))) return true;
  const Affine left = *affine(e->args[0]), right = *affine(e->args[1]);
  const bool is_whole_below = is_call(e, Intrinsic::kLt) || is_call(e, Intrinsic::kGe);
  if (uses_variable(e->args[1], last) || (folded >= 0 && uses_variable(e->args[1], folded))) return false;
  if (!left.coefficient(folded >= 0 ? folded : last).is(1)) return false;
  for (const auto& [variable, coefficient] : left.coefficients) {
    if (variable != last && variable != folded && !coefficient.is_multiple_of(width)) return false;
  }
  const Size place = left.offset + Size(begin) - right.offset - Size(is_whole_below ? 0 : 1);
  return right.coefficients.empty() && place.is_multiple_of(width);
}

/// Whether the guard says where the tensor ends in the dimension along which `variable` goes.
bool ends_with_guard(const PointWindow& window, int variable) {
  if (!window.guard) return false;
  bool ends = false;
  for_each(window.guard, [&](const Expr& node) {
    if (!is_call(node, Intrinsic::kLt) || !uses_variable(node->args[0], variable)) return;
    for (const Expr& index : window.load->args) ends = ends || equal(index, node->args[0]);
  });
  return ends;
}

}  // namespace

std::string points::widened_element(const PointWindow& window, const std::string& element) {
  const Expr& kept = window.guard ? window.value->args[1] : window.value;
  const bool same = kept.get() == window.load.get();
  return same ? element : fmt::format("convert<{}>({})", type_name(kept->type), element);
}

/// How many points have their rows loaded while those before them are computed: as many as registers hold. None where
/// rows beyond the last point may not be there.
int64_t KernelWriter::points_together(const PointPlan& plan) const {
  constexpr int64_t kMostAhead = 24;  // registers
  const bool exact = plan.slide < 0 || as_integer(plan.axes[plan.slide].extent) == plan.slides;
  const bool there = std::all_of(plan.windows.begin(), plan.windows.end(), [&](const PointWindow& window) {
    if (window.rows.step == 0) return true;
    return ends_with_guard(window, axes_of(program_.body[window.statement])[plan.slide].variable->variable);
  });
  if (!exact && !there) return 0;
  int64_t together = 1;
  for (int64_t wanted = 2; wanted <= plan.slides; wanted *= 2) {
    int64_t registers = 0;
    for (const PointWindow& window : plan.windows) {
      if (window.rows.step == 0) continue;
      const int64_t row = window.kept(reduced_of(program_.body[window.statement])) / window.rows.count;
      registers += row * window.rows.step * wanted / (keeps_pairs(window) ? 2 : 1);
    }
    if (registers <= kMostAhead) together = wanted;
  }
  return together;
}

/// Visits the windows with the rows that the `count` points from `first` on have and no earlier one.
void KernelWriter::each_new_rows(const PointPlan& plan, int64_t first, int64_t count,
                                 const std::function<void(size_t, int64_t, int64_t)>& visit) const {
  const int64_t last = std::min(first + count, plan.slides) - 1;
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    const WindowSide& rows = plan.windows[w].rows;
    if (rows.step == 0) continue;
    const int64_t reach = rows.count - rows.step * (plan.slides - 1), begin = rows.step * first;
    visit(w, first == 0 ? 0 : std::max(begin - rows.step + reach, begin), rows.step * last + reach);
  }
}

/// Loads rows from..to of the window.
void KernelWriter::request_rows(const PointPlan& plan, size_t number, int64_t from, int64_t to) {
  const PointWindow& window = plan.windows[number];
  const tile::Statement& statement = program_.body[window.statement];
  const std::vector<tile::Axis>& axes = axes_of(statement);
  const std::vector<tile::Axis> reduced = reduced_of(statement);
  for (const tile::Axis& axis : reduced) bind_constant(axis.variable, 0);
  if (plan.slide >= 0) bind_constant(axes[plan.slide].variable, 0);
  const bool by_elements = window.guard && depends_on_elements(window, axes, reduced);
  const int64_t row_elements = window.kept(reduced) / window.rows.count, count = (to - from) * row_elements;
  const int64_t skipped = from * row_elements;
  const std::string target = by_elements ? fmt::format("w{}", number) : raw_rows(number, from);
  if (!by_elements) {
    code_.line("{} {}[{}];", keeps_pairs(window) ? "u32" : type_name(window.load->type), target,
               keeps_pairs(window) ? count / 2 : count);
  }
  const auto [place, column] = open_places(plan, window, from, to);
  expressions_.enter();
  const std::string there = presence(plan, window, column, by_elements);
  if (!there.empty()) code_.open(fmt::format("if ({})", there));
  const std::string start = names_.variables.at(axes.back().variable->variable);
  const std::string first = fmt::format("{} * {}{}", place, window.elements.count,
                                        by_elements || skipped == 0 ? "" : fmt::format(" - {}", skipped));
  for (int64_t piece = 0; piece * window.width - window.first < window.elements.count; ++piece) {
    load_piece(plan, number, target, first, piece * window.width - window.first);
  }
  if (!there.empty()) code_.close();
  if (window.guard && !by_elements && !there.empty()) {
    const int64_t step = keeps_pairs(window) ? 2 : 1;
    code_.open("else");
    code_.line("#pragma unroll");
    code_.line("for (int e = 0; e < {}; ++e) {}[({}) / {} + e] = empty{};", window.elements.count / step, target,
               first, step, number);
    code_.close();
  }
  bind_index(axes.back().variable, start, bound_of(axes.back()));
  expressions_.leave();
  close_places(plan, window);
}

/// The name of what is loaded of rows from `from` on, until it is kept.
std::string KernelWriter::raw_rows(size_t number, int64_t from) { return fmt::format("raw{}_{}", number, from); }

/// w[...] = rows from..to of the window: each is widened once, however many windows it lies in.
void KernelWriter::keep_rows(const PointPlan& plan, size_t number, int64_t from, int64_t to) {
  const PointWindow& window = plan.windows[number];
  const tile::Statement& statement = program_.body[window.statement];
  const std::vector<tile::Axis> reduced = reduced_of(statement);
  if (window.guard && depends_on_elements(window, axes_of(statement), reduced)) return;
  const int64_t row_elements = window.kept(reduced) / window.rows.count;
  const std::string raw = raw_rows(number, from);
  const std::string element = pair_element(window, raw);
  code_.line("#pragma unroll");
  code_.line("for (int e = 0; e < {}; ++e) w{}[{} + e] = {};", (to - from) * row_elements, number, from * row_elements,
             widened_element(window, element));
}

/// Element e of what was loaded of a window, as C++.
std::string KernelWriter::pair_element(const PointWindow& window, const std::string& raw) const {
  if (!keeps_pairs(window)) return raw + "[e]";
  return fmt::format("half_of<{}>({}[e / 2], e % 2)", type_name(window.load->type), raw);
}

/// Opens loops over the places of rows from..to of the window; the number of a place, and that of its column.
std::pair<std::string, std::string> KernelWriter::open_places(const PointPlan& plan, const PointWindow& window,
                                                              int64_t from, int64_t to) {
  const tile::Statement& statement = program_.body[window.statement];
  const std::vector<tile::Axis>& axes = axes_of(statement);
  const std::vector<tile::Axis> reduced = reduced_of(statement);
  const auto open = [&](std::string_view stem, int64_t begin, int64_t end) {
    const std::string name = code_.fresh(stem);
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int {0} = {1}; {0} < {2}; ++{0})", name, begin, end));
    return name;
  };
  const auto by_element = [](const WindowSide& side) { return side.folded >= 0 && side.spread == 1; };
  std::string place = open("r", from, to), column;
  if (window.rows.step > 0) {
    const Expr& along = by_element(window.rows) ? reduced[window.rows.folded].variable : axes[plan.slide].variable;
    bind_index(along, place, window.rows.count);
  }
  if (window.columns.step > 0) {
    column = open("c", 0, window.columns.count);
    place = fmt::format("({} * {} + {})", place, window.columns.count, column);
    if (by_element(window.columns)) {
      bind_index(reduced[window.columns.folded].variable, column, window.columns.count);
    } else {
      bind_index(axes[plan.beside].variable, fmt::format("({} + {})", plan.column, column),
                 bound_of(axes[plan.beside]) + window.columns.count);
    }
  }
  for (const size_t k : window.boxes) {
    const int64_t bound = bound_of(reduced[k]);
    const std::string name = open("k", 0, bound);
    bind_index(reduced[k].variable, name, bound);
    place = fmt::format("({} * {} + {})", place, bound, name);
  }
  return {place, column};
}

void KernelWriter::close_places(const PointPlan& plan, const PointWindow& window) {
  for (size_t i = 0; i < window.boxes.size() + (window.columns.step > 0 ? 2 : 1); ++i) code_.close();
  if (plan.beside < 0) return;
  const tile::Axis& beside = axes_of(program_.body[window.statement])[plan.beside];
  bind_index(beside.variable, plan.column, bound_of(beside));
}

/// The condition under which there is something to load at a place; empty: always, or each element has its own.
std::string KernelWriter::presence(const PointPlan& plan, const PointWindow& window, const std::string& column,
                                   bool by_elements) {
  std::vector<std::string> conditions;
  const int beside = plan.beside >= 0 ? axes_of(program_.body[window.statement])[plan.beside].variable->variable : -1;
  if (!column.empty() && !plan.columns.empty() && !ends_with_guard(window, beside)) {
    // Columns that only points beyond the last one would read may not be there.
    const WindowSide& side = window.columns;
    const int64_t reach = side.count - side.step * (plan.besides - 1);
    conditions.push_back(fmt::format("{} < {} * {} + {}", column, plan.columns, side.step, reach - side.step));
  }
  if (window.guard && !by_elements) {
    if (const std::string open = open_conditions(window.guard); !open.empty()) conditions.push_back(open);
  }
  return fmt::format("{}", fmt::join(conditions, " && "));
}

/// The conditions of a range that do not hold at all points; empty: all do.
std::string KernelWriter::open_conditions(const Expr& guard) {
  if (!is_call(guard, Intrinsic::kAnd)) return holds_always(guard) ? "" : expressions_.value(guard);
  const std::string left = open_conditions(guard->args[0]), right = open_conditions(guard->args[1]);
  return left.empty() || right.empty() ? left + right : left + " && " + right;
}

/// Whether a comparison holds wherever the variables are within their ranges.
bool KernelWriter::holds_always(const Expr& condition) const {
  const Affine left = *affine(condition->args[0]), right = *affine(condition->args[1]);
  const auto offset = (left.offset - right.offset).as_constant();
  if (!offset) return false;
  Range difference{*offset, *offset};
  std::map<int, Size> coefficients = left.coefficients;
  for (const auto& [variable, coefficient] : right.coefficients) {
    Size& sum = coefficients.try_emplace(variable, 0).first->second;
    sum = sum - coefficient;
  }
  for (const auto& [variable, coefficient] : coefficients) {
    const auto range = names_.ranges.find(variable);
    const auto by = coefficient.as_constant();
    if (!by || range == names_.ranges.end()) return false;
    const Range term = range_of(Intrinsic::kMul, {range->second, {*by, *by}});
    difference = range_of(Intrinsic::kAdd, {difference, term});
  }
  switch (condition->intrinsic) {
    case Intrinsic::kGe:
      return difference.low >= 0;
    case Intrinsic::kGt:
      return difference.low > 0;
    case Intrinsic::kLe:
      return difference.high <= 0;
    case Intrinsic::kLt:
      return difference.high < 0;
    default:
      return false;
  }
}

/// Whether what is loaded waits as words of two halves, which widening reads in place.
bool KernelWriter::keeps_pairs(const PointWindow& window) const {
  const bool whole = window.first == 0 && window.elements.count % window.width == 0;
  return whole && window.width % 2 == 0 && bit_width(window.load->type) == 16;
}

/// The elements from `begin` on, an aligned piece of them at once where all are there.
void KernelWriter::load_piece(const PointPlan& plan, size_t number, const std::string& target,
                              const std::string& place, int64_t begin) {
  const PointWindow& window = plan.windows[number];
  const tile::Statement& statement = program_.body[window.statement];
  const std::vector<tile::Axis>& axes = axes_of(statement);
  const std::vector<tile::Axis> reduced = reduced_of(statement);
  const WindowSide& side = window.elements;
  const std::string start = names_.variables.at(axes.back().variable->variable), type = type_name(window.load->type);
  const bool by_elements = window.guard && depends_on_elements(window, axes, reduced);
  const auto kept = [&](const std::string& element) {
    return by_elements ? widened_element(window, element) : element;
  };
  const auto stand_at = [&](int64_t element) {
    if (side.step == 0) return;
    if (side.folded >= 0 && side.spread == 1) return bind_constant(reduced[side.folded].variable, element);
    names_.variables[axes.back().variable->variable] = element == 0 ? start : fmt::format("({} + {})", start, element);
  };
  const auto pointer = [&](int64_t element) {
    stand_at(element);
    return pointer_to({window.load->tensor, &window.load->args, window.load, true});
  };
  const auto is_there = [&](int64_t element) {
    stand_at(element);
    expressions_.enter();
    const std::string value = expressions_.value(window.guard);
    expressions_.leave();
    return value;
  };
  const int64_t end = begin + window.width, low = std::max<int64_t>(begin, 0), high = std::min(end, side.count);
  const bool whole = window.width > 1 && ((low == begin && high == end) || by_elements);
  const int folded = side.folded >= 0 ? reduced[side.folded].variable->variable : -1;
  const bool all_or_none = whole && by_elements &&
                           holds_for_pieces(window.guard, axes.back().variable->variable, folded, begin, window.width);
  code_.open("");
  if (whole) {
    if (by_elements) {
      const std::string first = is_there(begin);
      code_.open(all_or_none ? fmt::format("if ({})", first) : fmt::format("if ({} && {})", first, is_there(end - 1)));
    }
    if (!by_elements && keeps_pairs(window)) {
      code_.line("const Pack<u32, {}> v = read_pairs<{}, {}>({}, wide);", window.width / 2, type, window.width,
                 pointer(begin));
      for (int64_t e = low; e < high; e += 2)
        code_.line("{}[({}) / 2 + {}] = v.at[{}];", target, place, e / 2, (e - begin) / 2);
    } else {
      code_.line("const Pack<{0}, {1}> v = read_pack<{0}, {1}>({2}, wide);", type, window.width, pointer(begin));
      for (int64_t e = low; e < high; ++e)
        code_.line("{}[{} + {}] = {};", target, place, e, kept(fmt::format("v.at[{}]", e - begin)));
    }
    if (by_elements) {
      code_.close();
      code_.open("else");
    }
  }
  if (!whole || by_elements) {
    for (int64_t e = low; e < high; ++e) {
      if (!by_elements) {
        code_.line("{}[{} + {}] = {};", target, place, e, kept(fmt::format("*({})", pointer(e))));
        continue;
      }
      if (all_or_none) {
        code_.line("w{0}[{1} + {2}] = fill{0};", number, place, e);
        continue;
      }
      code_.line("if ({}) w{}[{} + {}] = {};", is_there(e), number, place, e, kept(fmt::format("*({})", pointer(e))));
      code_.line("else w{0}[{1} + {2}] = fill{0};", number, place, e);
    }
  }
  if (whole && by_elements) code_.close();
  code_.close();
  stand_at(0);
  names_.variables[axes.back().variable->variable] = start;
}

}  // namespace graft::cuda
