// SPDX-License-Identifier: Apache-2.0
#include "runtime/session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "base/log.h"
#include "base/thread_team.h"
#include "device/cpu/load_object.h"
#include "engine/memory_plan.h"
#include "runtime/bind.h"
#include "runtime/interpret_step.h"
#include "runtime/strided_copy.h"

namespace graft {
namespace {

/// 64-byte aligned memory that only grows.
class AlignedBuffer {
 public:
  ~AlignedBuffer() { std::free(data_); }
  AlignedBuffer() = default;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  AlignedBuffer(AlignedBuffer&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
    other.bytes_ = 0;
  }
  AlignedBuffer& operator=(AlignedBuffer&&) = delete;

  /// At least `bytes`; contents are lost when it grows. Throws out_of_memory naming what it is for.
  void* reserve(int64_t bytes, const std::string& what) {
    if (bytes <= bytes_ && data_) return data_;
    std::free(data_);
    const size_t rounded = (static_cast<size_t>(std::max<int64_t>(bytes, 1)) + 63) / 64 * 64;
    data_ = static_cast<char*>(std::aligned_alloc(64, rounded));
    bytes_ = data_ ? static_cast<int64_t>(rounded) : 0;
    GRAFT_USER_CHECK(data_, kOutOfMemory, fmt::format("cannot allocate {} bytes for {}", bytes, what), "run");
    return data_;
  }
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// A step with its sizes evaluated.
struct ReadyStep {
  std::vector<void*> buffers;
  std::vector<int64_t> sizes;
  int64_t grid = 0;
  int64_t scratch = 0;
  bool parallel = false;
  std::shared_ptr<const ReadyLibraryCall> library;  ///< null: the step runs as a kernel
};

/// Everything about a run that depends only on its signature.
struct Prepared {
  Bindings bindings;
  std::vector<std::vector<int64_t>> shapes;  ///< by tensor
  std::vector<int64_t> offsets;              ///< by tensor, in the arena
  std::vector<ReadyStep> steps;
  int64_t arena_bytes = 0, scratch_bytes = 0;
};

using Clock = std::chrono::steady_clock;

}  // namespace

struct Session::State {
  std::shared_ptr<const LoadedEngine> loaded;
  const Engine* engine = nullptr;
  int threads = 1;
  std::map<std::vector<int64_t>, Prepared> prepared;
  std::vector<int64_t> key;   // of the current run; reused to avoid allocations
  std::vector<void*> memory;  // by tensor, of the current run
  AlignedBuffer arena, scratch;
  std::vector<AlignedBuffer> own;  // by tensor, when sizes are known only while running
  std::vector<AlignedBuffer> staging_in, staging_out;
  std::vector<void*> output_data;
  std::map<int, ReferenceStep> references;  // parsed regions of interpreted and validated steps
  // By step, when sizes are known only while running: the call of the last run, and the sizes it is for.
  mutable std::map<int, std::pair<Bindings, std::shared_ptr<const ReadyLibraryCall>>> last_calls;
  bool profiling = false, validating = false;
  std::vector<StepTime> times;
  int64_t status[2] = {0, 0};
  int64_t last_arena = 0;
  Clock::time_point begin;

