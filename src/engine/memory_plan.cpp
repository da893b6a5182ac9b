// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/checked_size.h"
#include "base/error.h"

namespace graft {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool live_together(const Lifetime& a, const Lifetime& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

/// The most bytes that live at one step: no plan is smaller.
int64_t most_live_bytes(std::span<const Lifetime> lifetimes) {
  std::map<int, int64_t> change;
  for (const Lifetime& lifetime : lifetimes) {
    change[lifetime.first_step] += aligned(lifetime.bytes);
    change[lifetime.last_step + 1] -= aligned(lifetime.bytes);
  }
  int64_t live = 0, most = 0;
  for (const auto& [step, bytes] : change) most = std::max(most, live += bytes);
  return most;
}

/// Tensors placed so far, by offset.
class Placement {
 public:
  explicit Placement(std::span<const Lifetime> lifetimes)
      : lifetimes_(lifetimes), plan_{std::vector<int64_t>(lifetimes.size(), 0), 0} {}

  /// Calls `visit(begin, end)` for each gap among the tensors that live together with `t`; the last has end -1.
  template <class Visit>
  void for_each_gap(size_t t, const Visit& visit) const {
    int64_t begin = 0;
    for (const size_t other : placed_) {
      if (!live_together(lifetimes_[t], lifetimes_[other])) continue;
      if (plan_.offsets[other] > begin) visit(begin, plan_.offsets[other]);
      begin = std::max(begin, plan_.offsets[other] + aligned(lifetimes_[other].bytes));
    }
    visit(begin, int64_t{-1});
  }

  void place(size_t t, int64_t offset) {
    plan_.offsets[t] = offset;
    plan_.bytes = std::max(plan_.bytes, offset + aligned(lifetimes_[t].bytes));
    placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), t,
                                    [&](size_t a, size_t b) { return plan_.offsets[a] < plan_.offsets[b]; }),
                   t);
  }
  MemoryPlan take() { return std::move(plan_); }

 private:
  std::span<const Lifetime> lifetimes_;
  MemoryPlan plan_;
  std::vector<size_t> placed_;
};

template <class Before>
std::vector<size_t> sorted(size_t count, const Before& before) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), before);
  return order;
}

/// The largest first, each in the smallest gap that takes it.
MemoryPlan plan_by_size(std::span<const Lifetime> lifetimes) {
  Placement placement(lifetimes);
  for (const size_t t :
       sorted(lifetimes.size(), [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; })) {
    const int64_t need = aligned(lifetimes[t].bytes);
    if (need == 0) continue;
    int64_t best = -1, best_gap = INT64_MAX;
    placement.for_each_gap(t, [&](int64_t begin, int64_t end) {
      const int64_t gap = end < 0 ? INT64_MAX - 1 : end - begin;
      if (gap >= need && gap < best_gap) best = begin, best_gap = gap;
    });
    placement.place(t, best);
  }
  return placement.take();
}

/// In the order of the steps, from both ends of an arena of `bytes`: in a chain each tensor lies at the other end than
/// the one before. Nothing when a tensor finds no gap.
std::optional<MemoryPlan> plan_from_both_ends(std::span<const Lifetime> lifetimes, int64_t bytes) {
  Placement placement(lifetimes);
  for (const size_t t : sorted(lifetimes.size(), [&](size_t a, size_t b) {
         return std::pair(lifetimes[a].first_step, -lifetimes[a].bytes) <
                std::pair(lifetimes[b].first_step, -lifetimes[b].bytes);
       })) {
    const int64_t need = aligned(lifetimes[t].bytes);
    if (need == 0) continue;
    int64_t best = -1, best_gap = INT64_MAX;
    placement.for_each_gap(t, [&](int64_t begin, int64_t end) {
      const bool at_top = end < 0 && begin > 0;
      const int64_t last = end < 0 ? bytes : end;
      if (last - begin < need || last - begin >= best_gap) return;
      best = at_top ? last - need : begin;
      best_gap = last - begin;
    });
    if (best < 0) return std::nullopt;
    placement.place(t, best);
  }
  return placement.take();
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  for (const Lifetime& lifetime : lifetimes) {
    GRAFT_USER_CHECK(lifetime.bytes >= 0 && lifetime.bytes <= kMostBytes, kOutOfMemory,
                     fmt::format("a tensor of {} bytes cannot be placed: at most {} can be had; use smaller sizes",
                                 lifetime.bytes, kMostBytes),
                     "memory plan");
  }
  MemoryPlan plan = plan_by_size(lifetimes);
  const int64_t least = most_live_bytes(lifetimes);
  if (plan.bytes == least) return plan;
  if (auto other = plan_from_both_ends(lifetimes, least)) return *std::move(other);
  return plan;
}

bool is_sound(const MemoryPlan& plan, std::span<const Lifetime> lifetimes) {
  if (plan.offsets.size() != lifetimes.size()) return false;
  for (size_t a = 0; a < lifetimes.size(); ++a) {
    const int64_t end = plan.offsets[a] + lifetimes[a].bytes;
    if (plan.offsets[a] < 0 || plan.offsets[a] % kAlignment != 0 || end > plan.bytes) return false;
    for (size_t b = 0; b < a; ++b) {
      if (lifetimes[a].bytes == 0 || lifetimes[b].bytes == 0 || !live_together(lifetimes[a], lifetimes[b])) continue;
      if (plan.offsets[a] < plan.offsets[b] + lifetimes[b].bytes && plan.offsets[b] < end) return false;
    }
  }
  return true;
}

}  // namespace graft
