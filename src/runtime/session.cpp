// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include <fmt/format.h>

#include "base/log.h"
#include "base/thread_team.h"
#include "device/cpu/load_object.h"
#include "engine/memory_plan.h"
#include "runtime/bind.h"
#include "runtime/session_state.h"
#include "runtime/strided_copy.h"

namespace graft {
namespace {

constexpr const char* kNoDevice =
    "its data is said to lie on a device, but the engine runs on the CPU: give host memory";

}  // namespace

Session::Session(std::shared_ptr<const LoadedEngine> engine, int threads) : state_(std::make_unique<State>()) {
  state_->loaded = std::move(engine);
  state_->engine = state_->loaded->engine.get();
  if (state_->loaded->device) state_->session_memory.stream = state_->loaded->device->device->make_stream();
  state_->stream = state_->session_memory.stream.get();
  state_->threads = threads > 0 ? threads : state_->engine->threads;
  state_->study_engine();
  if (state_->stream) state_->open_device();
}

/// Everything about a run that needs no request.
void Session::State::study_engine() {
  const size_t count = engine->tensors.size();
  memory.resize(count);
  own.resize(count);
  for (size_t t = 0; t < count; ++t) {
    const EngineTensor& tensor = engine->tensors[t];
    roots.push_back(root_of(*engine, static_cast<int>(t)));
    if (tensor.storage == Storage::kArena) arena_tensors.push_back(static_cast<int>(t));
    if (tensor.storage == Storage::kConstant && tensor.index >= 0) {
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
  read.resize(engine->inputs.size());
  written.resize(engine->outputs.size());
  staging_in.resize(engine->inputs.size());
  staging_out.resize(engine->outputs.size());
  second_out.resize(engine->outputs.size());
  output_data.resize(engine->outputs.size());
}

Session::~Session() {
  // Memory may not go while runs that the caller has not waited for still use it.
  if (!state_->stream) return;
  (void)wait();
  try {
    // Libraries give back what they made from inside of the device too.
    const auto scope = state_->stream->enter();
    state_->prepared.clear();
    state_->last_calls.clear();
  } catch (const Error&) {
    // The driver is gone, and what it held with it.
  }
}
const Engine& Session::engine() const { return *state_->engine; }
void Session::set_profiling(bool on) { state_->profiling = on; }
void Session::set_validating(bool on) { state_->validating = on; }
const std::vector<StepTime>& Session::profile() const { return state_->times; }
size_t Session::arena_bytes() const { return static_cast<size_t>(state_->last_arena); }

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
    return {ErrorKind::kOutOfMemory, "run: out of memory"};
  } catch (const std::exception& error) {
    return {ErrorKind::kInternal, error.what()};
  }
}

}  // namespace

Status Session::run(std::span<const BufferView> inputs, std::span<BufferView> outputs, OutputAllocator allocate,
                    void* context) {
  return guarded([&] {
    const auto scope = state_->stream ? state_->stream->enter() : nullptr;
    state_->run(inputs, outputs, allocate, context);
  });
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
  });
}

void Session::set_memory_limit(int64_t bytes) { state_->session_memory.limit = bytes; }

Status Session::time_steps(int repetitions, double& milliseconds) {
  return guarded([&] {
    const auto scope = state_->stream ? state_->stream->enter() : nullptr;
    milliseconds = state_->time_steps(repetitions);
  });
}

Status Session::output_shapes(std::span<const std::vector<int64_t>> inputs,
                              std::vector<std::vector<int64_t>>& outputs) {
  return guarded([&] {
    const Engine& engine = *state_->engine;
    std::vector<BufferView> views;
    int64_t nothing = 0;
    for (size_t i = 0; i < inputs.size() && i < engine.inputs.size(); ++i) {
      views.push_back({&nothing, engine.tensors[engine.inputs[i]].type, inputs[i], {}});
    }
    const Bindings bindings = bind_inputs(engine, views);
    outputs.clear();
    for (const int tensor : engine.outputs) outputs.push_back(concrete_shape(engine.tensors[tensor], bindings));
  });
}

