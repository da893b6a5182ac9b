// SPDX-License-Identifier: Apache-2.0
// Where the tensors of a run lie: the arena, and the caller's inputs and outputs.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "runtime/bind.h"
#include "runtime/session_state.h"
#include "runtime/strided_copy.h"

namespace graft {
namespace {

constexpr const char* kNoDevice =
    "its data is said to lie on a device, but the engine runs on the CPU: give host memory";

}  // namespace

/// Places both in one piece of the caller's memory. False where a run takes the session's own.
bool Session::State::place_in_borrowed(const Prepared& p) {
  constexpr int64_t kAlignment = Buffer::kAlignment;
  if (!borrow || stream || (p.arena_bytes == 0 && p.scratch_bytes == 0)) return false;
  const int64_t scratch_at = checked_aligned(p.arena_bytes, kAlignment, "intermediate tensors");
  const int64_t wanted = checked_sum(checked_sum(scratch_at, p.scratch_bytes, "scratch memory"), kAlignment - 1,
                                     "scratch memory");
  const LimitScope callers(nullptr, nullptr);  // what the caller allocates is not the session's
  void* given = borrow(borrow_context, static_cast<size_t>(wanted));
  if (!given) return false;
  char* base = static_cast<char*>(given);
  base += -reinterpret_cast<uintptr_t>(given) % kAlignment;
  put_intermediates(p, base);
  memory.back() = base + scratch_at;
  arena.release();
  scratch.release();
  return true;
}

void Session::State::put_intermediates(const Prepared& p, char* base) {
  last_arena = p.arena_bytes;
  for (size_t i = 0; i < arena_tensors.size(); ++i) memory[arena_tensors[i]] = base + p.offsets[i];
}

/// Addresses in the arena and of scratch memory for this run.
void Session::State::place(const Prepared& p) {
  if (place_in_borrowed(p)) return;
  std::string largest;
  if (arena.bytes() < p.arena_bytes) {
    const auto bytes = [&](int tensor) { return concrete_bytes(engine->tensors[tensor], p.bindings); };
    const auto at =
        std::max_element(arena_tensors.begin(), arena_tensors.end(), [&](int a, int b) { return bytes(a) < bytes(b); });
    if (at != arena_tensors.end()) {
      largest = fmt::format(", the largest of them '{}' with {} bytes", engine->tensors[*at].name, bytes(*at));
    }
  }
  char* base = static_cast<char*>(arena.reserve(p.arena_bytes, session_memory, "intermediate tensors", largest));
  memory.back() = scratch.reserve(p.scratch_bytes, session_memory, "scratch memory");
  put_intermediates(p, base);
}

void Session::State::bind_caller_inputs(std::span<const BufferView> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const BufferView& view = inputs[i];
    GRAFT_USER_CHECK(stream || !view.on_device, kInvalidArgument, kNoDevice,
                     fmt::format("input '{}'", engine->tensors[engine->inputs[i]].name));
    void* data = view.data;
    if (!inside) on_host[i] = view.on_device || needs_copy(view) ? nullptr : view.data;
    read[i] = {};
    if (stream) {
      data = bind_device_input(i, view);
    } else if (needs_copy(view)) {
      data = staging_in[i].reserve(dense_bytes(view), session_memory, "a copy of the strided input ",
                                   engine->tensors[engine->inputs[i]].name);
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
  const LimitScope callers(nullptr, nullptr);  // what the caller allocates is not the session's
  view.data = allocate(context, static_cast<int>(i), tensor.type, shape, static_cast<size_t>(bytes));
  GRAFT_USER_CHECK(view.data || bytes == 0 || view.on_device, kOutOfMemory,
                   fmt::format("the allocator gave no {} bytes", bytes), where());
}

/// Memory for an output that the caller gave none for. What it outgrows stays until the next growth, since it may be an
/// input of the run that is going on.
void* Session::State::give_output(size_t i, int64_t bytes) {
  GivenOutput& given = given_out[i];
  if (given.places[given.latest].bytes() < std::max<int64_t>(bytes, 1)) given.latest = 1 - given.latest;
  return given.places[given.latest].reserve(bytes, host_memory, "the output ",
                                            engine->tensors[engine->outputs[i]].name);
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
    output_data[i] =
        staged ? staging_out[i].reserve(bytes, session_memory, "a copy of the output ", tensor.name) : view.data;
  }
}

/// Copies outputs that are another tensor's memory, then those that steps could not write in place. In this order,
/// since the caller's memory may hold an input that is an output too.
void Session::State::finish_outputs(std::span<BufferView> outputs) {
  if (stream) return finish_on_device(outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const void* computed = pointer(engine->outputs[i]);
    const auto bytes = static_cast<size_t>(dense_bytes(outputs[i]));
    if (computed == output_data[i] || bytes == 0 || is_unread(i)) continue;
    std::memcpy(output_data[i], computed, bytes);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (output_data[i] != outputs[i].data) copy_from_dense(output_data[i], outputs[i]);
  }
}

}  // namespace graft
