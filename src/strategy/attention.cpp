// SPDX-License-Identifier: Apache-2.0
#include "strategy/attention.h"

#include <algorithm>

#include "fuse/attention.h"
#include "strategy/cost.h"
#include "strategy/product_schedules.h"

namespace graft::tile {
namespace {

/// Bytes of a block's memory that attention takes on a GPU at most: the queries, two tiles each of keys and values,
/// lines 16 bytes further apart than they are long, and the weights where they leave the registers, or ones that are
/// multiplied with them.
int64_t attention_bytes(const AttentionSchedule& schedule, int64_t width, int64_t element_bytes) {
  const int64_t line = width * element_bytes + 16;
  const int64_t weights = element_bytes > 2 ? schedule.queries * (schedule.keys * 4 + 16) : schedule.keys * 48;
  return schedule.queries * line + 4 * schedule.keys * line + weights;
}

void add_block_attention(std::vector<Schedule>& schedules, const AttentionForms& attention, const Bindings& typical,
                         const Target& target) {
  const int64_t keys = attention.weighted->reduced[0].extent.evaluate(typical);
  const int64_t points = typical_extent(attention.common, typical);
  const int64_t values = attention.weighted->axes.back().extent.evaluate(typical);
  const int64_t width = std::max(values, attention.scores->reduced[0].extent.evaluate(typical));
  const int64_t element_bytes = std::max(1, bit_width(attention.queries->type) / 8);
  const bool many = points >= 2 * 128 * target.multiprocessors;
  const auto add = [&](const AttentionSchedule& schedule) {
    const bool fits = attention_bytes(schedule, width, element_bytes) <= target.shared_bytes;
    const bool known = std::find(schedules.begin(), schedules.end(), Schedule(schedule)) != schedules.end();
    if (fits && !known) schedules.emplace_back(schedule);
  };
  // Of 16-bit values a multiprocessor holds two blocks with rows of 64, one with rows of 128: two overlap the products
  // of one with the exponentials of the other, and one alone wants longer products.
  const bool longer = element_bytes > 2 ? values <= 64 && keys > 64 : values > 64 && values <= 128;
  add({.queries = many ? 128 : 64, .keys = longer ? 128 : 64});
  for (const int64_t queries : {64, 128, 32, 16}) {
    for (const int64_t width_of_keys : {64, 128, 32, 16}) add({.queries = queries, .keys = width_of_keys});
  }
}

void add_thread_attention(std::vector<Schedule>& schedules, const AttentionForms& attention, const Bindings& typical,
                          const Target& target) {
  // Few keys: all at once, so that nothing has to be rescaled. Many query rows share one copy of a key tile, as long
  // as every thread has several tiles.
  const int64_t keys = attention.weighted->reduced[0].extent.evaluate(typical);
  const std::vector<graft::Axis> outer(attention.common.begin(), attention.common.end() - 1);
  const AttentionSchedule favourite{.queries = typical_extent(outer, typical) >= 4 * target.threads ? 128 : 56,
                                    .keys = keys <= 64 ? 64 : 128};
  schedules.emplace_back(favourite);
  for (const int64_t queries : {56, 128, 256}) {
    for (const int64_t width : {64, 128, 256}) {
      const Schedule variant = AttentionSchedule{.queries = queries, .keys = width};
      if (!(variant == Schedule(favourite)) && width <= 2 * keys) schedules.push_back(variant);
    }
  }
}

std::string why_not(const RegionView& view, const Target&) {
  std::string reason;
  return find_attention(view.region, reason) ? "" : reason;
}

void candidates(const RegionView& view, const Target& target, bool, std::vector<Schedule>& schedules) {
  std::string reason;
  const auto attention = find_attention(view.region, reason);
  const bool is_gpu = target.kind == TargetKind::kCuda;
  (is_gpu ? add_block_attention : add_thread_attention)(schedules, *attention, view.typical, target);
}

double seconds(const Region& region, const Schedule&, const Bindings& typical, const Target& target) {
  constexpr double kAttention = 0.4, kMaps = 0.25, kGpuMemory = 0.7;
  const double memory = target.kind == TargetKind::kCuda ? kGpuMemory : 1;
  return seconds_of(region, typical, target, {kAttention, kMaps, memory, peak_of(target).start});
}

Layouts layouts(const Region& region, const std::vector<bool>&, const Schedule&) {
  return Layouts(region.tensors.size());
}

Lowered lower_record(const Region& region, const Layouts&, const Schedule& schedule, const Target& target) {
  return lower_attention(region, *schedule.as<AttentionSchedule>(), target);
}

constexpr auto kFields = fields_of<AttentionSchedule>();

}  // namespace

const Strategy attention_strategy = {.name = "attention",
                                     .fields = kFields,
                                     .why_not = why_not,
                                     .candidates = candidates,
                                     .seconds = seconds,
                                     .layouts = layouts,
                                     .lower = lower_record};
const Strategy& AttentionSchedule::strategy() { return attention_strategy; }

}  // namespace graft::tile
