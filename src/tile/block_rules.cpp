// SPDX-License-Identifier: Apache-2.0
#include "tile/block_rules.h"

#include <algorithm>
#include <set>

namespace graft::tile {
namespace {

constexpr int64_t kMostStaged = 64 << 10;  // bytes of a tile
constexpr int64_t kLeastSide = 4;

void collect_loads(const Expr& e, std::set<const ExprNode*>& seen, std::vector<Expr>& loads) {
  if (!seen.insert(e.get()).second) return;
  const size_t arguments = is_call(e, Intrinsic::kSelect) ? 1 : e->args.size();
  for (size_t i = 0; i < arguments; ++i) collect_loads(e->args[i], seen, loads);
  if (e->kind == ExprKind::kLoad) loads.push_back(e);
}

/// Whether other axes of the reduction take part in a condition.
bool uses_other_axes(const Reduce& reduce, const Expr& condition) {
  for (size_t i = 1; i < reduce.reduced.size(); ++i) {
    if (uses_variable(condition, reduce.reduced[i].variable->variable)) return true;
  }
  for (const Axis& kept : reduce.axes) {
    if (uses_variable(condition, kept.variable->variable)) return true;
  }
  return false;
}

}  // namespace

std::vector<Expr> loads_at_every_point(const Expr& e) {
  std::set<const ExprNode*> seen;
  std::vector<Expr> loads;
  collect_loads(e, seen, loads);
  return loads;
}

int axis_of_neighbours(const Program& program, const std::vector<Axis>& axes, const Expr& load) {
  const Buffer& buffer = program.buffers[load->tensor];
  if (buffer.scope != Scope::kGlobal || bit_width(buffer.type) < 8 || axes.size() < 2) return -1;
  Affine address;
  for (size_t d = 0; d < load->args.size(); ++d) {
    const auto index = affine(load->args[d]);
    if (!index) return -1;
    for (const auto& [variable, coefficient] : index->coefficients) {
      Size& sum = address.coefficients.try_emplace(variable, 0).first->second;
      sum = sum + coefficient * buffer.strides[d];
    }
  }
  const auto coefficient = [&](const Axis& axis) { return address.coefficient(axis.variable->variable); };
  if (coefficient(axes.back()).is(0) || coefficient(axes.back()).is(1)) return -1;
  int along = -1;
  int64_t points = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].bound == 0) return -1;
    points *= axes[i].bound;
    if (coefficient(axes[i]).is(1)) along = static_cast<int>(i);
  }
  const bool worth = along >= 0 && axes[along].bound >= kLeastSide && axes.back().bound >= kLeastSide;
  return worth && points * bit_width(buffer.type) / 8 <= kMostStaged ? along : -1;
}

void shorten_guarded(Reduce& reduce) {
  if (reduce.reduced.empty() || reduce.lift[0]->args.empty()) return;
  Axis& axis = reduce.reduced[0];
  const int variable = axis.variable->variable;
  const Expr condition = reduce.lift[0]->args[0];
  if (!is_call(condition, Intrinsic::kLt) || uses_other_axes(reduce, condition)) return;
  for (size_t i = 0; i < reduce.lift.size(); ++i) {
    const Expr& lift = reduce.lift[i];
    if (!is_call(lift, Intrinsic::kSelect) || !equal(lift->args[0], condition)) return;
    if (!equal(lift->args[2], reduce.monoid.identity[i])) return;
  }
  const auto place = affine(condition->args[0]);
  if (!place || !place->coefficient(variable).is(1) || uses_variable(condition->args[1], variable)) return;
  const Expr start = substitute(condition->args[0], {{variable, make_index(0)}});
  axis.extent = max(min(axis.extent, condition->args[1] - start), make_index(0));
  for (Expr& lift : reduce.lift) lift = lift->args[1];
}

ThreadPoints points_of_thread(const WindowReads& reads, int64_t bound, int64_t vector) {
  constexpr int64_t kMostBesides = 8, kMostLive = 72;  // elements in registers
  constexpr double kLoad = 3, kLive = 0.05, kOthers = 6;  // instructions of a load; for a register; for a result
  ThreadPoints best;
  double least = 0;
  for (int64_t besides = 1; besides <= std::min(bound, kMostBesides); ++besides) {
    for (int64_t width = vector; width >= 1; width /= 2) {
      const int64_t columns = reads.columns + (besides - 1) * reads.columns_step;
      const int64_t places = columns * (reads.places + (width - 1) * reads.places_step);
      const int64_t live = reads.rows * places + reads.kept * width;
      if (live > kMostLive && besides * width > 1) continue;
      const double read = static_cast<double>(reads.rows_step * places) / static_cast<double>(besides * width);
      const double instructions = read * (kLoad / static_cast<double>(width) + (reads.converts ? 1 : 0)) +
                                  static_cast<double>(reads.rows * reads.columns * reads.places) + kOthers;
      const auto points = static_cast<double>((bound + besides - 1) / besides * besides);
      const double cost = instructions * points / static_cast<double>(bound) + kLive * static_cast<double>(live);
      if (least != 0 && cost >= least) continue;
      least = cost, best = {besides, width};
    }
  }
  return best;
}

}  // namespace graft::tile
