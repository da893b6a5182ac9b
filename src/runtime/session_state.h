// SPDX-License-Identifier: Apache-2.0
// What a session holds, for the files that make it up.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/buffer.h"
#include "runtime/counters.h"
#include "runtime/device_code.h"
#include "runtime/interpret_step.h"
#include "runtime/ranges.h"
#include "runtime/session.h"
#include "runtime/value_table.h"

namespace graft {

/// What a run looks up of a step, close together: the whole EngineStep would be fetched from memory anew each time.
struct StepWork {
  KernelFunction kernel = nullptr;
  uint32_t first_argument = 0, argument_count = 0;  ///< in State::arguments
  uint32_t first_size = 0;                          ///< in Prepared::sizes
  StepKind kind = StepKind::kNone;
};

/// A step with its sizes evaluated.
struct ReadyStep {
  int64_t grid = 0;
  int64_t scratch = 0;
  int64_t piece = 1;  ///< points of the grid between two looks at the stop signal
  bool parallel = false;
  std::shared_ptr<const ReadyLibraryCall> library;  ///< kLibrary; null: the step runs as its kernel
};

/// Launches by the places in memory that they depend on. Of places that are new the first run is not worth a recording.
class Recordings {
 public:
  /// The recording for these places, null where there is none; valid until the next call of keep().
  const DeviceGraph* find(const std::vector<void*>& places);
  /// Whether a run with these places was told of before, and not recorded.
  bool was_seen(const std::vector<void*>& places);
  const DeviceGraph* keep(std::vector<void*> places, std::shared_ptr<DeviceGraph> graph);
  bool refuses = false;  ///< it cannot be recorded after all

 private:
  static constexpr size_t kMost = 4;  // callers that change between a few buffers find them all
  struct Recording {
    std::vector<void*> places;
    std::shared_ptr<DeviceGraph> graph;
  };
  std::vector<Recording> kept_;           // the latest used first
  std::vector<std::vector<void*>> seen_;  // the latest first
};

/// Everything about a run that depends only on its signature.
struct Prepared {
  Bindings bindings;
  std::vector<std::vector<int64_t>> shapes;  ///< by output
  std::vector<int64_t> offsets;              ///< in the arena, by State::arena_tensors
  std::vector<ReadyStep> steps;
  std::vector<int64_t> sizes;  ///< that kernels take by value, step after step
  int64_t arena_bytes = 0, scratch_bytes = 0;
  Recordings recordings;
};

/// Signatures that a session remembers at most, so that sizes that never come again do not fill the memory.
constexpr size_t kMostPrepared = 4096;

/// A symbol whose value is an element of a caller's input (a shape given at run time).
struct InputRead {
  std::string symbol;
  size_t input = 0;
  int64_t element = 0;
};

/// Memory from `begin` up to `end`.
struct Extent {
  uintptr_t begin = 0, end = 0;
  bool overlaps(const Extent& other) const { return std::max(begin, other.begin) < std::min(end, other.end); }
};

/// Memory that the session gives to an output of the host.
struct GivenOutput {
  Buffer places[2];
  int latest = 0;
};

/// KernelArguments::status[0] of a run that is asked to end: generated loops of many turns leave early.
constexpr int64_t kStopped = -1;

using Clock = std::chrono::steady_clock;

/// Thrown where a step that is being recorded would need the host in each run.
struct NeedsHost {};

struct Session::State {
  struct ControlWork;
  struct Collected;
  struct RoundContext;
  State();
  ~State();

