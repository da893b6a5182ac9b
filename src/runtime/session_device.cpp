// SPDX-License-Identifier: Apache-2.0
// Running on a device with memory of its own: tensors there, sizes and errors here.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/kernel_arguments.h"
#include "runtime/bind.h"
#include "runtime/session_state.h"
#include "runtime/strided_copy.h"

namespace graft {

namespace {

/// Kernels read and write 16 bytes at a time.
constexpr uintptr_t kAlignment = 16;

constexpr const char* kWhatCanBeReplayed =
    "only the steps of a finished run on a device can be replayed, with sizes known before it, branches and loops that "
    "the device decides, and none in the interpreter";

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kAlignment == 0; }

/// Memory of a device is read and written as it lies there.
void check_row_major(const BufferView& view, const char* what, const std::string& name) {
  GRAFT_USER_CHECK(is_row_major(view), kUnsupported, "on a device it has to be row-major: make it contiguous",
                   fmt::format("{} '{}'", what, name));
}

}  // namespace

/// What a session needs on its device from the start.
void Session::State::open_device() {
  host_copy = BudgetVector<char>(BudgetAllocator<char>(session_memory.budget));
  can_record = !engine->has_computed_symbols;
  for (size_t s = 0; s < engine->steps.size(); ++s) can_record &= may_record(static_cast<int>(s));
  if (!inside) open_found();
}

bool Session::State::may_record(int step) const {
  const EngineStep& s = engine->steps[step];
  switch (s.kind) {
    case StepKind::kInterpreter:
    case StepKind::kHost:
      return false;
    case StepKind::kNone:
      return s.tensors.empty();  // each run draws bits of its own
    case StepKind::kControl:
      return may_nest(step);
    case StepKind::kKernel:
    case StepKind::kLibrary:
      return true;
  }
  return false;
}

/// Memory for what kernels find, of this session and those of bodies in one piece, so that one look tells.
void Session::State::open_found() {
  host_found.resize(found_count());
  const auto bytes = static_cast<int64_t>(host_found.size() * sizeof(int64_t));
  auto* next = static_cast<int64_t*>(all_found.reserve(bytes, session_memory, "the errors of kernels"));
  stream->clear(next, static_cast<size_t>(bytes));
  place_found(next);
}

size_t Session::State::found_count() const {
  size_t count = 2 * std::max<size_t>(engine->steps.size(), 1);
  for_each_body([&](const State& body) { count += body.found_count(); });
  return count;
}

void Session::State::place_found(int64_t*& next) {
  found = next;
  next += 2 * std::max<size_t>(engine->steps.size(), 1);
  for_each_body([&](State& body) { body.place_found(next); });
}

/// The input in the device's memory: where the caller has it, or a copy.
void* Session::State::bind_device_input(size_t i, const BufferView& view) {
  const int64_t bytes = dense_bytes(view);
  if (view.on_device) {
    check_row_major(view, "input", engine->tensors[engine->inputs[i]].name);
    const auto begin = reinterpret_cast<uintptr_t>(view.data);
    read[i] = {begin, begin + static_cast<uintptr_t>(bytes)};
    if (is_aligned(view.data)) return view.data;
    void* to = staging_in[i].reserve(bytes, session_memory, "a copy of the misaligned input ",
                                     engine->tensors[engine->inputs[i]].name);
    stream->copy(to, view.data, static_cast<size_t>(bytes));
    return to;
  }
  const void* from = view.data;
  if (needs_copy(view)) {
    host_copy.resize(static_cast<size_t>(bytes));
    copy_to_dense(view, host_copy.data());
    from = host_copy.data();
  }
  void* to = staging_in[i].reserve(bytes, session_memory, "the input ", engine->tensors[engine->inputs[i]].name);
  stream->upload(to, from, static_cast<size_t>(bytes));
  return to;
}

/// Where steps write output `i`: the caller's memory when it is on the device and no input's, or our own.
void* Session::State::place_device_output(size_t i, BufferView& view, int64_t bytes, bool overlaps) {
  if (view.on_device && view.data) {
    check_row_major(view, "output", engine->tensors[engine->outputs[i]].name);
    if (!overlaps && is_aligned(view.data)) return view.data;
  }
  // What the session gave before may be an input now.
  const auto begin = reinterpret_cast<uintptr_t>(staging_out[i].data());
  const Extent own_memory{begin, begin + static_cast<uintptr_t>(staging_out[i].bytes())};
  const bool taken = std::any_of(read.begin(), read.end(), [&](const Extent& e) { return e.overlaps(own_memory); });
  Buffer& place = taken ? second_out[i] : staging_out[i];
  void* data = place.reserve(bytes, session_memory, "the output ", engine->tensors[engine->outputs[i]].name);
  if (view.on_device && !view.data) view.data = data;
  return data;
}

