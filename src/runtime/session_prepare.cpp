// SPDX-License-Identifier: Apache-2.0
// What a shape signature needs before it can run: sizes, the arena's plan, what each launch takes.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/checked_size.h"
#include "base/log.h"
#include "engine/memory_plan.h"
#include "runtime/bind.h"
#include "runtime/session_state.h"
#include "runtime/strided_copy.h"

namespace graft {

/// The value that a symbol takes from the caller's memory.
int64_t Session::State::read_input(const InputRead& read, std::span<const BufferView> inputs) const {
  const BufferView& view = inputs[read.input];
  const int64_t count = element_count(view);
  GRAFT_USER_CHECK(read.element < count, kInvalidArgument,
                   fmt::format("it has {} elements, element {} is needed", count, read.element),
                   fmt::format("input '{}'", engine->tensors[engine->inputs[read.input]].name));
  const int64_t offset = element_offset(view, read.element);
  if (!view.on_device || !stream) return read_element(view.data, view.type, offset);
  if (inside && on_host[read.input]) return read_element(on_host[read.input], view.type, offset);
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
  if (prepared.size() >= kMostPrepared) prepared.clear(), ++cleared;
  return prepared.emplace(key, std::move(fresh)).first->second;
}

Prepared Session::State::make_prepared(std::span<const BufferView> inputs) const {
  Prepared p;
  p.bindings = bind_inputs(*engine, inputs);
  for (const InputRead& read : input_reads) {
    bind_symbol(p.bindings, read.symbol, read_input(read, inputs),
                fmt::format("input '{}'", engine->tensors[engine->inputs[read.input]].name));
  }
  if (!engine->has_computed_symbols) {
    for (const EngineSize& derived : engine->derived) bind_derived({&derived.size, 1}, p.bindings);
  }
  check_inputs(*engine, inputs, p.bindings);
  p.steps.resize(engine->steps.size());
  p.sizes.resize(size_count);
  if (engine->has_computed_symbols) return p;
  for (const EngineTensor& tensor : engine->tensors) concrete_shape(tensor, p.bindings);  // refuses impossible sizes
  for (const int output : engine->outputs) {
    p.shapes.push_back(concrete_shape(engine->tensors[output], p.bindings));
    concrete_bytes(engine->tensors[output], p.bindings);
  }
  std::vector<Lifetime> lifetimes;
  for (const int t : arena_tensors) {
    const EngineTensor& tensor = engine->tensors[t];
    lifetimes.push_back({concrete_bytes(tensor, p.bindings), tensor.first_step, tensor.last_step});
  }
  MemoryPlan plan = plan_memory(lifetimes);
  p.offsets = std::move(plan.offsets);
  p.arena_bytes = plan.bytes;
  for (size_t s = 0; s < engine->steps.size(); ++s) {
    run_checks(engine->steps[s], p.bindings);
    ready(static_cast<int>(s), p);
    p.scratch_bytes = std::max(p.scratch_bytes, scratch_of(static_cast<int>(s), p.steps[s]));
  }
  return p;
}

namespace {

constexpr int64_t kCacheLine = 64;

bool are_known(const Size& size, const Bindings& bindings) {
  std::set<std::string, std::less<>> symbols;
  size.collect_symbols(symbols);
  return std::all_of(symbols.begin(), symbols.end(), [&](const std::string& name) { return bindings.contains(name); });
}

/// A kernel counts its points in 64 bits, also those of what no tensor holds.
void check_operations(const EngineStep& step, const Bindings& bindings) {
  try {
    step.operations.evaluate(bindings);
  } catch (const Error& error) {
    GRAFT_USER_CHECK(!are_known(step.operations, bindings), kInvalidArgument,
                     fmt::format("the elements that it computes cannot be counted ({}): use smaller sizes",
                                 error.message()),
                     fmt::format("node '{}'", step.name));
  }
}

/// About how much a step does, in bytes moved with eight operations each; the most there is where that does not fit.
int64_t work_of(const EngineStep& step, const Bindings& bindings) {
  try {
    int64_t work = 0;
    const int64_t operations = step.operations.evaluate(bindings), bytes = step.bytes.evaluate(bindings);
    return __builtin_add_overflow(operations / 8, bytes, &work) ? INT64_MAX : work;
  } catch (const Error&) {
    return INT64_MAX;
  }
}

std::string scratch_name(const EngineStep& step) { return fmt::format("scratch memory of node '{}'", step.name); }

}  // namespace

/// Evaluates what a launch of the step needs.
void Session::State::ready(int step, Prepared& p) const {
  const EngineStep& s = engine->steps[step];
  ReadyStep& ready = p.steps[step];
  if (s.kind != StepKind::kKernel && s.kind != StepKind::kLibrary) return;
  // Below a few microseconds of work waking another thread costs more than it brings.
  constexpr int64_t kWorthSharing = 60'000;
  // A few milliseconds of work: how long a run goes on at most after it was asked to end.
  constexpr int64_t kPiece = 16'000'000;
  check_operations(s, p.bindings);
  const int64_t amount = work_of(s, p.bindings);
  ready.parallel = threads > 1 && amount > kWorthSharing;
  if (s.kind == StepKind::kLibrary && ready_library(step, ready, p.bindings)) return;
  const EngineKernel& kernel = engine->kernels[s.kernel];
  int64_t* size = p.sizes.data() + work[step].first_size;
  for (const std::string& symbol : kernel.sizes) *size++ = Size::symbol(symbol).evaluate(p.bindings);
  ready.grid = kernel.grid.evaluate(p.bindings);
  ready.piece = std::max<int64_t>(1, ready.grid / std::max<int64_t>(1, amount / kPiece));
  const std::string name = scratch_name(s);
  ready.scratch = checked_aligned(evaluate_bytes(kernel.scratch, p.bindings, name), kCacheLine, name);
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
    ready.scratch = checked_aligned(ready.library->scratch_bytes(), kCacheLine, scratch_name(s));
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
int64_t Session::State::scratch_of(int step, const ReadyStep& ready) const {
  if (stream) return ready.library ? ready.scratch : 0;
  if (ready.scratch == 0) return 0;
  return checked_product(ready.scratch, threads, scratch_name(engine->steps[step]));
}

}  // namespace graft
