// SPDX-License-Identifier: Apache-2.0
// Running the steps of an engine.
#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "base/kernel_arguments.h"
#include "base/thread_team.h"
#include "runtime/bind.h"
#include "runtime/draw.h"
#include "runtime/session_state.h"

namespace graft {

void Session::State::run_planned(Prepared& p) {
  const bool records = can_record && !profiling && !validating;
  if (records && !stream->is_captured() && !stream->is_recording()) return run_recorded(p);
  run_steps(p);
}

/// Sizes become known step by step: each tensor has a buffer of its own that only grows.
void Session::State::run_computed(Prepared& p, std::span<BufferView> outputs, OutputAllocator allocate, void* context) {
  auto derived = engine->derived.begin();
  const auto bind_before = [&](size_t step) {
    for (; derived != engine->derived.end() && derived->before_step <= static_cast<int>(step); ++derived) {
      bind_derived({&derived->size, 1}, p.bindings);
    }
  };
  for (size_t s = 0; s < engine->steps.size(); ++s) {
    const EngineStep& step = engine->steps[s];
    const std::string where = fmt::format("node '{}'", step.name);
    for (const SymbolRead& read : step.reads) {
      const EngineTensor& from = engine->tensors[read.tensor];
      const int64_t count = element_count(from.shape).evaluate(p.bindings);
      GRAFT_USER_CHECK(read.element < count, kInvalidArgument,
                       fmt::format("'{}' has {} elements, element {} is needed", from.name, count, read.element),
                       where);
      bind_symbol(p.bindings, read.symbol, read_computed(read.tensor, read.element), where);
    }
    bind_before(s);
    run_checks(step, p.bindings);
    // What a step counts is not known before it has run: there is room for all that it may count.
    Bindings kernel_sizes = p.bindings;
    if (!step.count_symbol.empty()) {
      kernel_sizes[step.count_symbol] = compact_bound(*engine, static_cast<int>(s), p.bindings, references);
    }
    for (size_t a = static_cast<size_t>(step.input_count); a < step.tensors.size(); ++a) {
      const int t = step.tensors[a];
      const EngineTensor& tensor = engine->tensors[t];
      if (tensor.storage != Storage::kArena && tensor.storage != Storage::kOutput) continue;
      if (step.kind == StepKind::kControl || step.kind == StepKind::kHost) continue;  // they give theirs memory
      memory[t] = own[t].reserve(concrete_bytes(tensor, kernel_sizes), session_memory, "tensor ", tensor.name);
    }
    std::swap(kernel_sizes, p.bindings);
    ready(static_cast<int>(s), p);
    std::swap(kernel_sizes, p.bindings);
    memory.back() = scratch.reserve(scratch_of(static_cast<int>(s), p.steps[s]), session_memory,
                                    "scratch memory of node ", step.name);
    run_step(static_cast<int>(s), p);
    if (!step.count_symbol.empty() && step.kind == StepKind::kKernel) {
      const int64_t count = read_computed(step.tensors.back(), 0);
      GRAFT_USER_CHECK(count >= 0 && count <= kernel_sizes.at(step.count_symbol), kInvalidModel,
                       fmt::format("its kernel counts {} elements, more than there are", count), where);
      bind_symbol(p.bindings, step.count_symbol, count, where);
    } else if (!step.count_symbol.empty()) {
      bind_symbol(p.bindings, step.count_symbol, references.at(static_cast<int>(s)).last_count, where);
    }
  }
  bind_before(engine->steps.size());
  for (const int output : engine->outputs) p.shapes.push_back(concrete_shape(engine->tensors[output], p.bindings));
  for (size_t i = 0; i < outputs.size(); ++i) bind_output(i, outputs, p, allocate, context);
}

void Session::State::run_step(int index, Prepared& p) {
  const Range range(ranges, engine->steps[index].name.c_str());
  stop.check();
  const auto start = profiling ? Clock::now() : Clock::time_point();
  const StepWork& step = work[index];
  for (uint32_t a = step.first_argument; a < step.first_argument + step.argument_count; ++a) {
    buffers[a - step.first_argument] = static_cast<char*>(memory[arguments[a]]) + argument_offsets[a];
  }
  const std::span<void* const> given(buffers.data(), step.argument_count);
  switch (step.kind) {
    case StepKind::kNone:
      for (void* place : given) draw(place, stream);
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
    case StepKind::kControl:
      run_control(index, p.bindings, engine->has_computed_symbols ? &p.bindings : nullptr);
      break;
    case StepKind::kHost:
      run_host(index, p.bindings, engine->has_computed_symbols ? &p.bindings : nullptr);
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
  stop.check();
  const int64_t found = std::atomic_ref<int64_t>(status[0]).load(std::memory_order_relaxed);
  if (found == kStopped) {  // by who asks while the run begins: the signal was cleared between the two
    stop.request(StopSignal::kCancelled);
    stop.check();
  }
  if (found != 0) {
    throw Error(ErrorKind::kInvalidArgument, text_of(ElementFault{found}, status[1]),
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
  ++*interpreted;
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
  char* base = static_cast<char*>(memory.back());
  const auto piece = [&](int64_t first, int64_t last, int thread) {
    const KernelArguments given{buffers.data(), sizes, base + thread * ready.scratch, status};
    for (int64_t at = first; at < last && !stop.requested(); at += ready.piece) {
      step.kernel(&given, at, std::min(at + ready.piece, last));
    }
  };
  parallel_for(ready.parallel ? threads : 1, ready.grid, piece);
}

void Session::State::launch_library(int step, const ReadyStep& ready) const {
  if (stream) stream->catch_up();
  std::atomic<int> failure{0};
  char* base = static_cast<char*>(memory.back());
  const auto piece = [&](int64_t first, int64_t last, int thread) {
    for (int64_t slice = first; slice < last && !stop.requested(); ++slice) {
      const int code = ready.library->run(slice, buffers.data(), base + thread * ready.scratch);
      if (code != 0) failure = code;
    }
  };
  parallel_for(ready.parallel && !stream ? threads : 1, ready.library->slices(), piece);
  GRAFT_USER_CHECK(failure == 0, kDevice,
                   fmt::format("{} failed with code {}", engine->steps[step].library, failure.load()),
                   fmt::format("node '{}'", engine->steps[step].name));
}

}  // namespace graft
