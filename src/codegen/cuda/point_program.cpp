// SPDX-License-Identifier: Apache-2.0
// Points in registers: pooling, convolutions of single channels and what follows them. A thread makes neighbours along
// the last axis and all points of one axis along which windows slide, so that what it reads is read once; nothing that
// one statement leaves for another goes through memory.
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

/// An element as the window keeps it.
std::string widened_element(const PointWindow& window, const std::string& element) {
  const Expr& kept = window.guard ? window.value->args[1] : window.value;
  const bool same = kept.get() == window.load.get();
  return same ? element : fmt::format("convert<{}>({})", type_name(kept->type), element);
}

bool is_product(const Expr& e) { return is_call(e, Intrinsic::kMul) && e->type == DType::kFloat32; }

/// A sum of products, which are added without being rounded.
bool is_sum_of_products(const tile::Reduce& reduce) {
  return reduce.lift.size() == 1 && is_product(reduce.lift[0]) && is_call(reduce.monoid.combine[0], Intrinsic::kAdd);
}

}  // namespace

/// What must hold, for the whole block, so that pieces are aligned.
std::string KernelWriter::point_condition(const PointPlan& plan) const {
  std::set<std::string> conditions;
  const auto add = [&](int buffer, int width) {
    if (width == 1) return;
    conditions.insert(
        fmt::format("aligned<{}, {}>({})", type_name(names_.buffer(buffer).type), width, names_.buffers[buffer]));
  };
  for (const PointWindow& window : plan.windows) add(window.load->tensor, window.width);
  for (const tile::Statement& each : program_.body) {
    for (const tile::Store& store : stores_of(each)) {
      if (names_.buffer(store.buffer).scope == tile::Scope::kGlobal) add(store.buffer, plan.vector);
    }
  }
  return conditions.empty() ? "true" : fmt::format("{}", fmt::join(conditions, " && "));
}

/// How many points have their rows loaded at once, so that many loads are on their way: as many as registers hold.
int64_t KernelWriter::points_together(const PointPlan& plan) const {
  constexpr int64_t kMostAhead = 112;  // elements
  const bool exact = plan.slide < 0 || as_integer(plan.axes[plan.slide].extent) == plan.slides;
  if (!exact) return 1;  // rows beyond the last point may not be there
  int64_t together = 1;
  for (int64_t wanted = 2; wanted <= plan.slides; wanted *= 2) {
    int64_t elements = 0;
    for (const PointWindow& window : plan.windows) {
      if (window.rows.step == 0) continue;
      const int64_t row = window.kept(reduced_of(program_.body[window.statement])) / window.rows.count;
      elements += row * (window.rows.count - window.rows.step * (plan.slides - wanted));
    }
    if (elements <= kMostAhead) together = wanted;
  }
  return together;
}

void KernelWriter::write_points(PointPlan& plan) {
  const std::vector<std::string> extents = extents_of(plan.axes);
  std::vector<tile::Axis> dealt_axes;
  std::vector<std::string> dealt_extents;
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    if (static_cast<int>(i) == plan.slide) continue;
    dealt_axes.push_back(plan.axes[i]), dealt_extents.push_back(extents[i]);
  }
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    const PointWindow& window = plan.windows[w];
    if (!window.guard) continue;
    const std::string fill = literal(*window.value->args[2]), type = type_name(window.load->type);
    code_.line("const {} fill{} = {};", type_name(window.value->type), w, fill);
    code_.line("const {0} empty{1} = convert<{0}>({2});", type, w, fill);
    code_.line("(void)fill{0}, (void)empty{0};", w);
  }
  // One body for aligned pieces and one for others: no branches stand between the loads of either.
  const std::string condition = point_condition(plan);
  for (const bool wide : {true, false}) {
    if (!wide && condition == "true") break;
    code_.open(wide ? fmt::format("if ({})", condition) : "else");
    code_.line("constexpr bool wide = {};", wide);
    code_.line("(void)wide;");
    write_turns(plan, extents, dealt_axes, dealt_extents);
    code_.close();
  }
}

