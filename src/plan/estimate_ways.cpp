// SPDX-License-Identifier: Apache-2.0
#include "plan/estimate_ways.h"

#include <algorithm>
#include <cmath>

#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"
#include "plan/estimate_nest.h"
#include "target/peak.h"
#include "tile/schedule.h"

namespace graft {
namespace {

/// How well a way uses what a target has: the shares of its peaks that it reaches, and seconds before the first.
struct Use {
  double products, elements, bytes;
  double start;
};

double value_of(const Size& size, const Bindings& typical) {
  return std::max<double>(1, static_cast<double>(size.evaluate(typical)));
}

double extent_of(const std::vector<Axis>& axes, const Bindings& typical) {
  double extent = 1;
  for (const Axis& axis : axes) extent *= value_of(axis.extent, typical);
  return extent;
}

/// The region's product of matrices, or null.
const Reduce* matrix_product(const Region& region) {
  for (const Form& form : region.forms) {
    const auto* reduce = std::get_if<Reduce>(&form);
    if (reduce && is_matrix_product(*reduce)) return reduce;
  }
  return nullptr;
}

/// Operations in a second of the units that multiply the region's operands.
double product_peak(const Region& region, const Target& target, const Peak& peak) {
  const Reduce* reduce = matrix_product(region);
  if (!reduce || target.kind == TargetKind::kCpu) return peak.operations;
  const Expr product = summed_product(*reduce);
  const DType a = unwidened(product->args[0])->type, b = unwidened(product->args[1])->type;
  if (const ContractUnit* unit = best_unit(target, a, b, reduce->lift[0]->type)) return peak.half * unit->rate;
  return region.tf32 && multiplies_tf32(target) ? peak.half / 2 : peak.operations;
}

/// The share of tiles of `tile` elements that an axis fills.
double filled(double extent, double tile) { return extent / (std::ceil(extent / tile) * tile); }

/// Seconds in which a thread each gathers the right operand one by one: a window whose lanes are not side by side.
double seconds_of_gathering(const Contraction& contraction, const Bindings& typical, const Target& target) {
  const Expr load = is_call(contraction.b, Intrinsic::kSelect) ? contraction.b->args[1] : contraction.b;
  if (load->kind != ExprKind::kLoad || load->args.empty()) return 0;
  const auto uses_any = [](const Expr& index, const std::vector<Axis>& axes) {
    return std::any_of(axes.begin(), axes.end(),
                       [&](const Axis& axis) { return uses_variable(index, axis.variable->variable); });
  };
  const bool slides = std::any_of(load->args.begin(), load->args.end(), [&](const Expr& index) {
    return uses_any(index, contraction.n) && uses_any(index, contraction.k);
  });
  const auto last = affine(load->args.back());
  if (!slides || (last && last->coefficient(contraction.n.back().variable->variable).is(1))) return 0;
  const double elements = extent_of(contraction.batch, typical) * extent_of(contraction.n, typical) *
                          extent_of(contraction.k, typical);
  const double clock = peak_of(target).instructions / (2 * target.vector_bits / 32.0);
  return elements / clock;
}

/// Seconds in which threads copy a left operand whose place follows from a division, element by element: a transposed
/// convolution with strides, of which most elements are zeros besides.
double seconds_of_dividing(const Contraction& contraction, const Bindings& typical, const Target& target) {
  constexpr double kCycles = 8;  // of one element: the division, its remainder and the branch around the load
  const Expr load = is_call(contraction.a, Intrinsic::kSelect) ? contraction.a->args[1] : contraction.a;
  if (load->kind != ExprKind::kLoad) return 0;
  const bool divides = std::any_of(load->args.begin(), load->args.end(), [&](const Expr& index) {
    return !affine(index) && std::any_of(contraction.k.begin(), contraction.k.end(), [&](const Axis& axis) {
      return uses_variable(index, axis.variable->variable);
    });
  });
  if (!divides) return 0;
  const double elements = extent_of(contraction.batch, typical) * extent_of(contraction.m, typical) *
                          extent_of(contraction.k, typical);
  const double clock = peak_of(target).instructions / (2 * target.vector_bits / 32.0);
  return kCycles * elements / clock;
}

/// A micro-kernel keeps its sums in registers, as many rows of them as fit.
Use use_of_contract(const Region& region, const ContractUnit* unit, const Bindings& typical, const Target& target) {
  constexpr double kTiled = 0.6, kMaps = 0.25;
  Use use{kTiled, kMaps, 1, peak_of(target).start};
  const Reduce* reduce = matrix_product(region);
  auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  if (!contraction || contraction->m.empty()) return use;
  const double rows = target.vector_registers >= 32 ? 14 : 6;
  use.products *= filled(value_of(contraction->m.back().extent, typical), unit && unit->m > 1 ? 2.0 * unit->m : rows);
  if (unit) {
    // An instruction takes elements of the innermost reduced axis alone: three channels fill a tenth of one.
    order_reduced_axes(*contraction);
    const double depth = value_of(contraction->k.back().extent, typical);
    use.products *= unit->rate * filled(depth, static_cast<double>(unit->k));
  }
  use.start += seconds_of_gathering(*contraction, typical, target) + seconds_of_dividing(*contraction, typical, target);
  return use;
}

Use use_of_cpu(const Region& region, const Way& way, const Bindings& typical, const Target& target) {
  constexpr double kLibrary = 0.4, kLibraryStart = 4e-6, kAttention = 0.4, kWindow = 0.3, kStaged = 0.3, kMaps = 0.25;
  if (!way.library.empty()) return {kLibrary, kLibrary, 1, kLibraryStart};
  const tile::Schedule schedule = tile::parse_schedule(way.schedule);
  if (std::holds_alternative<tile::AttentionSchedule>(schedule)) return {kAttention, kMaps, 1, peak_of(target).start};
  if (std::holds_alternative<tile::WindowSchedule>(schedule)) return {kWindow, kMaps, kStaged, peak_of(target).start};
  const auto* contract = std::get_if<tile::ContractSchedule>(&schedule);
  return use_of_contract(region, contract ? contract->unit : nullptr, typical, target);
}

/// Tiles that are not filled are computed all the same, and fewer tiles than multiprocessors leave some of them idle.
Use use_of_product(const Region& region, const tile::ProductSchedule& schedule, const Bindings& typical,
                   const Target& target) {
  constexpr double kWarps = 0.4, kRoles = 0.6, kMaps = 0.25, kMemory = 0.7;
  Use use{schedule.producers > 0 ? kRoles : kWarps, kMaps, kMemory, peak_of(target).start};
  const Reduce* reduce = matrix_product(region);
  const auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  if (!contraction) return use;
  const double rows = extent_of(contraction->m, typical), columns = extent_of(contraction->n, typical);
  const auto m = static_cast<double>(schedule.m), n = static_cast<double>(schedule.n);
  const double tiles = std::ceil(rows / m) * std::ceil(columns / n) * extent_of(contraction->batch, typical) *
                       static_cast<double>(std::max<int64_t>(1, schedule.split));
  use.products *= filled(rows, m) * filled(columns, n) * filled(tiles, std::max(1, target.multiprocessors));
  return use;
}

/// The blocks of a GPU read rows and windows once and keep them in registers; a product among their forms reads both
/// operands for each multiplication, from caches.
Use use_of_gpu(const Region& region, const Way& way, const Bindings& typical, const Target& target) {
  constexpr double kLibrary = 0.7, kMaps = 0.25, kMemory = 0.7, kAttention = 0.4, kNest = 0.02;
  constexpr double kProductsInBlocks = 32;  // operations of a multiprocessor in a clock
  const double start = peak_of(target).start;
  if (!way.library.empty()) return {kLibrary, kMaps, kMemory, start};
  const tile::Schedule schedule = tile::parse_schedule(way.schedule);
  if (const auto* product = std::get_if<tile::ProductSchedule>(&schedule)) {
    return use_of_product(region, *product, typical, target);
  }
  if (std::holds_alternative<tile::AttentionSchedule>(schedule)) return {kAttention, kMaps, kMemory, start};
  if (!std::holds_alternative<tile::BlockSchedule>(schedule)) return {kNest, kNest, kNest, start};
  const Peak peak = peak_of(target);
  const double single = peak.operations / std::max(1, operations_per_clock(target.architecture, false));
  return {kProductsInBlocks * single / product_peak(region, target, peak_of(target)), kMaps, kMemory, start};
}

bool is_nest(const Way& way) {
  return way.library.empty() && std::holds_alternative<tile::NestSchedule>(tile::parse_schedule(way.schedule));
}

bool is_block(const Way& way) {
  return way.library.empty() && std::holds_alternative<tile::BlockSchedule>(tile::parse_schedule(way.schedule));
}

double seconds_of_nest(const Region& region, const Bindings& typical, const Target& target) {
  const Peak peak = peak_of(target);
  const double arithmetic = nest_thread_seconds(region, typical, target) / std::max(1, target.threads);
  return peak.start + std::max(arithmetic, spelled_work(region, typical).bytes / peak.bytes);
}

/// What the blocks of a GPU compute: a map that a fold reads is computed wherever the fold reads it.
RegionWork work_of_blocks(const Region& region, const Bindings& typical) {
  RegionWork work = spelled_work(region, typical);
  for (const Form& form : region.forms) {
    const auto* map = std::get_if<Compute>(&form);
    if (!map) continue;
    const RegionWork once = spelled_work(form, typical);
    double points = 0;
    for (const Form& reader : region.forms) {
      const std::vector<int> read = read_tensors(reader);
      if (!std::holds_alternative<Reduce>(reader) || std::find(read.begin(), read.end(), map->output) == read.end()) {
        continue;
      }
      points = std::max(points, spelled_work(reader, typical).points);
    }
    if (points > once.points) work.elements += once.elements * (points / once.points - 1);
  }
  return work;
}

double seconds_of(const RegionWork& work, double products, const Peak& peak, const Use& use) {
  const double arithmetic =
      work.products / (products * use.products) + work.elements / (peak.instructions * use.elements);
  return use.start + std::max(arithmetic, work.bytes / (peak.bytes * use.bytes));
}

}  // namespace

double least_seconds(const Region& region, const Bindings& typical, const Target& target) {
  return least_seconds(region, least_work(region, typical), target);
}

double least_seconds(const Region& region, const RegionWork& work, const Target& target) {
  return least_seconds(region, work, target, peak_of(target));
}

double least_seconds(const Region& region, const RegionWork& work, const Target& target, const Peak& peak) {
  return seconds_of(work, product_peak(region, target, peak), peak, {1, 1, 1, 0});
}

double estimated_seconds(const Region& region, const Way& way, const Bindings& typical, const Target& target) {
  if (target.kind == TargetKind::kCpu && is_nest(way)) return seconds_of_nest(region, typical, target);
  const Use use = target.kind == TargetKind::kCpu ? use_of_cpu(region, way, typical, target)
                                                  : use_of_gpu(region, way, typical, target);
  const bool in_blocks = target.kind == TargetKind::kCuda && is_block(way);
  const RegionWork work = in_blocks ? work_of_blocks(region, typical) : spelled_work(region, typical);
  const Peak peak = peak_of(target);
  return seconds_of(work, product_peak(region, target, peak), peak, use);
}

}  // namespace graft
