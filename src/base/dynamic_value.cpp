// SPDX-License-Identifier: Apache-2.0
#include "base/dynamic_value.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

/// What copies, prints and releases a value calls itself for each level.
constexpr int kDeepest = 64;

int checked_depth(int depth) {
  GRAFT_USER_CHECK(depth <= kDeepest, kInvalidArgument,
                   fmt::format("sequences are nested more than {} deep; nest them less", kDeepest), "sequence");
  return depth;
}

}  // namespace

DynamicValue DynamicValue::sequence(std::vector<DynamicValue> elements) {
  DynamicValue value;
  value.kind_ = Kind::kSequence;
  value.size_ = elements.size();
  for (const DynamicValue& element : elements) value.depth_ = std::max(value.depth_, element.depth_);
  value.depth_ = checked_depth(value.depth_ + 1);
  value.elements_ = std::make_shared<std::vector<DynamicValue>>(std::move(elements));
  return value;
}

DynamicValue DynamicValue::map(TensorData keys, TensorData values) {
  const bool typed = keys.type() == DType::kInt64 || keys.type() == DType::kString;
  GRAFT_USER_CHECK(typed && keys.rank() == 1, kInvalidArgument,
                   fmt::format("keys are i64 or strings along one axis, not {}", describe(keys)), "map");
  GRAFT_USER_CHECK(values.rank() >= 1 && values.shape()[0] == keys.shape()[0], kInvalidArgument,
                   fmt::format("{} keys do not fit the values {}", keys.shape()[0], describe(values)), "map");
  DynamicValue value;
  value.kind_ = Kind::kMap;
  value.tensor_ = std::move(keys);
  value.values_ = std::move(values);
  return value;
}

DynamicValue DynamicValue::with(size_t place, DynamicValue element) const {
  GRAFT_CHECK(kind_ == Kind::kSequence && place <= size_, "an element is put where a sequence has a place");
  if (place == size_ && elements_->size() == size_) {
    const int depth = checked_depth(std::max(depth_, element.depth_ + 1));
    elements_->push_back(std::move(element));  // others that share the list end before it
    DynamicValue longer = *this;
    ++longer.size_;
    longer.depth_ = depth;
    return longer;
  }
  const auto at = elements_->begin() + static_cast<std::ptrdiff_t>(place);
  std::vector<DynamicValue> list;
  list.reserve(size_ + 1);
  list.insert(list.end(), elements_->begin(), at);
  list.push_back(std::move(element));
  list.insert(list.end(), at, elements_->begin() + static_cast<std::ptrdiff_t>(size_));
  return sequence(std::move(list));
}

DynamicValue DynamicValue::without(size_t place) const {
  GRAFT_CHECK(kind_ == Kind::kSequence && place < size_, "an element is taken that a sequence has");
  std::vector<DynamicValue> list(elements_->begin(), elements_->begin() + static_cast<std::ptrdiff_t>(size_));
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(place));
  return sequence(std::move(list));
}

DynamicValue DynamicValue::copied() const {
  if (kind_ != Kind::kSequence) return *this;
  std::vector<DynamicValue> list;
  list.reserve(size_);
  for_each([&](const DynamicValue& element) { list.push_back(element.copied()); });
  return sequence(std::move(list));
}

std::string describe(const DynamicValue& value) {
  switch (value.kind()) {
    case DynamicValue::Kind::kNothing:
      return "nothing";
    case DynamicValue::Kind::kTensor:
      return describe(value.tensor());
    case DynamicValue::Kind::kSequence:
      return fmt::format("a sequence of {}", value.size());
    case DynamicValue::Kind::kMap:
      return fmt::format("a map of {}", value.tensor().element_count());
  }
  return "nothing";
}

}  // namespace graft