/// The loop over the points of a thread, with those of the sliding axis written out.
void KernelWriter::write_turns(PointPlan& plan, const std::vector<std::string>& extents,
                               const std::vector<tile::Axis>& dealt_axes,
                               const std::vector<std::string>& dealt_extents) {
  const PointDeal dealt = deal(dealt_axes, plan.vector);
  const std::string turn = code_.fresh("q");
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", turn, dealt.turns));
  expressions_.enter();
  code_.open(fmt::format("if ({})", open_turn(dealt, dealt_axes, dealt_extents, turn)));
  plan.start = names_.variables.at(plan.axes.back().variable->variable);
  name_point_axes(plan);
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    const PointWindow& window = plan.windows[w];
    const std::vector<tile::Axis> reduced = reduced_of(program_.body[window.statement]);
    code_.line("{} w{}[{}];", type_name(window.value->type), w, window.kept(reduced));
    if (window.rows.step == 0) load_window(plan, w, 0, 1);
  }
  const bool exact = plan.slide < 0 || as_integer(plan.axes[plan.slide].extent) == plan.slides;
  const int64_t together = points_together(plan);
  for (int64_t u = 0; u < plan.slides; ++u) {
    code_.open(exact ? "" : fmt::format("if ({} < {})", u, extents[plan.slide]));
    // The rows of this point, or of several, that no earlier one has had.
    const int64_t last = std::min(u + together, plan.slides) - 1;
    for (size_t w = 0; w < plan.windows.size() && u % together == 0; ++w) {
      const WindowSide& rows = plan.windows[w].rows;
      if (rows.step == 0) continue;
      const int64_t reach = rows.count - rows.step * (plan.slides - 1), begin = rows.step * u;
      load_window(plan, w, u == 0 ? 0 : std::max(begin - rows.step + reach, begin), rows.step * last + reach);
    }
    point_statements(plan, u);
    code_.close();
  }
  code_.close();
  expressions_.leave();
  code_.close();
}

/// All statements have the same names for their points.
void KernelWriter::name_point_axes(const PointPlan& plan) {
  for (const tile::Statement& each : program_.body) {
    const std::vector<tile::Axis>& axes = axes_of(each);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (static_cast<int>(i) == plan.slide) continue;
      bind_index(axes[i].variable, names_.variables.at(plan.axes[i].variable->variable), bound_of(axes[i]));
    }
  }
}

void KernelWriter::bind_constant(const Expr& variable, int64_t value) {
  names_.variables[variable->variable] = value < 0 ? fmt::format("({})", value) : std::to_string(value);
  names_.ranges[variable->variable] = {value, value};
}

/// w[...] = rows from..to of the window.
void KernelWriter::load_window(const PointPlan& plan, size_t number, int64_t from, int64_t to) {
  const PointWindow& window = plan.windows[number];
  const tile::Statement& statement = program_.body[window.statement];
  const std::vector<tile::Axis>& axes = axes_of(statement);
  const std::vector<tile::Axis> reduced = reduced_of(statement);
  for (const tile::Axis& axis : reduced) bind_constant(axis.variable, 0);
  if (plan.slide >= 0) bind_constant(axes[plan.slide].variable, 0);
  const bool by_elements = window.guard && depends_on_elements(window, axes, reduced);
  const std::string row = code_.fresh("r");
  std::string place = row;
  const int64_t row_elements = window.kept(reduced) / window.rows.count, count = (to - from) * row_elements;
  code_.open("");
  if (!by_elements) code_.line("{} raw[{}];", type_name(window.load->type), count);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int {0} = {1}; {0} < {2}; ++{0})", row, from, to));
  if (window.rows.step > 0) {
    const bool by_element = window.rows.folded >= 0 && window.rows.spread == 1;
    bind_index(by_element ? reduced[window.rows.folded].variable : axes[plan.slide].variable, row, window.rows.count);
  }
  for (const size_t k : window.boxes) {
    const std::string name = code_.fresh("k");
    const int64_t bound = bound_of(reduced[k]);
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", name, bound));
    bind_index(reduced[k].variable, name, bound);
    place = fmt::format("({} * {} + {})", place, bound, name);
  }
  expressions_.enter();
  if (window.guard && !by_elements) {
    code_.line("const bool there = {};", expressions_.value(window.guard));
    code_.open("if (there)");
  }
  const std::string start = names_.variables.at(axes.back().variable->variable);
  place = fmt::format("{} * {}", place, window.elements.count);
  if (!by_elements) place += fmt::format(" - {}", from * row_elements);
  for (int64_t piece = 0; piece * window.width - window.first < window.elements.count; ++piece) {
    load_piece(plan, number, place, piece * window.width - window.first, by_elements);
  }
  if (window.guard && !by_elements) {
    code_.close();
    code_.open("else");
    code_.line("#pragma unroll");
    code_.line("for (int e = 0; e < {}; ++e) raw[{} + e] = empty{};", window.elements.count, place, number);
    code_.close();
  }
  bind_index(axes.back().variable, start, bound_of(axes.back()));
  expressions_.leave();
  for (size_t i = 0; i < window.boxes.size() + 1; ++i) code_.close();
  if (!by_elements) {
    // All are loaded before the first is widened, and each is widened once, however many windows it lies in.
    code_.line("#pragma unroll");
    code_.line("for (int e = 0; e < {}; ++e) w{}[{} + e] = {};", count, number, from * row_elements,
               widened_element(window, "raw[e]"));
  }
  code_.close();
}

