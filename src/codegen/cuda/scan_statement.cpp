// SPDX-License-Identifier: Apache-2.0
// Scans. A running fold (a cumulative sum) is done by many threads: each folds a part, the parts before it are folded
// from all of them, and it goes over its part once more, from registers. Other recurrences: a thread for each point.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int kRowsOfAPart = 16;

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
    next.push_back(code_.fresh("next"));
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
  const std::vector<std::string> extents = extents_of(scan.axes);
  const int64_t threads = program_.threads;
  RowScan row{.scan = &scan, .fold = &fold, .length = extents_of({scan.axis})[0], .along = code_.fresh("i")};
  row.block = points_of(scan.axes) == 1 && threads > 32;
  row.group = row.block ? threads : 32;
  row.bound = as_integer(scan.axis.extent).value_or(scan.axis.bound);
  row.index_type = row.bound > 0 && row.bound < (int64_t{1} << 30) ? "int" : "i64";
  row.identity = literal(*make_monoid(fold.combine, scan.state[0]->type).identity[0]);
  const std::string word = type_name(scan.state[0]->type);

  for (const tile::Store& store : scan.stores) row.accesses.push_back({store.buffer, &store.indices, {}, false});
  tile::Map lifted{.axes = {scan.axis}, .condition = {}, .stores = {{-1, {}, fold.lift, ScatterMode::kSet}}};
  for (const PointAccess& access : accesses_of_points(lifted)) {
    if (access.load) row.accesses.push_back(access);
  }
  RowScan single = row;
  row.width = scan.reverse ? 1 : widest_piece(scan.axis, row.accesses);
  if (row.width == 1) row.accesses = single.accesses;

  const std::string points = fmt::format("1ll{}{}", extents.empty() ? "" : " * ", fmt::join(extents, " * "));
  code_.line("const auto combine = [](const {0} a, const {0} b) -> {0} {{ return {1}; }};", word,
             intrinsic_text(fold.combine, scan.state[0]->type, {"a", "b"}));
  code_.line("const int member = threadIdx.x % {};", row.group);
  if (row.block) code_.line("{0}* const partial = ({0}*)(shared + {1});", word, reserve_shared(8 * (threads / 32)));
  code_.open(fmt::format("for (i64 p0 = 0; p0 < {}; p0 += {})", points, threads / row.group));
  code_.line("const i64 p = p0 + threadIdx.x / {};", row.group);
  code_.line("const bool inside = p < {};", points);
  expressions_.enter();
  decompose(scan.axes, extents, "p", "i64");
  code_.line("{} carry = {};", word, row.identity);
  code_.open("if (inside)");
  expressions_.enter();
  code_.line("carry = {};", expressions_.value(scan.initial[0]));
  expressions_.leave();
  code_.close();
  const std::string condition = row.width > 1 ? wide_condition(scan.axis, row.accesses, row.width) : "";
  if (!condition.empty()) code_.open(fmt::format("if ({})", condition));
  scan_row(row);
  if (!condition.empty()) {
    code_.close();
    code_.open("else");
    scan_row(single);
    code_.close();
  }
  expressions_.leave();
  code_.close();
}

/// All of a row, in pieces of the given width.
void KernelWriter::scan_row(const RowScan& row) {
  const std::string word = type_name(row.scan->state[0]->type);
  const int64_t bytes = int64_t{row.width} * bit_width(row.scan->state[0]->type) / 8;
  const int at_once = static_cast<int>(std::clamp<int64_t>(64 / bytes, 1, 4));
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for ({0} first = 0; first < {1}; first += {2})", row.index_type, row.length,
                         row.group * row.width * at_once));
  code_.line("{} x[{}][{}];", word, at_once, row.width);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int u = 0; u < {}; ++u)", at_once));
  load_row_piece(row);
  code_.close();
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int u = 0; u < {}; ++u)", at_once));
  code_.line("{} own = x[u][0], total;", word);
  code_.line("#pragma unroll");
  code_.line("for (int j = 1; j < {}; ++j) own = combine(own, x[u][j]);", row.width);
  const std::string before_it =
      row.block ? fmt::format("block_before<{}>(own, {}, combine, total, partial)", program_.threads, row.identity)
                : fmt::format("warp_before(own, {}, combine, total)", row.identity);
  code_.line("{} state = combine(carry, {});", word, before_it);
  code_.line("carry = combine(carry, total);");
  store_row_piece(row);
  code_.close();
  code_.close();
}