/// Host outputs are there when a run returns, and errors that kernels found are known by then.
void Session::State::finish_on_device(std::span<BufferView> outputs) {
  bool waits = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const void* computed = pointer(engine->outputs[i]);
    const auto bytes = static_cast<size_t>(dense_bytes(outputs[i]));
    waits |= !outputs[i].on_device;
    if (bytes == 0 || is_unread(i)) continue;
    if (computed != output_data[i]) stream->copy(output_data[i], computed, bytes);
    if (outputs[i].on_device && outputs[i].data != output_data[i]) stream->copy(outputs[i].data, output_data[i], bytes);
  }
  status_unread = true;
  if (inside) return;
  stream->end_run();
  if (profiling) profile_device();
  if (!waits) return;
  check_status();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].on_device) continue;
    const auto bytes = static_cast<size_t>(dense_bytes(outputs[i]));
    if (!needs_copy(outputs[i])) {
      stream->download(outputs[i].data, output_data[i], bytes);
      continue;
    }
    host_copy.resize(bytes);
    stream->download(host_copy.data(), output_data[i], bytes);
    copy_from_dense(host_copy.data(), outputs[i]);
  }
}

/// What is queued as a graph; null where it needs the host.
std::shared_ptr<DeviceGraph> Session::State::record(const std::function<void()>& queue) {
  stream->begin_recording();
  try {
    queue();
  } catch (const NeedsHost&) {
    stream->abandon_recording();
    return nullptr;
  } catch (...) {
    stream->abandon_recording();
    throw;
  }
  return stream->end_recording();
}

/// The recording of `queue`, whose launches depend on those places and on the memory of bodies; null where it is not
/// worth one yet, or needs the host.
const DeviceGraph* Session::State::recording_of(Recordings& recordings, const std::vector<void*>& places,
                                                const std::function<void()>& queue) {
  if (recordings.refuses) return nullptr;
  std::vector<void*> with_bodies;
  const auto all = [&]() -> const std::vector<void*>& {
    if (control.empty()) return places;
    with_bodies = places;
    add_places(with_bodies);
    return with_bodies;
  };
  if (const DeviceGraph* known = recordings.find(all())) return known;
  if (!recordings.was_seen(all())) return nullptr;
  std::shared_ptr<DeviceGraph> fresh = record(queue);
  recordings.refuses = !fresh;
  return fresh ? recordings.keep(all(), std::move(fresh)) : nullptr;  // recording may have taken memory
}

const DeviceGraph* Recordings::find(const std::vector<void*>& places) {
  const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const Recording& r) { return r.places == places; });
  if (known == kept_.end()) return nullptr;
  std::rotate(kept_.begin(), known, known + 1);
  return kept_.front().graph.get();
}

bool Recordings::was_seen(const std::vector<void*>& places) {
  const auto known = std::find(seen_.begin(), seen_.end(), places);
  const bool was = known != seen_.end();
  if (was) {
    seen_.erase(known);
  } else {
    if (seen_.size() == kMost) seen_.pop_back();
    seen_.insert(seen_.begin(), places);
  }
  return was;
}

const DeviceGraph* Recordings::keep(std::vector<void*> places, std::shared_ptr<DeviceGraph> graph) {
  if (kept_.size() == kMost) kept_.pop_back();
  kept_.insert(kept_.begin(), {std::move(places), std::move(graph)});
  return kept_.front().graph.get();
}

void Session::State::run_steps(Prepared& p) {
  for (size_t s = 0; s < engine->steps.size(); ++s) run_step(static_cast<int>(s), p);
}

/// The first run with all memory at its places goes step by step, the second is recorded, later ones are replayed; so
/// do runs that change between a few places, as the rounds of a loop.
void Session::State::run_recorded(Prepared& p) {
  const DeviceGraph* graph = recording_of(p.recordings, memory, [&] { run_steps(p); });
  if (!graph) return run_steps(p);
  stream->replay(*graph);
}

/// Times between the marks after steps, gaps included.
void Session::State::profile_device() {
  double end = 0;
  for (size_t s = 0; s < engine->steps.size(); ++s) {
    const double begin_us = end;
    end = stream->elapsed_us(0, static_cast<int>(s) + 1);
    times.push_back({static_cast<int>(s), begin_us, end});
  }
}

/// Throws what kernels of the runs so far found, the first step's error first; waits for them.
void Session::State::check_status() {
  if (const auto fault = take_fault()) throw Error(*fault);
}

/// What kernels found in the runs that nobody has asked about, those of bodies too; nobody hears of it again.
std::optional<Error> Session::State::take_fault() {
  if (!std::exchange(status_unread, false)) return std::nullopt;
  const size_t bytes = host_found.size() * sizeof(int64_t);
  stream->download(host_found.data(), all_found.data(), bytes);
  const int64_t* next = host_found.data();
  const std::optional<Error> fault = fault_in(next);
  if (fault) stream->clear(all_found.data(), bytes);
  return fault;
}