/// The elements from `begin` on, an aligned piece of them at once where all are there.
void KernelWriter::load_piece(const PointPlan& plan, size_t number, const std::string& place, int64_t begin,
                              bool by_elements) {
  const PointWindow& window = plan.windows[number];
  const tile::Statement& statement = program_.body[window.statement];
  const std::vector<tile::Axis>& axes = axes_of(statement);
  const std::vector<tile::Axis> reduced = reduced_of(statement);
  const WindowSide& side = window.elements;
  const std::string start = names_.variables.at(axes.back().variable->variable), type = type_name(window.load->type);
  const std::string target = by_elements ? fmt::format("w{}", number) : "raw";
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
    code_.line("const Pack<{0}, {1}> v = read_pack<{0}, {1}>({2}, wide);", type, window.width, pointer(begin));
    for (int64_t e = low; e < high; ++e)
      code_.line("{}[{} + {}] = {};", target, place, e, kept(fmt::format("v.at[{}]", e - begin)));
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

/// All statements at point `slide` of the sliding axis.
void KernelWriter::point_statements(const PointPlan& plan, int64_t slide) {
  for (const int buffer : plan.buffers) {
    code_.line("{} r{}[{}];", type_name(names_.buffer(buffer).type), buffer, plan.vector);
  }
  for (size_t s = 0; s < program_.body.size(); ++s) {
    const std::vector<tile::Axis>& axes = axes_of(program_.body[s]);
    if (plan.slide >= 0) bind_constant(axes[plan.slide].variable, slide);
    expressions_.enter();
    code_.open("");
    if (std::holds_alternative<tile::Reduce>(program_.body[s].node)) {
      point_reduce(plan, s, slide);
    } else {
      point_map(plan, s, slide);
    }
    code_.close();
    expressions_.leave();
  }
}

/// Names what is in registers at this point, with the neighbour called j.
void KernelWriter::define_point_loads(const PointPlan& plan, size_t statement, int64_t slide) {
  for (const Expr& value : values_of(program_.body[statement])) {
    for_each(value, [&](const Expr& node) {
      const bool kept = node->kind == ExprKind::kLoad && plan.buffers.contains(node->tensor);
      if (kept) expressions_.define(node, fmt::format("r{}[j]", node->tensor));
    });
  }
  const std::vector<tile::Axis> reduced = reduced_of(program_.body[statement]);
  const auto name = [&](size_t k) { return names_.variables.at(reduced[k].variable->variable); };
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    const PointWindow& window = plan.windows[w];
    if (window.statement != statement) continue;
    std::string place = window.rows.step > 0 ? std::to_string(window.rows.step * slide) : "0";
    if (window.rows.folded >= 0) place += fmt::format(" + {} * {}", name(window.rows.folded), window.rows.spread);
    for (const size_t k : window.boxes) place = fmt::format("({}) * {} + {}", place, bound_of(reduced[k]), name(k));
    place = fmt::format("({}) * {}", place, window.elements.count);
    if (window.elements.step > 0) place += fmt::format(" + j * {}", window.elements.step);
    if (window.elements.folded >= 0) {
      place += fmt::format(" + {} * {}", name(window.elements.folded), window.elements.spread);
    }
    expressions_.define(window.value, fmt::format("w{}[{}]", w, place));
  }
}

