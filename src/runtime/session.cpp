// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/run_limits.h"
#include "runtime/bind.h"
#include "runtime/deadline.h"
#include "runtime/session_state.h"

namespace graft {

Session::Session(std::shared_ptr<const LoadedEngine> engine, int threads) : state_(std::make_unique<State>()) {
  state_->loaded = std::move(engine);
  state_->engine = state_->loaded->engine.get();
  if (state_->loaded->device) state_->session_memory.stream = state_->loaded->device->device->make_stream();
  state_->stream = state_->session_memory.stream.get();
  state_->threads = threads > 0 ? threads : state_->engine->threads;
  state_->table = std::make_shared<ValueTable>(state_->session_memory.budget);
  const auto scope = state_->stream ? state_->stream->enter() : nullptr;
  state_->counters.emplace(state_->loaded->counted);
  state_->study_engine();
  if (state_->stream) state_->open_device();
  state_->open_variants();
  state_->table->keep();
}

/// They share the stream, the memory that is left, and the values with their session.
void Session::State::open_variants() {
  ran = this;
  std::map<const LoadedEngine*, State*> known = {{nullptr, this}};
  for (const auto& variant : loaded->variants) {
    State*& state = known[variant.get()];
    if (!state) {
      others.push_back(inner_state(variant));
      state = others.back().get();
      state->study_engine();
      if (stream) state->open_device();
    }
    variants.push_back(state);
  }
}

/// The state of another engine within this session.
std::unique_ptr<Session::State> Session::State::inner_state(std::shared_ptr<const LoadedEngine> of) const {
  auto state = std::make_unique<State>();
  state->loaded = std::move(of);
  state->engine = state->loaded->engine.get();
  state->threads = threads;
  state->session_memory.budget = state->host_memory.budget = session_memory.budget;
  state->session_memory.stream = session_memory.stream;
  state->stream = stream;
  state->table = table;
  state->interpreted = interpreted;
  return state;
}

/// The variant for the sizes of a run; inputs that do not fit are refused by whichever it is.
Session::State& Session::State::variant_for(std::span<const BufferView> inputs) {
  if (variants.empty()) return *this;
  size_t at = 0;
  for (const VariantChoice::Dimension& dimension : loaded->choice.dimensions) {
    const bool is_there = dimension.input < inputs.size() && dimension.axis < inputs[dimension.input].shape.size();
    const int64_t size = is_there ? inputs[dimension.input].shape[dimension.axis] : 0;
    const auto& optima = dimension.optima;
    const auto tightest = std::lower_bound(optima.begin(), std::prev(optima.end()), size);
    at = at * optima.size() + static_cast<size_t>(tightest - optima.begin());
  }
  return *variants[loaded->choice.variants[at]];
}

void Session::State::for_each_variant(const std::function<void(State&)>& visit) const {
  for (const auto& state : others) visit(*state);
}

/// Everything about a run that needs no request.
void Session::State::study_engine() {
  const size_t count = engine->tensors.size();
  memory.resize(count + 1);
  own.resize(count);
  for (size_t t = 0; t < count; ++t) {
    const EngineTensor& tensor = engine->tensors[t];
    roots.push_back(root_of(*engine, static_cast<int>(t)));
    if (tensor.storage == Storage::kArena) arena_tensors.push_back(static_cast<int>(t));
    if (tensor.storage == Storage::kConstant && tensor.index >= 0 && tensor.handles.empty()) {
      memory[t] = stream ? loaded->device->constants[tensor.index]
                         : const_cast<std::byte*>(engine->constants[tensor.index].bytes().data());
    }
  }
  for (const EngineStep& step : engine->steps) {
    StepWork& fresh = work.emplace_back();
    fresh.kind = step.kind;
    fresh.first_argument = static_cast<uint32_t>(arguments.size());
    fresh.argument_count = static_cast<uint32_t>(step.tensors.size());
    fresh.first_size = static_cast<uint32_t>(size_count);
    for (const int tensor : step.tensors) arguments.push_back(roots[tensor]);
    for (size_t a = 0; a < step.tensors.size(); ++a) {
      argument_offsets.push_back(a < step.offsets.size() ? step.offsets[a] : 0);
    }
    if (step.kernel >= 0) {
      if (!stream) fresh.kernel = loaded->kernels[step.kernel];
      size_count += engine->kernels[step.kernel].sizes.size();
    }
    for (const SymbolRead& read : step.reads) {
      const EngineTensor& root = engine->tensors[roots[read.tensor]];
      if (root.storage != Storage::kInput) continue;
      input_reads.push_back({read.symbol, static_cast<size_t>(root.index), read.element});
    }
    buffers.resize(std::max(buffers.size(), step.tensors.size()));
  }
  for (size_t i = 0; i < engine->outputs.size(); ++i) {
    const EngineTensor& root = engine->tensors[roots[engine->outputs[i]]];
    in_place.push_back(root.storage == Storage::kOutput && root.index == static_cast<int>(i));
  }
  for (const auto& [step, region] : loaded->regions) references[step].region = region;
  on_host.resize(engine->inputs.size());
  read.resize(engine->inputs.size());
  written.resize(engine->outputs.size());
  staging_in.resize(engine->inputs.size());
  staging_out.resize(engine->outputs.size());
  second_out.resize(engine->outputs.size());
  given_out = std::vector<GivenOutput>(engine->outputs.size());
  output_data.resize(engine->outputs.size());
  open_texts();
  open_bodies();
}

Session::~Session() {
  // Memory may not go while runs that the caller has not waited for still use it.
  if (!state_->stream) return;
  (void)wait();
  try {
    // Libraries give back what they made from inside of the device too.
    const auto scope = state_->stream->enter();
    state_->release_calls();
  } catch (const Error&) {
    // The driver is gone, and what it held with it.
  }
}
const Engine& Session::engine() const { return *state_->engine; }
const Engine& Session::last_engine() const { return *state_->ran->engine; }
void Session::set_profiling(bool on) {
  state_->profiling = on;
  state_->for_each_variant([on](State& variant) { variant.profiling = on; });
}
void Session::set_validating(bool on) { state_->set_validating(on); }
const std::vector<StepTime>& Session::profile() const { return state_->ran->times; }
size_t Session::arena_bytes() const { return static_cast<size_t>(state_->ran->last_arena); }

namespace {

/// Runs `body`, turning what it throws into a Status.
template <class Body>
Status guarded(const Body& body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ErrorKind::kOutOfMemory, fmt::format("run: the system gave no memory for the session's own lists (this "
                                                 "machine has {} bytes); free some, or use smaller sizes",
                                                 machine_memory())};
  } catch (const std::exception& error) {
    return {ErrorKind::kInternal, error.what()};
  }
}

}  // namespace

