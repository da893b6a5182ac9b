// SPDX-License-Identifier: Apache-2.0
// A device with memory of its own: what the runtime asks of it. A CPU needs none of this: its kernels run on the
// caller's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace graft {

/// A kernel in the device's code memory.
struct DeviceKernel {
  void* function = nullptr;
  int threads = 1;           ///< of a block
  int64_t shared_bytes = 0;  ///< of a block, beyond what its code declares
};

/// Loaded code; kernels live as long as it does. Immutable.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;
  /// The kernel of that name; null when the module has none.
  virtual const DeviceKernel* find(std::string_view name) const = 0;
};

/// Work in order on a device: what one session has. Used by one thread at a time. Functions throw Error{device} with
/// the driver's words; what a kernel broke may be told by a later call.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  /// Memory of the device, a multiple of 256 bytes; throws out_of_memory saying how much is free.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  /// `from` may be used again when it returns.
  virtual void upload(void* to, const void* from, size_t bytes) = 0;
  /// Returns when the bytes are there.
  virtual void download(void* to, const void* from, size_t bytes) = 0;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void clear(void* memory, size_t bytes) = 0;
  /// `arguments`: pointers to the values of the kernel's parameters.
  virtual void launch(const DeviceKernel& kernel, int64_t grid, void** arguments) = 0;
  /// Returns when everything before has finished.
  virtual void wait() = 0;
  /// The driver's own handle of the stream (a CUstream) for libraries that put work into it; its context is entered on
  /// this thread. Never null.
  virtual void* native() = 0;
  /// Milliseconds of the device for what `work` puts into the stream: it is captured once and replayed `repetitions`
  /// times between two of the device's clocks. `work` may neither allocate nor wait.
  virtual double time(const std::function<void()>& work, int repetitions) = 0;
};

/// A device. Safe from any thread.
class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;
  virtual std::unique_ptr<DeviceStream> make_stream() = 0;
  /// Loads what the code generator made for this device.
  virtual std::shared_ptr<const DeviceModule> load(std::span<const std::byte> code) = 0;
};

}  // namespace graft
