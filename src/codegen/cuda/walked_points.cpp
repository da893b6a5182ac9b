// SPDX-License-Identifier: Apache-2.0
// Rows of points that can be moved in few bytes at a time only, since they begin at any element: each goes to some
// warps, in steps of a power of two, so that what is the same along a row is computed once, an element's place is one
// offset from the row's, and conditions on it are known for most steps when the kernel is compiled.
#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_set>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kLeast = 32, kMost = 256;  // threads of a row
constexpr int64_t kMostUnrolled = 32;        // steps along a row, of which each has code of its own
constexpr int kWhole = 16;                   // bytes with which other ways do as well
constexpr int64_t kAtOnce = 16, kBytes = 64;  // pieces of a thread that are on their way, and their bytes
constexpr int64_t kLine = 128, kLeastLines = 4;  // bytes of a line of memory; lines of a row whose steps begin at them

/// When the elements from `start` on are inside of their row, where that is not always so: at some step, or at any.
std::vector<std::string> insides(const RowWalk& walk, const std::string& start, const std::string& extent) {
  const int64_t stride = walk.across * walk.vector, length = walk.pieces * walk.vector;
  const int64_t reach = ceil_quotient(walk.steps(), walk.steps_at_once) * walk.steps_at_once * stride;
  std::vector<std::string> conditions;
  const std::string step = fmt::format("{} + v", walk.step);
  if (walk.line > 0) {
    conditions.push_back(fmt::format("({} >= {} || {} >= 0)", step, ceil_quotient(walk.line, stride), start));
  }
  if (!walk.exact) {
    conditions.push_back(fmt::format("{} < {}", start, extent));
  } else if (walk.line > 0) {
    conditions.push_back(fmt::format("({} < {} || {} < {})", step, length / stride, start, length));
  } else if (reach > length) {
    conditions.push_back(fmt::format("{} < {}", start, length));
  }
  return conditions;
}

}  // namespace

/// How rows are walked; nothing where another way is better.
std::optional<RowWalk> KernelWriter::walk_of_rows(const tile::Map& map, int vector,
                                                  const std::vector<PointAccess>& accesses) const {
  const auto length = as_integer(map.axes.back().extent);
  const int last = map.axes.back().variable->variable;
  if (!only_sets(map) || map.condition || program_.threads < kLeast) return std::nullopt;
  RowWalk walk{.bounds = {}, .vector = vector, .pieces = ceil_quotient(length.value_or(map.axes.back().bound), vector)};
  walk.exact = length.has_value();
  bool narrow = false;
  for (const PointAccess& access : accesses) {
    const tile::Buffer& buffer = names_.buffer(access.buffer);
    if (bit_width(buffer.type) < 8 || names_.is_fragment(access.buffer)) return std::nullopt;
    if (buffer.scope == tile::Scope::kShared && access.load && !names_.crossed.contains(access.buffer)) continue;
    if (buffer.scope != tile::Scope::kGlobal) return std::nullopt;
    const auto place = names_.row_address(access.buffer, *access.indices, last);
    const bool along = place && place->affine.coefficient(last).is(1);
    const int bytes = (access.wide ? vector : 1) * bytes_of(buffer.type);
    narrow |= along && bytes < kWhole;
    if (!along && !access.load) return std::nullopt;
    if (!place || !place->affine.coefficient(last).is(0)) walk.bytes = std::max(walk.bytes, bytes);
  }
  if (!narrow || 4 * walk.pieces < 3 * kLeast) return std::nullopt;
  walk.line = line_of_rows(map, walk);
  for (size_t i = 0; i + 1 < map.axes.size(); ++i) {
    walk.bounds.push_back(as_integer(map.axes[i].extent).value_or(map.axes[i].bound));
  }
  // The rows of the last axis but one by themselves where few threads are left idle by that: their places are known
  // then for each step.
  const int64_t all = walk.all_rows(), inner = walk.bounds.empty() ? 1 : walk.bounds.back();
  int64_t least = INT64_MAX;
  for (const int64_t rows : {inner, all}) {
    for (int64_t across = kLeast; across <= std::min<int64_t>(kMost, program_.threads); across *= 2) {
      const int64_t down = program_.threads / across;
      const int64_t turns = walk.steps_of(across) * ceil_quotient(rows, down) * (all / rows);
      if (8 * turns > 7 * least && (rows != inner || turns > least)) continue;
      least = std::min(least, turns);
      walk.rows = rows, walk.across = across, walk.down = down;
    }
  }
  return walk;
}

