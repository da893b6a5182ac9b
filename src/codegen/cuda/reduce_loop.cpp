// SPDX-License-Identifier: Apache-2.0
// Reductions over axes with known bounds: a thread per point where each has few elements, a group of threads per row
// where elements are neighbours in memory, threads across where the points are. The order is always the same.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kFewElements = 16;

/// The product of the bounds; 0 when one is not known or the product is large.
int64_t points_of(const std::vector<tile::Axis>& axes) {
  int64_t points = 1;
  for (const tile::Axis& axis : axes) {
    const int64_t bound = bound_of(axis);
    if (bound <= 0 || bound > (int64_t{1} << 30) / points) return 0;
    points *= bound;
  }
  return points;
}

int64_t power_of_two_from(int64_t least) {
  int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

/// What a state takes in memory.
int64_t state_bytes(const tile::Reduce& reduce) {
  int64_t bytes = 0, alignment = 1;
  for (const Expr& lift : reduce.lift) {
    const int64_t width = std::max(bit_width(lift->type) / 8, 1);
    bytes = ceil_quotient(bytes, width) * width + width;
    alignment = std::max(alignment, width);
  }
  return ceil_quotient(bytes, alignment) * alignment;
}

}  // namespace

std::vector<PointAccess> KernelWriter::loads_of(const tile::Reduce& reduce) const {
  tile::Map lifts;
  for (const Expr& lift : reduce.lift) lifts.stores.push_back({-1, {}, lift, ScatterMode::kSet});
  std::vector<PointAccess> loads;
  for (const PointAccess& access : accesses_of_points(lifts)) {
    if (access.load && bit_width(access.load->type) >= 8) loads.push_back(access);
  }
  return loads;
}

/// The elements of a piece of what is folded; 1 when no load takes a whole piece.
int KernelWriter::widest_fold(const tile::Axis& axis, std::vector<PointAccess>& loads) const {
  const int vector = widest_piece(axis, loads);
  const bool wide = std::any_of(loads.begin(), loads.end(), [](const PointAccess& load) { return load.wide; });
  return wide ? vector : 1;
}

bool KernelWriter::dealt_reduce(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                                const std::vector<std::string>& reduced) {
  const int64_t points = points_of(reduce.axes), elements = points_of(reduce.reduced);
  if (points == 0 || elements == 0 || reduce.reduced.empty()) return false;
  // Few elements: a thread for each point, whatever the order.
  if (elements <= kFewElements || (!reduce.monoid.associative && points >= program_.threads / 4)) {
    if (reduce.axes.empty()) return false;
    reduce_points(reduce, kept, reduced);
    return true;
  }
  if (!commutes(reduce.monoid)) return false;
  const int row = reduce.reduced.back().variable->variable;
  const int column = reduce.axes.empty() ? -1 : reduce.axes.back().variable->variable;
  bool along_rows = false, along_columns = false;
  for (const PointAccess& load : loads_of(reduce)) {
    const auto address = names_.address(load.buffer, *load.indices);
    if (!address) continue;
    along_rows |= address->coefficient(row).is(1);
    along_columns |= column >= 0 && address->coefficient(column).is(1);
  }
  const bool columns = along_columns && !along_rows;
  if (columns && points >= program_.threads) {
    reduce_points(reduce, kept, reduced);
  } else if (columns && reduce.axes.size() == 1) {
    reduce_columns(reduce, kept, reduced);
  } else {
    reduce_rows(reduce, kept, reduced);
  }
  return true;
}

