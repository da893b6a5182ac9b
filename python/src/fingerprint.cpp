// SPDX-License-Identifier: Apache-2.0
#include "fingerprint.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace graft_python {
namespace {

constexpr size_t kBlock = 64;
constexpr int32_t kCpu = 1, kCudaHost = 3;  // DLPack's

/// Four independent chains, so that multiplications overlap.
class Hash {
 public:
  void add(const unsigned char* bytes, size_t count) {
    for (; count >= kWords * sizeof(uint64_t); bytes += kWords * sizeof(uint64_t), count -= kWords * sizeof(uint64_t)) {
      for (size_t i = 0; i < kWords; ++i) mix(i, word(bytes + i * sizeof(uint64_t), sizeof(uint64_t)));
    }
    for (size_t i = 0; count > 0; ++i) {
      const size_t taken = std::min(count, sizeof(uint64_t));
      mix(i % kWords, word(bytes, taken));
      bytes += taken, count -= taken;
    }
  }
  uint64_t value() const {
    uint64_t all = 0;
    for (const uint64_t chain : chains_) all = (all ^ chain ^ (chain >> 29)) * kFactor;
    return all;
  }

 private:
  static constexpr size_t kWords = 4;
  static constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio, odd

  static uint64_t word(const unsigned char* bytes, size_t count) {
    uint64_t value = 0;
    std::memcpy(&value, bytes, count);
    return value;
  }
  /// Injective in the word for each state, so that one changed word always shows.
  void mix(size_t chain, uint64_t value) {
    const uint64_t before = chains_[chain];
    chains_[chain] = (((before << 23) | (before >> 41)) ^ value) * kFactor;
  }

  std::array<uint64_t, kWords> chains_ = {1, 2, 3, 4};
};

size_t element_bytes(const DlTensor& tensor) { return (size_t{tensor.dtype.bits} * tensor.dtype.lanes + 7) / 8; }

/// Whether each byte from the first element to the last is one of an element, of one alone: in whatever order.
bool is_dense(const DlTensor& tensor, int64_t count) {
  if (!tensor.strides) return true;
  int64_t last = 0;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] == 1) continue;
    if (tensor.strides[axis] <= 0) return false;
    last += (tensor.shape[axis] - 1) * tensor.strides[axis];
  }
  return last + 1 == count;
}

/// Elements apart from each other, every `step`-th in row-major order.
void add_elements(Hash& hash, const DlTensor& tensor, const unsigned char* first, int64_t count, int64_t step) {
  const auto bytes = element_bytes(tensor);
  for (int64_t element = 0; element < count; element += step) {
    int64_t rest = element, offset = 0;
    for (int32_t axis = tensor.rank; axis-- > 0;) {
      offset += rest % tensor.shape[axis] * tensor.strides[axis];
      rest /= tensor.shape[axis];
    }
    hash.add(first + offset * static_cast<int64_t>(bytes), bytes);
  }
}

}  // namespace

uint64_t fingerprint(const DlTensor& tensor, int64_t samples) {
  if (samples == 0 || !tensor.data || (tensor.device.type != kCpu && tensor.device.type != kCudaHost)) return 0;
  int64_t count = 1;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) count *= tensor.shape[axis];
  if (count == 0) return 0;
  const auto* first = static_cast<const unsigned char*>(tensor.data) + tensor.byte_offset;
  Hash hash;
  if (!is_dense(tensor, count)) {
    add_elements(hash, tensor, first, count, samples < 0 ? 1 : std::max<int64_t>(count / samples, 1));
    return hash.value();
  }
  const size_t bytes = static_cast<size_t>(count) * element_bytes(tensor);
  if (samples < 0 || bytes <= static_cast<size_t>(samples) * kBlock) {
    hash.add(first, bytes);
    return hash.value();
  }
  const auto last = static_cast<int64_t>(bytes - kBlock);
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t at = samples == 1 ? last / 2 : last / (samples - 1) * i;
    hash.add(first + at, kBlock);
  }
  return hash.value();
}

}  // namespace graft_python