  std::shared_ptr<const LoadedEngine> loaded;
  const Engine* engine = nullptr;
  int threads = 1;
  SessionMemory session_memory;    // before the buffers, which give back to it
  SessionMemory host_memory{.stream = nullptr, .budget = session_memory.budget};  // the same where that is the host's
  DeviceStream* stream = nullptr;  // of session_memory; null on a CPU
  std::shared_ptr<ValueTable> table;  // of strings and dynamic values; shared with the sessions of bodies
  bool inside = false;             // of a body: the session around it begins and ends runs on the stream
  bool keeps_condition = false;    // of a loop's body: its condition is the one that it was given, or always true
  // What the engine alone decides.
  std::vector<int> roots;  // by tensor: the one that owns its memory
  std::vector<StepWork> work;
  std::vector<int> arguments;  // of all steps: the tensors that own their memory
  std::vector<int64_t> argument_offsets;  // bytes from there to the part that the step's kernel reads
  size_t size_count = 0;
  std::vector<int> arena_tensors;
  std::vector<InputRead> input_reads;
  std::vector<bool> in_place;  // by output: whether a step writes it
  // What signatures decide.
  std::map<std::vector<int64_t>, Prepared> prepared;
  std::set<std::vector<int64_t>> known_shapes;  // that bind_inputs has accepted; kept when values are read from inputs
  intptr_t cleared = 0;      // how often `prepared` was
  Prepared* last = nullptr;  // of the last run
  std::map<int, std::unique_ptr<ControlWork>> control;  // by step: the sessions of bodies
  // The current run; kept, so that a run allocates nothing.
  std::vector<int64_t> key;
  std::vector<void*> memory;    // by tensor, then the scratch memory: all that launches of planned runs depend on
  std::vector<void*> buffers;   // of the current step
  std::vector<const void*> on_host;  // by input: its elements in the host's memory; null where they are not there
  std::vector<Extent> read;     // by input: the caller's memory that steps read
  std::vector<Extent> written;  // by output: the caller's memory that steps write
  Buffer arena, scratch;
  ScratchAllocator borrow = nullptr;  // gives memory in place of these two; null: nobody does
  void* borrow_context = nullptr;
  std::vector<Buffer> own;  // by tensor, when sizes are known only while running
  std::vector<Buffer> staging_in, staging_out;
  std::vector<Buffer> second_out;  // on a device: for an output whose first memory is an input of this run
  std::vector<GivenOutput> given_out;
  std::vector<void*> output_data;
  std::map<int, ReferenceStep> references;  // parsed regions of interpreted and validated steps
  // By step, when sizes are known only while running: the call of the last run, and the sizes it is for.
  mutable std::map<int, std::pair<Bindings, std::shared_ptr<const ReadyLibraryCall>>> last_calls;
  bool profiling = false, validating = false;
  const RangeTool* const ranges = range_tool();
  std::vector<StepTime> times;
  int64_t status[2] = {0, 0};  // [0] is written by kernels and by request_stop(), from any thread
  StopSignal stop;
  double deadline_seconds = 0;  // of a run; 0: none
  int64_t last_arena = 0;
  // Of an engine with variants for several optima.
  std::vector<std::unique_ptr<State>> others;  // each variant that is not this one, once
  std::vector<State*> variants;                // by Engine::variants
  State* ran = nullptr;                        // of the last run
  std::optional<SessionCounters> counters;       // of a session, not of those of its bodies
  uint64_t interpreted_steps = 0;                // of the current run
  uint64_t* interpreted = &interpreted_steps;    // of a body: those of the session around it
  Clock::time_point begin;
  int64_t* found = nullptr;    // on the device: what kernels found, two numbers for each step
  Buffer all_found;            // of this session and those of its bodies
  bool can_record = false;     // the device needs the host for no step
  bool was_captured = false;   // a run is part of a graph of the caller's
  bool status_unread = false;  // runs were queued whose errors nobody has looked at
  std::vector<int64_t> host_found;
  BudgetVector<char> host_copy;    // of what goes to or comes from a device
  std::vector<void*> parameters;  // of a launch on a device