/// The elements of a line of memory where it pays that a warp's stores fill lines: long rows that begin inside of any.
int64_t KernelWriter::line_of_rows(const tile::Map& map, const RowWalk& walk) const {
  const int last = map.axes.back().variable->variable;
  if (map.stores.size() != 1) return 0;
  const tile::Store& store = map.stores[0];
  const int64_t bytes = bytes_of(names_.buffer(store.buffer).type), line = kLine / bytes;
  auto place = names_.row_address(store.buffer, store.indices, last);
  if (!place || !place->rows.empty() || walk.pieces * walk.vector * bytes < kLeastLines * kLine) return 0;
  bool begin_at_lines = place->affine.offset.is_multiple_of(line);
  for (const auto& [variable, step] : place->affine.coefficients) {
    begin_at_lines = begin_at_lines && (variable == last || step.is_multiple_of(line));
  }
  return begin_at_lines ? 0 : line;
}

/// Names what the elements of a row have in common, as far as it is computed at each.
void KernelWriter::name_common(const Expr& e, int last) {
  std::unordered_set<const ExprNode*> varying, seen;
  for_each(e, [&](const Expr& node) {
    const bool varies = (node->kind == ExprKind::kVariable && node->variable == last) ||
                        std::any_of(node->args.begin(), node->args.end(),
                                    [&](const Expr& arg) { return varying.contains(arg.get()); });
    if (varies) varying.insert(node.get());
  });
  const std::function<void(const Expr&)> name = [&](const Expr& node) {
    if (node->kind != ExprKind::kCall && node->kind != ExprKind::kLoad) return;
    if (!seen.insert(node.get()).second) return;
    if (!varying.contains(node.get())) {
      if (node->type != DType::kInt64 || !affine(node)) expressions_.value(node);
      return;
    }
    const size_t arguments = is_call(node, Intrinsic::kSelect) ? 1 : node->args.size();
    for (size_t i = 0; i < arguments; ++i) name(node->args[i]);
  };
  name(e);
}

/// Names where a row begins for this thread in each buffer that the map goes along: places are constant offsets from
/// there. With `row`, it is the first of the rows that are walked at a time, which differ in that variable alone;
/// without one, the current row, in the buffers that have no place yet.
void KernelWriter::point_at_row(const tile::Map& map, const RowWalk& walk, const Expr& row,
                                const std::vector<PointAccess>& accesses, bool only_stores) {
  const int last = map.axes.back().variable->variable;
  const auto point = [&](const std::vector<Expr>& indices, int buffer, bool is_certain, bool is_store) {
    auto address = names_.row_address(buffer, indices, last);
    if (walked_.contains(&indices) || !address || !address->affine.coefficient(last).is(1)) return;
    if (!address->rows.empty() && (row || !is_certain)) return;  // a branch may guard what is computed
    std::string rows;
    if (row) {
      const auto step = address->affine.coefficient(row->variable).as_constant();
      if (!step || std::abs(*step) > INT32_MAX / (walk.rows + walk.down)) return;
      rows = fmt::format(" + k * {}", *step * walk.down);
    }
    address->affine.coefficients.erase(last);
    const std::string text = pointer_text(buffer, *address);
    const std::string name = code_.fresh("w"), type = type_name(names_.buffer(buffer).type);
    code_.line("{}{}* const {} = {} + {};", is_store ? "" : "const ", type, name, text, walk.start);
    walked_[&indices] = fmt::format("{}{} + ({} + v) * {}", name, rows, walk.step, walk.across * walk.vector);
  };
  for (const tile::Store& store : map.stores) {
    point(store.indices, store.buffer, true, true);
    if (only_stores) continue;
    for_each(store.value, [&](const Expr& load) {
      if (load->kind != ExprKind::kLoad) return;
      const tile::Buffer& buffer = names_.buffer(load->tensor);
      const bool shared = buffer.scope == tile::Scope::kShared && !names_.crossed.contains(load->tensor);
      if ((buffer.scope != tile::Scope::kGlobal && !shared) || bit_width(buffer.type) < 8) return;
      const bool is_certain = std::any_of(accesses.begin(), accesses.end(), [&](const PointAccess& access) {
        return access.load.get() == load.get() && access.guards.empty();
      });
      point(load->args, load->tensor, is_certain, false);
    });
  }
}

