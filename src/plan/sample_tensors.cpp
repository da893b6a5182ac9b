// SPDX-License-Identifier: Apache-2.0
#include "plan/sample_tensors.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace graft {
namespace {

/// Random values, which repeat in large tensors.
TensorData sample(DType type, const std::vector<int64_t>& shape, uint64_t seed) {
  constexpr int64_t kDifferent = 1 << 16;
  TensorData data = TensorData::zeros(type, shape);
  if (!is_float(type)) return data;  // integers may be indices: 0 is one of all tensors
  Random random(seed);
  std::vector<double> values(static_cast<size_t>(std::min(data.element_count(), kDifferent)));
  for (double& value : values) value = random.uniform(-1, 1);
  data.write_doubles(0, values);
  const std::span<std::byte> bytes = data.mutable_bytes();
  const size_t period = kDifferent * static_cast<size_t>(bit_width(type)) / 8;
  for (size_t at = period; at < bytes.size(); at += period) {
    std::memcpy(&bytes[at], bytes.data(), std::min(period, bytes.size() - at));
  }
  return data;
}

}  // namespace

BufferView SampleTensors::add(DType type, const std::vector<int64_t>& shape, uint64_t seed) {
  return add(sample(type, shape, seed));
}

BufferView SampleTensors::add(TensorData data) {
  data_.push_back(std::move(data));
  return {data_.back().mutable_bytes().data(), data_.back().type(), data_.back().shape(), {}};
}

}  // namespace graft