/// A thread folds all elements of a point; several points of a thread are folded before the first is stored.
void KernelWriter::reduce_points(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                                 const std::vector<std::string>& reduced) {
  const PointDeal dealt = deal(reduce.axes, 1);
  const int64_t elements = points_of(reduce.reduced);
  int nodes = 0;
  for (const Expr& lift : reduce.lift) nodes += count_nodes(lift);
  const int at_once = turns_at_once(dealt, nodes * std::min<int64_t>(elements, kFewElements), 16);
  const std::string first = code_.fresh("q");
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", first, dealt.turns, at_once));
  code_.line("State states[{}];", at_once);
  for (const char* pass : {"fold", "store"}) {
    const bool folds = pass[0] == 'f';
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int u = 0; u < {}; ++u)", at_once));
    expressions_.enter();
    std::string inside = open_turn(dealt, reduce.axes, kept, fmt::format("({} + u)", first));
    if (dealt.turns % at_once != 0) inside = fmt::format("{} + u < {} && {}", first, dealt.turns, inside);
    if (folds) code_.line("states[u] = identity;");
    code_.open(fmt::format("if ({})", inside));
    if (folds) {
      for (size_t i = 0; i < reduce.reduced.size(); ++i) {
        const std::string name = code_.fresh("i");
        const int64_t bound = bound_of(reduce.reduced[i]);
        if (elements <= kFewElements) code_.line("#pragma unroll");
        code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", name, reduced[i]));
        bind_index(reduce.reduced[i].variable, name, bound);
      }
      fold_one(reduce, "states[u]");
      for (size_t i = 0; i < reduce.reduced.size(); ++i) code_.close();
    } else {
      write_outputs(reduce, "states[u]");
    }
    code_.close();
    expressions_.leave();
    code_.close();
  }
  code_.close();
}

/// for (u: the turns at once) if (there is a piece): the indices of its first element. No extents: all are there.
void KernelWriter::open_piece(const tile::Reduce& reduce, const std::vector<std::string>& reduced, const FoldDeal& deal,
                              const std::string& first, int64_t at_once) {
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int u = 0; u < {}; ++u)", at_once));
  std::vector<std::string> inside;
  std::string rest = code_.fresh("x");
  int64_t pieces = 1;
  for (const int64_t bound : deal.bounds) pieces *= bound;
  code_.line("const int {} = {} + u * {};", rest, first, deal.group);
  if (at_once > 1 && !reduced.empty()) inside.push_back(fmt::format("{} < {}", rest, pieces));
  for (size_t i = deal.bounds.size(); i-- > 0;) {
    const std::string name = code_.fresh("i");
    const int64_t step = i + 1 == deal.bounds.size() && !deal.across ? deal.vector : 1;
    const std::string scaled = step > 1 ? fmt::format(" * {}", step) : "";
    if (i == 0) {
      code_.line("const int {} = {}{};", name, rest, scaled);
    } else {
      const std::string next = code_.fresh("q");
      code_.line("const int {} = (u32){} % {}u{}, {} = (u32){} / {}u;", name, rest, deal.bounds[i], scaled, next, rest,
                 deal.bounds[i]);
      rest = next;
    }
    bind_index(reduce.reduced[i].variable, name, deal.bounds[i] * step);
    const auto exact = as_integer(reduce.reduced[i].extent);
    const bool covers = exact && *exact == deal.bounds[i] * step;
    if (!covers && !reduced.empty()) inside.push_back(fmt::format("{} < {}", name, reduced[i]));
  }
  code_.open(inside.empty() ? "" : fmt::format("if ({})", fmt::join(inside, " && ")));
}

/// The pieces of the folded axes that are there, as C++; empty when several axes end early.
std::string KernelWriter::count_pieces(const tile::Reduce& reduce, const std::vector<std::string>& reduced,
                                       const FoldDeal& deal) {
  int64_t pieces = 1;
  for (const int64_t bound : deal.bounds) pieces *= bound;
  const bool exact = std::all_of(reduce.reduced.begin(), reduce.reduced.end(),
                                 [](const tile::Axis& axis) { return as_integer(axis.extent).has_value(); });
  if (exact) return std::to_string(pieces);
  if (reduce.reduced.size() > 1) return "";
  if (deal.across || deal.vector == 1) return reduced[0];
  return fmt::format("({} + {}) / {}", reduced[0], deal.vector - 1, deal.vector);
}

