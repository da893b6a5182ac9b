// SPDX-License-Identifier: Apache-2.0
// A small leveled log: one callback for the process, standard error by default.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include <fmt/core.h>

namespace graft {

/// How much a message matters. GRAFT_DEBUG=n shows n levels beyond warnings.
enum class LogLevel : uint8_t { kError, kWarning, kStep, kReason, kChoice, kDetail, kTrace };

std::string_view name_of(LogLevel level);

/// Receives each message that is shown, one at a time; it must not log itself.
using LogCallback = std::function<void(LogLevel, std::string_view)>;

/// Replaces where messages go; an empty callback restores standard error. Safe from any thread.
void set_log_callback(LogCallback callback);
/// Shows messages up to and including `level`; the start value comes from GRAFT_DEBUG.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);

void write_log(LogLevel level, fmt::string_view format, fmt::format_args arguments);

/// Formats and writes a message when its level is shown:  log(LogLevel::kStep, "{}: {} nodes", pass, count);
template <class... Arguments>
void log(LogLevel level, fmt::format_string<Arguments...> format, const Arguments&... arguments) {
  if (log_enabled(level)) write_log(level, format, fmt::make_format_args(arguments...));
}

}  // namespace graft