  void run(std::span<const BufferView> inputs, std::span<BufferView> outputs, OutputAllocator allocate, void* context);
  void read_early_symbols(std::span<const BufferView> inputs, Bindings& bindings) const;
  Prepared& prepare(std::span<const BufferView> inputs);
  Prepared make_prepared(std::span<const BufferView> inputs) const;
  void ready(int step, Prepared& p) const;
  void place(const Prepared& p);
  void bind_caller_inputs(std::span<const BufferView> inputs);
  void bind_output(size_t i, std::span<BufferView> outputs, const Prepared& p, OutputAllocator allocate, void* context);
  void finish_outputs(std::span<BufferView> outputs, const Prepared& p);
  void run_planned(Prepared& p);
  void run_computed(Prepared& p, std::span<BufferView> outputs, OutputAllocator allocate, void* context);
  void run_step(int step, ReadyStep& ready, const Prepared& p);
  bool ready_library(int step, ReadyStep& ready, const Bindings& bindings) const;
  void launch(const EngineStep& step, const ReadyStep& ready);
  void launch_library(const EngineStep& step, const ReadyStep& ready) const;
  void check_status(const EngineStep& step) const;
  void* pointer(int tensor) const { return memory[root_of(*engine, tensor)]; }
};

Session::Session(std::shared_ptr<const LoadedEngine> engine, int threads) : state_(std::make_unique<State>()) {
  state_->loaded = std::move(engine);
  state_->engine = state_->loaded->engine.get();
  state_->threads = threads > 0 ? threads : state_->engine->threads;
  const size_t count = state_->engine->tensors.size();
  state_->memory.resize(count);
  state_->own.resize(count);
  state_->staging_in.resize(state_->engine->inputs.size());
  state_->staging_out.resize(state_->engine->outputs.size());
  state_->output_data.resize(state_->engine->outputs.size());
}

Session::~Session() = default;
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
  return guarded([&] { state_->run(inputs, outputs, allocate, context); });
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
  begin = Clock::now();
  times.clear();
  status[0] = 0;
  Prepared& p = prepare(inputs);
  bind_caller_inputs(inputs);
  if (engine->has_computed_symbols) {
    Prepared dynamic = p;  // sizes found while running belong to this run only
    run_computed(dynamic, outputs, allocate, context);
    finish_outputs(outputs, dynamic);
    return;
  }
  place(p);
  for (size_t i = 0; i < outputs.size(); ++i) bind_output(i, outputs, p, allocate, context);
  run_planned(p);
  finish_outputs(outputs, p);
}

/// Symbols whose values are elements of the caller's inputs (a shape given at run time) are part of the signature.
void Session::State::read_early_symbols(std::span<const BufferView> inputs, Bindings& bindings) const {
  for (const EngineStep& step : engine->steps) {
    for (const SymbolRead& read : step.reads) {
      const EngineTensor& root = engine->tensors[root_of(*engine, read.tensor)];
      if (root.storage != Storage::kInput) continue;
      const BufferView& view = inputs[root.index];
      int64_t count = 1;
      for (const int64_t extent : view.shape) count *= extent;
      GRAFT_USER_CHECK(read.element < count, kInvalidArgument,
                       fmt::format("it has {} elements, element {} is needed", count, read.element),
                       fmt::format("input '{}'", root.name));
      const int64_t stride = view.strides.empty() || view.shape.size() != 1 ? 1 : view.strides[0];
      bindings[read.symbol] = read_element(view.data, view.type, read.element * stride);
    }
  }
}

Prepared& Session::State::prepare(std::span<const BufferView> inputs) {
  // The signature: all extents, then the integers that become symbols.
  key.clear();
  for (const BufferView& input : inputs) {
    key.push_back(static_cast<int64_t>(input.shape.size()) << 8 | static_cast<int64_t>(input.type));
    key.insert(key.end(), input.shape.begin(), input.shape.end());
  }
  bool reads_inputs = false;
  for (const EngineStep& step : engine->steps) {
    for (const SymbolRead& read : step.reads) {
      reads_inputs |= engine->tensors[root_of(*engine, read.tensor)].storage == Storage::kInput;
    }
  }
  if (reads_inputs) {
    bind_inputs(*engine, inputs);
    Bindings early;
    read_early_symbols(inputs, early);
    for (const auto& [symbol, value] : early) key.push_back(value);
  }
  if (const auto it = prepared.find(key); it != prepared.end()) {
    for (const BufferView& input : inputs) {
      GRAFT_USER_CHECK(input.data || std::find(input.shape.begin(), input.shape.end(), 0) != input.shape.end(),
                       kInvalidArgument, "a data pointer is null", "run");
    }
    return it->second;
  }
  return prepared.emplace(key, make_prepared(inputs)).first->second;
}

Prepared Session::State::make_prepared(std::span<const BufferView> inputs) const {
  Prepared p;
  p.bindings = bind_inputs(*engine, inputs);
  read_early_symbols(inputs, p.bindings);
  check_inputs(*engine, inputs, p.bindings);
  p.shapes.resize(engine->tensors.size());
  p.offsets.resize(engine->tensors.size());
  p.steps.resize(engine->steps.size());
  if (engine->has_computed_symbols) return p;
  std::vector<Lifetime> lifetimes;
  std::vector<size_t> planned;
  for (size_t t = 0; t < engine->tensors.size(); ++t) {
    const EngineTensor& tensor = engine->tensors[t];
    p.shapes[t] = concrete_shape(tensor, p.bindings);
    if (tensor.storage != Storage::kArena) continue;
    planned.push_back(t);
    lifetimes.push_back({tensor.bytes.evaluate(p.bindings), tensor.first_step, tensor.last_step});
  }
  const MemoryPlan plan = plan_memory(lifetimes);
  for (size_t i = 0; i < planned.size(); ++i) p.offsets[planned[i]] = plan.offsets[i];
  p.arena_bytes = plan.bytes;
  for (size_t s = 0; s < engine->steps.size(); ++s) {
    run_checks(engine->steps[s], p.bindings);
    ready(static_cast<int>(s), p);
    p.scratch_bytes = std::max(p.scratch_bytes, p.steps[s].scratch);
  }
  return p;
}

/// Evaluates what a launch of the step needs.
void Session::State::ready(int step, Prepared& p) const {
  const EngineStep& s = engine->steps[step];
  ReadyStep& ready = p.steps[step];
  ready.buffers.resize(s.tensors.size());
  if (s.kind != StepKind::kKernel && s.kind != StepKind::kLibrary) return;
  // Below a few microseconds of work waking another thread costs more than it brings.
  constexpr int64_t kWorthSharing = 60'000;
  ready.parallel = threads > 1 && s.operations.evaluate(p.bindings) / 8 + s.bytes.evaluate(p.bindings) > kWorthSharing;
  if (s.kind == StepKind::kLibrary && ready_library(step, ready, p.bindings)) return;
  const EngineKernel& kernel = engine->kernels[s.kernel];
  ready.sizes.clear();
  for (const std::string& symbol : kernel.sizes) ready.sizes.push_back(Size::symbol(symbol).evaluate(p.bindings));
  ready.grid = kernel.grid.evaluate(p.bindings);
  ready.scratch = (kernel.scratch.evaluate(p.bindings) + 63) / 64 * 64;
}

/// Makes the step's library call ready. False when the library cannot do it and the step has a kernel to run instead.
bool Session::State::ready_library(int step, ReadyStep& ready, const Bindings& bindings) const {
  const EngineStep& s = engine->steps[step];
  try {
    GRAFT_USER_CHECK(loaded->libraries, kDevice, "no library was given to this run", s.library);
    auto& [sizes, last] = last_calls[step];
    if (!last || sizes != bindings) last = loaded->libraries(*engine, s, bindings, ready.parallel ? threads : 1);
    sizes = bindings;
    ready.library = engine->has_computed_symbols ? last : std::move(last);
    ready.scratch = (ready.library->scratch_bytes() + 63) / 64 * 64;
    return true;
  } catch (const Error& error) {
    const bool replaceable = error.kind() == ErrorKind::kDevice || error.kind() == ErrorKind::kUnsupported;
    if (replaceable && s.kernel >= 0 && loaded->kernels[s.kernel]) {
      log(LogLevel::kReason, "node '{}' runs as a kernel: {}", s.name, error.what());
      ready.library = nullptr;
      return false;
    }
    throw Error(error.kind(), error.what(), fmt::format("node '{}'", s.name));
  }
}

/// Arena and constant addresses for this run.
void Session::State::place(const Prepared& p) {
  char* base = static_cast<char*>(arena.reserve(p.arena_bytes, "intermediate tensors"));
  scratch.reserve(p.scratch_bytes * threads, "scratch memory");
  last_arena = p.arena_bytes;
  for (size_t t = 0; t < engine->tensors.size(); ++t) {
    const EngineTensor& tensor = engine->tensors[t];
    if (tensor.storage == Storage::kArena) memory[t] = base + p.offsets[t];
    if (tensor.storage == Storage::kConstant && tensor.index >= 0) {
      memory[t] = const_cast<std::byte*>(engine->constants[tensor.index].bytes().data());
    }
  }
}

void Session::State::bind_caller_inputs(std::span<const BufferView> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const BufferView& view = inputs[i];
    void* data = view.data;
    if (needs_copy(view)) {
      data = staging_in[i].reserve(dense_bytes(view), "a copy of a strided input");
      copy_to_dense(view, data);
    }
    memory[engine->inputs[i]] = data;
  }
}