void KernelWriter::name_row_axis(const RowScan& row, const std::string& name) {
  const int variable = row.scan->axis.variable->variable;
  names_.variables[variable] = name;
  if (row.index_type == "int") names_.ranges[variable] = {0, std::max<int64_t>(row.bound - 1, 0)};
}

/// if (there is a piece): where it starts.
void KernelWriter::open_row_piece(const RowScan& row) {
  const std::string start = row.along + "s";
  code_.line("const {0} {1} = first + ({0})(u * {2} + member) * {3};", row.index_type, start, row.group, row.width);
  code_.open(fmt::format("if (inside && {} < {})", start, row.length));
  expressions_.enter();
  name_row_axis(row, start);
}

/// for (j: the elements of the piece): the index of one.
void KernelWriter::open_row_element(const RowScan& row) {
  const bool reverse = row.scan->reverse;
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", row.width));
  code_.line("const {} {} = {}{}s{};", row.index_type, row.along, reverse ? row.length + " - 1 - " : "", row.along,
             reverse ? "" : " + j");
  expressions_.enter();
  name_row_axis(row, row.along);
}

/// x[u] = the lifted elements of piece u, the identity where there is none.
void KernelWriter::load_row_piece(const RowScan& row) {
  code_.line("#pragma unroll");
  code_.line("for (int j = 0; j < {}; ++j) x[u][j] = {};", row.width, row.identity);
  open_row_piece(row);
  for (size_t i = 0; i < row.accesses.size(); ++i) {
    const PointAccess& access = row.accesses[i];
    if (!access.load || !access.wide) continue;
    const std::string pack = fmt::format("Pack<{}, {}>", type_name(access.load->type), row.width);
    code_.line("const {0} v{1} = *(const {0}*)({2});", pack, i, pointer_to(access));
  }
  open_row_element(row);
  for (size_t i = 0; i < row.accesses.size(); ++i) {
    const PointAccess& access = row.accesses[i];
    if (access.load && access.wide) expressions_.define(access.load, fmt::format("v{}.at[j]", i));
  }
  code_.line("x[u][j] = {};", expressions_.value(row.fold->lift));
  for (int i = 0; i < 2; ++i) {
    expressions_.leave();
    code_.close();
  }
}

/// The results at element j, and the state that takes it in, before or behind them.
void KernelWriter::scan_element(const tile::Scan& scan, const std::vector<PointAccess>& accesses,
                                const std::string& state) {
  names_.variables[scan.state[0]->variable] = state;
  if (!scan.exclusive) code_.line("{0} = combine({0}, x[u][j]);", state);
  for (size_t s = 0; s < scan.stores.size(); ++s) {
    const std::string value = expressions_.value(scan.stores[s].value);
    if (accesses[s].wide) {
      code_.line("y{}.at[j] = {};", s, value);
    } else {
      store(scan.stores[s], value, true);
    }
  }
  if (scan.exclusive) code_.line("{0} = combine({0}, x[u][j]);", state);
}

/// The stores of piece u, with `state` going through it.
void KernelWriter::store_row_piece(const RowScan& row) {
  const std::vector<tile::Store>& stores = row.scan->stores;
  open_row_piece(row);
  const auto pack = [&](size_t s) {
    return fmt::format("Pack<{}, {}>", type_name(names_.buffer(stores[s].buffer).type), row.width);
  };
  for (size_t s = 0; s < stores.size(); ++s) {
    if (row.accesses[s].wide) code_.line("{} y{};", pack(s), s);
  }
  open_row_element(row);
  scan_element(*row.scan, row.accesses, "state");
  expressions_.leave();
  code_.close();
  name_row_axis(row, row.along + "s");
  for (size_t s = 0; s < stores.size(); ++s) {
    if (row.accesses[s].wide) code_.line("*({}*)({}) = y{};", pack(s), pointer_to(row.accesses[s]), s);
  }
  expressions_.leave();
  code_.close();
}

