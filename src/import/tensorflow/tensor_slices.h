// SPDX-License-Identifier: Apache-2.0
// Tensors that a checkpoint keeps in parts, as TensorFlow writes what is larger than a shard: under which key each part
// lies, and the whole that they make.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor_data.h"

namespace graft_tensorflow {
class TensorSliceProto;
}

namespace graft::tensorflow {

/// A box of a tensor: along each axis so many elements from one on.
struct TensorSlice {
  std::vector<int64_t> start, length;
};

/// A part of a tensor with its elements.
struct TensorPart {
  TensorSlice slice;
  TensorData data;  ///< of the slice's lengths
};

/// The slice that a message states of a tensor of that shape. Throws invalid_model naming `where` for one that does not
/// lie within it.
TensorSlice read_slice(const graft_tensorflow::TensorSliceProto& message, const std::vector<int64_t>& shape,
                       const std::string& where);

/// The key of a part in a checkpoint's index: EncodeTensorNameSlice of TensorFlow's core/util, whose numbers and texts
/// sort as their bytes do (core/lib/strings/ordered_code).
std::string slice_key(std::string_view tensor, const graft_tensorflow::TensorSliceProto& message);

/// The whole tensor, made when somebody asks for its elements. Throws invalid_model naming `where` for parts that do
/// not have each element once, and unsupported for elements narrower than a byte.
TensorData join_parts(DType type, std::vector<int64_t> shape, std::vector<TensorPart> parts, const std::string& where);

}  // namespace graft::tensorflow
