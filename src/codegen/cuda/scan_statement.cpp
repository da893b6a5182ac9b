// SPDX-License-Identifier: Apache-2.0
// Scans. A running fold (a cumulative sum) is done by many threads: each folds a part, the parts before it are folded
// from all of them, and it goes over its part once more, from registers. Other recurrences: a thread for each point.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int kRowsOfAPart = 8;

/// state = op(state, lift) with a lift that does not depend on the state, or nothing.
std::optional<RunningFold> running_fold(const tile::Scan& scan) {
  if (scan.state.size() != 1) return std::nullopt;
  const Expr& step = scan.step[0];
  const int state = scan.state[0]->variable;
  for (const Intrinsic combine : {Intrinsic::kAdd, Intrinsic::kMul, Intrinsic::kMin, Intrinsic::kMax}) {
    if (!is_call(step, combine)) continue;
    for (const int side : {0, 1}) {
      const bool is_state = step->args[side]->kind == ExprKind::kVariable && step->args[side]->variable == state;
      if (is_state && !uses_variable(step->args[1 - side], state)) return RunningFold{combine, step->args[1 - side]};
    }
  }
  return std::nullopt;
}

/// The number of points; 0 when it has no bound.
int64_t points_of(const std::vector<tile::Axis>& axes) {
  int64_t points = 1;
  for (const tile::Axis& axis : axes) points *= as_integer(axis.extent).value_or(axis.bound);
  return points;
}

}  // namespace

void KernelWriter::statement(const tile::Scan& scan) {
  before(accesses_of(program_, {scan}));
  code_.open("");
  expressions_.enter();
  const auto fold = running_fold(scan);
  const int64_t points = points_of(scan.axes);
  bool down = false;
  if (fold && scan.axes.size() == 1) {
    tile::Map lift{.axes = scan.axes, .condition = {}, .stores = {{-1, {}, fold->lift, ScatterMode::kSet}}};
    for (const PointAccess& access : accesses_of_points(lift)) {
      if (!access.load) continue;
      const auto address = names_.address(access.buffer, *access.indices);
      down |= address && address->coefficient(scan.axes[0].variable->variable).is(1);
    }
  }
  if (!fold) {
    scan_points(scan);
  } else if (down && points > 0 && points <= program_.threads) {
    scan_columns(scan, *fold);
  } else {
    scan_rows(scan, *fold);
  }
  expressions_.leave();
  code_.close();
}

/// The stores at one step; the state's variable has its name.
void KernelWriter::emit_scan_stores(const tile::Scan& scan) {
  expressions_.enter();
  for (const tile::Store& each : scan.stores) store(each, expressions_.value(each.value), true);
  expressions_.leave();
}

void KernelWriter::scan_points(const tile::Scan& scan) {
  const std::vector<std::string> extents = extents_of(scan.axes), length = extents_of({scan.axis});
  code_.open(fmt::format("for (i64 p = threadIdx.x; p < 1ll{}{}; p += {})", extents.empty() ? "" : " * ",
                         fmt::join(extents, " * "), program_.threads));
  expressions_.enter();
  decompose(scan.axes, extents, "p", "i64");
  for (size_t i = 0; i < scan.state.size(); ++i) {
    code_.line("{} state{} = {};", type_name(scan.state[i]->type), i, expressions_.value(scan.initial[i]));
  }
  const std::string turn = code_.fresh("i"), at = bind(scan.axis.variable, "i");
  code_.open(fmt::format("for (i64 {0} = 0; {0} < {1}; ++{0})", turn, length[0]));
  code_.line("const i64 {} = {}{};", at, scan.reverse ? length[0] + " - 1 - " : "", turn);
  expressions_.enter();
  for (size_t i = 0; i < scan.state.size(); ++i) names_.variables[scan.state[i]->variable] = fmt::format("state{}", i);
  if (scan.exclusive) emit_scan_stores(scan);
  std::vector<std::string> next;
  for (const Expr& step : scan.step) {
    next.push_back(code_.fresh("s_"));
    code_.line("const {} {} = {};", type_name(step->type), next.back(), expressions_.value(step));
  }
  expressions_.leave();
  for (size_t i = 0; i < next.size(); ++i) code_.line("state{} = {};", i, next[i]);
  if (!scan.exclusive) emit_scan_stores(scan);
  code_.close();
  expressions_.leave();
  code_.close();
}

