// SPDX-License-Identifier: Apache-2.0
#include "strategy/product_schedules.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "fuse/decoded_operand.h"
#include "fuse/gathered_columns.h"

namespace graft {
namespace {

/// Seconds that a product takes, roughly: rounds of blocks, each bound by its products, by what it copies or by
/// waiting. The rates are those measured on an H200.
double product_cost(const tile::ProductSchedule& schedule, const ContractionSizes& sizes, const ContractUnit* unit,
                    const Target& target) {
  const auto tiles = [](int64_t extent, int64_t step) { return (extent + step - 1) / step; };
  const auto blocks =
      static_cast<double>(tiles(sizes.rows, schedule.m) * tiles(sizes.columns, schedule.n) * sizes.batch);
  const auto area = static_cast<double>(schedule.m * schedule.n);
  const auto steps = static_cast<double>(tiles(sizes.depth, schedule.k));
  // Of one multiprocessor, per second: multiplications, and bytes that its threads copy.
  constexpr double kSplit = 0.27e12;  // where warps split operands between the memory and the unit
  const bool splits = unit && unit->splits();
  const double rate = splits ? kSplit : unit ? 3.4e12 * unit->rate : area >= 64 * 64 ? 0.19e12 : 0.13e12;
  constexpr double kCopyRate = 62e9, kLeastStep = 0.15e-6, kStart = 1.5e-6, kStore = 0.08e-9;
  const int64_t step_bytes = (schedule.m + schedule.n) * schedule.k * sizes.element_bytes;
  const double products = area * static_cast<double>(schedule.k) / rate;
  const double copies = static_cast<double>(step_bytes) / kCopyRate;
  const int64_t registers = static_cast<int64_t>(area) / schedule.threads * 5 / 4 + (splits ? 96 : 56);
  const double resident = static_cast<double>(
      std::max<int64_t>(1, std::min<int64_t>({target.shared_bytes / (step_bytes * schedule.stages),
                                              65536 / (registers * schedule.threads), 2048 / schedule.threads})));
  const double share = blocks / target.multiprocessors;
  const double at_once = std::max(1.0, std::min(resident, std::ceil(share)));
  // Blocks of one multiprocessor share its units and hide each other's waiting, beginning and end.
  const double rounds = std::ceil(share / at_once);
  const double step = std::max(at_once * std::max(products, copies), kLeastStep + products / 2);
  return rounds * (steps * step + kStart + area * kStore);
}

using Rated = std::vector<std::pair<double, tile::ProductSchedule>>;

/// Bytes of a block's memory that a product with producers takes: tiles on their way, and parts of sums.
int64_t role_bytes(const tile::ProductSchedule& schedule, const ContractionSizes& sizes) {
  constexpr int64_t kBarriers = 1 << 10;
  const int64_t tiles = (schedule.m + schedule.n) * schedule.k * sizes.element_bytes * schedule.stages;
  return tiles + (schedule.split - 1) * schedule.m * schedule.n * 4 + kBarriers;
}

/// Seconds that a product takes in blocks whose warps have roles. The rates are those measured on an H200.
double role_cost(const tile::ProductSchedule& schedule, const ContractionSizes& sizes, const ContractUnit& unit,
                 const Target& target) {
  const auto tiles = [](int64_t extent, int64_t step) { return (extent + step - 1) / step; };
  const double most = 3.3e12 * unit.rate;  // multiplications of one multiprocessor in a second
  constexpr double kStart = 1.5e-6, kStore = 20e-9, kSum = 1e-6;
  const int64_t points = tiles(sizes.rows, schedule.m) * tiles(sizes.columns, schedule.n) * sizes.batch;
  const auto area = static_cast<double>(schedule.m * schedule.n);
  // Narrow tiles are bound by what they read of shared memory, others far from square by what they copy.
  constexpr int64_t kLarge = 128 * 128, kUses = 72;
  const bool copies_much =
      schedule.m * schedule.n >= kLarge && schedule.m * schedule.n < kUses * (schedule.m + schedule.n);
  const double rate = unit.rate * (schedule.n <= 64 ? 2e12 : copies_much ? 2.7e12 : 3e12);
  const int64_t of_thread = schedule.m * schedule.n / schedule.threads + 104;
  const int64_t registers = of_thread * schedule.threads * schedule.teams + 5120;
  const auto resident = static_cast<double>(
      std::max<int64_t>(1, std::min(target.shared_bytes / role_bytes(schedule, sizes), 65536 / registers)));
  const double share = static_cast<double>(points * schedule.split) / target.multiprocessors;
  const double at_once = std::max(1.0, std::min(resident, std::ceil(share)));
  const double products = area * static_cast<double>(schedule.k);
  const double step = std::max(products / rate, at_once * products / most);
  const double loop = static_cast<double>(tiles(sizes.depth, schedule.k * schedule.split)) * step;
  const double maps = area / static_cast<double>(schedule.threads) * kStore;
  const double sum = schedule.split > 1 ? kSum : 0;
  const double rounds = std::ceil(share / at_once);
  if (schedule.teams == 1) return kStart + sum + rounds * (loop + maps);
  return kStart + rounds * std::max(loop, (loop + maps) / static_cast<double>(schedule.teams)) + maps;
}

/// Schedules with producers for sums that are long: large tiles, by teams too where there are many, and small ones of
/// which several blocks may share the sum where there are few.
void add_roles(Rated& rated, const ContractionSizes& sizes, const ContractUnit& unit, int64_t panel,
               const Target& target) {
  struct Shape {
    int64_t m, n, threads, teams, stages;
  };
  constexpr Shape kShapes[] = {{128, 256, 256, 1, 4}, {128, 192, 256, 1, 5}, {128, 128, 256, 1, 6},
                               {128, 128, 128, 2, 6}, {64, 192, 128, 2, 6},  {64, 256, 128, 2, 5},
                               {64, 128, 128, 1, 8},  {64, 64, 128, 1, 12}};
  constexpr int64_t kGroup = 16, kLeastSteps = 4;
  const int64_t depth = 128 / sizes.element_bytes;
  if (sizes.is_window || sizes.depth < kLeastSteps * depth) return;
  const int64_t steps = (sizes.depth + depth - 1) / depth;
  for (const Shape& shape : kShapes) {
    const int64_t rows = (sizes.rows + shape.m - 1) / shape.m, columns = (sizes.columns + shape.n - 1) / shape.n;
    const int64_t points = rows * columns * sizes.batch;
    if (shape.n >= 2 * sizes.columns || shape.m >= 2 * sizes.rows) continue;
    if (shape.teams > 1 && points <= target.multiprocessors) continue;
    for (const int64_t split : {1, 2, 4}) {
      if (split > 1 && (shape.m > 64 || points * split > target.multiprocessors || steps < kLeastSteps * split)) break;
      tile::ProductSchedule schedule{.m = shape.m,
                                     .n = shape.n,
                                     .k = depth,
                                     .threads = shape.threads,
                                     .stages = std::clamp<int64_t>(steps / split, kLeastSteps, shape.stages),
                                     .panel = panel,
                                     .producers = 128,
                                     .teams = shape.teams,
                                     .group = rows > 1 && columns > 1 && split == 1 ? kGroup : 1,
                                     .split = split};
      if (role_bytes(schedule, sizes) > target.shared_bytes) continue;
      rated.emplace_back(role_cost(schedule, sizes, unit, target), schedule);
    }
  }
}

/// Schedules with producers for many rows with short sums, which memory bounds: whole rows of few columns by teams, one
/// of which stores while tiles of another come.
void add_streams(Rated& rated, const ContractionSizes& sizes, const ContractUnit& unit, int64_t panel,
                 const Target& target) {
  constexpr int64_t kMostBytes = 512, kMostColumns = 192, kWide = 128, kTeams = 2, kStages = 4;
  const int64_t depth_bytes = sizes.depth * sizes.element_bytes;
  if (sizes.is_window || depth_bytes >= kMostBytes || depth_bytes % 16 != 0 || sizes.columns % 16 != 0) return;
  int64_t n = sizes.columns;
  for (int64_t parts = 2; n > kMostColumns || n % 16 != 0; ++parts) n = (sizes.columns + parts - 1) / parts;
  const int64_t m = n > kWide ? 64 : 128;
  const int64_t points = sizes.rows / m * (sizes.columns / n) * sizes.batch;
  if (points < 2 * kTeams * target.multiprocessors) return;
  const tile::ProductSchedule schedule{.m = m,
                                       .n = n,
                                       .k = std::min<int64_t>(128 / sizes.element_bytes,
                                                              (sizes.depth + unit.k - 1) / unit.k * unit.k),
                                       .threads = 128,
                                       .stages = kStages,
                                       .panel = panel <= 1 ? panel : n % 64 == 0 ? 64 : n % 32 == 0 ? 32 : 16,
                                       .producers = 128,
                                       .teams = kTeams};
  rated.emplace_back(role_cost(schedule, sizes, unit, target), schedule);
}

/// Schedules of a product of weights by warpgroups that split operands of f32: producers copy, and split the weights.
Rated split_schedules(const ContractionSizes& sizes, const ContractUnit& unit, const Target& target) {
  struct Shape {
    int64_t m, n, threads;
    double rate;  ///< multiplications of one multiprocessor in a second, as measured on an H200
  };
  constexpr Shape kShapes[] = {{128, 128, 256, 0.40e12}, {128, 96, 256, 0.38e12}, {128, 64, 256, 0.33e12},
                               {64, 128, 128, 0.27e12},  {64, 64, 128, 0.20e12}};
  constexpr int64_t kDepth = 32, kStages = 4, kGroup = 16, kReserved = 4 << 10;
  constexpr double kStart = 3e-6, kStore = 0.08e-9;
  const auto tiles = [](int64_t extent, int64_t step) { return (extent + step - 1) / step; };
  Rated rated;
  for (const Shape& shape : kShapes) {
    if (shape.m >= 2 * sizes.rows || shape.n >= 2 * sizes.columns) continue;
    if ((shape.m + 2 * shape.n) * kDepth * sizes.element_bytes * kStages > target.shared_bytes - kReserved) continue;
    const int64_t rows = tiles(sizes.rows, shape.m), columns = tiles(sizes.columns, shape.n);
    const double rounds = std::ceil(static_cast<double>(rows * columns * sizes.batch) / target.multiprocessors);
    const auto area = static_cast<double>(shape.m * shape.n);
    const double loop = static_cast<double>(tiles(sizes.depth, kDepth) * kDepth) * area / shape.rate;
    const tile::ProductSchedule schedule{.m = shape.m,
                                         .n = shape.n,
                                         .k = kDepth,
                                         .threads = shape.threads,
                                         .stages = kStages,
                                         .panel = 1,
                                         .producers = 128,
                                         .group = rows > 1 && columns > 1 ? kGroup : 1,
                                         .unit = &unit};
    rated.emplace_back(rounds * (loop + kStart + area * kStore), schedule);
  }
  return rated;
}

/// Schedules for the blocks of a GPU.
Rated product_schedules(const ContractionSizes& sizes, const ContractUnit* unit, bool is_packed,
                        const Target& target) {
  struct Shape {
    int64_t m, n, threads;
  };
  constexpr Shape kUnit[] = {{256, 128, 256}, {128, 256, 256}, {128, 192, 256}, {128, 128, 256},
                             {128, 64, 128},  {64, 128, 128},  {64, 64, 128},   {64, 32, 128}};
  constexpr Shape kSingle[] = {{128, 128, 256}, {128, 64, 128}, {64, 128, 128}, {64, 64, 128},
                               {64, 32, 64},    {32, 64, 64},   {32, 32, 64},   {16, 32, 32}};
  const int64_t line = 128 / sizes.element_bytes, depth = unit ? line : 16;
  // What a unit wants with k innermost lies by columns, anything else in lines of them.
  const int64_t panel = !is_packed ? 0 : unit && unit->pack > 1 ? 1 : line;
  Rated rated;
  for (const Shape& shape : unit ? std::span<const Shape>(kUnit) : std::span<const Shape>(kSingle)) {
    // A tile may be twice as large as the product, not more.
    if (shape.m >= 2 * std::max<int64_t>(sizes.rows, 16) && shape.m > 64) continue;
    if (shape.n >= 2 * std::max<int64_t>(sizes.columns, 32)) continue;
    for (const int64_t stages : {4, 3, 6}) {
      tile::ProductSchedule schedule{.m = shape.m,
                                     .n = shape.n,
                                     .k = depth,
                                     .threads = shape.threads,
                                     .stages = stages,
                                     .panel = std::min(panel, shape.n),
                                     .unit = unit && unit->splits() ? unit : nullptr};
      const int64_t bytes = (shape.m + shape.n) * depth * sizes.element_bytes * stages;
      if (bytes > target.shared_bytes - (8 << 10)) continue;
      rated.emplace_back(product_cost(schedule, sizes, unit, target), schedule);
    }
  }
  // Operands of 8 bits must lie as the unit wants them: nothing else comes by TMA.
  const bool has_roles = unit && unit->scope == ContractUnit::Scope::kWarpgroup && (is_packed || unit->pack == 1);
  // What product_cost leaves out of blocks whose threads all copy and multiply: large products take this much longer.
  constexpr double kWithoutRoles = 1.5;
  for (auto& [cost, schedule] : rated) cost *= has_roles ? kWithoutRoles : 1;
  if (has_roles) add_roles(rated, sizes, *unit, panel, target);
  if (has_roles) add_streams(rated, sizes, *unit, panel, target);
  return rated;
}

/// Schedules of a product whose right operand is decoded on its way to matrix units: narrow tiles where few rows are
/// bound by what is read, wider ones where rows share what was decoded.
std::vector<tile::ProductSchedule> decoding_schedules(const Contraction& contraction, const ContractionSizes& sizes,
                                                      const Target& target) {
  struct Shape {
    int64_t m, n, threads;
  };
  // Warps that a tile's rows and columns leave over share out the sums.
  constexpr Shape kShapes[] = {{16, 16, 256},  {16, 32, 256},  {16, 32, 512},  {16, 64, 512},  {32, 32, 256},
                               {32, 32, 512},  {32, 64, 512},  {64, 32, 512},  {64, 64, 512},  {64, 64, 256},
                               {64, 128, 256}, {128, 64, 256}, {128, 128, 256}};
  // Of one multiprocessor, per second: multiplications, weights that are decoded, and bytes that it reads.
  constexpr double kProducts = 2e12, kDecoded = 50e9, kBytes = 30e9, kStart = 1.5e-6, kLeastStep = 0.15e-6;
  const auto tiles = [](int64_t extent, int64_t step) { return static_cast<double>((extent + step - 1) / step); };
  Rated rated;
  for (const Shape& shape : kShapes) {
    if (shape.m >= 2 * std::max<int64_t>(sizes.rows, 16)) continue;
    if (shape.n >= 2 * std::max<int64_t>(sizes.columns, 32)) continue;
    for (const int64_t about : {1024, 512, 256, 128}) {
      if (shape.m > 16 && about > 512) continue;  // a step has enough to do
      const auto step = decoded_step(contraction, std::min(about, std::max<int64_t>(64, sizes.depth)));
      if (!step) return {};
      for (const int64_t stages : {3, 4, 6}) {
        const int64_t of_codes = shape.n * *step;
        const int64_t slot = (sizes.rows <= 8 ? sizes.rows : shape.m) * *step * 2 + of_codes;
        if (slot * stages > target.shared_bytes - (32 << 10)) continue;
        const double blocks = tiles(sizes.rows, shape.m) * tiles(sizes.columns, shape.n) *
                              static_cast<double>(sizes.batch);
        const double share = blocks / target.multiprocessors;
        const double at_once = std::clamp(std::floor(static_cast<double>(target.shared_bytes) /
                                                     static_cast<double>(slot * stages)), 1.0, std::ceil(share));
        const auto codes = static_cast<double>(of_codes);
        const double work = std::max({static_cast<double>(shape.m) * codes / kProducts, codes / kDecoded,
                                      (codes / 2 + static_cast<double>(slot - of_codes)) / kBytes});
        const double waits = kLeastStep * 4 / static_cast<double>(stages) + codes / kDecoded;
        const double cost = std::ceil(share / at_once) * (tiles(sizes.depth, *step) * std::max(at_once * work, waits) +
                                                          kStart);
        rated.emplace_back(cost, tile::ProductSchedule{.m = shape.m, .n = shape.n, .k = *step,
                                                       .threads = shape.threads, .stages = stages, .panel = 0});
      }
      if (*step < about) break;
    }
  }
  std::stable_sort(rated.begin(), rated.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<tile::ProductSchedule> schedules;
  for (const auto& [cost, schedule] : rated) schedules.push_back(schedule);
  return schedules;
}

/// Schedules for a product of few rows whose columns are gathered: all tiles of a block are on their way at once where
/// they have room, since those of weights come before earlier kernels have ended.
Rated gathering_schedules(const ContractionSizes& sizes, const GatheredColumns& columns, const ContractUnit* unit,
                          const Target& target) {
  constexpr int64_t kRows = 64, kThreads = 128, kDepth = 64;
  constexpr int64_t kMostColumns = 256, kOverlap = 2, kMostStages = 16, kReserved = 8 << 10;
  const int64_t rounds = (sizes.depth + kDepth - 1) / kDepth;
  Rated rated;
  for (const int64_t lanes : {8, 16, 32}) {
    const int64_t n = columns.parts * lanes;
    if (n > kMostColumns || columns.extent % lanes != 0) continue;
    const int64_t slot = (kRows + n) * kDepth * sizes.element_bytes;
    const int64_t room = (target.shared_bytes - kReserved - kRows * (n * 4 + 16)) / slot;
    const int64_t whole = std::min({rounds + kOverlap, room, kMostStages});
    for (const int64_t stages : {whole, int64_t{4}}) {
      if (stages < 2 || stages > room) continue;
      const tile::ProductSchedule schedule{
          .m = kRows, .n = n, .k = kDepth, .threads = kThreads, .stages = stages, .panel = 0};
      rated.emplace_back(product_cost(schedule, sizes, unit, target), schedule);
    }
  }
  return rated;
}

/// Whether all that an operand reads is constant.
bool is_constant(const Expr& operand, const std::vector<bool>& constant) {
  bool any = false, all = true;
  for_each(operand, [&](const Expr& node) {
    if (node->kind != ExprKind::kLoad) return;
    any = true, all = all && constant[static_cast<size_t>(node->tensor)];
  });
  return any && all;
}

/// Whether what an operand loads lies with the axis innermost.
bool lies_along(const Expr& operand, const Axis& axis) {
  bool any = false, all = true;
  for_each(operand, [&](const Expr& node) {
    if (node->kind != ExprKind::kLoad) return;
    const auto index = node->args.empty() ? std::nullopt : affine(node->args.back());
    any = true, all = all && index && index->coefficient(axis.variable->variable).is(1);
  });
  return any && all;
}

/// Schedules by a unit that splits operands of f32, where it is likely to beat multiply-adds: warps take tiles as they
/// come, warpgroups only operands with k innermost, of which the right one is split once for all rows.
Rated splitting_schedules(const Contraction& contraction, const ContractionSizes& sizes, const ContractUnit& unit,
                          const Target& target) {
  constexpr int64_t kLeastDepth = 64;
  if (sizes.depth < kLeastDepth) return {};
  if (unit.scope == ContractUnit::Scope::kWarp) return product_schedules(sizes, &unit, sizes.is_packed, target);
  const Axis& last = contraction.k.back();
  const bool aligned = last.extent.is_multiple_of(unit.pack) && last.extent.as_constant().value_or(unit.k) >= unit.k;
  if (!sizes.is_packed || !aligned || !lies_along(contraction.a, last)) return {};
  return split_schedules(sizes, unit, target);
}

/// Whether tiles of constants should be on their way before earlier kernels have ended. Loops over windows that have
/// many rounds win less by that than they lose by the registers of two beginnings.
bool copies_early(const Contraction& contraction, const std::vector<bool>& constant,
                  const tile::ProductSchedule& schedule, const Bindings& typical) {
  constexpr int64_t kFewRounds = 24;
  if (!is_constant(contraction.a, constant) && !is_constant(contraction.b, constant)) return false;
  const std::vector<Axis> outer(contraction.k.begin(), contraction.k.end() - 1);
  const int64_t last = typical_extent({contraction.k.back()}, typical);
  const int64_t rounds = typical_extent(outer, typical) * ((last + schedule.k - 1) / schedule.k);
  return outer.empty() || rounds <= kFewRounds;
}

/// Whether rows that follow each other lie further apart than elements of the axis that they go along, as those of a
/// convolution with strides: they are no boxes of the tensor.
bool steps_over_rows(const Contraction& contraction) {
  bool steps = false;
  for_each(contraction.a, [&](const Expr& node) {
    if (node->kind != ExprKind::kLoad) return;
    for (const Expr& index : node->args) {
      const auto at = affine(index);
      for (const Axis& axis : contraction.m) {
        const Size step = at ? at->coefficient(axis.variable->variable) : Size(0);
        steps |= !step.is(0) && !step.is(1);
      }
    }
  });
  return steps && contraction.m.size() > 1;
}

}  // namespace

int64_t typical_extent(const std::vector<Axis>& axes, const Bindings& typical) {
  int64_t extent = 1;
  for (const Axis& axis : axes) extent *= std::max<int64_t>(1, axis.extent.evaluate(typical));
  return extent;
}

ContractionSizes sizes_of(const Contraction& contraction, DType type, const Bindings& typical) {
  ContractionSizes sizes;
  sizes.rows = contraction.m.empty() ? 1 : typical_extent({contraction.m.back()}, typical);
  sizes.columns = typical_extent(contraction.n, typical);
  sizes.batch = typical_extent(contraction.batch, typical);
  sizes.depth = typical_extent(contraction.k, typical);
  sizes.first_depth = std::max<int64_t>(1, contraction.k[0].extent.evaluate(typical));
  sizes.element_bytes = bit_width(type) / 8;
  sizes.sum = type;
  sizes.is_window = contraction.k.size() > 1 && contraction.m.size() > 1;
  return sizes;
}

void add_products(std::vector<tile::Schedule>& schedules, const Region& region, Contraction contraction,
                  ContractionSizes sizes, const std::vector<bool>& constant, const Bindings& typical,
                  const Target& target) {
  sizes.rows = typical_extent(contraction.m, typical);
  for (tile::ProductSchedule schedule : decoding_schedules(contraction, sizes, target)) {
    schedule.early = is_constant(contraction.b, constant);
    schedules.emplace_back(schedule);
  }
  if (contraction.m.empty()) return;
  contraction.a = unwidened(contraction.a), contraction.b = unwidened(contraction.b);
  sizes.is_window |= steps_over_rows(contraction);
  sizes.element_bytes = std::max(1, bit_width(contraction.b->type) / 8);
  const ContractUnit* unit = best_unit(target, contraction.a->type, contraction.b->type, sizes.sum);
  const auto columns = gathered_columns(region);
  Rated products = columns ? gathering_schedules(sizes, *columns, unit, target)
                           : product_schedules(sizes, unit, sizes.is_packed, target);
  order_reduced_axes(contraction);
  const ContractUnit* splits = splitting_unit(target, contraction.a->type, contraction.b->type, sizes.sum);
  if (splits && !columns && !region.tf32 && !region.fma) {
    for (auto& each : splitting_schedules(contraction, sizes, *splits, target)) products.push_back(std::move(each));
  }
  std::stable_sort(products.begin(), products.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [cost, schedule] : products) {
    const bool waits = schedule.unit && schedule.producers > 0;
    schedule.early = !waits && copies_early(contraction, constant, schedule, typical);
    schedules.emplace_back(schedule);
  }
}

}  // namespace graft
