// SPDX-License-Identifier: Apache-2.0
// Points in registers: pooling, convolutions of single channels and what follows them. A thread makes neighbours along
// the last axis and all points of one axis along which windows slide, so that what it reads is read once; nothing that
// one statement leaves for another goes through memory.
#include <cmath>

#include "codegen/cuda/bounded_half.h"
#include "codegen/cuda/point_statement.h"

namespace graft::cuda {

using namespace points;

namespace {

bool is_product(const Expr& e) { return is_call(e, Intrinsic::kMul) && e->type == DType::kFloat32; }

/// Quotients rounded to halves by what all neighbours share.
std::vector<Expr> shared_quotients(const tile::Map& map) {
  const int last = map.axes.back().variable->variable;
  std::vector<Expr> found;
  for (const tile::Store& store : map.stores) {
    for_each(store.value, [&](const Expr& node) {
      if (!is_call(node, Intrinsic::kCast) || node->type != DType::kFloat16) return;
      const Expr& quotient = node->args[0];
      if (!is_call(quotient, Intrinsic::kDiv) || quotient->type != DType::kFloat32) return;
      bool shared = !uses_variable(quotient->args[1], last);
      for_each(quotient->args[1], [&](const Expr& each) { shared = shared && each->kind != ExprKind::kLoad; });
      if (shared) found.push_back(quotient);
    });
  }
  return found;
}

using KnownRanges = std::unordered_map<const ExprNode*, Range>;

Range range_below(const Expr& e, const std::unordered_map<int, Range>& ranges, KnownRanges& known) {
  if (const auto constant = as_integer(e)) return {*constant, *constant};
  if (e->kind == ExprKind::kVariable) {
    const auto found = ranges.find(e->variable);
    return found == ranges.end() ? Range{} : found->second;
  }
  if (e->kind != ExprKind::kCall || e->type != DType::kInt64) return {};
  std::vector<Range> operands;
  for (const Expr& arg : e->args) {
    if (arg->type != DType::kInt64) return {};
    const auto found = known.find(arg.get());
    operands.push_back(found == known.end() ? range_below(arg, ranges, known) : found->second);
  }
  return known.emplace(e.get(), range_of(e->intrinsic, operands)).first->second;
}

/// What an index can be, given what its variables can be.
Range range_within(const Expr& e, const std::unordered_map<int, Range>& ranges) {
  KnownRanges known;
  return range_below(e, ranges, known);
}

/// C++ of the reciprocal of a number as the prelude has it.
std::string reciprocal_literal(int64_t number) {
  const auto by = static_cast<double>(number);
  auto high = static_cast<float>(1 / by);
  while (static_cast<double>(high) * by >= 1) high = std::nextafterf(high, 0);
  const double low = (1 - static_cast<double>(high) * by) / by;
  const auto text = [](double value) { return literal(*make_constant(DType::kFloat32, value)); };
  return fmt::format("{{{}, {}}}", text(static_cast<double>(high)), text(static_cast<double>(static_cast<float>(low))));
}

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

void KernelWriter::write_points(PointPlan& plan) {
  const std::vector<std::string> extents = extents_of(plan.axes);
  std::vector<tile::Axis> dealt_axes;
  std::vector<std::string> dealt_extents;
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    if (static_cast<int>(i) == plan.slide) continue;
    dealt_axes.push_back(plan.axes[i]), dealt_extents.push_back(extents[i]);
    if (static_cast<int>(i) != plan.beside) continue;
    const int64_t bound = ceil_quotient(bound_of(plan.axes[i]), plan.besides);
    const bool constant = as_integer(plan.axes[i].extent).has_value();
    dealt_axes.back() = {plan.axes[i].variable, constant ? make_index(bound) : plan.axes[i].extent, bound};
    dealt_extents.back() = fmt::format("({} + {}) / {}", extents[i], plan.besides - 1, plan.besides);
  }
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    const PointWindow& window = plan.windows[w];
    if (!window.guard) continue;
    const std::string fill = literal(*window.value->args[2]), type = type_name(window.load->type);
    const std::string empty = fmt::format("convert<{}>({})", type, fill);
    code_.line("const {} fill{} = {};", type_name(window.value->type), w, fill);
    code_.line("const {} empty{} = {};", keeps_pairs(window) ? "u32" : type, w,
               keeps_pairs(window) ? fmt::format("pair_of({0}, {0})", empty) : empty);
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
  begin_columns(plan, extents);
  name_point_axes(plan);
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    const PointWindow& window = plan.windows[w];
    const std::vector<tile::Axis> reduced = reduced_of(program_.body[window.statement]);
    if (static_cast<int>(w) == plan.stream) continue;
    code_.line("{} w{}[{}];", type_name(window.value->type), w, window.kept(reduced));
    if (window.rows.step > 0) continue;
    code_.open("");
    request_rows(plan, w, 0, 1), keep_rows(plan, w, 0, 1);
    code_.close();
  }
  if (plan.stream >= 0) {
    stream_windows(plan, extents);
  } else {
    write_slides(plan, extents);
  }
  code_.close();
  expressions_.leave();
  code_.close();
}