/// The same loads, element j of a piece each.
void KernelWriter::define_walked(const tile::Map& map, const std::string& j) {
  for (const tile::Store& store : map.stores) {
    for_each(store.value, [&](const Expr& load) {
      const auto place = load->kind == ExprKind::kLoad ? walked_.find(&load->args) : walked_.end();
      if (place != walked_.end()) expressions_.define(load, fmt::format("({})[{}]", place->second, j));
    });
  }
}

/// map -> for each row of this thread's warps, steps along it; short rows several at a time.
void KernelWriter::walked_points(const tile::Map& map, const std::vector<std::string>& extents, RowWalk walk,
                                 const std::vector<PointAccess>& accesses) {
  const int64_t steps = walk.steps(), turns = walk.turns();
  const int64_t at_once = std::clamp<int64_t>(kBytes / walk.bytes, 1, kAtOnce);
  walk.steps_at_once = ceil_quotient(steps, ceil_quotient(steps, at_once));
  walk.rows_at_once = std::clamp<int64_t>(at_once / steps, 1, turns);
  const auto unroll = [&](bool all_of_it) { code_.line("#pragma unroll{}", all_of_it ? "" : " 1"); };
  walk.column = code_.fresh("x"), walk.own_row = code_.fresh("y");
  // A remainder by a power of two tells the compiler how large these are.
  code_.line("const int {} = threadIdx.x % {}, {} = threadIdx.x % {} / {};", walk.column, walk.across, walk.own_row,
             std::bit_ceil(static_cast<uint64_t>(program_.threads)), walk.across);
  std::vector<std::string> threads;
  if (walk.across * walk.down < program_.threads) threads.push_back(fmt::format("{} < {}", walk.own_row, walk.down));
  walk.start = walk.vector == 1 ? walk.column : fmt::format("{} * {}", walk.column, walk.vector);
  if (steps == 1 && walk.line == 0) {
    for (const std::string& inside : insides(walk, walk.start, extents.back())) threads.push_back(inside);
  }
  code_.open(threads.empty() ? "" : fmt::format("if ({})", all_of(threads)));
  walk.outer = code_.fresh("r"), walk.first = code_.fresh("r"), walk.step = code_.fresh("q");
  unroll(false);
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", walk.outer, walk.all_rows() / walk.rows));
  unroll(turns * steps <= kMostUnrolled);
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", walk.first, turns, walk.rows_at_once));
  unroll(steps <= kMostUnrolled);
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", walk.step, steps, walk.steps_at_once));
  for (size_t s = 0; s < map.stores.size(); ++s) {
    code_.line("Pack<{}, {}> y{}[{}];", type_name(names_.buffer(map.stores[s].buffer).type), walk.vector, s,
               walk.rows_at_once * walk.steps_at_once);
  }
  expressions_.enter();
  if (const Expr row = axis_of_rows(map, walk); row && walk.line == 0) {
    std::vector<std::string> ignored;
    const std::string start = code_.fresh("y");
    code_.line("const int {} = {} + {} * {};", start, walk.own_row, walk.first, walk.down);
    name_rows(map, extents, walk, start, ignored);
    point_at_row(map, walk, row, accesses);
  }
  walk_rows(map, extents, walk, accesses, false);
  walk_rows(map, extents, walk, accesses, true);
  walked_.clear();
  expressions_.leave();
  for (int i = 0; i < 4; ++i) code_.close();
}