/// state (of a row) or states[j] (of columns) = the fold of this thread's pieces of the reduced axes, with the loads of
/// several pieces made before the first is folded: as long as all of them are there no condition stands between.
void KernelWriter::fold_pieces(const tile::Reduce& reduce, const std::vector<std::string>& reduced,
                               const std::vector<PointAccess>& loads, FoldDeal deal) {
  constexpr int64_t kMostAtOnce = 16, kMostGuarded = 8;
  int64_t pieces = 1, bytes = 4;
  for (const tile::Axis& axis : reduce.reduced) deal.bounds.push_back(bound_of(axis));
  if (!deal.across) deal.bounds.back() = ceil_quotient(deal.bounds.back(), deal.vector);
  for (const int64_t bound : deal.bounds) pieces *= bound;
  for (const PointAccess& load : loads) {
    bytes = std::max<int64_t>(bytes, (load.wide ? deal.vector : 1) * bytes_of(load.load->type));
  }
  const int64_t turns = ceil_quotient(pieces, deal.group);
  const int64_t at_once = std::clamp<int64_t>(std::min(64 / bytes, turns), 1, kMostAtOnce);
  const std::string first = code_.fresh("x"), count = count_pieces(reduce, reduced, deal);
  code_.line("int {} = {};", first, deal.member);
  const bool many = !count.empty() && pieces >= deal.group * at_once;
  if (many) {
    code_.line("#pragma unroll 1");
    code_.open(fmt::format("for (; {0} + {1} < {2}; {0} += {3})", first, deal.group * (at_once - 1), count,
                           deal.group * at_once));
    fold_batch(reduce, {}, loads, deal, first, at_once);
    code_.close();
  }
  if (many && count == std::to_string(pieces) && pieces % (deal.group * at_once) == 0) return;
  const int64_t guarded = std::min(at_once, kMostGuarded);
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (; {0} < {1}; {0} += {2})", first, pieces, deal.group * guarded));
  fold_batch(reduce, reduced, loads, deal, first, guarded);
  code_.close();
}

/// Loads `at_once` pieces from `first` on, then folds them.
void KernelWriter::fold_batch(const tile::Reduce& reduce, const std::vector<std::string>& reduced,
                              const std::vector<PointAccess>& loads, const FoldDeal& deal, const std::string& first,
                              int64_t at_once) {
  const bool columns = static_cast<bool>(deal.across);
  const auto is_made_first = [&](const PointAccess& load) {
    return load.wide || (deal.vector == 1 && !load.indices->empty());
  };
  for (size_t i = 0; i < loads.size(); ++i) {
    if (!is_made_first(loads[i])) continue;
    code_.line("Pack<{}, {}> v{}[{}];", type_name(loads[i].load->type), loads[i].wide ? deal.vector : 1, i, at_once);
  }
  expressions_.enter();
  open_piece(reduce, reduced, deal, first, at_once);
  for (size_t i = 0; i < loads.size(); ++i) {
    if (loads[i].wide) {
      const std::string pack = fmt::format("Pack<{}, {}>", type_name(loads[i].load->type), deal.vector);
      code_.line("v{}[u] = *(const {}*)({});", i, pack, pointer_to(loads[i]));
    } else if (is_made_first(loads[i])) {
      code_.line("v{}[u].at[0] = {};", i, expressions_.element(loads[i].buffer, *loads[i].indices));
    }
  }
  code_.close();
  code_.close();
  expressions_.leave();
  expressions_.enter();
  open_piece(reduce, reduced, deal, first, at_once);
  const Expr along = columns ? deal.across : reduce.reduced.back().variable;
  if (deal.vector > 1) {
    const std::string start = names_.variables.at(along->variable), point = code_.fresh("i");
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int j = 0; j < {}; ++j)", deal.vector));
    code_.line("const int {} = {} + j;", point, start);
    names_.variables[along->variable] = point;
    expressions_.enter();
    for (size_t i = 0; i < loads.size(); ++i) {
      if (loads[i].wide) expressions_.define(loads[i].load, fmt::format("v{}[u].at[j]", i));
    }
    fold_one(reduce, columns ? "states[j]" : "state");
    expressions_.leave();
    names_.variables[along->variable] = start;
    code_.close();
  } else {
    for (size_t i = 0; i < loads.size(); ++i) {
      if (is_made_first(loads[i])) expressions_.define(loads[i].load, fmt::format("v{}[u].at[0]", i));
    }
    fold_one(reduce, columns ? "states[0]" : "state");
  }
  code_.close();
  code_.close();
  expressions_.leave();
}