/// All points along the sliding axis, several at a time: while they are computed, the next ones' rows are on their way.
void KernelWriter::write_slides(const PointPlan& plan, const std::vector<std::string>& extents) {
  const bool exact = plan.slide < 0 || as_integer(plan.axes[plan.slide].extent) == plan.slides;
  const int64_t together = points_together(plan);
  const bool ahead = together > 0;
  const int64_t step = std::max<int64_t>(together, 1);
  if (ahead) each_new_rows(plan, 0, step, [&](size_t w, int64_t from, int64_t to) { request_rows(plan, w, from, to); });
  for (int64_t u = 0; u < plan.slides; ++u) {
    const auto keep = [&](size_t w, int64_t from, int64_t to) { keep_rows(plan, w, from, to); };
    const auto request = [&](size_t w, int64_t from, int64_t to) { request_rows(plan, w, from, to); };
    if (ahead && u % step == 0) {
      each_new_rows(plan, u, step, keep);
      if (u + step < plan.slides) each_new_rows(plan, u + step, step, request);
    }
    code_.open(exact ? "" : fmt::format("if ({} < {})", u, extents[plan.slide]));
    if (!ahead) each_new_rows(plan, u, step, request), each_new_rows(plan, u, step, keep);
    point_statements(plan, u);
    code_.close();
  }
}

/// Names the first point of a thread along the axis beside the sliding one, and how many there are.
void KernelWriter::begin_columns(PointPlan& plan, const std::vector<std::string>& extents) {
  if (plan.beside < 0) return;
  const tile::Axis& axis = plan.axes[plan.beside];
  plan.column = code_.fresh("c");
  code_.line("const int {} = {} * {};", plan.column, names_.variables.at(axis.variable->variable), plan.besides);
  bind_index(axis.variable, plan.column, bound_of(axis));
  const auto exact = as_integer(axis.extent);
  plan.columns = exact && *exact % plan.besides == 0 ? "" : fmt::format("({} - {})", extents[plan.beside], plan.column);
  plan.only_stores = !plan.columns.empty() && reads_windows_beside(plan);
}