/// The first step's error first.
std::optional<Error> Session::State::fault_in(const int64_t*& next) const {
  const int64_t* numbers = next;
  next += 2 * std::max<size_t>(engine->steps.size(), 1);
  std::optional<Error> fault;
  for (size_t s = 0; s < engine->steps.size() && !fault; ++s) {
    if (numbers[2 * s] == 0) continue;
    fault.emplace(ErrorKind::kInvalidArgument, text_of(ElementFault{numbers[2 * s]}, numbers[2 * s + 1]),
                  fmt::format("node '{}'", engine->steps[s].name));
  }
  for_each_body([&](const State& body) {
    const auto inner = body.fault_in(next);
    if (!fault && inner) fault.emplace(*inner);
  });
  return fault;
}

/// The elements of a tensor where the host has them without asking the device: constants, and what callers gave.
const void* Session::State::host_copy_of(int tensor) const {
  const EngineTensor& root = engine->tensors[roots[tensor]];
  if (root.storage == Storage::kInput) return on_host[root.index];
  if (root.storage != Storage::kConstant || root.index < 0) return nullptr;
  return engine->constants[root.index].bytes().data();
}

/// An element that a later size depends on.
int64_t Session::State::read_computed(int tensor, int64_t element) const {
  const DType type = engine->tensors[tensor].type;
  if (!stream) return read_element(pointer(tensor), type, element);
  if (const void* known = host_copy_of(tensor)) return read_element(known, type, element);
  int64_t value = 0;
  const int64_t bytes = bit_width(type) / 8;
  stream->download(&value, static_cast<const char*>(pointer(tensor)) + element * bytes, static_cast<size_t>(bytes));
  return read_element(&value, type, 0);
}

void Session::State::launch_on_device(int index, const ReadyStep& ready, const int64_t* sizes) {
  if (ready.grid == 0) return;
  const EngineStep& step = engine->steps[index];
  const size_t count = engine->kernels[step.kernel].sizes.size();
  parameters.clear();
  for (size_t a = 0; a < step.tensors.size(); ++a) parameters.push_back(&buffers[a]);
  for (size_t k = 0; k < count; ++k) parameters.push_back(const_cast<int64_t*>(sizes + k));
  void* where = found + 2 * static_cast<size_t>(index);
  parameters.push_back(&where);
  stream->launch(loaded->device->kernels[step.kernel], ready.grid, parameters.data());
}

/// A step without a kernel: its tensors come to the host and its results go back.
void Session::State::interpret_on_host(int index, const Bindings& bindings) {
  const EngineStep& step = engine->steps[index];
  Bindings sizes = bindings;
  if (!step.count_symbol.empty()) {
    sizes[step.count_symbol] = compact_bound(*engine, index, bindings, references);
  }
  std::vector<BudgetVector<char>> copies;
  std::vector<void*> given;
  for (size_t a = 0; a < step.tensors.size(); ++a) {
    const auto bytes = static_cast<size_t>(concrete_bytes(engine->tensors[step.tensors[a]], sizes));
    copies.emplace_back(bytes);
    given.push_back(copies.back().data());
    if (a < static_cast<size_t>(step.input_count)) stream->download(given[a], buffers[a], bytes);
  }
  interpret(index, given, bindings);
  for (size_t a = static_cast<size_t>(step.input_count); a < given.size(); ++a) {
    stream->upload(memory[roots[step.tensors[a]]], given[a], copies[a].size());
  }
}

/// The steps of the last run as a graph.
std::shared_ptr<DeviceGraph> Session::State::record_last() {
  GRAFT_USER_CHECK(stream && last && can_record, kInvalidArgument, kWhatCanBeReplayed, "run");
  std::shared_ptr<DeviceGraph> graph = record([&] { run_steps(*last); });
  GRAFT_USER_CHECK(graph, kInvalidArgument, kWhatCanBeReplayed, "run");
  return graph;
}

double Session::State::time_steps(int repetitions) {
  const std::shared_ptr<DeviceGraph> graph = record_last();
  stream->replay(*graph);
  stream->mark(0);
  for (int i = 0; i < repetitions; ++i) stream->replay(*graph);
  stream->mark(1);
  return stream->elapsed_us(0, 1) * 1e-3 / repetitions;
}

std::vector<DeviceActivity> Session::State::trace_steps() {
  const std::shared_ptr<DeviceGraph> graph = record_last();
  // What tells of the kernels prepares itself while it sees a graph for the first time.
  std::vector<DeviceActivity> told = loaded->device->device->trace([&] {
    for (int i = 0; i < 2; ++i) {
      stream->replay(*graph);
      stream->wait();
    }
  });
  told.erase(told.begin(), told.begin() + static_cast<std::ptrdiff_t>(told.size() / 2));
  return told;
}

}  // namespace graft
