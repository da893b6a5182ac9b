// SPDX-License-Identifier: Apache-2.0
// Maps whose results lie one after the other in memory, in rows that begin at any element: pieces of 16 bytes are
// counted from the last whole address before a block's first result, and go on from row to row and into the next
// block's rows. What is read along the rows comes as the aligned pieces that it lies in, shifted into place.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kLeastPieces = 4;  // of a block's results

int bytes_of(DType type) { return std::max(bit_width(type) / 8, 1); }

int64_t bound_of(const tile::Axis& axis) { return as_integer(axis.extent).value_or(axis.bound); }

bool has_loads(const Expr& e) {
  bool found = false;
  for_each(e, [&](const Expr& node) { found |= node->kind == ExprKind::kLoad; });
  return found;
}

/// Collects the loads of a value, those of indices left out, each with the condition under which it happens.
class Collector {
 public:
  explicit Collector(std::vector<ShiftedLoad>& loads) : loads_(loads) {}

  /// False when a load happens under several conditions.
  bool run(const Expr& e, const Expr& condition) {
    if (e->kind == ExprKind::kLoad) return add(e, condition);
    if (!is_call(e, Intrinsic::kSelect)) {
      return std::all_of(e->args.begin(), e->args.end(), [&](const Expr& arg) { return run(arg, condition); });
    }
    const Expr &first = e->args[0], other = make_call(Intrinsic::kNot, {first});
    return run(first, condition) && run(e->args[1], condition ? condition && first : first) &&
           run(e->args[2], condition ? condition && other : other);
  }

 private:
  bool add(const Expr& load, const Expr& condition) {
    for (const ShiftedLoad& each : loads_) {
      if (each.load.get() == load.get()) return each.condition.get() == condition.get();
    }
    loads_.push_back({load, condition});
    return true;
  }
  std::vector<ShiftedLoad>& loads_;
};

}  // namespace

/// The axes from `first` on whose points are stored one after the other, and where that goes on; nothing when a piece
/// would hold more than two rows.
std::optional<ShiftedRun> KernelWriter::run_of_points(const tile::Map& map) const {
  if (map.stores.size() != 1 || map.condition || !only_sets(map)) return std::nullopt;
  const tile::Store& store = map.stores[0];
  const tile::Buffer& target = names_.buffer(store.buffer);
  const auto address = names_.address(store.buffer, store.indices);
  if (target.scope != tile::Scope::kGlobal || bit_width(target.type) < 8 || !address) return std::nullopt;
  const auto step_of = [&](const Expr& variable) { return address->coefficient(variable->variable).as_constant(); };
  ShiftedRun run{.first = map.axes.size() - 1, .vector = 16 / bytes_of(target.type)};
  run.length = bound_of(map.axes.back());
  if (step_of(map.axes.back().variable) != 1) return std::nullopt;
  while (run.first > 0) {
    const auto whole = as_integer(map.axes[run.first].extent);
    if (!whole || step_of(map.axes[run.first - 1].variable) != run.inner * *whole) break;
    run.inner *= *whole, --run.first;
  }
  const int64_t block = bound_of(map.axes[run.first]) * run.inner;
  const bool has_rows = run.first + 1 < map.axes.size();
  if (block < kLeastPieces * run.vector || (has_rows && run.length < run.vector)) return std::nullopt;
  for (const graft::Axis& axis : program_.grid) {
    const bool goes_on = step_of(axis.variable) == block && !axis.extent.is(1);
    if (goes_on) run.grid = axis;
  }
  return run;
}