void Session::State::run(std::span<const BufferView> inputs, std::span<BufferView> outputs, OutputAllocator allocate,
                         void* context) {
  GRAFT_USER_CHECK(outputs.size() == engine->outputs.size(), kInvalidArgument,
                   fmt::format("{} outputs are expected, {} were given", engine->outputs.size(), outputs.size()),
                   "run");
  if (profiling) begin = Clock::now();
  times.clear();
  status[0] = 0;
  if (stream) stream->begin_run();
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

/// The value that a symbol takes from the caller's memory.
int64_t Session::State::read_input(const InputRead& read, std::span<const BufferView> inputs) const {
  const BufferView& view = inputs[read.input];
  const int64_t count = element_count(view);
  GRAFT_USER_CHECK(read.element < count, kInvalidArgument,
                   fmt::format("it has {} elements, element {} is needed", count, read.element),
                   fmt::format("input '{}'", engine->tensors[engine->inputs[read.input]].name));
  const int64_t offset = element_offset(view, read.element);
  if (!view.on_device || !stream) return read_element(view.data, view.type, offset);
  int64_t value = 0;
  const int64_t bytes = bit_width(view.type) / 8;
  stream->download(&value, static_cast<const char*>(view.data) + offset * bytes, static_cast<size_t>(bytes));
  return read_element(&value, view.type, 0);
}

Prepared& Session::State::prepare(std::span<const BufferView> inputs) {
  // The signature: all extents, then the integers that become symbols.
  key.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const BufferView& input = inputs[i];
    key.push_back(static_cast<int64_t>(input.shape.size()) << 8 | static_cast<int64_t>(input.type));
    key.insert(key.end(), input.shape.begin(), input.shape.end());
    GRAFT_USER_CHECK(input.data || element_count(input) == 0 || i >= engine->inputs.size(), kInvalidArgument,
                     "its data pointer is null", fmt::format("input '{}'", engine->tensors[engine->inputs[i]].name));
  }
  if (!input_reads.empty()) {
    if (known_shapes.find(key) == known_shapes.end()) {
      bind_inputs(*engine, inputs);
      if (known_shapes.size() >= kMostPrepared) known_shapes.clear();
      known_shapes.insert(key);
    }
    for (const InputRead& read : input_reads) key.push_back(read_input(read, inputs));
  }
  if (const auto it = prepared.find(key); it != prepared.end()) return it->second;
  Prepared fresh = make_prepared(inputs);
  if (prepared.size() >= kMostPrepared) prepared.clear();
  return prepared.emplace(key, std::move(fresh)).first->second;
}

Prepared Session::State::make_prepared(std::span<const BufferView> inputs) const {
  Prepared p;
  p.bindings = bind_inputs(*engine, inputs);
  for (const InputRead& read : input_reads) p.bindings[read.symbol] = read_input(read, inputs);
  check_inputs(*engine, inputs, p.bindings);
  p.steps.resize(engine->steps.size());
  p.sizes.resize(size_count);
  if (engine->has_computed_symbols) return p;
  for (const EngineTensor& tensor : engine->tensors) concrete_shape(tensor, p.bindings);  // refuses impossible sizes
  for (const int output : engine->outputs) p.shapes.push_back(concrete_shape(engine->tensors[output], p.bindings));
  std::vector<Lifetime> lifetimes;
  for (const int t : arena_tensors) {
    const EngineTensor& tensor = engine->tensors[t];
    lifetimes.push_back({tensor.bytes.evaluate(p.bindings), tensor.first_step, tensor.last_step});
  }
  MemoryPlan plan = plan_memory(lifetimes);
  p.offsets = std::move(plan.offsets);
  p.arena_bytes = plan.bytes;
  for (size_t s = 0; s < engine->steps.size(); ++s) {
    run_checks(engine->steps[s], p.bindings);
    ready(static_cast<int>(s), p);
    p.scratch_bytes = std::max(p.scratch_bytes, scratch_of(p.steps[s]));
  }
  return p;
}