/// y[u] = the pieces of some rows; or stores them.
void KernelWriter::walk_rows(const tile::Map& map, const std::vector<std::string>& extents, RowWalk walk,
                             const std::vector<PointAccess>& accesses, bool stores) {
  const auto ahead = walked_;
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int k = 0; k < {}; ++k)", walk.rows_at_once));
  expressions_.enter();
  const std::string row = code_.fresh("y");
  code_.line("const int {} = {} + ({} + k) * {};", row, walk.own_row, walk.first, walk.down);
  std::vector<std::string> conditions;
  if (ceil_quotient(walk.turns(), walk.rows_at_once) * walk.rows_at_once * walk.down > walk.rows) {
    conditions.push_back(fmt::format("{} < {}", row, walk.rows));
  }
  name_rows(map, extents, walk, row, conditions);
  code_.open(fmt::format("if ({})", all_of(conditions)));
  expressions_.enter();
  for (const tile::Store& store : map.stores) {
    if (!stores) name_common(store.value, map.axes.back().variable->variable);
  }
  if (walk.line > 0) begin_at_line(map, walk);
  point_at_row(map, walk, {}, accesses, stores);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int v = 0; v < {}; ++v)", walk.steps_at_once));
  const std::string start = code_.fresh("x");
  code_.line("const int u = k * {} + v, {} = {} + ({} + v) * {};", walk.steps_at_once, start, walk.start, walk.step,
             walk.across * walk.vector);
  std::vector<std::string> inside;
  if (walk.steps() > 1 || walk.line > 0) inside = insides(walk, start, extents.back());
  code_.open(inside.empty() ? "" : fmt::format("if ({})", all_of(inside)));
  expressions_.enter();
  if (stores) {
    for (size_t s = 0; s < map.stores.size(); ++s) {
      store_piece(map, s, walk.vector, fmt::format("({})", walked_.at(&map.stores[s].indices)), accesses[s]);
    }
  } else {
    bind_index(map.axes.back().variable, start, walk.pieces * walk.vector);
    compute_piece(map, walk.vector, accesses);
  }
  expressions_.leave();
  code_.close();
  code_.close();
  expressions_.leave();
  code_.close();
  expressions_.leave();
  code_.close();
  walked_ = ahead;
}

/// The thread's first element of the current row: before the row's beginning where that lies inside of a line.
void KernelWriter::begin_at_line(const tile::Map& map, RowWalk& walk) {
  const tile::Store& store = map.stores[0];
  auto address = names_.row_address(store.buffer, store.indices, map.axes.back().variable->variable);
  address->affine.coefficients.erase(map.axes.back().variable->variable);
  const std::string first = code_.fresh("i");
  code_.line("const int {} = {} - (int)((u64)({}) / {}u % {}u);", first, walk.start,
             pointer_text(store.buffer, *address), bytes_of(names_.buffer(store.buffer).type), walk.line);
  walk.start = first;
}

/// The axis whose points are the rows, where they are those of one axis.
Expr KernelWriter::axis_of_rows(const tile::Map& map, const RowWalk& walk) const {
  const size_t outer = map.axes.size() - 1;
  return outer > 0 && (outer == 1 || walk.rows == walk.bounds.back()) ? map.axes[outer - 1].variable : Expr();
}

/// The indices of a row: of all, or of those of the last axis but one, beside the current one of the other axes.
void KernelWriter::name_rows(const tile::Map& map, const std::vector<std::string>& extents, const RowWalk& walk,
                             const std::string& row, std::vector<std::string>& conditions) {
  std::vector<tile::Axis> axes(map.axes.begin(), map.axes.end() - 1);
  std::vector<int64_t> bounds = walk.bounds;
  if (axis_of_rows(map, walk)) {
    const size_t i = axes.size() - 1;
    bind_index(axes[i].variable, row, bounds[i]);
    if (as_integer(axes[i].extent) != bounds[i]) conditions.push_back(fmt::format("{} < {}", row, extents[i]));
    axes.pop_back(), bounds.pop_back();
    return name_indices(axes, bounds, extents, walk.outer, conditions);
  }
  name_indices(axes, bounds, extents, row, conditions);
}

}  // namespace graft::cuda
