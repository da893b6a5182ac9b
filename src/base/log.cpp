// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>

#include "base/environment.h"
#include "base/printable.h"

namespace graft {
namespace {

/// The callback behind its mutex; never destroyed, since threads may log while the process ends.
struct Sink {
  std::mutex mutex;
  LogCallback callback;
};

Sink& sink() {
  static Sink* instance = new Sink;
  return *instance;
}

std::atomic<int>& shown_level() {
  static std::atomic<int> level = static_cast<int>(LogLevel::kWarning) + environment().debug;
  return level;
}

}  // namespace

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kStep:
      return "step";
    case LogLevel::kReason:
      return "reason";
    case LogLevel::kChoice:
      return "choice";
    case LogLevel::kDetail:
      return "detail";
    case LogLevel::kTrace:
      return "trace";
  }
  return "unknown";
}

void set_log_callback(LogCallback callback) {
  const std::lock_guard lock(sink().mutex);
  sink().callback = std::move(callback);
}

void set_log_level(LogLevel level) { shown_level().store(static_cast<int>(level), std::memory_order_relaxed); }

bool log_enabled(LogLevel level) { return static_cast<int>(level) <= shown_level().load(std::memory_order_relaxed); }

void write_log(LogLevel level, fmt::string_view format, fmt::format_args arguments) {
  const std::string message = printable(fmt::vformat(format, arguments));
  const std::lock_guard lock(sink().mutex);
  if (sink().callback) {
    sink().callback(level, message);
  } else {
    fmt::print(stderr, "graft {}: {}\n", name_of(level), message);
  }
}

}  // namespace graft
