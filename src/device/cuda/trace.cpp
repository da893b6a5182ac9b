// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/trace.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/cuda_library.h"
#include "base/error.h"

namespace graft {
namespace {

// From cupti_activity.h.
constexpr int kCopy = 1, kFill = 2, kKernel = 10;  // CUPTI_ACTIVITY_KIND_MEMCPY, _MEMSET, _CONCURRENT_KERNEL
constexpr uint32_t kFlushAll = 1;                  // CUPTI_ACTIVITY_FLAG_FLUSH_FORCED

/// What CUpti_ActivityKernel4 and its successors, CUpti_ActivityMemcpy4 and CUpti_ActivityMemset3 begin with; only a
/// kernel's record has what comes after the times.
struct Record {
  uint32_t kind, details[3];
  uint64_t begin, end;  ///< nanoseconds
  uint32_t launch[18];
  const char* name;
};
static_assert(offsetof(Record, begin) == 16 && offsetof(Record, name) == 104);

struct Cupti {
  std::string missing;
  int (*register_callbacks)(void (*)(uint8_t**, size_t*, size_t*),
                            void (*)(void*, uint32_t, uint8_t*, size_t, size_t)) = nullptr;
  int (*enable)(int) = nullptr;
  int (*disable)(int) = nullptr;
  int (*flush)(uint32_t) = nullptr;
  int (*next_record)(uint8_t*, size_t, Record**) = nullptr;
  int (*result_string)(int, const char**) = nullptr;

  Cupti() {
    CudaLibrary library = open_cuda_library("cupti", {13, 12});
    library.require(register_callbacks, "cuptiActivityRegisterCallbacks");
    library.require(enable, "cuptiActivityEnable");
    library.require(disable, "cuptiActivityDisable");
    library.require(flush, "cuptiActivityFlushAll");
    library.require(next_record, "cuptiActivityGetNextRecord");
    library.require(result_string, "cuptiGetResultString");
    missing = library.missing;
  }

  void check(int result, const char* what) const {
    if (result == 0) return;
    const char* reason = nullptr;
    result_string(result, &reason);
    throw Error(ErrorKind::kDevice, fmt::format("{}: {}", what, reason ? reason : std::to_string(result)), "CUPTI");
  }
};

const Cupti& cupti() {
  static const Cupti loaded;
  return loaded;
}

std::mutex trace_mutex;
/// CUPTI's callbacks know no caller. Filled while `trace_mutex` is held.
std::vector<DeviceActivity> collected;

void give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  constexpr size_t kBytes = 1 << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBytes));
  *size = *buffer ? kBytes : 0;
  *most_records = 0;
}

void take_buffer(void*, uint32_t, uint8_t* buffer, size_t, size_t filled) {
  Record* record = nullptr;
  while (cupti().next_record(buffer, filled, &record) == 0) {
    const std::string name = record->kind != kKernel ? (record->kind == kCopy ? "copy" : "fill")
                             : record->name          ? record->name
                                                     : "kernel";
    collected.push_back({name, 1e-3 * static_cast<double>(record->begin), 1e-3 * static_cast<double>(record->end)});
  }
  std::free(buffer);
}

/// Telling is on while it lives.
class Telling {
 public:
  Telling() {
    for (const int kind : {kKernel, kCopy, kFill}) cupti().check(cupti().enable(kind), "tracing cannot begin");
  }
  ~Telling() {
    for (const int kind : {kKernel, kCopy, kFill}) cupti().disable(kind);
  }
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;
};

}  // namespace

std::vector<DeviceActivity> trace_cuda(const std::function<void()>& work) {
  GRAFT_USER_CHECK(cupti().missing.empty(), kDevice, cupti().missing, "CUPTI");
  const std::lock_guard lock(trace_mutex);
  cupti().check(cupti().register_callbacks(give_buffer, take_buffer), "tracing cannot begin");
  collected.clear();
  {
    const Telling telling;
    work();
    cupti().check(cupti().flush(kFlushAll), "tracing cannot end");
  }
  std::vector<DeviceActivity> told = std::exchange(collected, {});
  std::sort(told.begin(), told.end(), [](const auto& a, const auto& b) { return a.begin_us < b.begin_us; });
  return told;
}

}  // namespace graft