/// The loads of the map's value that go along its rows; nothing when others would be made for each element.
std::optional<std::vector<ShiftedLoad>> KernelWriter::shifted_loads(const tile::Map& map, const ShiftedRun& run) const {
  constexpr int kMostNodes = 256;
  const int last = map.axes.back().variable->variable;
  std::vector<ShiftedLoad> all, shifted;
  if (count_nodes(map.stores[0].value) > kMostNodes) return std::nullopt;
  if (!Collector(all).run(map.stores[0].value, {})) return std::nullopt;
  for (ShiftedLoad& each : all) {
    const tile::Buffer& buffer = names_.buffer(each.load->tensor);
    const auto place = names_.row_address(each.load->tensor, each.load->args, last);
    const bool pieces = buffer.scope == tile::Scope::kGlobal || names_.padded.contains(each.load->tensor);
    const bool along = pieces && place && place->affine.coefficient(last).is(1) && bit_width(buffer.type) >= 8 &&
                       bytes_of(buffer.type) * run.vector == 16;
    if (along && !(each.condition && has_loads(each.condition))) {
      shifted.push_back(std::move(each));
      continue;
    }
    for (size_t i = run.first; i < map.axes.size(); ++i) {
      if (uses_variable(each.load, map.axes[i].variable->variable)) return std::nullopt;
    }
  }
  return shifted.empty() ? std::nullopt : std::optional(std::move(shifted));
}

/// map -> pieces of 16 bytes at whole addresses; false when its results do not lie one after the other or nothing
/// would be gained.
bool KernelWriter::shifted_map(const tile::Map& map, const std::vector<std::string>& extents) {
  auto run = run_of_points(map);
  if (!run) return false;
  const auto loads = shifted_loads(map, *run);
  if (!loads) return false;
  // What a block has staged ends with the block.
  for (const ShiftedLoad& each : *loads) {
    if (names_.padded.contains(each.load->tensor)) run->grid.reset();
  }
  const int64_t block = bound_of(map.axes[run->first]) * run->inner;
  std::vector<tile::Axis> axes(map.axes.begin(), map.axes.begin() + static_cast<std::ptrdiff_t>(run->first));
  std::vector<std::string> dealt_extents(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(run->first));
  const int64_t pieces = (block + 2 * run->vector - 2) / run->vector;
  axes.push_back({make_variable(), make_index(pieces), 0});
  dealt_extents.push_back(std::to_string(pieces));
  const PointDeal dealt = deal(axes, 1);
  const int at_once = static_cast<int>(std::min<int64_t>(loads->size() == 1 ? 2 : 1, dealt.turns));
  count_run(map, extents, *run);
  const std::string type = type_name(names_.buffer(map.stores[0].buffer).type), turn = code_.fresh("q");
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", turn, dealt.turns, at_once));
  code_.line("{}* row[{}]; int start[{}];", type, at_once, at_once);
  for (size_t i = 0; i < loads->size(); ++i) code_.line("Shifted here{0}[{1}], next{0}[{1}];", i, at_once);
  for (const bool stores : {false, true}) {
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int u = 0; u < {}; ++u)", at_once));
    if (!stores) code_.line("row[u] = 0;");
    expressions_.enter();
    std::string inside = open_turn(dealt, axes, dealt_extents, fmt::format("({} + u)", turn));
    if (dealt.turns % at_once != 0) inside = fmt::format("{} + u < {} && {}", turn, dealt.turns, inside);
    run->piece = names_.variables.at(axes.back().variable->variable);
    code_.open(fmt::format("if ({})", stores ? "row[u]" : inside));
    if (stores) {
      store_shifted(map, *run, *loads);
    } else {
      request_shifted(map, *run, *loads);
    }
    code_.close();
    expressions_.leave();
    code_.close();
  }
  code_.close();
  return true;
}

/// Names how many points there are in the block, and from its first one to the end of the run; and whether other
/// blocks' points lie before.
void KernelWriter::count_run(const tile::Map& map, const std::vector<std::string>& extents, ShiftedRun& run) {
  const tile::Axis& axis = map.axes[run.first];
  run.count = code_.fresh("n"), run.rest = code_.fresh("n"), run.before = code_.fresh("n");
  code_.line("const int {} = {} * {};", run.count, extents[run.first], run.inner);
  std::string rest = run.count, before = "false";
  if (run.grid) {
    const std::string& number = names_.variables.at(run.grid->variable->variable);
    const bool clipped = is_call(axis.extent, Intrinsic::kMin);
    const auto tile = clipped ? as_integer(axis.extent->args[0]) : std::nullopt;
    const std::string left =
        !clipped ? fmt::format("({} - {}) * {}", names_.size(run.grid->extent), number, bound_of(axis))
                 : expressions_.value(axis.extent->args[tile ? 1 : 0]);
    rest = fmt::format("(int)size_min(({}) * {}ll, {} + {}ll)", left, run.inner, run.count, run.vector);
    before = number + " > 0";
  }
  code_.line("const int {} = {};", run.rest, rest);
  code_.line("const bool {} = {};", run.before, before);
}

