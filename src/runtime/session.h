// SPDX-License-Identifier: Apache-2.0
// Running an engine.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/kernel_arguments.h"
#include "engine/engine.h"
#include "kernels/host_kernel.h"
#include "runtime/library_call.h"

namespace graft {

class CountedEngine;
class Device;
class MappedFile;
struct DeviceActivity;
struct DeviceCode;
class LoadedObject;
struct Region;

/// How a run finds the variant of an engine for its sizes: in each dimension that has several optima it takes the
/// smallest that is not below the size, or else the largest.
struct VariantChoice {
  struct Dimension {
    size_t input = 0, axis = 0;   ///< where a run sees the size
    std::vector<int64_t> optima;  ///< ascending
  };
  std::vector<Dimension> dimensions;
  std::vector<size_t> variants;  ///< of Engine::variants, by the numbers of the optima, the last dimension innermost
};

/// An engine with its code in executable memory. Immutable, shared by sessions.
struct LoadedEngine {
  std::shared_ptr<const Engine> engine;
  std::vector<std::shared_ptr<const LoadedObject>> objects;
  std::vector<KernelFunction> kernels;  ///< entry points, by EngineKernel; null where no step needs one
  /// Those that hold constants which runs read. Runs fail once somebody has written to one.
  std::vector<std::shared_ptr<const MappedFile>> files;
  LibrarySource libraries;              ///< needed by steps of libraries only
  std::shared_ptr<const DeviceCode> device;  ///< null on a CPU, whose kernels are `kernels`
  std::map<int, std::shared_ptr<const Region>> regions;  ///< by step: what the interpreter runs and what counts
  std::map<int, std::vector<std::shared_ptr<const LoadedEngine>>> bodies;  ///< by step of control flow
  std::map<int, HostKernel> host;  ///< by step of plain C++
  VariantChoice choice;  ///< of engines with variants
  std::vector<std::shared_ptr<const LoadedEngine>> variants;  ///< by Engine::variants; null: this one
  std::shared_ptr<const CountedEngine> counted;  ///< null: its runs are nobody's metrics
};
/// Maps the engine's objects, or loads them on `device` with the engine's constants; throws Error{device} or
/// {invalid_model} naming the kernel that cannot be loaded. Kernels of the host that stand on a library come from
/// `host_kernels`. Runs are counted by `counted`.
std::shared_ptr<const LoadedEngine> load_code(std::shared_ptr<const Engine> engine, LibrarySource libraries = {},
                                              std::shared_ptr<Device> device = nullptr,
                                              const HostKernelSource& host_kernels = {},
                                              std::shared_ptr<const CountedEngine> counted = nullptr);

/// A caller's buffer: `strides` in elements, empty for row-major.
struct BufferView {
  void* data = nullptr;
  DType type = DType::kUndefined;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  bool on_device = false;  ///< the data lies in the memory of the engine's device
};

/// Gives output buffers their memory when the caller did not: called with the output's number, type, shape and bytes.
/// Returns null when out of memory.
using OutputAllocator = void* (*)(void* context, int output, DType type, std::span<const int64_t> shape, size_t bytes);

/// Whether the caller has cancelled the run, perhaps before it began.
using CancelledBefore = bool (*)(void* context);

/// Time and place of one step of a profiled run.
struct StepTime {
  int step = 0;
  double begin_us = 0, end_us = 0;  ///< from the start of the run
};

/// Memory of the caller for a run: at least so many bytes that nothing else uses until it returns, or null.
using ScratchAllocator = void* (*)(void* context, size_t bytes);

/// One caller at a time runs a session; sessions of one engine run at the same time without locks between them.
/// After the first run of a shape signature a run allocates nothing (unless sizes are known only while running, or a
/// step is interpreted); on a device the second run of a signature on the same memory records its launches, and later
/// ones replay them. Some thousand signatures are remembered.
class Session {
 public:
  explicit Session(std::shared_ptr<const LoadedEngine> engine, int threads = 0);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Runs once. `outputs[i].data` may be null: then `allocate` provides it, or the session where the output is wanted
  /// on the device and `allocate` is null (until the next run). Shapes and types of outputs are filled in; a non-null
  /// output's shape must be right. Returns when the outputs are there; when all are on the device, as soon as the work
  /// is queued on the stream: then wait() tells what kernels found wrong. Never throws; an error names the input, axis,
  /// value and range. `cancelled` is asked once cancel() has an effect, so that no cancellation is lost in between.
  Status run(std::span<const BufferView> inputs, std::span<BufferView> outputs, OutputAllocator allocate = nullptr,
             void* context = nullptr, CancelledBefore cancelled = nullptr);

