// SPDX-License-Identifier: Apache-2.0
#include "driver/kept_runs.h"

#include <algorithm>

#include "base/hash.h"

namespace graft {
namespace {

constexpr int64_t kMostRunSamples = 4;  // few, as each layer takes a run of its own
constexpr int64_t kMostInputBytes = int64_t{64} << 20;
constexpr int64_t kMostResultBytes = int64_t{256} << 20;

TensorData leading_rows(const TensorData& tensor, int64_t count) {
  std::vector<int64_t> shape = tensor.shape();
  const auto bytes = static_cast<size_t>(tensor.byte_count() / shape[0] * count);
  shape[0] = count;
  return TensorData::from_bytes(tensor.type(), shape, tensor.bytes().first(bytes));
}

}  // namespace

void KeptRuns::add(const std::vector<TensorData>& inputs, int64_t samples, bool is_divisible) {
  const int64_t count = is_divisible ? std::min(samples, kMostRunSamples - samples_) : samples;
  int64_t bytes = bytes_;
  for (const TensorData& tensor : inputs) bytes += tensor.byte_count() / samples * count;
  const bool fits = samples_ + count <= kMostRunSamples && bytes <= kMostInputBytes;
  if (count <= 0 || (!runs_.empty() && !fits)) return;
  runs_.push_back(inputs), samples_ += count, bytes_ = bytes;
  if (count == samples) return;
  for (TensorData& tensor : runs_.back()) tensor = leading_rows(tensor, count);
}

const std::vector<TensorData>& ReferenceResults::of(const std::vector<TensorData>& inputs) {
  uint64_t key = 0;
  for (const TensorData& tensor : inputs) key = hash64(tensor.bytes(), key);
  const auto known = kept_.find(key);
  if (known != kept_.end()) return known->second;
  const std::vector<TensorData>& results = network_.run(inputs);
  for (const TensorData& tensor : results) bytes_ += tensor.byte_count();
  if (bytes_ <= kMostResultBytes) kept_.emplace(key, results);
  return results;
}

}  // namespace graft