/// The indices of the point called `point`, counted from the first of the run; `shift` is added to the last one.
void KernelWriter::name_run_point(const tile::Map& map, const ShiftedRun& run, const std::string& point,
                                  const std::string& shift) {
  std::string rest = point;
  for (size_t i = map.axes.size(); i-- > run.first;) {
    const tile::Axis& axis = map.axes[i];
    const bool last = i + 1 == map.axes.size();
    const std::string name = code_.fresh("i"), by = last ? " + " + shift : "";
    if (i == run.first) {
      code_.line("const int {} = {}{};", name, rest, by);
    } else {
      const std::string next = code_.fresh("q");
      code_.line("const int {0} = (int)((u32){1} % {2}u){3}, {4} = (u32){1} / {2}u;", name, rest, bound_of(axis), by,
                 next);
      rest = next;
    }
    // A piece may begin before its row, and reach into the next block.
    bind_index(axis.variable, name, bound_of(axis) + run.vector);
    if (last) names_.ranges[axis.variable->variable].low = -run.vector;
  }
}

/// Names of the piece that begins at start[u]: its first point `at` and what lies before that (`shift`, not positive),
/// its elements `low` to `high` that are there, and how many lie in the first row.
void KernelWriter::open_shifted_piece(const tile::Map& map, const ShiftedRun& run) {
  code_.line("const int at = start[u] > 0 ? start[u] : 0, shift = start[u] - at, low = -shift;");
  code_.line("const int high = {0} - start[u] < {1} ? {0} - start[u] : {1};", run.rest, run.vector);
  if (run.first + 1 == map.axes.size()) {
    code_.line("const int in_row = {};", run.vector);
  } else {
    code_.line("const int in_row = {0} - (int)((u32)at % {0}u) - shift;", run.length);
  }
}

/// Asks for what the piece needs that begins at start[u].
void KernelWriter::request_shifted(const tile::Map& map, const ShiftedRun& run, const std::vector<ShiftedLoad>& loads) {
  const tile::Store& store = map.stores[0];
  const std::string type = type_name(names_.buffer(store.buffer).type);
  for (size_t i = run.first; i < map.axes.size(); ++i) bind_constant(map.axes[i].variable, 0);
  code_.line("{}* const first = {};", type, pointer_to({store.buffer, &store.indices, {}, true}));
  code_.line("start[u] = {0} * {1} - (int)((u64)first / sizeof({2}) % {1});", run.piece, run.vector, type);
  code_.line("if (start[u] < {} && (start[u] >= 0 || !{})) row[u] = first;", run.count, run.before);
  code_.open("if (row[u])");
  expressions_.enter();
  open_shifted_piece(map, run);
  const std::vector<std::string> needed = name_needed(map, run, loads);
  code_.line("const u32 there = ((1u << high) - 1) & ~((1u << low) - 1);");
  code_.line("const u32 mine = in_row < {} ? (1u << in_row) - 1 : ~0u;", run.vector);
  // The part of the piece in its first row, then that in the next one.
  for (const bool next : {false, true}) {
    if (next) code_.open("if (in_row < high)");
    expressions_.enter();
    name_run_point(map, run, next ? "(start[u] + in_row)" : "at", next ? "-in_row" : "shift");
    for (size_t i = 0; i < loads.size(); ++i) {
      code_.line("request_shifted<false>({}{}[u], {}, there{} & {});", next ? "next" : "here", i,
                 pointer_to({loads[i].load->tensor, &loads[i].load->args, loads[i].load, true}), needed[i],
                 next ? "~mine" : "mine");
    }
    expressions_.leave();
    if (next) code_.close();
  }
  expressions_.leave();
  code_.close();
}

