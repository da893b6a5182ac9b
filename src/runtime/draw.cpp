// SPDX-License-Identifier: Apache-2.0
#include "runtime/draw.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>

#include "base/random.h"

namespace graft {

void draw(void* place, DeviceStream* stream) {
  static std::atomic<uint64_t> count{(uint64_t{std::random_device()()} << 32) | std::random_device()()};
  const uint64_t process = Random(static_cast<uint64_t>(getpid())).next();
  const uint64_t bits = Random(count.fetch_add(1, std::memory_order_relaxed) ^ process).next();
  if (stream) return stream->upload(place, &bits, sizeof(bits));
  std::memcpy(place, &bits, sizeof(bits));
}

}  // namespace graft