  void study_engine();
  void open_variants();
  std::unique_ptr<State> inner_state(std::shared_ptr<const LoadedEngine> of) const;
  State& variant_for(std::span<const BufferView> inputs);
  void for_each_variant(const std::function<void(State&)>& visit) const;
  void run(std::span<const BufferView> inputs, std::span<BufferView> outputs, OutputAllocator allocate, void* context);
  void set_validating(bool on);
  void count_run(const Status& status, std::chrono::nanoseconds taken);
  void clear_stop();
  void request_stop(StopSignal::Reason reason);
  void* give_output(size_t i, int64_t bytes);
  int64_t read_input(const InputRead& read, std::span<const BufferView> inputs) const;
  Prepared& prepare(std::span<const BufferView> inputs);
  Prepared make_prepared(std::span<const BufferView> inputs) const;
  void ready(int step, Prepared& p) const;
  bool has_code(int step) const;
  int64_t scratch_of(int step, const ReadyStep& ready) const;
  bool ready_library(int step, ReadyStep& ready, const Bindings& bindings) const;
  void place(const Prepared& p);
  bool place_in_borrowed(const Prepared& p);
  void put_intermediates(const Prepared& p, char* base);
  void bind_caller_inputs(std::span<const BufferView> inputs);
  void take_output(size_t i, BufferView& view, const std::vector<int64_t>& shape, OutputAllocator allocate,
                   void* context) const;
  void bind_output(size_t i, std::span<BufferView> outputs, const Prepared& p, OutputAllocator allocate, void* context);
  void finish_outputs(std::span<BufferView> outputs);
  void run_planned(Prepared& p);
  void run_computed(Prepared& p, std::span<BufferView> outputs, OutputAllocator allocate, void* context);
  void run_step(int step, Prepared& p);
  void interpret(int step, std::span<void* const> given, const Bindings& bindings);
  void validate(int step, std::span<void* const> given, const Bindings& bindings);
  void launch(const StepWork& step, const ReadyStep& ready, const int64_t* sizes);
  void launch_library(int step, const ReadyStep& ready) const;
  // Branches and loops: session_control.cpp.
  void release_calls();
  void open_bodies();
  void for_each_body(const std::function<void(State&)>& visit) const;
  void run_control(int step, const Bindings& bindings, Bindings* counted);
  void run_branch(RoundContext& round);
  void run_loop(RoundContext& round);
  void run_rounds(RoundContext& round, bool going);
  void capture(const RoundContext& round, ControlWork& with, size_t body, size_t first_operand) const;
  void collect_in_place(const RoundContext& round);
  void take_loop_result(RoundContext& round, size_t output);
  void* next_parts(const RoundContext& round, int64_t count, Collected& collected, DType type,
                   std::span<const int64_t> shape, int64_t bytes);
  std::vector<int64_t> shape_of_nothing(const RoundContext& round, int tensor) const;
  void check_result(int step, int tensor, const std::vector<int64_t>& shape, const Bindings& bindings,
                    Bindings* counted) const;
  int result_tensor(int step, size_t output) const;
  int64_t read_operand(int step, int tensor, const Bindings& bindings) const;
  bool read_condition(const RoundContext& round) const;
  void copy_bytes(void* to, const void* from, int64_t bytes) const;
  bool gives_condition_back() const;
  void give_rounds(ControlWork& with);
  void give_round_number(RoundContext& round);
  void take_parts(ControlWork& with) const;
  static void* give_branch_result(void* context, int output, DType type, std::span<const int64_t> shape, size_t bytes);
  static void* give_round_result(void* context, int output, DType type, std::span<const int64_t> shape, size_t bytes);
  // Steps that the device goes through without the host: session_decided.cpp.
  bool may_decide(const EngineStep& step, const ControlWork& with) const;
  bool may_nest(int step) const;
  bool decide_branch(RoundContext& round);
  bool decide_loop(RoundContext& round, int condition);
  bool place_branches(RoundContext& round, std::vector<void*>& places);
  Prepared* place_loop(RoundContext& round);
  int64_t place_results(RoundContext& round, Prepared& p);
  void queue_loop(RoundContext& round);
  void queue_round(RoundContext& round, int from);
  void keep_parts(RoundContext& round, const Prepared& p, int64_t count);
  void add_places(std::vector<void*>& places) const;
  static void* give_turn_result(void* context, int output, DType type, std::span<const int64_t> shape, size_t bytes);
  // Steps of plain C++: session_host.cpp.
  void open_texts();
  const void* host_bytes(int tensor, int64_t bytes, BudgetVector<char>& copy) const;
  DynamicValue read_value(int tensor, const Bindings& bindings, TextMeter& meter) const;
  void write_value(int step, int tensor, DynamicValue value, const Bindings& bindings, Bindings* counted);
  void run_host(int step, const Bindings& bindings, Bindings* counted);
  // On a device with memory of its own: session_device.cpp.
  void open_device();
  bool may_record(int step) const;
  void open_found();
  size_t found_count() const;
  void place_found(int64_t*& next);
  void* bind_device_input(size_t i, const BufferView& view);
  void* place_device_output(size_t i, BufferView& view, int64_t bytes, bool overlaps);
  void finish_on_device(std::span<BufferView> outputs);
  void run_recorded(Prepared& p);
  void run_steps(Prepared& p);
  const DeviceGraph* recording_of(Recordings& recordings, const std::vector<void*>& places,
                                  const std::function<void()>& queue);
  void profile_device();
  void check_status();
  std::optional<Error> take_fault();
  std::optional<Error> fault_in(const int64_t*& next) const;
  bool is_unread(size_t output) const { return keeps_condition && output == 0; }
  int64_t read_computed(int tensor, int64_t element) const;
  const void* host_copy_of(int tensor) const;
  void launch_on_device(int step, const ReadyStep& ready, const int64_t* sizes);
  void interpret_on_host(int step, const Bindings& bindings);
  std::shared_ptr<DeviceGraph> record(const std::function<void()>& queue);
  std::shared_ptr<DeviceGraph> record_last();
  double time_steps(int repetitions);
  std::vector<DeviceActivity> trace_steps();
  void* pointer(int tensor) const { return memory[roots[tensor]]; }
};

}  // namespace graft