/// A power of two of threads for each point.
void KernelWriter::reduce_rows(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                               const std::vector<std::string>& reduced) {
  std::vector<PointAccess> loads = loads_of(reduce), single = loads;
  const int vector = widest_fold(reduce.reduced.back(), loads);
  const int64_t threads = program_.threads, points = points_of(reduce.axes);
  const int64_t pieces = ceil_quotient(points_of(reduce.reduced), vector);
  int64_t group = power_of_two_from(ceil_quotient(threads, points) / 2 + 1);
  group = std::max(group, std::min<int64_t>(32, power_of_two_from(pieces)));
  while (group > threads || (group > 32 && threads % group != 0)) group /= 2;
  const int64_t side_by_side = threads / group, turns = ceil_quotient(points, side_by_side);
  if (group > 32) {
    code_.line("State* const partial = (State*)(shared + {});",
               reserve_shared(state_bytes(reduce) * (threads / 32)));
  }
  const std::string turn = code_.fresh("q"), row = code_.fresh("y");
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", turn, turns));
  expressions_.enter();
  code_.line("const int {} = threadIdx.x / {} + {} * {}, member = threadIdx.x % {};", row, group, turn, side_by_side,
             group);
  std::vector<std::string> inside;
  if (turns * side_by_side > points) inside.push_back(fmt::format("{} < {}", row, points));
  std::string rest = row;
  for (size_t i = reduce.axes.size(); i-- > 0;) {
    const int64_t bound = bound_of(reduce.axes[i]);
    const std::string name = code_.fresh("i");
    if (i == 0) {
      code_.line("const int {} = {};", name, rest);
    } else {
      const std::string next = code_.fresh("q");
      code_.line("const int {} = (u32){} % {}u, {} = (u32){} / {}u;", name, rest, bound, next, rest, bound);
      rest = next;
    }
    bind_index(reduce.axes[i].variable, name, bound);
    if (!as_integer(reduce.axes[i].extent)) inside.push_back(fmt::format("{} < {}", name, kept[i]));
  }
  code_.line("const bool inside = {};", inside.empty() ? "true" : fmt::format("{}", fmt::join(inside, " && ")));
  code_.line("State state = identity;");
  code_.open("if (inside)");
  const FoldDeal wide{.member = "member", .group = group, .vector = vector, .across = {}};
  const std::string condition = vector > 1 ? wide_condition(reduce.reduced.back(), loads, vector) : "";
  if (!condition.empty()) code_.open(fmt::format("if ({})", condition));
  fold_pieces(reduce, reduced, loads, wide);
  if (!condition.empty()) {
    code_.close();
    code_.open("else");
    fold_pieces(reduce, reduced, single, {.member = "member", .group = group, .vector = 1, .across = {}});
    code_.close();
  }
  code_.close();
  if (group <= 32) {
    code_.line("state = group_fold<{}>(state, combine);", group);
  } else {
    code_.line("state = groups_fold<{}, {}>(state, combine, partial);", threads, group);
  }
  code_.open("if (inside && member == 0)");
  write_outputs(reduce, "state");
  code_.close();
  expressions_.leave();
  code_.close();
}

