// SPDX-License-Identifier: Apache-2.0
#include "run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "failure.h"
#include "message.h"

namespace graft::triton {
namespace {

/// `2026-11-30T13:28:00.123456Z`
std::string now_text() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1000000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  const size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%06dZ", static_cast<int>(micros));
  return text;
}

std::string id_of(TRITONBACKEND_Request* request) {
  const char* id = nullptr;
  ignore(TRITONBACKEND_RequestId(request, &id));
  return id ? id : "";
}

}  // namespace

RunLog::RunLog(TRITONBACKEND_Backend* backend) : path_(backend_option(backend, "log")) {
  if (path_.empty()) return;
  file_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (file_ < 0) {
    throw Error(ErrorKind::kDevice, "--backend-config=graft,log=" + path_ + ": it cannot be written: " +
                                        std::strerror(errno));
  }
}

RunLog::~RunLog() {
  if (file_ >= 0) close(file_);
}

void RunLog::write(const RunLine& line) noexcept {
  if (!wanted()) return;
  try {
    nlohmann::json row = {{"time", now_text()}, {"model", line.model}, {"version", line.version},
                          {"requests", nlohmann::json::array()}, {"rows", line.rows},
                          {"microseconds", line.nanoseconds / 1000}, {"status", line.status}};
    for (TRITONBACKEND_Request* const request : line.requests) row["requests"].push_back(id_of(request));
    if (!line.message.empty()) row["message"] = line.message;
    const std::string text = row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    const std::lock_guard lock(mutex_);
    const ssize_t written = ::write(file_, text.data(), text.size());  // one call: other processes may append, too
    const bool whole = written == static_cast<ssize_t>(text.size());
    if (!whole && !failed_) {
      const std::string problem = path_ + ": a line of the log could not be written: " + std::strerror(errno);
      ignore(TRITONSERVER_LogMessage(ServerLog::kError, "graft", 0, problem.c_str()));
    }
    failed_ = !whole;
  } catch (const std::exception&) {
    // No memory for a line of the log; the run is not its.
  }
}

}  // namespace graft::triton
