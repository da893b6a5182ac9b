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
#include <vector>

#include "device/activity.h"

namespace graft {

/// What a device's launches of one kernel need besides; known to the device alone.
struct LaunchRule;

/// A kernel in the device's code memory.
struct DeviceKernel {
  void* function = nullptr;
  int threads = 1;           ///< of a block
  int64_t shared_bytes = 0;  ///< of a block, beyond what its code declares
  std::shared_ptr<const LaunchRule> rule = nullptr;  ///< null: a block for each grid point, and nothing else
};

/// Loaded code; kernels live as long as it does. Immutable.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;
  /// The kernel of that name; null when the module has none.
  virtual const DeviceKernel* find(std::string_view name) const = 0;
};

/// Launches and copies recorded once, to be replayed as one.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

/// How far a loop is that a device itself goes on with, in the device's memory.
struct RoundCount {
  int64_t round = 0, limit = 0;
  int64_t first = 0;  ///< the round that set_count() began with
  uint8_t going = 0;  ///< another round follows
  uint8_t odd = 0;    ///< the rounds since then are an odd number
};

/// The time in which a thread works on a device.
class DeviceScope {
 public:
  virtual ~DeviceScope() = default;
};

/// Work in order on a device: what one session has. Used by one thread at a time. Functions throw Error{device} with
/// the driver's words; what a kernel broke may be told by a later call.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  /// Runs from now on stand in the order of a stream of the caller's (CUDA: a CUstream), which has to live as long;
  /// null: in the order of this one alone.
  virtual void use(void* callers) = 0;
  /// The driver's own handle of this stream (a CUstream), for libraries that put work into it from inside of enter().
  /// Never null for a GPU.
  virtual void* native() = 0;
  /// While the result lives, the device is this thread's own; then what the caller had comes back (CUDA: contexts).
  virtual std::unique_ptr<DeviceScope> enter() = 0;
  /// A run's work waits for what the caller's stream holds so far, and the caller's stream for the run's. A run that
  /// only replays a graph does so in the caller's stream, which costs no waiting of one stream for another.
  virtual void begin_run() = 0;
  virtual void end_run() = 0;
  /// What a library puts into native() from now on comes after all that the session has queued.
  virtual void catch_up() = 0;
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
  /// Records what is queued up to end_recording() instead of running it. Only launch, copy and clear may be recorded.
  virtual void begin_recording() = 0;
  virtual std::shared_ptr<DeviceGraph> end_recording() = 0;
  /// Gives up what was recorded so far, on the way from an error.
  virtual void abandon_recording() noexcept = 0;
  /// Queues a graph that this stream recorded. Memory that it names has to be there still.
  virtual void replay(const DeviceGraph& graph) = 0;
  /// Whether work goes into a recording.
  virtual bool is_recording() const { return false; }
  /// Whether recordings may hold parts that the device decides about (CUDA 12.4). Where not, none of the six functions
  /// below is called.
  virtual bool can_decide() { return false; }
  /// Only while recording: what is queued up to end_part() runs if the byte at `flag` is not 0 (`wanted`) or is 0, as
  /// the work before it leaves it. Parts may lie in parts.
  virtual void begin_branch(const void* /*flag*/, bool /*wanted*/) {}
  /// Only while recording: what is queued up to end_part() runs again and again while the byte at `flag` is not 0.
  virtual void begin_loop(const void* /*flag*/) {}
  virtual void end_part() {}
  /// Queues a new beginning: {round, limit, round, round < limit and the byte at `condition` is not 0, 0}.
  virtual void set_count(RoundCount*, int64_t /*round*/, int64_t /*limit*/, const void* /*condition*/) {}
  /// Queues a step to the next round, which follows if it is below the limit and the byte at `condition` is not 0.
  virtual void count_round(RoundCount*, const void* /*condition*/) {}
  /// Queues a copy to `to` + (round - first) * bytes.
  virtual void copy_of_round(void* /*to*/, const void* /*from*/, size_t /*bytes*/, const RoundCount*) {}
  /// Notes the time at which the work queued so far ends; numbers from 0 on, reused by later runs.
  virtual void mark(int number) = 0;
  /// Microseconds from one mark to another; waits for both.
  virtual double elapsed_us(int from, int to) = 0;
  /// Whether the caller's stream was being captured when the run began: its work goes into that graph, and no graph may
  /// be recorded or replayed on the way.
  virtual bool is_captured() const { return false; }
};

/// A device. Safe from any thread.
class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;
  /// Multiply-adds (two operations each) that its units and clock give at most, in fp32 or in products of fp16; 0 where
  /// that is not known.
  virtual double peak_gflops(bool half) const = 0;
  virtual std::unique_ptr<DeviceStream> make_stream() = 0;
  /// Loads what the code generator made for this device.
  virtual std::shared_ptr<const DeviceModule> load(std::span<const std::byte> code) = 0;
  /// What this process ran on the device while `work`, which waits for it, was at it, in the order of the begin. Throws
  /// Error{device} where that cannot be told.
  virtual std::vector<DeviceActivity> trace(const std::function<void()>& work) = 0;
};

}  // namespace graft