/// A warp for each point, or the block where there is one point: neighbours along the axis at once.
void KernelWriter::scan_rows(const tile::Scan& scan, const RunningFold& fold) {
  const std::vector<std::string> extents = extents_of(scan.axes), length = extents_of({scan.axis});
  const int64_t points = points_of(scan.axes), threads = program_.threads;
  const bool block = points == 1 && threads > 32;
  const int64_t group = block ? threads : 32;
  const DType type = scan.state[0]->type;
  const std::string word = type_name(type);
  const Expr identity = make_monoid(fold.combine, type).identity[0];
  const std::string along = code_.fresh("i");
  const int64_t bound = as_integer(scan.axis.extent).value_or(scan.axis.bound);
  const std::string index_type = bound > 0 && bound < (int64_t{1} << 30) ? "int" : "i64";

  tile::Map lift{.axes = {scan.axis}, .condition = {}, .stores = scan.stores};
  std::vector<PointAccess> accesses = accesses_of_points(lift);
  for (PointAccess& access : accesses) {
    if (access.load) access.wide = false;
  }
  std::erase_if(accesses, [](const PointAccess& access) { return static_cast<bool>(access.load); });
  const size_t stores = accesses.size();
  tile::Map lifted{.axes = {scan.axis}, .condition = {}, .stores = {{-1, {}, fold.lift, ScatterMode::kSet}}};
  for (const PointAccess& access : accesses_of_points(lifted)) {
    if (access.load) accesses.push_back(access);
  }
  std::vector<PointAccess> single = accesses;
  const int vector = scan.reverse ? 1 : widest_piece(scan.axis, accesses);
  if (vector == 1) accesses = single;

  code_.line("const auto combine = [](const {0} a, const {0} b) -> {0} {{ return {1}; }};", word,
             intrinsic_text(fold.combine, type, {"a", "b"}));
  code_.line("const int member = threadIdx.x % {};", group);
  if (block) code_.line("{0}* const partial = ({0}*)(shared + {1});", word, reserve_shared(8 * (threads / 32)));
  code_.open(fmt::format("for (i64 p0 = 0; p0 < 1ll{}{}; p0 += {})", extents.empty() ? "" : " * ",
                         fmt::join(extents, " * "), threads / group));
  code_.line("const i64 p = p0 + threadIdx.x / {};", group);
  code_.line("const bool inside = p < 1ll{}{};", extents.empty() ? "" : " * ", fmt::join(extents, " * "));
  expressions_.enter();
  decompose(scan.axes, extents, "p", "i64");
  code_.line("{} carry = {};", word, literal(*identity));
  code_.open("if (inside)");
  expressions_.enter();
  code_.line("carry = {};", expressions_.value(scan.initial[0]));
  expressions_.leave();
  code_.close();
  const auto pass = [&](const std::vector<PointAccess>& each, int width) {
    const int64_t bytes = int64_t{width} * bit_width(type) / 8;
    const int at_once = static_cast<int>(std::clamp<int64_t>(64 / bytes, 1, 4));
    const auto begin = [&] {
      code_.line("const {0} {1} = first + ({0})(u * {2} + member) * {3};", index_type, along + "s", group, width);
      code_.open(fmt::format("if (inside && {}s < {})", along, length[0]));
    };
    const auto begin_element = [&] {
      code_.line("#pragma unroll");
      code_.open(fmt::format("for (int j = 0; j < {}; ++j)", width));
      code_.line("const {} {} = {}{}s{};", index_type, along, scan.reverse ? length[0] + " - 1 - " : "", along,
                 scan.reverse ? "" : " + j");
      expressions_.enter();
    };
    const auto name_axis = [&](const std::string& name) {
      names_.variables[scan.axis.variable->variable] = name;
      if (index_type == "int") names_.ranges[scan.axis.variable->variable] = {0, std::max<int64_t>(bound - 1, 0)};
    };
    code_.line("#pragma unroll 1");
    code_.open(fmt::format("for ({0} first = 0; first < {1}; first += {2})", index_type, length[0],
                           group * width * at_once));
    code_.line("{} x[{}][{}];", word, at_once, width);
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int u = 0; u < {}; ++u)", at_once));
    code_.line("#pragma unroll");
    code_.line("for (int j = 0; j < {}; ++j) x[u][j] = {};", width, literal(*identity));
    begin();
    expressions_.enter();
    name_axis(along + "s");
    for (size_t i = stores; i < each.size(); ++i) {
      if (!each[i].wide) continue;
      const std::string pack = fmt::format("Pack<{}, {}>", type_name(each[i].load->type), width);
      code_.line("const {0} v{1} = *(const {0}*)({2});", pack, i, pointer_to(each[i]));
    }
    begin_element();
    name_axis(along);
    for (size_t i = stores; i < each.size(); ++i) {
      if (each[i].wide) expressions_.define(each[i].load, fmt::format("v{}.at[j]", i));
    }
    code_.line("x[u][j] = {};", expressions_.value(fold.lift));
    expressions_.leave();
    code_.close();
    expressions_.leave();
    code_.close();
    code_.close();
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int u = 0; u < {}; ++u)", at_once));
    code_.line("{} own = x[u][0], total;", word);
    code_.line("#pragma unroll");
    code_.line("for (int j = 1; j < {}; ++j) own = combine(own, x[u][j]);", width);
    code_.line("{} state = combine(carry, {});", word,
               block ? fmt::format("block_before<{}>(own, {}, combine, total, partial)", threads, literal(*identity))
                     : fmt::format("warp_before(own, {}, combine, total)", literal(*identity)));
    code_.line("carry = combine(carry, total);");
    begin();
    for (size_t s = 0; s < stores; ++s) {
      if (each[s].wide) {
        code_.line("Pack<{}, {}> y{};", type_name(names_.buffer(each[s].buffer).type), width, s);
      }
    }
    begin_element();
    name_axis(along);
    names_.variables[scan.state[0]->variable] = "state";
    if (!scan.exclusive) code_.line("state = combine(state, x[u][j]);");
    for (size_t s = 0; s < stores; ++s) {
      const std::string value = expressions_.value(scan.stores[s].value);
      if (each[s].wide) {
        code_.line("y{}.at[j] = {};", s, value);
      } else {
        store(scan.stores[s], value, true);
      }
    }
    if (scan.exclusive) code_.line("state = combine(state, x[u][j]);");
    expressions_.leave();
    code_.close();
    name_axis(along + "s");
    for (size_t s = 0; s < stores; ++s) {
      if (!each[s].wide) continue;
      code_.line("*(Pack<{}, {}>*)({}) = y{};", type_name(names_.buffer(each[s].buffer).type), width,
                 pointer_to(each[s]), s);
    }
    code_.close();
    code_.close();
    code_.close();
  };
  const std::string condition = vector > 1 ? wide_condition(scan.axis, accesses, vector) : "";
  if (!condition.empty()) code_.open(fmt::format("if ({})", condition));
  pass(accesses, vector);
  if (!condition.empty()) {
    code_.close();
    code_.open("else");
    pass(single, 1);
    code_.close();
  }
  expressions_.leave();
  code_.close();
}