/// Evaluates what a launch of the step needs.
void Session::State::ready(int step, Prepared& p) const {
  const EngineStep& s = engine->steps[step];
  ReadyStep& ready = p.steps[step];
  if (s.kind != StepKind::kKernel && s.kind != StepKind::kLibrary) return;
  // Below a few microseconds of work waking another thread costs more than it brings.
  constexpr int64_t kWorthSharing = 60'000;
  ready.parallel = threads > 1 && s.operations.evaluate(p.bindings) / 8 + s.bytes.evaluate(p.bindings) > kWorthSharing;
  if (s.kind == StepKind::kLibrary && ready_library(step, ready, p.bindings)) return;
  const EngineKernel& kernel = engine->kernels[s.kernel];
  int64_t* size = p.sizes.data() + work[step].first_size;
  for (const std::string& symbol : kernel.sizes) *size++ = Size::symbol(symbol).evaluate(p.bindings);
  ready.grid = kernel.grid.evaluate(p.bindings);
  ready.scratch = (kernel.scratch.evaluate(p.bindings) + 63) / 64 * 64;
}

bool Session::State::has_code(int step) const {
  const int kernel = engine->steps[step].kernel;
  return stream ? kernel >= 0 && loaded->device->kernels[kernel].function : work[step].kernel != nullptr;
}

/// Makes the step's library call ready. False when the library cannot do it for these sizes, or is missing, and the
/// step has a kernel to run instead.
bool Session::State::ready_library(int step, ReadyStep& ready, const Bindings& bindings) const {
  const EngineStep& s = engine->steps[step];
  try {
    GRAFT_USER_CHECK(loaded->libraries, kDevice, "no library was given to this run", s.library);
    auto& [sizes, last] = last_calls[step];
    const LibraryPlace place{.threads = ready.parallel ? threads : 1, .stream = stream ? stream->native() : nullptr};
    if (!last || sizes != bindings) last = loaded->libraries(*engine, s, bindings, place);
    sizes = bindings;
    ready.library = engine->has_computed_symbols ? last : std::move(last);
    ready.scratch = (ready.library->scratch_bytes() + 63) / 64 * 64;
    return true;
  } catch (const Error& error) {
    const bool replaceable = error.kind() == ErrorKind::kDevice || error.kind() == ErrorKind::kUnsupported;
    if (replaceable && has_code(step)) {
      log(LogLevel::kReason, "node '{}' runs as a kernel: {}", s.name, error.what());
      ready.library = nullptr;
      return false;
    }
    throw Error(error.kind(), error.what(), fmt::format("node '{}'", s.name));
  }
}

/// Bytes of scratch memory of all that run the step at the same time. Kernels of a device have theirs in their blocks.
int64_t Session::State::scratch_of(const ReadyStep& ready) const {
  if (stream) return ready.library ? ready.scratch : 0;
  return ready.scratch * threads;
}

/// Arena addresses for this run.
void Session::State::place(const Prepared& p) {
  std::string largest;
  if (arena.bytes() < p.arena_bytes) {
    const auto bytes = [&](int tensor) { return engine->tensors[tensor].bytes.evaluate(p.bindings); };
    const auto at =
        std::max_element(arena_tensors.begin(), arena_tensors.end(), [&](int a, int b) { return bytes(a) < bytes(b); });
    if (at != arena_tensors.end()) {
      largest = fmt::format(", the largest of them '{}' with {} bytes", engine->tensors[*at].name, bytes(*at));
    }
  }
  char* base = static_cast<char*>(arena.reserve(p.arena_bytes, session_memory, "intermediate tensors", largest));
  scratch.reserve(p.scratch_bytes, session_memory, "scratch memory");
  last_arena = p.arena_bytes;
  for (size_t i = 0; i < arena_tensors.size(); ++i) memory[arena_tensors[i]] = base + p.offsets[i];
}

