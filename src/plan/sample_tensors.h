// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs to measure with.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/tensor_data.h"
#include "runtime/session.h"

namespace graft {

/// Owns tensors that runs read and write.
class SampleTensors {
 public:
  /// A tensor of random values (of integers zeros), and a view of it that lives as long as this object.
  BufferView add(DType type, const std::vector<int64_t>& shape, uint64_t seed);
  BufferView add(TensorData data);

 private:
  std::deque<TensorData> data_;
};

}  // namespace graft