/// Threads across the points, which are neighbours in memory, each with `width` of them; several threads take parts of
/// the axis in turn.
void KernelWriter::scan_columns(const tile::Scan& scan, const RunningFold& fold) {
  const tile::Axis& axis = scan.axes[0];
  ColumnScan columns{.scan = &scan, .fold = &fold, .length = extents_of({scan.axis})[0]};
  const std::string extent = extents_of(scan.axes)[0];
  for (const tile::Store& store : scan.stores) columns.accesses.push_back({store.buffer, &store.indices, {}, false});
  tile::Map lifted{.axes = scan.axes, .condition = {}, .stores = {{-1, {}, fold.lift, ScatterMode::kSet}}};
  for (const PointAccess& access : accesses_of_points(lifted)) {
    if (access.load) columns.accesses.push_back(access);
  }
  ColumnScan single = columns;
  columns.width = std::min(widest_piece(axis, columns.accesses), std::max(4 / narrowest_bytes(columns.accesses), 1));
  for (PointAccess& access : columns.accesses) {
    access.wide = columns.width > 1 && width_of(access, axis.variable->variable, columns.width) == columns.width;
  }
  const std::string word = type_name(scan.state[0]->type);
  columns.bound = single.bound = as_integer(scan.axis.extent).value_or(scan.axis.bound);
  columns.index_type = single.index_type = columns.bound > 0 && columns.bound < (int64_t{1} << 30) ? "int" : "i64";
  code_.line("const auto combine = [](const {0} a, const {0} b) -> {0} {{ return {1}; }};", word,
             intrinsic_text(fold.combine, scan.state[0]->type, {"a", "b"}));
  code_.line("{0}* const totals = ({0}*)(shared + {1});", word,
             reserve_shared(program_.threads * columns.width * std::max(bit_width(scan.state[0]->type) / 8, 1)));
  const std::string condition = columns.width > 1 ? wide_condition(axis, columns.accesses, columns.width) : "";
  if (!condition.empty()) code_.open(fmt::format("if ({})", condition));
  scan_parts(columns, extent);
  if (condition.empty()) return;
  code_.close();
  code_.open("else");
  scan_parts(single, extent);
  code_.close();
}

int KernelWriter::narrowest_bytes(const std::vector<PointAccess>& accesses) const {
  int bytes = 8;
  for (const PointAccess& access : accesses) {
    bytes = std::min(bytes, std::max(bit_width(names_.buffer(access.buffer).type) / 8, 1));
  }
  return bytes;
}

/// All of the columns of a block, in rounds of a few rows for each part.
void KernelWriter::scan_parts(const ColumnScan& columns, const std::string& extent) {
  const tile::Scan& scan = *columns.scan;
  const int64_t points = points_of(scan.axes), across = (points + columns.width - 1) / columns.width;
  const int64_t parts = program_.threads / across;
  const DType type = scan.state[0]->type;
  const std::string word = type_name(type), column = code_.fresh("i");
  const std::string identity = literal(*make_monoid(columns.fold->combine, type).identity[0]);
  code_.line("const int {0} = threadIdx.x % {1} * {2}, part = threadIdx.x / {1};", column, across, columns.width);
  code_.line("const bool inside = part < {} && {} < {};", parts, column, extent);
  bind_index(scan.axes[0].variable, column, across * columns.width);
  expressions_.enter();
  code_.line("{} carry[{}];", word, columns.width);
  open_columns(columns, column);
  code_.line("carry[j] = {};", identity);
  code_.open("if (inside)");
  expressions_.enter();
  code_.line("carry[j] = {};", expressions_.value(scan.initial[0]));
  expressions_.leave();
  code_.close();
  close_columns(columns, column);
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for ({0} first = 0; first < {1}; first += {2})", columns.index_type, columns.length,
                         parts * kRowsOfAPart));
  code_.line("{} x[{}][{}];", word, kRowsOfAPart, columns.width);
  load_column_rows(columns, column, identity);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", columns.width));
  code_.line("{} own = x[0][j];", word);
  code_.line("#pragma unroll");
  code_.line("for (int u = 1; u < {}; ++u) own = combine(own, x[u][j]);", kRowsOfAPart);
  code_.line("if (part < {}) totals[threadIdx.x * {} + j] = own;", parts, columns.width);
  code_.close();
  code_.line("__syncthreads();");
  code_.line("{} state[{}];", word, columns.width);
  code_.line("#pragma unroll");
  code_.line("for (int j = 0; j < {}; ++j) state[j] = carry[j];", columns.width);
  code_.line("#pragma unroll 8");
  code_.open(fmt::format("for (int i = 0; i < {}; ++i)", parts));
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", columns.width));
  code_.line("if (i == part) state[j] = carry[j];");
  code_.line("carry[j] = combine(carry[j], totals[i * {} + {} + j]);", across * columns.width, column);
  code_.close();
  code_.close();
  code_.line("__syncthreads();");
  store_column_rows(columns, column);
  code_.close();
  expressions_.leave();
}