void Session::State::bind_caller_inputs(std::span<const BufferView> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const BufferView& view = inputs[i];
    GRAFT_USER_CHECK(stream || !view.on_device, kInvalidArgument, kNoDevice,
                     fmt::format("input '{}'", engine->tensors[engine->inputs[i]].name));
    void* data = view.data;
    read[i] = {};
    if (stream) {
      data = bind_device_input(i, view);
    } else if (needs_copy(view)) {
      data = staging_in[i].reserve(dense_bytes(view), session_memory, "a copy of a strided input");
      copy_to_dense(view, data);
    } else {
      read[i] = {reinterpret_cast<uintptr_t>(data), reinterpret_cast<uintptr_t>(data) + dense_bytes(view)};
    }
    memory[engine->inputs[i]] = data;
  }
}

/// Checks a caller's output buffer, or has one allocated; on a device it may stay without, for the session to give.
void Session::State::take_output(size_t i, BufferView& view, const std::vector<int64_t>& shape,
                                 OutputAllocator allocate, void* context) const {
  const EngineTensor& tensor = engine->tensors[engine->outputs[i]];
  const auto where = [&] { return fmt::format("output '{}'", tensor.name); };
  GRAFT_USER_CHECK(stream || !view.on_device, kInvalidArgument, kNoDevice, where());
  if (view.data) {
    GRAFT_USER_CHECK(view.type == tensor.type, kInvalidArgument,
                     fmt::format("its type is {}, a buffer of {} was given", name_of(tensor.type), name_of(view.type)),
                     where());
    GRAFT_USER_CHECK(
        view.shape == shape, kInvalidArgument,
        fmt::format("its shape is {}, a buffer of {} was given", to_string(Shape(shape.begin(), shape.end())),
                    to_string(Shape(view.shape.begin(), view.shape.end()))),
        where());
    return;
  }
  view.type = tensor.type;
  view.shape = shape;
  view.strides.clear();
  if (view.on_device && !allocate) return;
  GRAFT_USER_CHECK(allocate, kInvalidArgument, "it has neither a buffer nor an allocator", where());
  const int64_t bytes = dense_bytes(view);
  view.data = allocate(context, static_cast<int>(i), tensor.type, shape, static_cast<size_t>(bytes));
  GRAFT_USER_CHECK(view.data || bytes == 0 || view.on_device, kOutOfMemory,
                   fmt::format("the allocator gave no {} bytes", bytes), where());
}

/// Finds the place that steps write output `i` to: the caller's buffer, or memory of ours where that is strided,
/// misaligned, or also an input, which must stay as it is until the last step has read it.
void Session::State::bind_output(size_t i, std::span<BufferView> outputs, const Prepared& p, OutputAllocator allocate,
                                 void* context) {
  BufferView& view = outputs[i];
  const EngineTensor& tensor = engine->tensors[engine->outputs[i]];
  take_output(i, view, p.shapes[i], allocate, context);
  const int64_t bytes = dense_bytes(view);
  const auto begin = reinterpret_cast<uintptr_t>(view.data);
  bool staged = needs_copy(view);
  const bool given = view.data && !staged;
  written[i] = given ? Extent{begin, begin + static_cast<uintptr_t>(bytes)} : Extent{};
  for (const Extent& input : read) staged |= input.overlaps(written[i]);
  for (size_t other = 0; other < i; ++other) {
    GRAFT_USER_CHECK(!written[i].overlaps(written[other]), kInvalidArgument,
                     fmt::format("its memory is also that of output '{}'; give each its own",
                                 engine->tensors[engine->outputs[other]].name),
                     fmt::format("output '{}'", tensor.name));
  }
  if (stream) {
    output_data[i] = place_device_output(i, view, bytes, staged);
  } else {
    output_data[i] = staged ? staging_out[i].reserve(bytes, session_memory, "a copy of an output") : view.data;
  }
}

/// Copies outputs that are another tensor's memory, then those that steps could not write in place. In this order,
/// since the caller's memory may hold an input that is an output too.
void Session::State::finish_outputs(std::span<BufferView> outputs) {
  if (stream) return finish_on_device(outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const void* computed = pointer(engine->outputs[i]);
    const auto bytes = static_cast<size_t>(dense_bytes(outputs[i]));
    if (computed == output_data[i] || bytes == 0) continue;
    std::memcpy(output_data[i], computed, bytes);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (output_data[i] != outputs[i].data) copy_from_dense(output_data[i], outputs[i]);
  }
}