Status Session::run(std::span<const BufferView> inputs, std::span<BufferView> outputs, OutputAllocator allocate,
                    void* context, CancelledBefore cancelled) {
  State& state = *state_;
  const Clock::time_point begin = Clock::now();
  const Range range(state.ranges, state.engine->name.c_str());
  Status status = guarded([&] {
    const auto scope = state.stream ? state.stream->enter() : nullptr;
    state.clear_stop();
    if (cancelled && cancelled(context)) state.request_stop(StopSignal::kCancelled);
    state.ran = &state.variant_for(inputs);
    const LimitScope limits(state.session_memory.budget, &state.ran->stop);
    std::optional<Deadline> deadline;
    if (state.deadline_seconds > 0) {
      deadline.emplace(state.deadline_seconds, [&state] { state.request_stop(StopSignal::kDeadline); });
    }
    state.ran->run(inputs, outputs, allocate, context);
  });
  if (state.counters->counts()) state.count_run(status, Clock::now() - begin);
  return status;
}

void Session::State::count_run(const Status& status, std::chrono::nanoseconds taken) {
  const bool cancelled = !status.ok() && status.kind() == ErrorKind::kCancelled;
  counters->add({.runs = status.ok(),
                 .failures = !status.ok() && !cancelled,
                 .cancellations = cancelled,
                 .interpreted_steps = std::exchange(interpreted_steps, 0),
                 .nanoseconds = static_cast<uint64_t>(taken.count()),
                 .arena_bytes = ran->last_arena});
}

Status Session::set_stream(void* native) {
  return guarded([&] {
    if (state_->stream) state_->stream->use(native);
  });
}

Status Session::wait() {
  return guarded([&] {
    if (!state_->stream) return;
    state_->stream->wait();
    if (state_->status_unread) state_->check_status();
    state_->for_each_variant([](State& variant) {
      if (variant.status_unread) variant.check_status();
    });
  });
}