void Session::State::bind_output(size_t i, std::span<BufferView> outputs, const Prepared& p, OutputAllocator allocate,
                                 void* context) {
  const int id = engine->outputs[i];
  const EngineTensor& tensor = engine->tensors[id];
  BufferView& view = outputs[i];
  const std::vector<int64_t>& shape = p.shapes[id];
  const int64_t bytes = packed_bytes(tensor.type, element_count(Shape(shape.begin(), shape.end())).constant());
  const std::string where = fmt::format("output '{}'", tensor.name);
  if (view.data) {
    GRAFT_USER_CHECK(view.type == tensor.type, kInvalidArgument,
                     fmt::format("its type is {}, a buffer of {} was given", name_of(tensor.type), name_of(view.type)),
                     where);
    GRAFT_USER_CHECK(
        view.shape == shape, kInvalidArgument,
        fmt::format("its shape is {}, a buffer of {} was given", to_string(Shape(shape.begin(), shape.end())),
                    to_string(Shape(view.shape.begin(), view.shape.end()))),
        where);
  } else {
    GRAFT_USER_CHECK(allocate, kInvalidArgument, "it has neither a buffer nor an allocator", where);
    view.type = tensor.type;
    view.shape = shape;
    view.strides.clear();
    view.data = allocate(context, static_cast<int>(i), tensor.type, shape, static_cast<size_t>(bytes));
    GRAFT_USER_CHECK(view.data || bytes == 0, kOutOfMemory, fmt::format("the allocator gave no {} bytes", bytes),
                     where);
  }
  output_data[i] = view.data;
  if (needs_copy(view)) output_data[i] = staging_out[i].reserve(bytes, "a strided output");
  const int root = root_of(*engine, id);
  const EngineTensor& place = engine->tensors[root];
  if (place.storage == Storage::kOutput && place.index == static_cast<int>(i)) memory[root] = output_data[i];
}

