// SPDX-License-Identifier: Apache-2.0
#include "strategy/contract.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fuse/contraction.h"
#include "strategy/contract_cost.h"
#include "strategy/panels.h"
#include "strategy/product_schedules.h"
#include "tile/split_words.h"

namespace graft::tile {
namespace {

/// Rows of the register tile of the micro-kernel: what row tiles should be multiples of.
int64_t register_rows(const Target& target) { return target.vector_registers >= 32 ? 14 : 6; }

/// Chunks and pieces for a right operand that is copied: it should serve many rows, but every thread needs work.
void share_copies(ContractSchedule& schedule, const ContractionSizes& sizes, const Target& target) {
  const int64_t tiles = std::max<int64_t>(1, sizes.columns / schedule.n) * sizes.batch;
  const bool enough = tiles >= 2 * target.threads;
  schedule.m_chunk = enough ? sizes.rows : (sizes.rows + target.threads - 1) / target.threads;
  schedule.m_chunk = std::max(schedule.m_chunk, schedule.m);
  const int64_t rest = sizes.depth / sizes.first_depth;
  const int64_t row_bytes = std::max<int64_t>(1, schedule.n * rest) * sizes.element_bytes;
  const int64_t fits = target.l2_bytes / 4 / row_bytes;
  if (sizes.first_depth > std::max<int64_t>(fits, 1)) schedule.k = std::max<int64_t>(1, fits);
}

/// Schedules for a contraction, the cost model's favourite first.
std::vector<ContractSchedule> contract_schedules(const ContractionSizes& sizes, int64_t vector, const Target& target) {
  ContractSchedule schedule;
  schedule.panel = 2 * vector;
  schedule.m = register_rows(target) * (target.vector_registers >= 32 ? 4 : 8);
  schedule.n = std::max<int64_t>(64, schedule.panel);
  if (sizes.rows <= 2) schedule.n = 4 * schedule.panel;
  // The rows that a convolution copies together serve more columns.
  if (sizes.is_window) schedule.n = 4 * schedule.panel;
  // All rows of a column tile first while the left operand stays in the second-level cache; but a result that does not
  // stay there is written by whole rows when the right operand does.
  const auto stays = [&](int64_t a, int64_t b) { return a * b * sizes.element_bytes <= target.l2_bytes / 2; };
  const bool streams = !stays(sizes.rows, sizes.columns) && stays(sizes.columns, sizes.depth);
  schedule.columns_outer = stays(sizes.rows, sizes.depth) && !streams;
  std::vector<ContractSchedule> schedules;
  const auto add = [&](ContractSchedule variant) {
    if (!sizes.is_packed) share_copies(variant, sizes, target);
    if (std::find(schedules.begin(), schedules.end(), variant) == schedules.end()) schedules.push_back(variant);
  };
  add(schedule);
  for (const int64_t panels : {int64_t{2}, int64_t{4}, int64_t{8}}) {
    if (panels * schedule.panel > 2 * std::max(sizes.columns, schedule.panel)) continue;
    ContractSchedule variant = schedule;
    variant.n = panels * schedule.panel;
    add(variant);
    variant.columns_outer = !variant.columns_outer;
    add(variant);
  }
  for (const int64_t rows : {schedule.m / 2, schedule.m * 2}) {
    ContractSchedule variant = schedule;
    variant.m = rows;
    add(variant);
  }
  return schedules;
}

/// Schedules of a product of weights by the units that take the operands' own types, the fastest first. Slower ones
/// waste less where sums are short; of floats they give nothing where there is a faster one.
void add_unit_contractions(std::vector<Schedule>& schedules, const Region& region, Contraction contraction,
                           ContractionSizes sizes, const std::vector<bool>& constant, const Target& target) {
  const DType sum = only_reduction(region)->lift[0]->type;
  contraction.a = unwidened(contraction.a), contraction.b = unwidened(contraction.b);
  const ContractUnit* best = best_unit(target, contraction.a->type, contraction.b->type, sum);
  const int64_t panel = 2 * std::max<int64_t>(16, target.vector_bits / bit_width(sum));
  if (!best || !panel_layout(region, contraction, constant, panel)) return;
  const auto speed = [&](const ContractUnit& unit) {
    return unit.rate * (unit.sums_blocks() ? filled(static_cast<double>(sizes.rows), static_cast<double>(unit.m)) : 1);
  };
  sizes.element_bytes = bit_width(best->b) / 8;
  for (const ContractUnit& unit : contract_units()) {
    const bool fits = unit.a == best->a && unit.b == best->b && unit.sum == sum && has_unit(target, unit);
    if (!fits || (&unit != best && is_float(sum) && speed(unit) < speed(*best))) continue;
    constexpr int64_t kBlockRows = 12;  // two tiles of the micro-kernel
    const bool tiles = unit.scope == ContractUnit::Scope::kTile;
    for (const auto& [rows, panels] : {std::pair{4, 4}, {2, 4}, {8, 4}, {4, 8}, {4, 2}, {8, 8}}) {
      ContractSchedule schedule;
      schedule.unit = &unit;
      schedule.panel = panel;
      schedule.m = tiles ? 32 * rows : unit.sums_blocks() ? kBlockRows * rows : register_rows(target) * rows;
      schedule.n = panels * panel;
      schedule.columns_outer = sizes.rows * sizes.depth * sizes.element_bytes <= target.l2_bytes / 2;
      schedule.window = sizes.is_window ? 1 : 0;
      schedules.emplace_back(schedule);
    }
    if (!sizes.is_window) continue;
    ContractSchedule rows_apart = *schedules.back().as<ContractSchedule>();
    rows_apart.window = 0;
    schedules.emplace_back(rows_apart);
  }
}

/// Schedules of a product of f32 weights by the unit that splits its operands. Columns that share a copy of the left
/// operand are as many as leave each thread some work.
std::vector<ContractSchedule> split_schedules(const RegionView& view, const Contraction& contraction,
                                              const Target& target) {
  const ContractUnit* unit = splitting_unit(target, contraction.a->type, contraction.b->type,
                                            only_reduction(view.region)->lift[0]->type);
  std::vector<ContractSchedule> schedules;
  if (!unit) return schedules;
  ContractSchedule schedule;
  schedule.unit = unit;
  schedule.panel = 2 * unit->n;
  if (!panel_layout(view.region, contraction, view.constant, schedule.panel)) return schedules;
  const ContractionSizes sizes = sizes_of(contraction, unit->sum, view.typical);
  const double rows = extent_of(contraction.m, view.typical);
  schedule.columns_outer = 0;
  const auto add = [&](int64_t m, int64_t panels, bool window) {
    schedule.m = m;
    schedule.n = panels * schedule.panel;
    schedule.k = 0;
    schedule.window = window ? 1 : 0;
    const double tiles = std::ceil(rows / static_cast<double>(m)) * static_cast<double>(sizes.batch);
    const double wanted = tiles < target.threads ? std::ceil(target.threads / tiles) : 1;
    const auto columns = static_cast<int64_t>(std::ceil(static_cast<double>(sizes.columns) / wanted));
    schedule.n_chunk = std::max(columns + schedule.n - 1, schedule.n) / schedule.n * schedule.n;
    // A copy that leaves no room for weights in the second-level cache is cut along the reduction, for all columns.
    constexpr int64_t kPiece = 768, kMostColumns = 1024;
    const int64_t bytes = m * sizes.depth * kParts * static_cast<int64_t>(sizeof(uint16_t));
    if (!window && bytes > target.l2_bytes / 2 && schedule.n_chunk <= kMostColumns) {
      schedule.n = std::exchange(schedule.n_chunk, 0);
      const int64_t behind_first = sizes.depth / sizes.first_depth;
      schedule.k = contraction.k.size() == 1 ? kPiece : std::max<int64_t>(1, kPiece / behind_first);
    }
    if (std::find(schedules.begin(), schedules.end(), schedule) == schedules.end()) schedules.push_back(schedule);
  };
  std::vector<bool> ways{false};
  if (sizes.is_window) {
    // Rows of a window that fill less than a tile are loaded at the price of one: then copies of all taps are better.
    const bool short_rows = typical_value(contraction.m.back().extent, view.typical) < 12;
    ways = short_rows ? std::vector<bool>{false, true} : std::vector<bool>{true, false};
  }
  for (const auto& [m, panels] : {std::pair{128, 2}, {64, 2}}) {
    for (const bool window : ways) add(m, panels, window);
  }
  for (const bool window : ways) {
    for (const auto& [m, panels] : {std::pair{256, 2}, {128, 4}, {32, 2}}) add(m, panels, window);
  }
  return schedules;
}

std::string why_not(const RegionView& view, const Target&) {
  const graft::Reduce* reduce = only_reduction(view.region);
  if (!reduce) return "it has no reduction, or several";
  const auto contraction = find_contraction(*reduce);
  if (!contraction) return "its reduction is no sum of products";
  return contraction->m.empty() ? "the product has no rows" : "";
}

double seconds(const Region& region, const Schedule& schedule, const Bindings& typical, const Target& target) {
  const auto contract = *schedule.as<ContractSchedule>();
  Use use = use_of_contract(region, contract.unit, typical, target);
  if (contract.unit && contract.unit->splits()) {
    const int64_t columns = std::max(contract.n, contract.n_chunk);
    use.start += seconds_of_splitting(region, columns, contract.window != 0, typical, target);
  }
  return seconds_of(region, typical, target, use);
}

void candidates(const RegionView& view, const Target& target, bool, std::vector<Schedule>& schedules) {
  const graft::Reduce* reduce = only_reduction(view.region);
  const Contraction contraction = *find_contraction(*reduce);
  const DType type = reduce->lift[0]->type;
  const int64_t vector = target.vector_bits / bit_width(type);
  ContractionSizes sizes = sizes_of(contraction, type, view.typical);
  sizes.is_packed = panel_layout(view.region, contraction, view.constant, 2 * vector).has_value();
  add_unit_contractions(schedules, view.region, contraction, sizes, view.constant, target);
  std::vector<Schedule> plain, split;
  for (const ContractSchedule& schedule : contract_schedules(sizes, vector, target)) plain.emplace_back(schedule);
  for (const ContractSchedule& schedule : split_schedules(view, contraction, target)) split.emplace_back(schedule);
  const auto expected = [&](const Schedule& schedule) {
    return seconds(view.region, schedule, view.typical, target);
  };
  const bool pays = !split.empty() && expected(split[0]) < expected(plain[0]);
  // By turns, so that some of both are among the first, which are measured.
  for (size_t i = 0; i < std::max(split.size(), plain.size()); ++i) {
    for (const auto* some : {pays ? &split : &plain, pays ? &plain : &split}) {
      if (i < some->size()) schedules.push_back((*some)[i]);
    }
  }
}

/// A constant right operand lies in panels.
Layouts layouts(const Region& region, const std::vector<bool>& constant, const Schedule& given) {
  Layouts layouts(region.tensors.size());
  const ContractSchedule schedule = *given.as<ContractSchedule>();
  const graft::Reduce* reduce = schedule.panel > 0 ? only_reduction(region) : nullptr;
  auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  if (!contraction || contraction->n.empty()) return layouts;
  if (schedule.unit) contraction->b = unwidened(contraction->b);
  auto layout = panel_layout(region, *contraction, constant, schedule.panel);
  if (layout && schedule.unit) layout->pack = schedule.unit->pack, layout->step = schedule.unit->k;
  if (layout && schedule.unit && schedule.unit->splits()) layout->parts = kParts;
  if (layout) layouts[static_cast<size_t>(contraction->b->tensor)] = layout;
  return layouts;
}

constexpr auto kFields = fields_of<ContractSchedule>();

}  // namespace

const Strategy contract_strategy = {.name = "contract",
                                    .fields = kFields,
                                    .kind = TargetKind::kCpu,
                                    .names_unit = true,
                                    .why_not = why_not,
                                    .candidates = candidates,
                                    .seconds = seconds,
                                    .layouts = layouts,
                                    .lower = lower_as<ContractSchedule, lower_contract>};
const Strategy& ContractSchedule::strategy() { return contract_strategy; }

}  // namespace graft::tile
