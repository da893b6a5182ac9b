// SPDX-License-Identifier: Apache-2.0
#include "decisions.h"

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>

#include "device/device.h"

namespace graft::emulator {
namespace {

std::deque<unsigned>& values() {
  static std::deque<unsigned> all;
  return all;
}

template <class T>
T argument(void** arguments, int i) {
  return *static_cast<T*>(arguments[i]);
}

bool is_set(const void* flag) { return *static_cast<const uint8_t*>(flag) != 0; }

void decide(void** arguments) {
  unsigned* value = conditional_value(argument<ConditionalHandle>(arguments, 0));
  if (!value) return graft_fail("a handle that was never made is set");
  *value = unsigned{is_set(argument<const void*>(arguments, 1))} == argument<unsigned>(arguments, 2) ? 1 : 0;
}

void set_count(void** arguments) {
  const auto round = argument<int64_t>(arguments, 1), limit = argument<int64_t>(arguments, 2);
  const bool going = round < limit && is_set(argument<const void*>(arguments, 3));
  *argument<RoundCount*>(arguments, 0) = {round, limit, round, uint8_t{going}, 0};
}

void count_round(void** arguments) {
  auto* count = argument<RoundCount*>(arguments, 0);
  ++count->round;
  count->going = uint8_t{count->round < count->limit && is_set(argument<const void*>(arguments, 1))};
  count->odd ^= 1;
}

void copy_of_round(void** arguments) {
  const auto bytes = argument<int64_t>(arguments, 2);
  const auto* count = argument<const RoundCount*>(arguments, 3);
  char* to = argument<char*>(arguments, 0) + (count->round - count->first) * bytes;
  const char* from = argument<const char*>(arguments, 1);
  const int64_t threads = int64_t{graft_grid_size.x} * graft_block_size.x;
  for (int64_t i = int64_t{graft_block_index.x} * graft_block_size.x + graft_thread_index.x; i < bytes; i += threads) {
    to[i] = from[i];
  }
}

}  // namespace

ConditionalHandle make_conditional(unsigned value) {
  values().push_back(value);
  return values().size();
}

unsigned* conditional_value(ConditionalHandle handle) {
  return handle >= 1 && handle <= values().size() ? &values()[handle - 1] : nullptr;
}

bool is_ptx(const char* image) {
  constexpr const char* kBegin = ".version";
  return std::strncmp(image, kBegin, std::strlen(kBegin)) == 0;
}

const graft_kernel* find_decision(const std::string& name) {
  static const std::map<std::string, graft_kernel> kernels{
      {"decide", {decide, 1024, 1, 1, {3, {8, 8, 4}}}},
      {"set_count", {set_count, 1024, 1, 1, {4, {8, 8, 8, 8}}}},
      {"count_round", {count_round, 1024, 1, 1, {2, {8, 8}}}},
      {"copy_of_round", {copy_of_round, 1024, 1, 1, {4, {8, 8, 8, 8}}}}};
  const auto at = kernels.find(name);
  return at == kernels.end() ? nullptr : &at->second;
}

}  // namespace graft::emulator
