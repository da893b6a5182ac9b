// SPDX-License-Identifier: Apache-2.0
#include "base/stop_if_cancelled.h"

#include "base/error.h"

namespace graft {

void stop_if_cancelled(const std::function<bool()>& cancelled, const std::string& where) {
  if (cancelled && cancelled()) throw Error(ErrorKind::kCancelled, "stopped as the caller asked", where);
}

}  // namespace graft
