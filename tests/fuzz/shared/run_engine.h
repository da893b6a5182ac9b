// SPDX-License-Identifier: Apache-2.0
// What fuzz targets that run engines share: the limits of an execution, and runs on random inputs in guarded memory.
#pragma once

#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "shared/guarded_memory.h"

namespace graft::fuzz {

/// Says what was found and ends the process, so that the fuzzer keeps the input.
[[noreturn]] void report_finding(const std::string& what);

/// A text that quotes the error of a broken condition, with its place in the source, is a finding.
void check_text(std::string_view text);

/// One execution of a target. The deadlines that it gives add up to less than kDeadlines; when it takes kSeconds all
/// the same, by the clock and by the processor's (the machine may be busy with others), that is a finding. Between the
/// two lies what cannot be interrupted: a pass of LLVM over one kernel takes 1.2 s under the sanitizers, more on slower
/// machines.
class Execution {
 public:
  static constexpr double kDeadlines = 3.2, kSeconds = 10;
  /// What may be compiled, and what may run, without hurrying the other parts.
  static constexpr double kCompileSeconds = 1.2, kRunSeconds = 0.3;

  Execution();
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// A deadline of so many seconds, or what is left for deadlines.
  double deadline(double seconds) const;

  /// Runs a part; false when it throws graft::Error, an internal one of which is a finding.
  static bool attempt(const std::function<void()>& part);

 private:
  double elapsed() const;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::clock_t processor_ = std::clock();
};

/// What a run wrote.
struct Output {
  GuardedMemory memory;
  BufferView view;
};

/// What the elements of inputs are: small numbers that sums of products stay small of, or anything.
enum class Contents : uint8_t { kTame, kWild };

/// Runs an engine once, on sizes within its ranges and contents that `seed` gives; nothing when it ends with an error,
/// an internal one of which is a finding. A run may have 256 MiB and so many seconds, 0: as many as it needs.
std::optional<std::vector<Output>> run_once(const std::shared_ptr<const LoadedEngine>& engine, uint64_t seed,
                                            Contents contents, double deadline);

/// Loads an engine, which must say of no step that a bug is why it has no kernel; null when that fails.
std::shared_ptr<const LoadedEngine> load_engine(Engine engine);

/// Makes an engine as the options say.
using MakeEngine = std::function<Engine(const CompileOptions& options)>;
/// Makes, loads and runs engines: interpreted, and with generated kernels and libraries, each on a few inputs.
void run_both_ways(const MakeEngine& make, uint64_t seed);

/// Changes that one mutation makes: mostly one, rarely many.
int64_t draw_changes(Random& random);

/// The options that all targets compile with.
CompileOptions fuzz_options(bool interpret, double deadline);

/// To be called by LLVMFuzzerInitialize: inputs of up to `length` bytes, no log, a code generator that is there, and a
/// line at the end that counts engines and runs.
void prepare(int* count, char*** arguments, int length);

}  // namespace graft::fuzz