  /// Puts the following runs into the order of a stream of the caller's; null: only into the session's own. Ignored on
  /// a CPU.
  Status set_stream(void* native);
  /// Returns when all runs have finished, with the first error that their kernels found.
  Status wait();
  /// Whether a run went into a graph into which the caller's stream was being captured. Its memory is that graph's from
  /// then on: the session has to live as long as the graph, and may not run anything else.
  bool was_captured() const;
  /// The most bytes that the session may hold beside the engine's constants; 0: no limit. What it holds already stays.
  /// Everything that a run allocates counts: intermediate tensors, scratch memory, copies, outputs that the session
  /// gives, and what the interpreter computes with.
  void set_memory_limit(int64_t bytes);
  /// Where the following runs take the memory for intermediate tensors and scratch from, instead of the session's own:
  /// asked at most once in a run, and what the session held is freed; null, or an allocator that gives null: the
  /// session's own. Ignored on a device, by the sessions of bodies, and where sizes are known only while running.
  void set_scratch(ScratchAllocator allocate, void* context);
  /// Memory of the session for an output on the host, until the run after next; for an OutputAllocator. Throws
  /// out_of_memory.
  void* give_output(int output, size_t bytes);

  /// What a tensor of strings or another value holds in its place, until the values of the next run are started: an
  /// input's elements are such handles, and an output's are looked up. Throws out_of_memory.
  uint64_t hold_text(std::string_view text);
  uint64_t hold(DynamicValue value);
  const std::string& text(uint64_t handle) const;
  const DynamicValue& value(uint64_t handle) const;
  /// Forgets the values of the runs so far.
  void start_values();

  /// Ends the run that is going on, as soon as its pieces of work do (a few milliseconds on a CPU; on a GPU, what is
  /// queued finishes): it returns `cancelled`, what its outputs hold is undefined, and the session stays usable. Does
  /// nothing when no run is going on. From any thread, and from a signal handler.
  void cancel() noexcept;
  /// The most seconds that each following run may take before it is ended as by cancel(); 0: as long as it needs.
  void set_deadline(double seconds);

  /// On a device: the milliseconds that the steps of the last run take there on the data that it left, without the
  /// copies of inputs and outputs, the mean of so many replays. Fails on a CPU, before a run, and where a step cannot
  /// be recorded (it runs in the interpreter, or its sizes are computed by the run).
  Status time_steps(int repetitions, double& milliseconds);
  /// What the device runs in one replay of these steps, in the order of the begin, each kernel with its time. Fails
  /// where time_steps() does, and where the device cannot tell.
  Status trace_steps(std::vector<DeviceActivity>& activities);


  /// Records the time of each step of the following runs.
  void set_profiling(bool on);
  const std::vector<StepTime>& profile() const;
  /// Bytes of the arena for the last run.
  size_t arena_bytes() const;
  const Engine& engine() const;
  /// The one that the last run took: engine(), or a variant of it for other optima. The steps of profile() are its.
  const Engine& last_engine() const;
  /// Runs every following step also through the interpreter and fails at the first that differs (GRAFT_VALIDATE).
  void set_validating(bool on);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft
