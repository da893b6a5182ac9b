// SPDX-License-Identifier: Apache-2.0
// The strings and dynamic values of a session: tensors in memory hold their numbers.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/dynamic_value.h"
#include "base/run_limits.h"

namespace graft {

/// Equal strings have equal handles, and 0 is the empty string. Handles are checked when they are looked up, so that no
/// number that a kernel or a plan makes up leads out of the table. Used by one thread at a time.
class ValueTable {
 public:
  explicit ValueTable(std::shared_ptr<MemoryBudget> budget);
  ~ValueTable();
  ValueTable(const ValueTable&) = delete;
  ValueTable& operator=(const ValueTable&) = delete;

  uint64_t add_text(std::string_view text);
  uint64_t add(DynamicValue value);
  /// Throws internal for a handle that the table has not given since it forgot the last run's.
  const std::string& text(uint64_t handle) const;
  const DynamicValue& value(uint64_t handle) const;
  /// All that is there is kept for good: the strings of constants.
  void keep();
  /// What later runs added goes, and with it what their results refer to.
  void forget();

 private:
  void take(size_t bytes);
  std::shared_ptr<MemoryBudget> budget_;
  int64_t taken_ = 0;  ///< bytes of the budget, beside those of what is kept
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, uint64_t> handles_;
  std::deque<DynamicValue> values_;
  size_t kept_ = 0;
  int64_t kept_bytes_ = 0;
};

}  // namespace graft