/// Whether all that is read at places beside is read as windows, which are there or filled.
bool KernelWriter::reads_windows_beside(const PointPlan& plan) const {
  bool windows = true;
  for (const tile::Statement& each : program_.body) {
    const int beside = axes_of(each)[plan.beside].variable->variable;
    for (const Expr& value : values_of(each)) {
      for_each(value, [&](const Expr& node) {
        if (node->kind != ExprKind::kLoad || plan.buffers.contains(node->tensor)) return;
        if (!uses_variable(node, beside)) return;
        windows = windows && std::any_of(plan.windows.begin(), plan.windows.end(), [&](const PointWindow& window) {
          return window.load.get() == node.get();
        });
      });
    }
  }
  return windows;
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

/// for (beside: the points of a thread beside the sliding axis)
void KernelWriter::open_besides(const PointPlan& plan, const std::string& beside) {
  if (plan.beside < 0) return;
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", beside, plan.besides));
}

/// All statements at point `slide` of the sliding axis, for all points beside it; those of a stream are written out, so
/// that what differs at edges only is known at the others.
void KernelWriter::point_statements(const PointPlan& plan, int64_t slide) {
  if (plan.stream < 0 || plan.beside < 0) {
    const std::string beside = plan.beside >= 0 ? code_.fresh("b") : "0";
    open_besides(plan, beside);
    statements_at(plan, {slide, beside}, {0, plan.beside >= 0 ? bound_of(plan.axes[plan.beside]) - 1 : 0});
    if (plan.beside >= 0) code_.close();
  } else {
    const int64_t last = (ceil_quotient(bound_of(plan.axes[plan.beside]), plan.besides) - 1) * plan.besides;
    for (int64_t b = 0; b < plan.besides; ++b) {
      code_.open("");
      statements_at(plan, {slide, std::to_string(b)}, {b, last + b});
      code_.close();
    }
  }
  if (plan.beside < 0) return;
  for (const tile::Statement& each : program_.body) {
    const tile::Axis& axis = axes_of(each)[plan.beside];
    bind_index(axis.variable, plan.column, bound_of(axis));
  }
}

/// All statements at one point, whose index along the axis beside the sliding one lies in `range`.
void KernelWriter::statements_at(const PointPlan& plan, const PointPlace& at, const Range& range) {
  const bool may_miss = !plan.columns.empty() && !plan.only_stores;
  if (may_miss) code_.open(fmt::format("if ({} < {})", at.beside, plan.columns));
  for (const int buffer : plan.buffers) {
    code_.line("{} r{}[{}];", type_name(names_.buffer(buffer).type), buffer, plan.vector);
  }
  for (size_t s = 0; s < program_.body.size(); ++s) {
    const std::vector<tile::Axis>& axes = axes_of(program_.body[s]);
    if (plan.slide >= 0) bind_constant(axes[plan.slide].variable, at.slide);
    if (plan.beside >= 0) {
      const int variable = axes[plan.beside].variable->variable;
      names_.variables[variable] = fmt::format("({} + {})", plan.column, at.beside);
      names_.ranges[variable] = range;
    }
    expressions_.enter();
    code_.open("");
    if (std::holds_alternative<tile::Reduce>(program_.body[s].node)) {
      point_reduce(plan, s, at);
    } else {
      point_map(plan, s, at);
    }
    code_.close();
    expressions_.leave();
  }
  if (may_miss) code_.close();
}

/// Names what is in registers at this point, with the neighbour called j.
void KernelWriter::define_point_loads(const PointPlan& plan, size_t statement, const PointPlace& at) {
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
    const bool streams = static_cast<int>(w) == plan.stream;  // what is kept is one row
    std::string place = window.rows.step > 0 && !streams ? std::to_string(window.rows.step * at.slide) : "0";
    if (window.rows.folded >= 0 && !streams) {
      place += fmt::format(" + {} * {}", name(window.rows.folded), window.rows.spread);
    }
    if (window.columns.step > 0) {
      const WindowSide& side = window.columns;
      place = fmt::format("({}) * {} + {} * {}", place, side.count, at.beside, side.step);
      if (side.folded >= 0) place += fmt::format(" + {} * {}", name(side.folded), side.spread);
    }
    for (const size_t k : window.boxes) place = fmt::format("({}) * {} + {}", place, bound_of(reduced[k]), name(k));
    place = fmt::format("({}) * {}", place, window.elements.count);
    if (window.elements.step > 0) place += fmt::format(" + j * {}", window.elements.step);
    if (window.elements.folded >= 0) {
      place += fmt::format(" + {} * {}", name(window.elements.folded), window.elements.spread);
    }
    expressions_.define(window.value, fmt::format("w{}[{}]", w, place));
  }
}

void KernelWriter::point_reduce(const PointPlan& plan, size_t statement, const PointPlace& at) {
  const auto& reduce = std::get<tile::Reduce>(program_.body[statement].node);
  const std::vector<std::pair<int, std::string>> targets = begin_targets(plan, reduce.outputs);
  if (plan.stream >= 0) {
    open_neighbours(plan, statement);
    code_.line("const State& state = a{}[{} * {} + j];", at.slide, at.beside, plan.vector);
  } else {
    begin_monoid(reduce);
    open_neighbours(plan, statement);
    code_.line("State state = identity;");
    fold_window(plan, statement, at, "state");
  }
  for (size_t i = 0; i < reduce.outputs.size(); ++i) {
    code_.line("{} = state.s{};", point_target(plan, reduce.outputs[i], i), i);
  }
  close_neighbours(plan, statement);
  store_neighbours(plan, targets, at);
}

