// SPDX-License-Identifier: Apache-2.0
// What building an engine is given: the machine, choices made before, and what the driver hands in of the stages that
// plan/ does not see.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor_data.h"
#include "device/device.h"
#include "engine/record.h"
#include "library/call.h"
#include "library/schedule.h"
#include "runtime/library_call.h"
#include "target/target.h"

namespace graft {

/// How much time the build may spend on measuring candidates.
enum class Tuning : uint8_t { kOff, kFast, kFull };

/// Compiles printed tile programs to code objects. Handed in by the driver, which knows the code generator modules and
/// the kernel cache. Throws Error{device} or {internal} with the generator's message.
using CompileKernels = std::function<std::vector<std::byte>(const std::string& programs, const Target& target)>;

/// A constant in the form that kernels of some target read.
struct PackedConstant {
  std::string name;           ///< of the constant in the graph
  std::string layout;         ///< text of the tile::PanelLayout
  std::vector<int64_t> view;  ///< the shape that the layout is of
  TensorData data;
};

/// Times of earlier measurements, in milliseconds, by a key that names region, way, target and threads; what finds them
/// knows the machine.
struct TimingCache {
  std::function<std::optional<double>(const std::string& key)> find;
  std::function<void(const std::string& key, double milliseconds)> store;

  /// The times of all keys; nothing where one is missing.
  std::optional<std::vector<double>> find_all(const std::vector<std::string>& keys) const;
};

/// Seconds since some moment, by which the tuner counts what it has spent: of the processor, and of the wall. Safe from
/// any thread.
struct TuningClock {
  std::function<double()> processor, wall;
};

/// The libraries that may compete with generated kernels, as the driver hands them in.
struct Libraries {
  LibrarySource source;
  std::function<std::string(const std::string& library)> why_not;  ///< empty: it is there
  /// Why a library does not do a call of concrete sizes, empty when it does; asked before a way is taken where set.
  std::function<std::string(const LibrarySchedule& schedule, const LibraryCall& call)> refuses = {};
};

struct BuildOptions {
  Target target;
  /// The device of the target, on which candidates are measured and constants packed; null: the CPU of this process.
  std::shared_ptr<Device> device;
  Tuning tuning = Tuning::kOff;
  const Record* record = nullptr;  ///< choices made before: regions that it names are not judged again
  const std::vector<PackedConstant>* packed = nullptr;  ///< packed before: used instead of packing again
  CompileKernels compile_kernels;                       ///< empty: every step runs in the interpreter
  Libraries libraries;
  std::vector<std::string> disabled;  ///< libraries by name (GRAFT_DISABLE)
  bool splits_operands = true;        ///< f32 products may run on units that split their operands
  TimingCache timings;
  TuningClock clock;  ///< without functions: that of the thread that builds
  std::function<void(const std::string& step, int done, int total)> progress;  ///< may throw Error{cancelled}
  std::function<bool()> cancelled;  ///< asked at each step and region; true stops with Error{cancelled}
  bool choices_only = false;        ///< neither code nor packed constants: the engine says what would run, and cannot
  bool keep_references = false;  ///< keep row-major constants too, so that runs can be validated
};

/// Throws cancelled, naming the step that was to be next, when the caller wants no more.
void stop_if_cancelled(const BuildOptions& options, const std::string& step);

/// Threads of this machine that compile kernels: all for a GPU, and for a CPU as many as the target has, if they are
/// here.
int compiling_threads(const BuildOptions& options);

}  // namespace graft