void Session::State::run_planned(Prepared& p) {
  if (can_record && !profiling && !validating) return run_recorded(p);
  for (size_t s = 0; s < engine->steps.size(); ++s) run_step(static_cast<int>(s), p);
}

/// Sizes become known step by step: each tensor has a buffer of its own that only grows.
void Session::State::run_computed(Prepared& p, std::span<BufferView> outputs, OutputAllocator allocate, void* context) {
  for (size_t s = 0; s < engine->steps.size(); ++s) {
    const EngineStep& step = engine->steps[s];
    for (const SymbolRead& read : step.reads) {
      p.bindings[read.symbol] = read_computed(read.tensor, read.element);
    }
    run_checks(step, p.bindings);
    for (size_t a = static_cast<size_t>(step.input_count); a < step.tensors.size(); ++a) {
      const int t = step.tensors[a];
      const EngineTensor& tensor = engine->tensors[t];
      if (tensor.storage != Storage::kArena && tensor.storage != Storage::kOutput) continue;
      Bindings bounds = p.bindings;
      if (!step.count_symbol.empty()) bounds.emplace(step.count_symbol, compact_bound(*engine, step, p.bindings));
      memory[t] = own[t].reserve(tensor.bytes.evaluate(bounds), session_memory, "tensor ", tensor.name);
    }
    Bindings kernel_sizes = p.bindings;
    if (!step.count_symbol.empty()) {
      kernel_sizes.emplace(step.count_symbol, compact_bound(*engine, step, p.bindings));
    }
    std::swap(kernel_sizes, p.bindings);
    ready(static_cast<int>(s), p);
    std::swap(kernel_sizes, p.bindings);
    scratch.reserve(scratch_of(p.steps[s]), session_memory, "scratch memory");
    run_step(static_cast<int>(s), p);
    if (!step.count_symbol.empty() && step.kind == StepKind::kKernel) {
      const int64_t count = read_computed(step.tensors.back(), 0);
      GRAFT_USER_CHECK(count >= 0 && count <= kernel_sizes.at(step.count_symbol), kInvalidModel,
                       fmt::format("its kernel counts {} elements, more than there are", count),
                       fmt::format("node '{}'", step.name));
      p.bindings[step.count_symbol] = count;
    } else if (!step.count_symbol.empty()) {
      p.bindings[step.count_symbol] = references.at(static_cast<int>(s)).last_count;
    }
  }
  for (const int output : engine->outputs) p.shapes.push_back(concrete_shape(engine->tensors[output], p.bindings));
  for (size_t i = 0; i < outputs.size(); ++i) bind_output(i, outputs, p, allocate, context);
}

void Session::State::run_step(int index, const Prepared& p) {
  const auto start = profiling ? Clock::now() : Clock::time_point();
  const StepWork& step = work[index];
  for (uint32_t a = 0; a < step.argument_count; ++a) buffers[a] = memory[arguments[step.first_argument + a]];
  const std::span<void* const> given(buffers.data(), step.argument_count);
  switch (step.kind) {
    case StepKind::kNone:
      break;
    case StepKind::kKernel:
    case StepKind::kLibrary:
      if (p.steps[index].library) {
        launch_library(index, p.steps[index]);
      } else if (stream) {
        launch_on_device(index, p.steps[index], p.sizes.data() + step.first_size);
      } else {
        launch(step, p.steps[index], p.sizes.data() + step.first_size);
      }
      break;
    case StepKind::kInterpreter:
      if (stream) {
        interpret_on_host(index, p.bindings);
      } else {
        interpret(index, given, p.bindings);
      }
      break;
  }
  if (stream && profiling) stream->mark(index + 1);
  if (status[0] != 0) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("index {} is out of range", status[1]),
                fmt::format("node '{}'", engine->steps[index].name));
  }
  if (validating && !stream && (step.kind == StepKind::kKernel || step.kind == StepKind::kLibrary))
    validate(index, given, p.bindings);
  if (!profiling || stream) return;
  const auto us = [&](Clock::time_point t) { return std::chrono::duration<double, std::micro>(t - begin).count(); };
  times.push_back({index, us(start), us(Clock::now())});
}