/// Folds the elements of a window along the reduced axes from number `first` on into a state.
void KernelWriter::fold_window(const PointPlan& plan, size_t statement, const PointPlace& at, const std::string& state,
                               size_t first) {
  const auto& reduce = std::get<tile::Reduce>(program_.body[statement].node);
  for (size_t i = first; i < reduce.reduced.size(); ++i) {
    const tile::Axis& axis = reduce.reduced[i];
    const std::string name = code_.fresh("k");
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", name, bound_of(axis)));
    bind_index(axis.variable, name, bound_of(axis));
  }
  expressions_.enter();
  define_point_loads(plan, statement, at);
  if (is_sum_of_products(reduce)) {
    const std::string a = expressions_.value(reduce.lift[0]->args[0]), b = expressions_.value(reduce.lift[0]->args[1]);
    code_.line("{0}.s0 = __fmaf_rn({1}, {2}, {0}.s0);", state, a, b);
  } else {
    fold_one(reduce, state);
  }
  expressions_.leave();
  for (size_t i = first; i < reduce.reduced.size(); ++i) code_.close();
}

void KernelWriter::point_map(const PointPlan& plan, size_t statement, const PointPlace& at) {
  const auto& map = std::get<tile::Map>(program_.body[statement].node);
  const std::vector<std::pair<int, std::string>> targets = begin_targets(plan, map.stores);
  const std::vector<Expr> quotients = shared_quotients(map);
  std::vector<std::string> divisors;
  for (const Expr& quotient : quotients) divisors.push_back(name_divisor(quotient->args[1]));
  std::vector<BoundedHalf> halves;
  for (const tile::Store& store : map.stores) {
    const bool kept = plan.buffers.contains(store.buffer);
    const int last = map.axes.back().variable->variable;
    halves.push_back(kept ? BoundedHalf{store.value, {}} : bounded_half(store.value, last));
  }
  open_neighbours(plan, statement);
  define_point_loads(plan, statement, at);
  for (size_t i = 0; i < quotients.size(); ++i) {
    const std::string dividend = expressions_.value(quotients[i]->args[0]);
    expressions_.define(quotients[i], fmt::format("divide_for_half({}, {})", dividend, divisors[i]));
  }
  for (size_t s = 0; s < map.stores.size(); ++s) {
    const std::string value = expressions_.value(halves[s].inner);
    code_.line("{} = {};", point_target(plan, map.stores[s], s), value);
  }
  close_neighbours(plan, statement);
  expressions_.enter();
  define_point_loads(plan, statement, at);
  for (size_t s = 0; s < map.stores.size(); ++s) {
    for (const auto& [intrinsic, bound] : halves[s].bounds) {
      code_.line("bound_halves<{}>(y{}, convert<f16>({}));", intrinsic == Intrinsic::kMax, s,
                 expressions_.value(bound));
    }
  }
  expressions_.leave();
  store_neighbours(plan, targets, at);
}

/// What divides all neighbours: a count by its reciprocal, which is a literal where the count is known.
std::string KernelWriter::name_divisor(const Expr& divisor) {
  constexpr int64_t kMostCounted = 1 << 20;
  const std::string name = code_.fresh("d");
  const Range count = is_call(divisor, Intrinsic::kCast) ? range_within(divisor->args[0], names_.ranges) : Range{};
  if (count.low < 1 || count.high > kMostCounted) {
    code_.line("const Divisor {} = divisor({});", name, expressions_.value(divisor));
  } else if (count.low == count.high) {
    code_.line("const Reciprocal {} = {};", name, reciprocal_literal(count.low));
  } else {
    code_.line("const Reciprocal {} = reciprocal({});", name, expressions_.value(divisor));
  }
  return name;
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

void KernelWriter::store_neighbours(const PointPlan& plan, const std::vector<std::pair<int, std::string>>& targets,
                                    const PointPlace& at) {
  const std::string there = plan.only_stores ? fmt::format("if ({} < {}) ", at.beside, plan.columns) : "";
  for (size_t s = 0; s < targets.size(); ++s) {
    const auto& [buffer, address] = targets[s];
    if (address.empty()) continue;
    code_.line("{}write_pack<{}, {}>({}, y{}, wide);", there, type_name(names_.buffer(buffer).type), plan.vector,
               address, s);
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