/// Names for each load with a condition the bits of the elements for which it holds; C++ to be appended to others.
std::vector<std::string> KernelWriter::name_needed(const tile::Map& map, const ShiftedRun& run,
                                                   const std::vector<ShiftedLoad>& loads) {
  std::vector<std::string> needed(loads.size());
  for (size_t i = 0; i < loads.size(); ++i) {
    if (!loads[i].condition) continue;
    needed[i] = fmt::format(" & needed{}", i);
    code_.line("u32 needed{} = 0;", i);
  }
  if (std::all_of(needed.begin(), needed.end(), [](const std::string& each) { return each.empty(); })) return needed;
  open_shifted(map, run);
  for (size_t i = 0; i < loads.size(); ++i) {
    if (loads[i].condition) code_.line("needed{} |= (u32)({}) << j;", i, expressions_.value(loads[i].condition));
  }
  close_shifted();
  return needed;
}

/// for (j: the elements of a piece), in its first row or the next one
void KernelWriter::open_shifted(const tile::Map& map, const ShiftedRun& run) {
  std::vector<std::string> here, there;
  const auto names = [&](std::vector<std::string>& into) {
    for (size_t i = run.first; i < map.axes.size(); ++i) {
      into.push_back(names_.variables.at(map.axes[i].variable->variable));
    }
  };
  name_run_point(map, run, "at", "shift");
  names(here);
  name_run_point(map, run, "(start[u] + in_row)", "-in_row");
  names(there);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", run.vector));
  for (size_t i = run.first; i < map.axes.size(); ++i) {
    const tile::Axis& axis = map.axes[i];
    const std::string name = code_.fresh("i"), &a = here[i - run.first], &b = there[i - run.first];
    const bool last = i + 1 == map.axes.size();
    code_.line("const int {} = {}(j < in_row ? {} : {});", name, last ? "j + " : "", a, b);
    bind_index(axis.variable, name, bound_of(axis) + run.vector);
    if (last) names_.ranges[axis.variable->variable].low = -run.vector;
  }
  expressions_.enter();
}

void KernelWriter::close_shifted() {
  expressions_.leave();
  code_.close();
}

/// Stores what is there of the piece that begins at start[u].
void KernelWriter::store_shifted(const tile::Map& map, const ShiftedRun& run, const std::vector<ShiftedLoad>& loads) {
  const tile::Store& store = map.stores[0];
  const std::string type = type_name(names_.buffer(store.buffer).type);
  open_shifted_piece(map, run);
  for (size_t i = 0; i < loads.size(); ++i) {
    const std::string shifted = fmt::format("shifted<{}, {}, false>", type_name(loads[i].load->type), run.vector);
    code_.line("Pack<{}, {}> v{} = {}(here{}[u]);", type_name(loads[i].load->type), run.vector, i, shifted, i);
    code_.line("if (in_row < high) take_rest(v{}, {}(next{}[u]), in_row);", i, shifted, i);
  }
  expressions_.enter();
  std::string piece = "v0";
  if (store.value.get() != loads[0].load.get()) {
    piece = "y";
    code_.line("Pack<{}, {}> y;", type, run.vector);
    open_shifted(map, run);
    for (size_t i = 0; i < loads.size(); ++i) expressions_.define(loads[i].load, fmt::format("v{}.at[j]", i));
    code_.line("y.at[j] = {};", expressions_.value(store.value));
    close_shifted();
  }
  const std::string whole = whole_store(store.buffer, run.vector, "row[u] + start[u]", piece);
  code_.line("if (high - low == {}) {};", run.vector, whole);
  code_.line("else write_part(row[u] + start[u], {}, low, high);", piece);
  expressions_.leave();
}

}  // namespace graft::cuda
