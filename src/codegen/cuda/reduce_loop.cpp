// SPDX-License-Identifier: Apache-2.0
// Reductions over axes with known bounds: a thread per point where each has few elements, a group of threads per row
// where elements are neighbours in memory, threads across where the points are. The order is always the same.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kFewElements = 16;

int64_t bound_of(const tile::Axis& axis) { return as_integer(axis.extent).value_or(axis.bound); }

int64_t ceil_quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

int bytes_of(DType type) { return std::max(bit_width(type) / 8, 1); }

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
  if (!is_commutative(reduce.monoid)) return false;
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

/// state (of a row) or states[j] (of columns) = the fold of this thread's pieces of the reduced axes, with the loads of
/// several pieces made before the first is folded.
void KernelWriter::fold_pieces(const tile::Reduce& reduce, const std::vector<std::string>& reduced,
                               const std::vector<PointAccess>& loads, const FoldDeal& deal) {
  const bool columns = static_cast<bool>(deal.across);
  std::vector<int64_t> bounds;
  int64_t pieces = 1, bytes = 4;
  for (const tile::Axis& axis : reduce.reduced) bounds.push_back(bound_of(axis));
  if (!columns) bounds.back() = ceil_quotient(bounds.back(), deal.vector);
  for (const int64_t bound : bounds) pieces *= bound;
  for (const PointAccess& load : loads) {
    bytes = std::max<int64_t>(bytes, (load.wide ? deal.vector : 1) * bytes_of(load.load->type));
  }
  const int64_t turns = ceil_quotient(pieces, deal.group);
  const int64_t at_once = std::clamp<int64_t>(std::min(64 / bytes, turns), 1, 8);
  const std::string first = code_.fresh("x");
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3})", first, deal.member, pieces,
                         deal.group * at_once));
  const auto is_made_first = [&](const PointAccess& load) {
    return load.wide || (deal.vector == 1 && !load.indices->empty());
  };
  for (size_t i = 0; i < loads.size(); ++i) {
    if (!is_made_first(loads[i])) continue;
    code_.line("Pack<{}, {}> v{}[{}];", type_name(loads[i].load->type), loads[i].wide ? deal.vector : 1, i, at_once);
  }
  const auto begin_piece = [&] {
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int u = 0; u < {}; ++u)", at_once));
    std::vector<std::string> inside;
    std::string rest = code_.fresh("x");
    code_.line("const int {} = {} + u * {};", rest, first, deal.group);
    if (at_once > 1) inside.push_back(fmt::format("{} < {}", rest, pieces));
    for (size_t i = bounds.size(); i-- > 0;) {
      const std::string name = code_.fresh("i");
      const bool last = i + 1 == bounds.size();
      const int64_t step = last && !columns ? deal.vector : 1;
      const std::string scaled = step > 1 ? fmt::format(" * {}", step) : "";
      if (i == 0) {
        code_.line("const int {} = {}{};", name, rest, scaled);
      } else {
        const std::string next = code_.fresh("q");
        code_.line("const int {} = (u32){} % {}u{}, {} = (u32){} / {}u;", name, rest, bounds[i], scaled, next, rest,
                   bounds[i]);
        rest = next;
      }
      bind_index(reduce.reduced[i].variable, name, bounds[i] * step);
      const auto exact = as_integer(reduce.reduced[i].extent);
      if (!exact || *exact != bounds[i] * step) inside.push_back(fmt::format("{} < {}", name, reduced[i]));
    }
    code_.open(inside.empty() ? "" : fmt::format("if ({})", fmt::join(inside, " && ")));
  };
  expressions_.enter();
  begin_piece();
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
  begin_piece();
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
  code_.close();
}

/// A power of two of threads for each point.
void KernelWriter::reduce_rows(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                               const std::vector<std::string>& reduced) {
  std::vector<PointAccess> loads = loads_of(reduce), single = loads;
  const int vector = widest_piece(reduce.reduced.back(), loads);
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
  const int vector = widest_piece(axis, loads);
  const std::string condition = vector > 1 ? wide_condition(axis, loads, vector) : "";
  const int64_t most_parts = std::max<int64_t>(1, std::min<int64_t>(elements, threads));
  const int64_t stride = ceil_quotient(points, 16) * 16;
  const int64_t parts_wide = std::min(most_parts, std::max<int64_t>(1, threads / ceil_quotient(points, vector)));
  const int64_t parts_single = std::min(most_parts, std::max<int64_t>(1, threads / points));
  code_.line("State* const partial = (State*)(shared + {});",
             reserve_shared(state_bytes(reduce) * stride *
                            std::max(parts_wide, condition.empty() ? 1 : parts_single)));
  barrier();  // an earlier reduction may still read its partial results
  if (!condition.empty()) code_.line("const bool wide = {};", condition);
  const auto fold = [&](const std::vector<PointAccess>& each_loads, int width, int64_t parts) {
    const int64_t across = ceil_quotient(points, width);
    const std::string name = code_.fresh("i");
    expressions_.enter();
    code_.line("const int {} = threadIdx.x % {} * {}, part = threadIdx.x / {};", name, across, width, across);
    bind_index(axis.variable, name, across * width);
    code_.open(fmt::format("if (part < {} && {} < {})", parts, name, kept[0]));
    code_.line("State states[{}];", width);
    code_.line("#pragma unroll");
    code_.line("for (int j = 0; j < {}; ++j) states[j] = identity;", width);
    fold_pieces(reduce, reduced, each_loads,
                {.member = "part", .group = parts, .vector = width, .across = axis.variable});
    code_.line("#pragma unroll");
    code_.line("for (int j = 0; j < {}; ++j) partial[part * {} + {} + j] = states[j];", width, stride, name);
    code_.close();
    expressions_.leave();
  };
  if (!condition.empty()) code_.open("if (wide)");
  fold(loads, vector, parts_wide);
  if (!condition.empty()) {
    code_.close();
    code_.open("else");
    fold(single, 1, parts_single);
    code_.close();
  }
  barrier();
  code_.line("const int parts = {};", condition.empty() ? std::to_string(parts_wide) :
             fmt::format("wide ? {} : {}", parts_wide, parts_single));
  const std::string name = code_.fresh("i");
  code_.open(fmt::format("for (int {0} = threadIdx.x; {0} < {1}; {0} += {2})", name, kept[0], threads));
  expressions_.enter();
  bind_index(axis.variable, name, points);
  code_.line("State state = partial[{}];", name);
  code_.line("for (int part = 1; part < parts; ++part) state = combine(state, partial[part * {} + {}]);", stride, name);
  write_outputs(reduce, "state");
  expressions_.leave();
  code_.close();
  pending_ = accesses_of(program_, {reduce});
}

}  // namespace graft::cuda