/// Threads across the points, which are neighbours in memory; the parts of the elements are folded in order at last.
void KernelWriter::reduce_columns(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                                  const std::vector<std::string>& reduced) {
  const tile::Axis& axis = reduce.axes.back();
  std::vector<PointAccess> loads = loads_of(reduce), single = loads;
  const int64_t threads = program_.threads, points = bound_of(axis), elements = points_of(reduce.reduced);
  const int vector = widest_fold(axis, loads);
  const std::string condition = vector > 1 ? wide_condition(axis, loads, vector) : "";
  const int64_t most_parts = std::max<int64_t>(1, std::min<int64_t>(elements, threads));
  const int64_t stride = ceil_quotient(points, 16) * 16;
  const auto deal_of = [&](int64_t width) {
    ColumnDeal deal{.width = width, .across = ceil_quotient(points, width), .stride = stride};
    deal.parts = std::min(most_parts, std::max<int64_t>(1, threads / deal.across));
    // The parts of a warp are folded by its lanes.
    deal.lanes = deal.across < 32 && 32 % deal.across == 0 && threads % 32 == 0;
    return deal;
  };
  const ColumnDeal wide = deal_of(vector), narrow = deal_of(1);
  const int64_t rows = std::max(wide.rows(threads), condition.empty() ? 1 : narrow.rows(threads));
  code_.line("State* const partial = (State*)(shared + {});", reserve_shared(state_bytes(reduce) * stride * rows));
  barrier();  // an earlier reduction may still read its partial results
  if (!condition.empty()) {
    code_.line("const bool wide = {};", condition);
    code_.open("if (wide)");
  }
  fold_columns(reduce, kept, reduced, loads, wide);
  if (!condition.empty()) {
    code_.close();
    code_.open("else");
    fold_columns(reduce, kept, reduced, single, narrow);
    code_.close();
  }
  barrier();
  code_.line("const int parts = {};", condition.empty() ? std::to_string(wide.rows(threads)) :
             fmt::format("wide ? {} : {}", wide.rows(threads), narrow.rows(threads)));
  const std::string name = code_.fresh("i");
  code_.open(fmt::format("for (int {0} = threadIdx.x; {0} < {1}; {0} += {2})", name, kept[0], threads));
  expressions_.enter();
  bind_index(axis.variable, name, points);
  code_.line("State state = partial[{}];", name);
  code_.line("#pragma unroll 8");
  code_.line("for (int part = 1; part < parts; ++part) state = combine(state, partial[part * {} + {}]);", stride, name);
  write_outputs(reduce, "state");
  expressions_.leave();
  code_.close();
  pending_ = accesses_of(program_, {reduce});
}

/// partial[row] = what each thread, or each warp, folds of its columns.
void KernelWriter::fold_columns(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                                const std::vector<std::string>& reduced, const std::vector<PointAccess>& loads,
                                const ColumnDeal& deal) {
  const tile::Axis& axis = reduce.axes.back();
  const std::string name = code_.fresh("i");
  expressions_.enter();
  code_.line("const int {} = threadIdx.x % {} * {}, part = threadIdx.x / {};", name, deal.across, deal.width,
             deal.across);
  bind_index(axis.variable, name, deal.across * deal.width);
  code_.line("const bool inside = part < {} && {} < {};", deal.parts, name, kept[0]);
  code_.line("State states[{}];", deal.width);
  code_.line("#pragma unroll");
  code_.line("for (int j = 0; j < {}; ++j) states[j] = identity;", deal.width);
  code_.open("if (inside)");
  fold_pieces(reduce, reduced, loads,
              {.member = "part", .group = deal.parts, .vector = static_cast<int>(deal.width), .across = axis.variable});
  code_.close();
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", deal.width));
  if (deal.lanes) {
    code_.line("#pragma unroll");
    code_.line("for (int distance = {}; distance < 32; distance *= 2)", deal.across);
    code_.line("  states[j] = combine(states[j], shuffle(states[j], distance, false));");
    code_.line("if (lane < {}) partial[warp * {} + {} + j] = states[j];", deal.across, deal.stride, name);
  } else {
    code_.line("if (inside) partial[part * {} + {} + j] = states[j];", deal.stride, name);
  }
  code_.close();
  expressions_.leave();
}

}  // namespace graft::cuda
