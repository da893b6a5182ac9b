// SPDX-License-Identifier: Apache-2.0
// A line of JSON for each run, with the time and the identifiers of its requests, for whoever collects logs.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "triton.h"

namespace graft::triton {

/// What is told of a run, or of a request that could not become one.
struct RunLine {
  std::string_view model, version;
  std::span<TRITONBACKEND_Request* const> requests;
  int64_t rows = 0;           ///< of all requests together
  uint64_t nanoseconds = 0;   ///< of the run
  std::string_view status;    ///< `ok`, or the kind of error
  std::string_view message;   ///< of the error
};

/// Appends to a file, a line at a time, from any thread. Without a file it does nothing.
class RunLog {
 public:
  /// Opens `--backend-config=graft,log=FILE` of the server for appending; FILE may be /dev/stderr. Throws Error.
  explicit RunLog(TRITONBACKEND_Backend* backend);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  bool wanted() const { return file_ >= 0; }
  void write(const RunLine& line) noexcept;

 private:
  std::string path_;
  int file_ = -1;
  std::mutex mutex_;
  bool failed_ = false;  ///< which was said
};

}  // namespace graft::triton