/// Threads across the points, which are neighbours in memory; several threads take parts of the axis in turn.
void KernelWriter::scan_columns(const tile::Scan& scan, const RunningFold& fold) {
  const std::vector<std::string> extents = extents_of(scan.axes), length = extents_of({scan.axis});
  const int64_t across = points_of(scan.axes), parts = program_.threads / across;
  const DType type = scan.state[0]->type;
  const std::string word = type_name(type), column = code_.fresh("i"), at = code_.fresh("i");
  const std::string identity = literal(*make_monoid(fold.combine, type).identity[0]);
  code_.line("const auto combine = [](const {0} a, const {0} b) -> {0} {{ return {1}; }};", word,
             intrinsic_text(fold.combine, type, {"a", "b"}));
  code_.line("{0}* const totals = ({0}*)(shared + {1});", word,
             reserve_shared(across * parts * std::max(bit_width(type) / 8, 1)));
  code_.line("const int {} = threadIdx.x % {}, part = threadIdx.x / {};", column, across, across);
  code_.line("const bool inside = part < {} && {} < {};", parts, column, extents[0]);
  bind_index(scan.axes[0].variable, column, across);
  names_.variables[scan.axis.variable->variable] = at;
  expressions_.enter();
  code_.line("{} carry = {};", word, identity);
  code_.open("if (inside)");
  expressions_.enter();
  code_.line("carry = {};", expressions_.value(scan.initial[0]));
  expressions_.leave();
  code_.close();
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (i64 first = 0; first < {}; first += {})", length[0], parts * kRowsOfAPart));
  const auto begin = [&] {
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int u = 0; u < {}; ++u)", kRowsOfAPart));
    code_.line("const i64 {}s = first + part * {} + u;", at, kRowsOfAPart);
    code_.line("const i64 {} = {}{}s;", at, scan.reverse ? length[0] + " - 1 - " : "", at);
    code_.open(fmt::format("if (inside && {}s < {})", at, length[0]));
    expressions_.enter();
  };
  const auto end = [&] {
    expressions_.leave();
    code_.close();
    code_.close();
  };
  code_.line("{} x[{}];", word, kRowsOfAPart);
  code_.line("#pragma unroll");
  code_.line("for (int u = 0; u < {}; ++u) x[u] = {};", kRowsOfAPart, identity);
  begin();
  code_.line("x[u] = {};", expressions_.value(fold.lift));
  end();
  code_.line("{} own = x[0];", word);
  code_.line("#pragma unroll");
  code_.line("for (int u = 1; u < {}; ++u) own = combine(own, x[u]);", kRowsOfAPart);
  code_.line("if (part < {}) totals[threadIdx.x] = own;", parts);
  code_.line("__syncthreads();");
  code_.line("{} state = carry;", word);
  code_.open(fmt::format("for (int i = 0; i < {}; ++i)", parts));
  code_.line("if (i == part) state = carry;");
  code_.line("carry = combine(carry, totals[i * {} + {}]);", across, column);
  code_.close();
  code_.line("__syncthreads();");
  begin();
  names_.variables[scan.state[0]->variable] = "state";
  if (!scan.exclusive) code_.line("state = combine(state, x[u]);");
  for (const tile::Store& each : scan.stores) store(each, expressions_.value(each.value), true);
  if (scan.exclusive) code_.line("state = combine(state, x[u]);");
  end();
  code_.close();
  expressions_.leave();
}

}  // namespace graft::cuda
