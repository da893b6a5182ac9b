// SPDX-License-Identifier: Apache-2.0
// Types of values that are no tensors, read from and written as the text that a graph keeps:
// `seq(f32[2, n])`, `optional(seq(i64))`, `map(str, f32[])`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace graft {

struct DynamicType {
  enum class Kind : uint8_t { kTensor, kSequence, kOptional, kMap, kOther };
  Kind kind = Kind::kTensor;
  DType type = DType::kUndefined;  ///< the elements of a tensor, the keys of a map
  /// Of a tensor whose rank is known. The elements of one sequence may differ in a size: then it is nothing.
  std::optional<std::vector<std::optional<int64_t>>> shape;
  bool absent = false;  ///< of a tensor: no sequence has one so far, so that its rank is that of the first to come
  std::shared_ptr<const DynamicType> element;  ///< what a sequence or optional holds, the values of a map

  static DynamicType sequence_of(DynamicType element);
  static DynamicType optional_of(DynamicType element);
  static DynamicType map_of(DType keys, DynamicType value);
  bool is_tensor() const { return kind == Kind::kTensor; }
};

/// Sizes that are no numbers are `?`; the type of elements that there are none of ends with `!`.
std::string print(const DynamicType& type);
/// Throws invalid_model for a text that is no type.
DynamicType parse_dynamic_type(std::string_view text);
/// The type of a value, which may be a tensor.
DynamicType type_of(const Value& value);
/// The type that values of both types have; nothing when there is none.
std::optional<DynamicType> join(const DynamicType& a, const DynamicType& b);

}  // namespace graft