bool Session::was_captured() const {
  bool captured = state_->was_captured;
  state_->for_each_variant([&](const State& variant) { captured = captured || variant.was_captured; });
  return captured;
}
void Session::set_memory_limit(int64_t bytes) { state_->session_memory.budget->set_limit(bytes); }
void Session::set_scratch(ScratchAllocator allocate, void* context) {
  const auto set = [&](State& state) { state.borrow = allocate, state.borrow_context = context; };
  set(*state_);
  state_->for_each_variant(set);
}
void* Session::give_output(int output, size_t bytes) {
  return state_->give_output(static_cast<size_t>(output), static_cast<int64_t>(bytes));
}

uint64_t Session::hold_text(std::string_view text) { return state_->table->add_text(text); }
uint64_t Session::hold(DynamicValue value) { return state_->table->add(std::move(value)); }
const std::string& Session::text(uint64_t handle) const { return state_->table->text(handle); }
const DynamicValue& Session::value(uint64_t handle) const { return state_->table->value(handle); }
void Session::start_values() { state_->table->forget(); }

void Session::cancel() noexcept { state_->request_stop(StopSignal::kCancelled); }
void Session::set_deadline(double seconds) { state_->deadline_seconds = seconds; }

void Session::State::set_validating(bool on) {
  validating = on;
  for_each_variant([on](State& variant) { variant.set_validating(on); });
  for_each_body([on](State& body) { body.set_validating(on); });
}

/// Gives back what libraries made.
void Session::State::release_calls() {
  prepared.clear();
  last_calls.clear();
  for_each_variant([](State& variant) { variant.release_calls(); });
  for_each_body([](State& body) { body.release_calls(); });
}

/// The signal comes last here and first in request_stop(): of the two, the one that finds the other's mark goes on with
/// what that has done.
void Session::State::clear_stop() {
  for_each_variant([](State& variant) { variant.clear_stop(); });
  for_each_body([](State& body) { body.clear_stop(); });
  std::atomic_ref<int64_t>(status[0]).store(0, std::memory_order_relaxed);
  stop.clear();
}

void Session::State::request_stop(StopSignal::Reason reason) {
  stop.request(reason);
  for_each_variant([reason](State& variant) { variant.request_stop(reason); });
  for_each_body([reason](State& body) { body.request_stop(reason); });
  std::atomic_ref<int64_t>(status[0]).store(kStopped, std::memory_order_relaxed);
}

Status Session::time_steps(int repetitions, double& milliseconds) {
  return guarded([&] {
    const auto scope = state_->stream ? state_->stream->enter() : nullptr;
    state_->clear_stop();
    milliseconds = state_->ran->time_steps(repetitions);
  });
}

Status Session::trace_steps(std::vector<DeviceActivity>& activities) {
  return guarded([&] {
    const auto scope = state_->stream ? state_->stream->enter() : nullptr;
    state_->clear_stop();
    activities = state_->ran->trace_steps();
  });
}

void Session::State::run(std::span<const BufferView> inputs, std::span<BufferView> outputs, OutputAllocator allocate,
                         void* context) {
  GRAFT_USER_CHECK(outputs.size() == engine->outputs.size(), kInvalidArgument,
                   fmt::format("{} outputs are expected, {} were given", engine->outputs.size(), outputs.size()),
                   "run");
  for (const auto& file : loaded->files) {
    GRAFT_USER_CHECK(!file->was_changed(), kDevice,
                     "it was written to while in use, so that the weights may be others now; load it again, replace "
                     "plans by renaming a new file, or load them with copied weights",
                     file->path());
  }
  if (profiling) begin = Clock::now();
  times.clear();
  if (stream && !inside) {
    stream->begin_run();
    was_captured |= stream->is_captured();
  }
  if (stream && profiling) stream->mark(0);
  Prepared& p = prepare(inputs);
  last = &p;
  bind_caller_inputs(inputs);
  if (engine->has_computed_symbols) {
    Prepared dynamic = p;  // sizes found while running belong to this run only
    run_computed(dynamic, outputs, allocate, context);
    finish_outputs(outputs);
    return;
  }
  place(p);
  for (size_t i = 0; i < outputs.size(); ++i) {
    bind_output(i, outputs, p, allocate, context);
    if (in_place[i]) memory[roots[engine->outputs[i]]] = output_data[i];
  }
  run_planned(p);
  finish_outputs(outputs);
}

}  // namespace graft
