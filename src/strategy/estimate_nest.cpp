// SPDX-License-Identifier: Apache-2.0
#include "strategy/estimate_nest.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "fuse/rewrite_region.h"
#include "strategy/region_work.h"
#include "target/peak.h"
#include "strategy/nest_direction.h"

namespace graft {
namespace {

/// Simple operations in a clock, as vectors, with elements gathered one by one, and without vectors.
constexpr double kVectorShare = 0.25;      // of what the units could: maps
constexpr double kFoldShare = 0.15;        // the same of folds, which read for each operation
constexpr double kGuardedShare = 0.03;     // of folds over windows, whose borders are asked for at each element
constexpr double kGathered = 0.2, kScalar = 0.1, kShortRows = 0.4;

/// How a load goes along a variable.
enum class Step : uint8_t { kStays, kNext, kFar };

class NestEstimate {
 public:
  NestEstimate(const Region& region, const Bindings& typical, const Target& target)
      : region_(region), typical_(typical), target_(target), common_(common_axes(region)),
        direction_(tile::nest_direction(region, common_, target.vector_bits / 32)) {}

  /// Clocks of one thread.
  double clocks() const {
    double sum = 0;
    for (const Form& form : region_.forms) {
      const RegionWork work = spelled_work(form, typical_);
      sum += (work.elements + work.products / 2) / rate_of(form) + work.points * clocks_of_far_loads(form);
    }
    return sum;
  }

 private:
  double lanes() const { return target_.vector_bits / 32.0; }
  double vectors(double share) const { return share * 2 * lanes(); }

  double rate_of(const Form& form) const {
    if (std::holds_alternative<Compute>(form)) return vectors(kVectorShare);
    const auto* reduce = std::get_if<Reduce>(&form);
    if (!reduce) return kScalar * lanes() / 4;
    if (goes_by_rows(*reduce) || goes_by_columns(form, *reduce)) {
      return vectors(is_guarded(*reduce) ? kGuardedShare : kFoldShare);
    }
    if (is_wide(*reduce)) return kGathered;
    const bool near = !reduce->reduced.empty() && all_near(form, reduce->reduced.back().variable->variable, false);
    return near ? kShortRows : kScalar;
  }

  /// False for a fold of one element, whose axes are gone.
  bool is_wide(const Reduce& reduce) const {
    return !reduce.reduced.empty() && at(reduce.reduced.back().extent) >= lanes() / 2;
  }

  bool goes_by_rows(const Reduce& reduce) const {
    return is_wide(reduce) && all_near(reduce, reduce.reduced.back().variable->variable, false);
  }

  bool goes_by_columns(const Form& form, const Reduce& reduce) const {
    const std::vector<Axis> own = own_axes(form);
    return !own.empty() && all_near(form, own.back().variable->variable, true) &&
           stores_near(reduce, own.back().variable->variable);
  }

  /// The axis along which a form is gone through innermost, or nothing.
  std::optional<Axis> direction_of(const Form& form) const {
    const auto* reduce = std::get_if<Reduce>(&form);
    const std::vector<Axis> own = own_axes(form);
    if (reduce && !reduce->reduced.empty() && !goes_by_columns(form, *reduce)) return reduce->reduced.back();
    return own.empty() ? std::nullopt : std::optional(own.back());
  }

  /// Whether results lie side by side along a variable of a fold.
  bool stores_near(const Reduce& reduce, int variable) const {
    const size_t rank = reduce.axes.size();
    const bool output = std::find(region_.outputs.begin(), region_.outputs.end(), reduce.outputs[0]) !=
                        region_.outputs.end();
    for (size_t d = 0; d < rank; ++d) {
      if (reduce.axes[d].variable->variable == variable) return d + 1 == rank || !output;
    }
    return false;
  }

  static bool is_guarded(const Reduce& reduce) {
    bool found = false;
    for (const Expr& lift : reduce.lift) {
      for_each(lift, [&](const Expr& node) { found = found || is_call(node, Intrinsic::kSelect); });
    }
    return found;
  }

  double at(const Size& size) const { return std::max(1.0, size_at(size, typical_)); }

  /// Axes that a grid point goes over, the one that lanes are along last.
  std::vector<Axis> own_axes(const Form& form) const {
    std::vector<Axis> own;
    const Axis* lane = nullptr;
    for (const Axis& axis : axes_of(form)) {
      if (is_lane(axis)) lane = &axis;
      if (!is_common(axis)) own.push_back(axis);
    }
    if (lane) own.push_back(*lane);
    return own;
  }

