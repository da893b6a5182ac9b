// SPDX-License-Identifier: Apache-2.0
// How a code generator asks its caller, between kernels, whether to go on.
#pragma once

#include <mutex>
#include <string_view>

#include "base/error.h"
#include "codegen/codegen.h"

namespace graft::codegen {

/// The "progress" side of a sink. Safe from any thread, also those of a compiler behind us.
class Progress {
 public:
  /// Without a sink nothing ever stops.
  explicit Progress(graft_codegen_sink sink = nullptr, void* context = nullptr) : sink_(sink), context_(context) {}

  /// Tells the name of a kernel that is finished, if one is; true when the caller wants to stop, and from then on.
  bool stop(std::string_view finished = {}) {
    const std::lock_guard lock(mutex_);
    if (sink_ && !stopped_) stopped_ = sink_(context_, "progress", finished.data(), finished.size()) != 0;
    return stopped_;
  }

  /// The same, with a `cancelled` error instead of true.
  void check(std::string_view finished = {}) {
    if (stop(finished)) throw Error(ErrorKind::kCancelled, "stopped as the caller asked", "code generator");
  }

 private:
  graft_codegen_sink sink_;
  void* context_;
  std::mutex mutex_;
  bool stopped_ = false;
};

}  // namespace graft::codegen