void KernelWriter::point_reduce(const PointPlan& plan, size_t statement, int64_t slide) {
  const auto& reduce = std::get<tile::Reduce>(program_.body[statement].node);
  const std::vector<std::pair<int, std::string>> targets = begin_targets(plan, reduce.outputs);
  begin_monoid(reduce);
  open_neighbours(plan, statement);
  code_.line("State state = identity;");
  for (const tile::Axis& axis : reduce.reduced) {
    const std::string name = code_.fresh("k");
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", name, bound_of(axis)));
    bind_index(axis.variable, name, bound_of(axis));
  }
  expressions_.enter();
  define_point_loads(plan, statement, slide);
  if (is_sum_of_products(reduce)) {
    const std::string a = expressions_.value(reduce.lift[0]->args[0]), b = expressions_.value(reduce.lift[0]->args[1]);
    code_.line("state.s0 = __fmaf_rn({}, {}, state.s0);", a, b);
  } else {
    fold_one(reduce, "state");
  }
  expressions_.leave();
  for (size_t i = 0; i < reduce.reduced.size(); ++i) code_.close();
  for (size_t i = 0; i < reduce.outputs.size(); ++i) {
    code_.line("{} = state.s{};", point_target(plan, reduce.outputs[i], i), i);
  }
  close_neighbours(plan, statement);
  store_neighbours(plan, targets);
}

void KernelWriter::point_map(const PointPlan& plan, size_t statement, int64_t slide) {
  const auto& map = std::get<tile::Map>(program_.body[statement].node);
  const std::vector<std::pair<int, std::string>> targets = begin_targets(plan, map.stores);
  open_neighbours(plan, statement);
  define_point_loads(plan, statement, slide);
  for (size_t s = 0; s < map.stores.size(); ++s) {
    const std::string value = expressions_.value(map.stores[s].value);
    code_.line("{} = {};", point_target(plan, map.stores[s], s), value);
  }
  close_neighbours(plan, statement);
  store_neighbours(plan, targets);
}

/// Declares a pack for each store to memory; its buffer and the address of the first neighbour.
std::vector<std::pair<int, std::string>> KernelWriter::begin_targets(const PointPlan& plan,
                                                                     const std::vector<tile::Store>& stores) {
  std::vector<std::pair<int, std::string>> targets;
  for (size_t s = 0; s < stores.size(); ++s) {
    const bool kept = plan.buffers.contains(stores[s].buffer);
    targets.emplace_back(stores[s].buffer, kept ? "" : pointer_to({stores[s].buffer, &stores[s].indices, {}, true}));
    if (!kept) code_.line("Pack<{}, {}> y{};", type_name(names_.buffer(stores[s].buffer).type), plan.vector, s);
  }
  return targets;
}

std::string KernelWriter::point_target(const PointPlan& plan, const tile::Store& store, size_t number) {
  return plan.buffers.contains(store.buffer) ? fmt::format("r{}[j]", store.buffer) : fmt::format("y{}.at[j]", number);
}

void KernelWriter::store_neighbours(const PointPlan& plan, const std::vector<std::pair<int, std::string>>& targets) {
  for (size_t s = 0; s < targets.size(); ++s) {
    const auto& [buffer, address] = targets[s];
    if (address.empty()) continue;
    code_.line("write_pack<{}, {}>({}, y{}, wide);", type_name(names_.buffer(buffer).type), plan.vector, address, s);
  }
}

/// for (j: the neighbours of a thread along the last axis)
void KernelWriter::open_neighbours(const PointPlan& plan, size_t statement) {
  const tile::Axis& last = axes_of(program_.body[statement]).back();
  const std::string start = names_.variables.at(last.variable->variable), name = code_.fresh("i");
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", plan.vector));
  code_.line("const int {} = {} + j;", name, start);
  bind_index(last.variable, name, bound_of(last));
  expressions_.enter();
}

void KernelWriter::close_neighbours(const PointPlan& plan, size_t statement) {
  expressions_.leave();
  code_.close();
  const tile::Axis& last = axes_of(program_.body[statement]).back();
  bind_index(last.variable, plan.start, bound_of(last));
}

}  // namespace graft::cuda