/// Errors of the interpreter speak of regions; the user knows the node.
void Session::State::interpret(int index, std::span<void* const> given, const Bindings& bindings) {
  try {
    interpret_step(*engine, index, given, bindings, references);
  } catch (const Error& error) {
    throw Error(error.kind(), error.what(), fmt::format("node '{}'", engine->steps[index].name));
  }
}

/// Compares with the interpreter, which takes inputs row-major where the kernel has packed ones.
void Session::State::validate(int index, std::span<void* const> given, const Bindings& bindings) {
  std::vector<void*> reference(given.begin(), given.end());
  const std::vector<int>& row_major = engine->steps[index].reference_inputs;
  for (size_t a = 0; a < row_major.size(); ++a) reference[a] = pointer(row_major[a]);
  validate_step(*engine, index, reference, bindings, references);
}

void Session::State::launch(const StepWork& step, const ReadyStep& ready, const int64_t* sizes) {
  char* base = scratch.data();
  const auto piece = [&](int64_t first, int64_t last, int thread) {
    const KernelArguments given{buffers.data(), sizes, base + thread * ready.scratch, status};
    step.kernel(&given, first, last);
  };
  parallel_for(ready.parallel ? threads : 1, ready.grid, piece);
}

void Session::State::launch_library(int step, const ReadyStep& ready) const {
  std::atomic<int> failure{0};
  const auto piece = [&](int64_t first, int64_t last, int thread) {
    for (int64_t slice = first; slice < last; ++slice) {
      const int code = ready.library->run(slice, buffers.data(), scratch.data() + thread * ready.scratch);
      if (code != 0) failure = code;
    }
  };
  parallel_for(ready.parallel && !stream ? threads : 1, ready.library->slices(), piece);
  GRAFT_USER_CHECK(failure == 0, kDevice,
                   fmt::format("{} failed with code {}", engine->steps[step].library, failure.load()),
                   fmt::format("node '{}'", engine->steps[step].name));
}

std::shared_ptr<const LoadedEngine> load_code(std::shared_ptr<const Engine> engine, LibrarySource libraries,
                                              std::shared_ptr<Device> device) {
  auto loaded = std::make_shared<LoadedEngine>();
  loaded->libraries = std::move(libraries);
  if (device) {
    loaded->device = std::make_shared<const DeviceCode>(*engine, std::move(device));
    loaded->engine = std::move(engine);
    return loaded;
  }
  for (const auto& bytes : engine->objects) {
    auto object = std::make_shared<LoadedObject>();
    const Status status =
        LoadedObject::load({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, object.get());
    GRAFT_USER_CHECK(status.ok(), kDevice, status.message(), "kernel object");
    loaded->objects.push_back(std::move(object));
  }
  std::vector<bool> wanted(engine->kernels.size());
  for (const EngineStep& step : engine->steps) {
    if (step.kind == StepKind::kKernel) wanted[step.kernel] = true;
  }
  for (size_t k = 0; k < engine->kernels.size(); ++k) {
    const EngineKernel& kernel = engine->kernels[k];
    const bool known = kernel.object >= 0 && kernel.object < static_cast<int>(loaded->objects.size());
    void* entry = known ? loaded->objects[kernel.object]->find(kernel.name) : nullptr;
    GRAFT_USER_CHECK(entry || !wanted[k], kInvalidModel, "its object does not define it",
                     fmt::format("kernel '{}'", kernel.name));
    loaded->kernels.push_back(reinterpret_cast<KernelFunction>(entry));
  }
  loaded->engine = std::move(engine);
  return loaded;
}

}  // namespace graft
