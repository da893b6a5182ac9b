// SPDX-License-Identifier: Apache-2.0
#include "plan/estimate_ways.h"

#include <algorithm>

#include "fuse/rewrite_region.h"
#include "plan/roofline.h"
#include "tile/schedule.h"

namespace graft {
namespace {

/// How well a way uses what a target has.
struct Use {
  double operations;  ///< of a thread in a clock
  double start;       ///< seconds before the first
};

constexpr double kClock = 2.5e9, kBandwidth = 10e9;  // of a thread: clocks and bytes in a second
constexpr double kStart = 1e-6, kLibraryStart = 4e-6;
/// Operations of a thread in a clock where every element is folded into its sum one by one.
constexpr double kFolding = 0.5;

/// Operations of a thread in a clock: two units that multiply and add a vector each.
double peak_of(const Target& target) { return 4.0 * target.vector_bits / 32; }

/// Whether something is folded element by element: sums over windows, whose elements lie where several axes say and
/// which borders cut, and what has an order.
bool folds_by_elements(const Region& region) {
  bool found = false;
  for (const Form& form : region.forms) {
    if (std::holds_alternative<Compute>(form)) continue;
    found = found || !std::holds_alternative<Reduce>(form);
    for_each_expr(form, [&](const Expr& e) {
      for_each(e, [&](const Expr& node) {
        if (node->kind != ExprKind::kLoad) return;
        for (const Expr& index : node->args) {
          found = found || (index->kind != ExprKind::kVariable && index->kind != ExprKind::kConstant);
        }
      });
    });
  }
  return found;
}

/// A micro-kernel keeps its sums in registers, a library has one for most shapes, and a nest goes by vectors along its
/// common axes where it can.
Use use_of(const Region& region, const Way& way, const Target& target) {
  constexpr double kTiled = 0.6, kLibrary = 0.4, kVectors = 0.125;
  if (!way.library.empty()) return {kLibrary * peak_of(target), kLibraryStart};
  const bool is_nest = std::holds_alternative<tile::NestSchedule>(tile::parse_schedule(way.schedule));
  if (!is_nest) return {kTiled * peak_of(target), kStart};
  return {folds_by_elements(region) ? kFolding : kVectors * peak_of(target), kStart};
}

double seconds_of(const Region& region, const Use& use, const Bindings& typical, const Target& target) {
  const double threads = std::max(1, target.threads);
  const auto operations = static_cast<double>(operations_of(region).evaluate(typical));
  const auto bytes = static_cast<double>(bytes_of(region).evaluate(typical));
  return use.start + std::max(operations / (use.operations * kClock), bytes / kBandwidth) / threads;
}

}  // namespace

double least_seconds(const Region& region, const Bindings& typical, const Target& target) {
  if (target.kind == TargetKind::kCpu) return seconds_of(region, {peak_of(target), 0}, typical, target);
  // Roughly: ten operations in the time in which a byte is moved.
  constexpr double kBytes = 1e12;
  return (static_cast<double>(operations_of(region).evaluate(typical)) / 10 +
          static_cast<double>(bytes_of(region).evaluate(typical))) /
         kBytes;
}

double estimated_seconds(const Region& region, const Way& way, const Bindings& typical, const Target& target) {
  if (target.kind == TargetKind::kCpu) return seconds_of(region, use_of(region, way, target), typical, target);
  return 2 * least_seconds(region, typical, target);
}

}  // namespace graft
