// SPDX-License-Identifier: Apache-2.0
#include "tile/block_rules.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace graft::tile {
namespace {

constexpr int64_t kMostStaged = 64 << 10;  // bytes of a tile
constexpr int64_t kLeastSide = 4;
constexpr int64_t kMostBesides = 8;  // points of a thread beside each other

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

/// The most points of a stream's thread down the sliding axis: they are written out.
int64_t most_down(const ThreadPoints& points) {
  constexpr int64_t kMostDown = 16, kMostPoints = 64;
  return std::clamp<int64_t>(kMostPoints / (points.besides * points.vector), 1, kMostDown);
}

/// Finds the points with the fewest instructions for each, as far as registers hold what is read.
class Cheapest {
 public:
  /// Of `bound` points, in blocks of so many threads; 0: it is open how many.
  Cheapest(const WindowReads& reads, int64_t bound, int64_t threads = 0)
      : reads_(reads), bound_(bound), threads_(threads) {}

  void consider(const ThreadPoints& points) {
    const int64_t together = points.besides * points.vector;
    const int64_t columns = reads_.columns + (points.besides - 1) * reads_.columns_step;
    const int64_t places = columns * (reads_.places + (points.vector - 1) * reads_.places_step);
    const int64_t kept = reads_.rows * places + reads_.kept * points.vector;
    const int64_t registers = registers_of_stream(reads_, points, 1);
    if (together > 1 && (reads_.streams ? registers > kMostRegisters : kept > kMostLive)) return;
    double read = static_cast<double>(reads_.rows_step * places) / static_cast<double>(together);
    if (reads_.streams) read *= 1 + static_cast<double>(reads_.rows - reads_.rows_step) / rows_down(points);
    const double load = reads_.streams ? kStreamLoad : kLoad;
    const double element = reads_.converts ? 1 : reads_.streams ? kWord : 0;
    double stored = reads_.streams ? kStreamStore / static_cast<double>(points.vector) : 0;
    if (reads_.streams && reads_.converts && points.vector == 1) stored += kHalfAlone;
    const double instructions = read * (load / static_cast<double>(points.vector) + element) + stored + kOthers +
                                static_cast<double>(reads_.rows * reads_.columns * reads_.places);
    const auto made = static_cast<double>((bound_ + points.besides - 1) / points.besides * points.besides);
    const double idle = made / static_cast<double>(bound_);
    double cost = 0;
    if (reads_.streams) {
      const int64_t resident = std::min(resident_threads(registers), kManyThreads);
      if (resident == 0) return;
      // What is not there is not read either: it takes time, but no memory's.
      cost = instructions * std::sqrt(idle) / std::pow(static_cast<double>(resident), kWaits);
    } else {
      cost = instructions * idle + kLive * static_cast<double>(kept);
    }
    if (!is_empty() && cost >= least_) return;
    least_ = cost, best_ = points;
  }

  bool is_empty() const { return least_ == 0; }
  const ThreadPoints& points() const { return best_; }

 private:
  /// Rows from the first row of a thread's first point to that of the point after its last one.
  double rows_down(const ThreadPoints& points) const {
    return static_cast<double>(reads_.rows_step * most_down(points));
  }

  /// Of a multiprocessor.
  int64_t resident_threads(int64_t registers) const {
    constexpr int64_t kAll = 1 << 16;
    return threads_ > 0 ? kAll / (threads_ * ((registers + 7) / 8 * 8)) * threads_ : kAll / registers;
  }

  static constexpr int64_t kMostLive = 72;  // elements in registers
  static constexpr int64_t kMostRegisters = 112;  // of a stream
  static constexpr int64_t kManyThreads = 1170;   // on a multiprocessor, of which some work while others wait
  static constexpr double kLoad = 3, kLive = 0.05, kOthers = 6;  // instructions of a load; for a register; for a result
  static constexpr double kStreamLoad = 1.5;  // addresses are those of the row before, and only edges have conditions
  static constexpr double kStreamStore = 2, kWord = 1;  // of a piece; for a word that is loaded
  static constexpr double kHalfAlone = 1.5;  // for a result that is not made with its neighbour
  static constexpr double kWaits = 0.25;  // how the time falls with the threads of a multiprocessor

  const WindowReads& reads_;
  int64_t bound_, threads_;
  ThreadPoints best_;
  double least_ = 0;
};

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
  Cheapest cheapest(reads, bound);
  for (int64_t besides = 1; besides <= std::min(bound, kMostBesides); ++besides) {
    for (int64_t width = vector; width >= 1; width /= 2) cheapest.consider({besides, width});
  }
  return cheapest.points();
}

ThreadPoints points_of_block(const WindowReads& reads, int64_t bound, int64_t vector, int64_t row, int64_t threads) {
  Cheapest cheapest(reads, bound, threads);
  for (int64_t width = vector; width >= 1; width /= 2) {
    const int64_t groups = std::min(bound, threads / ((row + width - 1) / width));
    if (groups > 0) cheapest.consider({(bound + groups - 1) / groups, width});
  }
  return cheapest.is_empty() ? points_of_thread(reads, bound, vector) : cheapest.points();
}

int64_t points_down(const WindowReads& reads, const ThreadPoints& points, int64_t extent, int64_t most) {
  int64_t best = 1, least = 0;
  for (int64_t down = 1; down <= std::min({extent, most, most_down(points)}); ++down) {
    const int64_t rows = (extent + down - 1) / down * (down * reads.rows_step + reads.rows - reads.rows_step);
    if (least == 0 || rows < least) least = rows, best = down;
  }
  return best;
}

int64_t registers_of_stream(const WindowReads& reads, const ThreadPoints& points, int64_t ahead) {
  constexpr int64_t kOthers = 16;
  const int64_t open = (reads.rows + reads.rows_step - 1) / reads.rows_step;  // windows that a row lies in
  const int64_t kept = reads.kept > 0 ? reads.kept + 1 : 0;
  const int64_t columns = reads.columns + (points.besides - 1) * reads.columns_step;
  const int64_t words = reads.converts ? (points.vector + 1) / 2 : points.vector;
  return (open * points.besides + kept) * points.vector + columns * (points.vector + ahead * words) + kOthers;
}

}  // namespace graft::tile
