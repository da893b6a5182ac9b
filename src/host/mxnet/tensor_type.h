// SPDX-License-Identifier: Apache-2.0
// What an engine takes and gives, as MXNet infers types and shapes by it: `float32[batch,3,224,224]`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft::extension {

/// A size that follows the batch: per_batch * batch + fixed.
struct Axis {
  int64_t fixed = 0;
  int64_t per_batch = 0;
  int64_t at(int64_t batch) const { return fixed + per_batch * batch; }
  bool operator==(const Axis&) const = default;
};

struct TensorType {
  int code = 0;  ///< MXNet's number of the element type
  std::vector<Axis> axes;
};

/// An element type by MXNet's number; nothing for one that is not known.
struct ElementType {
  int code;
  int32_t graft;
  std::string_view name;
};
const ElementType* element_type(int code);

std::string to_text(const Axis& axis);
std::string to_text(const TensorType& type);
/// `float32[batch,3];uint8[10]`
std::string to_text(const std::vector<TensorType>& types);
/// The way back. Throws Failure for what to_text does not write.
std::vector<TensorType> parse_tensor_types(std::string_view text);

}  // namespace graft::extension
