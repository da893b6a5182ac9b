// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "framework.h"
#include "graft/mxnet.h"
#include "hash.h"

namespace graft::extension {
namespace {

constexpr size_t kWholeBytes = 4096;  // arrays up to this size are read wholly: biases and running statistics
constexpr size_t kSamples = 16;       // of larger ones, so that hundreds of weights take a fraction of a millisecond

/// 8 bytes each of equally distant places, the first and the last ones among them.
std::array<uint64_t, 2> samples_of(const std::byte* data, size_t size) {
  std::array<uint64_t, kSamples> taken = {};
  const size_t last = size - sizeof(uint64_t);
  for (size_t i = 0; i < kSamples; ++i) {
    std::memcpy(&taken[i], data + last / (kSamples - 1) * i, sizeof(uint64_t));
  }
  std::memcpy(&taken[kSamples - 1], data + last, sizeof(uint64_t));
  return hash_of(reinterpret_cast<const std::byte*>(taken.data()), sizeof taken);
}

}  // namespace
}  // namespace graft::extension

extern "C" GRAFT_API uint64_t graft_mxnet_fingerprint(void* const* arrays, const size_t* sizes, size_t count,
                                                      int whole) {
  using namespace graft::extension;
  uint64_t fingerprint = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto* const data = static_cast<const std::byte*>(data_of(arrays[i]));
    if (!data) continue;
    const auto lanes =
        whole != 0 || sizes[i] <= kWholeBytes ? hash_of(data, sizes[i]) : samples_of(data, sizes[i]);
    fingerprint = (fingerprint ^ lanes[0]) * 0x9FB21C651E98DF25 + lanes[1];
    fingerprint ^= fingerprint >> 31;
  }
  return fingerprint;
}