/// Outputs that are another tensor's memory, and strided ones, are copied at the end.
void Session::State::finish_outputs(std::span<BufferView> outputs, const Prepared& p) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int id = engine->outputs[i];
    const int root = root_of(*engine, id);
    const bool own =
        engine->tensors[root].storage == Storage::kOutput && engine->tensors[root].index == static_cast<int>(i);
    const std::vector<int64_t>& shape = p.shapes[id];
    if (!own) {
      const int64_t count = element_count(Shape(shape.begin(), shape.end())).constant();
      const int64_t bytes = packed_bytes(engine->tensors[id].type, count);
      if (bytes > 0) std::memcpy(output_data[i], memory[root], static_cast<size_t>(bytes));
    }
    if (output_data[i] != outputs[i].data) copy_from_dense(output_data[i], outputs[i]);
  }
}

void Session::State::run_planned(Prepared& p) {
  for (size_t s = 0; s < engine->steps.size(); ++s) run_step(static_cast<int>(s), p.steps[s], p);
}

/// Sizes become known step by step: each tensor has a buffer of its own that only grows.
void Session::State::run_computed(Prepared& p, std::span<BufferView> outputs, OutputAllocator allocate, void* context) {
  for (size_t t = 0; t < engine->tensors.size(); ++t) {
    const EngineTensor& tensor = engine->tensors[t];
    if (tensor.storage == Storage::kConstant && tensor.index >= 0) {
      memory[t] = const_cast<std::byte*>(engine->constants[tensor.index].bytes().data());
    }
  }
  for (size_t s = 0; s < engine->steps.size(); ++s) {
    const EngineStep& step = engine->steps[s];
    for (const SymbolRead& read : step.reads) {
      p.bindings[read.symbol] = read_element(pointer(read.tensor), engine->tensors[read.tensor].type, read.element);
    }
    run_checks(step, p.bindings);
    for (size_t a = static_cast<size_t>(step.input_count); a < step.tensors.size(); ++a) {
      const int t = step.tensors[a];
      const EngineTensor& tensor = engine->tensors[t];
      if (tensor.storage != Storage::kArena && tensor.storage != Storage::kOutput) continue;
      Bindings bounds = p.bindings;
      if (!step.count_symbol.empty()) bounds.emplace(step.count_symbol, compact_bound(*engine, step, p.bindings));
      memory[t] = own[t].reserve(tensor.bytes.evaluate(bounds), fmt::format("tensor '{}'", tensor.name));
    }
    Bindings kernel_sizes = p.bindings;
    if (!step.count_symbol.empty()) {
      kernel_sizes.emplace(step.count_symbol, compact_bound(*engine, step, p.bindings));
    }
    std::swap(kernel_sizes, p.bindings);
    ready(static_cast<int>(s), p);
    std::swap(kernel_sizes, p.bindings);
    scratch.reserve(p.steps[s].scratch * threads, "scratch memory");
    run_step(static_cast<int>(s), p.steps[s], p);
    if (!step.count_symbol.empty() && step.kind == StepKind::kKernel) {
      const int64_t count = read_element(pointer(step.tensors.back()), DType::kInt64, 0);
      GRAFT_USER_CHECK(count >= 0 && count <= kernel_sizes.at(step.count_symbol), kInvalidModel,
                       fmt::format("its kernel counts {} elements, more than there are", count),
                       fmt::format("node '{}'", step.name));
      p.bindings[step.count_symbol] = count;
    } else if (!step.count_symbol.empty()) {
      p.bindings[step.count_symbol] = references.at(static_cast<int>(s)).last_count;
    }
  }
  for (size_t t = 0; t < engine->tensors.size(); ++t) p.shapes[t] = concrete_shape(engine->tensors[t], p.bindings);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int id = engine->outputs[i];
    void* computed = pointer(id);
    bind_output(i, outputs, p, allocate, context);
    const std::vector<int64_t>& shape = p.shapes[id];
    const int64_t count = element_count(Shape(shape.begin(), shape.end())).constant();
    const int64_t bytes = packed_bytes(engine->tensors[id].type, count);
    if (bytes > 0) std::memcpy(output_data[i], computed, static_cast<size_t>(bytes));
    memory[root_of(*engine, id)] = computed;
    if (engine->tensors[id].storage == Storage::kOutput) memory[id] = output_data[i];
  }
}

