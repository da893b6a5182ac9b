// SPDX-License-Identifier: Apache-2.0
// What bounds a run: a budget that all its memory is taken from, and a signal that ends it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "base/checked_size.h"

namespace graft {

/// Memory and swap of this machine in bytes: no single piece of host memory may be larger.
int64_t machine_memory();

/// Throws out_of_memory where the system gave none.
[[noreturn]] void throw_no_memory(int64_t bytes, std::string_view what, std::string_view name = {});

/// Bytes taken and given back. Safe from any thread.
class MemoryBudget {
 public:
  /// The most that may be held at a time; 0: no limit but `most` of take().
  void set_limit(int64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  /// Throws out_of_memory naming what the bytes are for, how many they are, the limit and the remedy.
  void take(int64_t bytes, std::string_view what, std::string_view name = {}, int64_t most = machine_memory());
  void give(int64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> used_{0}, limit_{0};
};

/// Asks a run to end. Every piece of work looks at it before it begins, at the cost of one relaxed load. Setting it is
/// safe from any thread and from a signal handler.
class StopSignal {
 public:
  enum Reason : int { kNone, kCancelled, kDeadline };
  // Both exchange: what was written before the one is seen after the other that follows it.
  void clear() { reason_.exchange(kNone, std::memory_order_acq_rel); }
  void request(Reason reason) { reason_.exchange(reason, std::memory_order_acq_rel); }
  bool requested() const { return reason_.load(std::memory_order_relaxed) != kNone; }
  /// Throws `cancelled`, saying why, when it was requested.
  void check() const {
    if (requested()) raise();
  }

 private:
  [[noreturn]] void raise() const;
  std::atomic<int> reason_{kNone};
  static_assert(std::atomic<int>::is_always_lock_free);
};

/// While it lives, memory of tensors and BudgetVectors made on this thread comes out of the budget, and
/// stop_if_requested() looks at the signal. Either may be null.
class LimitScope {
 public:
  LimitScope(std::shared_ptr<MemoryBudget> budget, const StopSignal* stop);
  ~LimitScope();
  LimitScope(const LimitScope&) = delete;
  LimitScope& operator=(const LimitScope&) = delete;

 private:
  std::shared_ptr<MemoryBudget> budget_;
  const StopSignal* stop_;
};

/// What a thread works under: a module of another library puts it up again on its side of the border.
struct RunLimits {
  std::shared_ptr<MemoryBudget> budget;
  const StopSignal* stop = nullptr;
};
RunLimits current_limits();
/// The budget of this thread, or null.
const std::shared_ptr<MemoryBudget>& current_budget();
/// Throws `cancelled` when the run that this thread works for is to end.
void stop_if_requested();

/// Memory from the budget that this thread had when the container was made; without one, from the machine alone.
template <class T>
class BudgetAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  BudgetAllocator() : budget_(current_budget()) {}
  explicit BudgetAllocator(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}
  template <class U>
  BudgetAllocator(const BudgetAllocator<U>& other) : budget_(other.budget()) {}

  T* allocate(size_t count) {
    const int64_t bytes = checked_product(static_cast<int64_t>(count), sizeof(T), kWhat);
    if (budget_) budget_->take(bytes, kWhat);
    void* memory = ::operator new(static_cast<size_t>(bytes), std::nothrow);
    if (memory) return static_cast<T*>(memory);
    if (budget_) budget_->give(bytes);
    throw_no_memory(bytes, kWhat);
  }
  void deallocate(T* memory, size_t count) noexcept {
    if (budget_) budget_->give(static_cast<int64_t>(count * sizeof(T)));
    ::operator delete(memory);
  }
  const std::shared_ptr<MemoryBudget>& budget() const { return budget_; }
  bool operator==(const BudgetAllocator& other) const { return budget_ == other.budget_; }

 private:
  static constexpr std::string_view kWhat = "values that are being computed";
  std::shared_ptr<MemoryBudget> budget_;
};

template <class T>
using BudgetVector = std::vector<T, BudgetAllocator<T>>;

}  // namespace graft
