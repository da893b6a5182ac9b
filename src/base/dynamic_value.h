// SPDX-License-Identifier: Apache-2.0
// A value of a run whose parts only the run knows: nothing, a tensor, a sequence of values, or a map.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/tensor_data.h"

namespace graft {

/// Copies share what they hold. A sequence that grows at its end shares the elements of the one that it grew from, so
/// that a loop that appends takes time and memory in proportion to what it appends. The sequences of one run are used
/// by one thread; `copied` gives one that shares no list with others.
class DynamicValue {
 public:
  enum class Kind : uint8_t { kNothing, kTensor, kSequence, kMap };

  /// Nothing: an empty optional.
  DynamicValue() = default;
  DynamicValue(TensorData tensor) : kind_(Kind::kTensor), tensor_(std::move(tensor)) {}
  /// Throws invalid_argument where sequences are nested deeper than any type is.
  static DynamicValue sequence(std::vector<DynamicValue> elements);
  /// Keys are i64 or strings along one axis; `values` has an element, or a slice of its first axis, for each.
  static DynamicValue map(TensorData keys, TensorData values);

  Kind kind() const { return kind_; }
  /// The tensor, or the keys of a map.
  const TensorData& tensor() const { return tensor_; }
  const TensorData& map_values() const { return values_; }
  /// Of a sequence.
  size_t size() const { return size_; }
  const DynamicValue& operator[](size_t index) const { return (*elements_)[index]; }
  /// Calls `visit` with each element of a sequence.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (size_t i = 0; i < size_; ++i) visit((*elements_)[i]);
  }
  /// The sequence with an element more, or one less, at a place that it has.
  DynamicValue with(size_t place, DynamicValue element) const;
  DynamicValue without(size_t place) const;
  /// The same sequence in a list of its own.
  DynamicValue copied() const;

 private:
  Kind kind_ = Kind::kNothing;
  TensorData tensor_, values_;
  std::shared_ptr<std::vector<DynamicValue>> elements_;  ///< may be longer than this sequence
  size_t size_ = 0;
  int depth_ = 0;  ///< of sequences in each other
};

/// `f32[2, 3]`, `a sequence of 3`, `nothing`
std::string describe(const DynamicValue& value);

}  // namespace graft