/// for (j: the neighbours of a thread)
void KernelWriter::open_columns(const ColumnScan& columns, const std::string& start) {
  const tile::Axis& axis = columns.scan->axes[0];
  const std::string name = code_.fresh("i");
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", columns.width));
  code_.line("const int {} = {} + j;", name, start);
  names_.variables[axis.variable->variable] = name;
  expressions_.enter();
}

void KernelWriter::close_columns(const ColumnScan& columns, const std::string& start) {
  expressions_.leave();
  code_.close();
  names_.variables[columns.scan->axes[0].variable->variable] = start;
}

/// for (u: the rows of a part in one round) if (there is a row)
void KernelWriter::open_column_row(const ColumnScan& columns) {
  const std::string turn = code_.fresh("i"), at = code_.fresh("i");
  const int variable = columns.scan->axis.variable->variable;
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int u = 0; u < {}; ++u)", kRowsOfAPart));
  code_.line("const {} {} = first + part * {} + u;", columns.index_type, turn, kRowsOfAPart);
  const std::string from = columns.scan->reverse ? columns.length + " - 1 - " : "";
  code_.line("const {} {} = {}{};", columns.index_type, at, from, turn);
  names_.variables[variable] = at;
  if (columns.index_type == "int") names_.ranges[variable] = {0, std::max<int64_t>(columns.bound - 1, 0)};
  code_.open(fmt::format("if (inside && {} < {})", turn, columns.length));
  expressions_.enter();
}

void KernelWriter::close_column_row() {
  expressions_.leave();
  code_.close();
  code_.close();
}

/// x[u][j] = the lifted elements, the identity where there is none.
void KernelWriter::load_column_rows(const ColumnScan& columns, const std::string& column, const std::string& identity) {
  const std::vector<PointAccess>& accesses = columns.accesses;
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int u = 0; u < {}; ++u)", kRowsOfAPart));
  code_.line("#pragma unroll");
  code_.line("for (int j = 0; j < {}; ++j) x[u][j] = {};", columns.width, identity);
  code_.close();
  open_column_row(columns);
  for (size_t i = 0; i < accesses.size(); ++i) {
    if (!accesses[i].load || !accesses[i].wide) continue;
    const std::string pack = fmt::format("Pack<{}, {}>", type_name(accesses[i].load->type), columns.width);
    code_.line("const {0} v{1} = *(const {0}*)({2});", pack, i, pointer_to(accesses[i]));
  }
  open_columns(columns, column);
  for (size_t i = 0; i < accesses.size(); ++i) {
    if (accesses[i].load && accesses[i].wide) expressions_.define(accesses[i].load, fmt::format("v{}.at[j]", i));
  }
  code_.line("x[u][j] = {};", expressions_.value(columns.fold->lift));
  close_columns(columns, column);
  close_column_row();
}

/// The stores of a part's rows, with `state` going down them.
void KernelWriter::store_column_rows(const ColumnScan& columns, const std::string& column) {
  const std::vector<tile::Store>& stores = columns.scan->stores;
  const auto pack = [&](size_t s) {
    return fmt::format("Pack<{}, {}>", type_name(names_.buffer(stores[s].buffer).type), columns.width);
  };
  open_column_row(columns);
  for (size_t s = 0; s < stores.size(); ++s) {
    if (columns.accesses[s].wide) code_.line("{} y{};", pack(s), s);
  }
  open_columns(columns, column);
  scan_element(*columns.scan, columns.accesses, "state[j]");
  close_columns(columns, column);
  for (size_t s = 0; s < stores.size(); ++s) {
    if (columns.accesses[s].wide) code_.line("*({}*)({}) = y{};", pack(s), pointer_to(columns.accesses[s]), s);
  }
  close_column_row();
}

}  // namespace graft::cuda
