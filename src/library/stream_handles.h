// SPDX-License-Identifier: Apache-2.0
// What a library of GPUs keeps for each stream: calls of one stream share it, and it goes with the last of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace graft {

/// Handles by stream. Safe from any thread; a handle itself is used by the one thread that uses its stream.
template <class Handle>
class StreamHandles {
 public:
  using Shared = std::shared_ptr<std::remove_pointer_t<Handle>>;

  /// The stream's handle. `make` may throw; `destroy` is called when the last user is gone, with the stream's context
  /// current or its device gone.
  Shared of(void* stream, const std::function<Handle()>& make, const std::function<void(Handle)>& destroy) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<std::remove_pointer_t<Handle>>& known = handles_[stream];
    if (Shared shared = known.lock()) return shared;
    Shared made(make(), destroy);
    known = made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<void*, std::weak_ptr<std::remove_pointer_t<Handle>>> handles_;
};

}  // namespace graft
