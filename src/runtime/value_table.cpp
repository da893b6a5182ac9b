// SPDX-License-Identifier: Apache-2.0
#include "runtime/value_table.h"

#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

/// About what a string costs beside its characters: the string, its place in the index, its entry there.
constexpr size_t kTextOverhead = 96;

}  // namespace

ValueTable::ValueTable(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {
  add_text("");
  keep();
}

ValueTable::~ValueTable() {
  budget_->give(taken_ + kept_bytes_);
}

void ValueTable::keep() {
  kept_ = texts_.size();
  kept_bytes_ += std::exchange(taken_, 0);
}

void ValueTable::take(size_t bytes) {
  budget_->take(static_cast<int64_t>(bytes), "strings and sequences of a run");
  taken_ += static_cast<int64_t>(bytes);
}

uint64_t ValueTable::add_text(std::string_view text) {
  const auto known = handles_.find(text);
  if (known != handles_.end()) return known->second;
  take(text.size() + kTextOverhead);
  texts_.emplace_back(text);
  const uint64_t handle = texts_.size() - 1;
  handles_.emplace(texts_.back(), handle);
  return handle;
}

uint64_t ValueTable::add(DynamicValue value) {
  take(sizeof(DynamicValue));
  values_.push_back(std::move(value));
  return values_.size() - 1;
}

const std::string& ValueTable::text(uint64_t handle) const {
  GRAFT_USER_CHECK(handle < texts_.size(), kInternal, fmt::format("there is no string number {}", handle), "run");
  return texts_[handle];
}

const DynamicValue& ValueTable::value(uint64_t handle) const {
  GRAFT_USER_CHECK(handle < values_.size(), kInternal, fmt::format("there is no value number {}", handle), "run");
  return values_[handle];
}

void ValueTable::forget() {
  values_.clear();
  while (texts_.size() > kept_) {
    handles_.erase(texts_.back());
    texts_.pop_back();
  }
  if (taken_ > 0) budget_->give(std::exchange(taken_, 0));
}

}  // namespace graft