  /// Whether a grid point holds one element along a dimension of an intermediate tensor.
  bool is_dropped(int tensor, size_t d) const {
    const auto among = [&](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), tensor) != list.end();
    };
    if (among(region_.inputs) || among(region_.outputs)) return false;
    for (const Form& form : region_.forms) {
      if (!among_defined(form, tensor) || d >= axes_of(form).size()) continue;
      return is_common(axes_of(form)[d]) && !is_lane(axes_of(form)[d]);
    }
    return false;
  }

  static bool among_defined(const Form& form, int tensor) {
    const std::vector<int> defined = defined_tensors(form);
    return std::find(defined.begin(), defined.end(), tensor) != defined.end();
  }

  bool is_common(const Axis& axis) const {
    return std::any_of(common_.begin(), common_.end(), [&](const Axis& other) {
      return other.variable->variable == axis.variable->variable;
    });
  }

  bool is_lane(const Axis& axis) const {
    return direction_.columns && common_.back().variable->variable == axis.variable->variable;
  }

  Step step_of(const ExprNode& load, int variable) const {
    // Weights of a window are laid along the lanes.
    if (direction_.columns && direction_.weights.contains(&load)) {
      const bool goes = std::any_of(load.args.begin(), load.args.end(),
                                    [&](const Expr& index) { return uses_variable(index, variable); });
      return goes ? Step::kNext : Step::kStays;
    }
    const Shape& shape = region_.tensors[load.tensor].shape;
    double stride = 0, inner = 1;
    for (size_t d = load.args.size(); d-- > 0;) {
      if (uses_variable(load.args[d], variable)) {
        const auto index = affine(load.args[d]);
        if (!index) return Step::kFar;
        stride += std::abs(size_at(index->coefficient(variable), typical_)) * inner;
      }
      if (!is_dropped(load.tensor, d)) inner *= at(shape[d]);
    }
    const bool of_lanes = direction_.columns && common_.back().variable->variable == variable;
    const double near = of_lanes ? static_cast<double>(tile::kNearLanes) : 1;
    return stride == 0 ? Step::kStays : stride <= near ? Step::kNext : Step::kFar;
  }

  /// Whether all loads of a form stay or go to the next element along a variable; one of them goes, if that is asked.
  bool all_near(const Form& form, int variable, bool goes) const {
    bool near = true, next = false;
    for_each_load(form, [&](const Expr& load) {
      const Step step = step_of(*load, variable);
      near = near && step != Step::kFar;
      next = next || step == Step::kNext;
    });
    return near && (next || !goes);
  }

  /// Clocks at each point for elements that are read out of order.
  double clocks_of_far_loads(const Form& form) const {
    const std::optional<Axis> along = direction_of(form);
    double clocks = 0;
    if (!along) return clocks;
    for_each_load(form, [&](const Expr& load) {
      if (step_of(*load, along->variable->variable) == Step::kFar) clocks += clocks_of_line(form, *load);
    });
    return clocks;
  }

  /// By the cache that holds what a grid point reads, in whole lines, if the next one wants the rest of them; otherwise
  /// by the one that holds the tensor.
  double clocks_of_line(const Form& form, const ExprNode& load) const {
    constexpr double kLine = 64, kNearCache = 5, kMemory = 16;
    const TensorDecl& tensor = region_.tensors[load.tensor];
    const bool stored = is_input(region_, load.tensor);
    double bytes = stored ? size_at(element_count(tensor.shape), typical_) * bit_width(tensor.type) / 8 : 0;
    if (!common_.empty() && step_of(load, common_.back().variable->variable) == Step::kNext) {
      double lines = 1;
      for (const auto& axes : {own_axes(form), inner_axes_of(form)}) {
        for (const Axis& axis : axes) lines *= uses(load, axis) ? at(axis.extent) : 1;
      }
      bytes = std::min(bytes, lines * kLine);
    }
    if (bytes <= static_cast<double>(target_.l1_bytes)) return std::holds_alternative<Compute>(form) ? 1 : 0;
    return bytes <= static_cast<double>(target_.l2_bytes) / 2 ? kNearCache : kMemory;
  }

  static bool uses(const ExprNode& load, const Axis& axis) {
    return std::any_of(load.args.begin(), load.args.end(),
                       [&](const Expr& index) { return uses_variable(index, axis.variable->variable); });
  }

  const Region& region_;
  const Bindings& typical_;
  const Target& target_;
  std::vector<Axis> common_;
  tile::NestDirection direction_;
};

}  // namespace

double nest_thread_seconds(const Region& region, const Bindings& typical, const Target& target) {
  const double clock = peak_of(target).instructions / (std::max(1, target.threads) * 2 * target.vector_bits / 32.0);
  return NestEstimate(region, typical, target).clocks() / clock;
}

}  // namespace graft
