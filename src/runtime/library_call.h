// SPDX-License-Identifier: Apache-2.0
// Steps that a library runs. The runtime knows no library: who makes calls ready is handed in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/engine.h"

namespace graft {

/// A step's library call for one shape signature. On a CPU it is in slices that threads compute each on its own; on a
/// device it is one slice, put into the stream that it was made for. Belongs to one session: two threads may run two
/// slices, never one.
class ReadyLibraryCall {
 public:
  virtual ~ReadyLibraryCall() = default;
  virtual int64_t slices() const = 0;
  /// Bytes of scratch memory of a thread, 64-byte aligned; on a device those of the run, 256-byte aligned.
  virtual int64_t scratch_bytes() const = 0;
  /// Computes a slice on this thread, or puts it into the stream without waiting or allocating, so that it can be
  /// captured; `buffers` are those of the step's tensors. Returns 0 or the library's own code.
  virtual int run(int64_t slice, void* const* buffers, void* scratch) const = 0;
};

/// Where a call will run.
struct LibraryPlace {
  int threads = 1;         ///< at most, on a CPU
  void* stream = nullptr;  ///< DeviceStream::native() on a device; null: a CPU
};

/// Makes a step's call ready. Throws Error{device} when the library is not there, {unsupported} when it has nothing for
/// these sizes, {invalid_model} when the step does not fit it. Thread-safe.
using LibrarySource = std::function<std::shared_ptr<const ReadyLibraryCall>(
    const Engine& engine, const EngineStep& step, const Bindings& bindings, const LibraryPlace& place)>;

}  // namespace graft