void Session::State::run_step(int index, ReadyStep& ready, const Prepared& p) {
  const EngineStep& step = engine->steps[index];
  const auto start = profiling ? Clock::now() : Clock::time_point();
  for (size_t a = 0; a < step.tensors.size(); ++a) ready.buffers[a] = pointer(step.tensors[a]);
  switch (step.kind) {
    case StepKind::kNone:
      break;
    case StepKind::kKernel:
      launch(step, ready);
      break;
    case StepKind::kInterpreter:
      interpret_step(*engine, index, ready.buffers, p.bindings, references);
      break;
    case StepKind::kLibrary:
      ready.library ? launch_library(step, ready) : launch(step, ready);
      break;
  }
  check_status(step);
  if (validating && (step.kind == StepKind::kKernel || step.kind == StepKind::kLibrary)) {
    std::vector<void*> reference = ready.buffers;
    for (size_t a = 0; a < step.reference_inputs.size(); ++a) reference[a] = pointer(step.reference_inputs[a]);
    validate_step(*engine, index, reference, p.bindings, references);
  }
  if (!profiling) return;
  const auto us = [&](Clock::time_point t) { return std::chrono::duration<double, std::micro>(t - begin).count(); };
  times.push_back({index, us(start), us(Clock::now())});
}

void Session::State::launch(const EngineStep& step, const ReadyStep& ready) {
  const KernelFunction kernel = loaded->kernels[step.kernel];
  char* base = scratch.data();
  const auto piece = [&](int64_t first, int64_t last, int thread) {
    const KernelArguments arguments{ready.buffers.data(), ready.sizes.data(), base + thread * ready.scratch, status};
    kernel(&arguments, first, last);
  };
  parallel_for(ready.parallel ? threads : 1, ready.grid, piece);
}

void Session::State::launch_library(const EngineStep& step, const ReadyStep& ready) const {
  std::atomic<int> failure{0};
  const auto piece = [&](int64_t first, int64_t last, int thread) {
    for (int64_t slice = first; slice < last; ++slice) {
      const int code = ready.library->run(slice, ready.buffers.data(), scratch.data() + thread * ready.scratch);
      if (code != 0) failure = code;
    }
  };
  parallel_for(ready.parallel ? threads : 1, ready.library->slices(), piece);
  GRAFT_USER_CHECK(failure == 0, kDevice, fmt::format("{} failed with code {}", step.library, failure.load()),
                   fmt::format("node '{}'", step.name));
}

void Session::State::check_status(const EngineStep& step) const {
  if (status[0] == 0) return;
  throw Error(ErrorKind::kInvalidArgument, fmt::format("index {} is out of range", status[1]),
              fmt::format("node '{}'", step.name));
}

std::shared_ptr<const LoadedEngine> load_code(std::shared_ptr<const Engine> engine, LibrarySource libraries) {
  auto loaded = std::make_shared<LoadedEngine>();
  loaded->libraries = std::move(libraries);
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
