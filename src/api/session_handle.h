// SPDX-License-Identifier: Apache-2.0
// What is behind the handle of a session.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "api/handles.h"
#include "api/run_queue.h"
#include "api/value_handles.h"

namespace graft::api_detail {

/// The tensors of a call, at the distance at which the program's version of the header lays them out.
class TensorList {
 public:
  TensorList(const graft_tensor* first, size_t count, const char* where)
      : first_(reinterpret_cast<const std::byte*>(first)), count_(count), size_(count ? first->struct_size : 0) {
    for (size_t i = 0; i < count; ++i) {
      // Beyond the first, a wrong distance would be read as one.
      GRAFT_USER_CHECK(size_ >= kFirstVersion && size_ <= kLargest && at(i)->struct_size == size_, kInvalidArgument,
                       fmt::format("struct_size of tensor {} is not set: give sizeof(graft_tensor)", i), where);
    }
  }
  size_t size() const { return count_; }
  /// The tensor with the members that this version knows; those that the program's version lacks are 0.
  graft_tensor operator[](size_t i) const {
    graft_tensor tensor{};
    std::memcpy(&tensor, at(i), std::min(size_, sizeof tensor));
    return tensor;
  }
  /// What the library fills in are members of the first version.
  graft_tensor& place(size_t i) const { return *const_cast<graft_tensor*>(at(i)); }
  /// Whether the program's version has the member for values that are no tensors.
  bool has_values() const { return size_ >= offsetof(graft_tensor, value) + sizeof(graft_value*); }

 private:
  static constexpr size_t kFirstVersion = offsetof(graft_tensor, device) + sizeof(int32_t), kLargest = 4096;
  const graft_tensor* at(size_t i) const { return reinterpret_cast<const graft_tensor*>(first_ + i * size_); }
  const std::byte* first_;
  size_t count_, size_;
};

}  // namespace graft::api_detail

/// A session with buffers that are filled anew for each call, so that a call allocates nothing.
struct graft_session {
  graft_session(graft_engine* of, int threads)
      : engine(graft_engine_retain(of)),
        threads(threads),
        inputs(of->inputs.size()),
        outputs(of->outputs.size()),
        wanted(of->outputs.size()),
        input_handles(of->inputs.size()),
        output_texts(of->outputs.size()),
        output_values(of->outputs.size()) {
    const auto held = [&](const int tensor) { return !of->data().tensors[tensor].handles.empty(); };
    holds = std::any_of(of->data().inputs.begin(), of->data().inputs.end(), held) ||
            std::any_of(of->data().outputs.begin(), of->data().outputs.end(), held);
    follow();
  }
  ~graft_session() {
    end_queue();
    if (RunLocks* const known = locks.load(); known->process == graft::api_detail::forks()) delete known;
    for (graft_value* value : output_values) graft_value_release(value);
    graft_engine_release(engine);
  }

  /// What runs of this process hold. A child of fork has locks of its own: the parent's may be held by threads that it
  /// has not.
  struct RunLocks {
    const uint64_t process = graft::api_detail::forks();
    std::mutex queue_making;
    std::mutex going_on;  ///< of synchronous runs and of those of the queue, which may be called for meanwhile
  };
  RunLocks& run_locks();

  /// Runs as graft_session_run does; throws what it fails with. `cancelled` is asked once a run can be ended.
  void run(const graft_tensor* given_inputs, size_t input_count, graft_tensor* given_outputs, size_t output_count,
           const graft_allocator* memory, bool (*cancelled)(void* session) = nullptr);
  /// The queue of asynchronous runs, made at the first call.
  graft::api_detail::RunQueue& open_queue();
  /// Returns when no asynchronous run waits or goes on; at once inside of one.
  void settle() const {
    if (const graft::api_detail::RunQueue* const runs = queue.load()) runs->settle();
  }
  /// Ends the run that goes on. From any thread, and from a signal handler.
  void stop() const noexcept {
    if (graft::Session* const going_on = current.load()) going_on->cancel();
  }
  void end_queue();

  /// Makes the session of the engine, or of what it has become, unless that still learns.
  void follow();
  /// Sets something of the session, also of one that is made later; `what` tells one from another.
  void set(const char* what, std::function<void(graft::Session&)> setting);
  /// Runs an engine that learns.
  void learn(graft_engine::Learning& learning);
  void give_learned(std::span<const graft::TensorData> results);
  void take_inputs(const graft::api_detail::TensorList& tensors);
  void take_outputs(const graft::api_detail::TensorList& tensors);
  void give_outputs(const graft::api_detail::TensorList& tensors);
  void hold_input(size_t input, const graft_tensor& tensor);
  void hold_inputs();
  void take_held_output(size_t output, const graft_tensor& tensor, bool has_values);
  void give_held_output(size_t output, graft_tensor& tensor);
  const std::string& input_handles_of(size_t input) const { return handles_of(engine->data().inputs[input]); }
  const std::string& output_handles_of(size_t output) const { return handles_of(engine->data().outputs[output]); }
  const std::string& handles_of(int tensor) const { return engine->data().tensors[tensor].handles; }
  void* allocate(int output, graft::DType type, std::span<const int64_t> shape, size_t bytes);

  graft_engine* engine;
  const graft_engine* running = nullptr;  ///< whose session `current` is: the engine, or what that has become
  int threads;
  std::optional<graft::Session> made;
  std::atomic<graft::Session*> current{nullptr};  ///< null while the engine learns
  std::map<std::string_view, std::function<void(graft::Session&)>> settings;  ///< while the engine learns
  std::vector<graft::TensorData> learned;  ///< its results then, where the caller has no memory for them
  std::vector<graft::BufferView> inputs, outputs;
  std::vector<int> wanted;  ///< by output: the position in the call, or -1
  // Strings, and values that are no tensors.
  bool holds = false;  ///< there are any
  struct Given {
    graft::api_detail::PooledTexts strings;
    graft::DynamicValue value;
  };
  std::vector<Given> given;  ///< by input, until the values of the last run are forgotten
  std::vector<std::vector<uint64_t>> input_handles;
  std::vector<std::vector<graft_text>> output_texts;
  std::vector<graft_value*> output_values;
  const graft_allocator* allocator = nullptr;
  std::atomic<graft::api_detail::RunQueue*> queue{nullptr};  ///< null before the first asynchronous run
  std::atomic<RunLocks*> locks{new RunLocks};
};
