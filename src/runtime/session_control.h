// SPDX-License-Identifier: Apache-2.0
// What a session keeps of its steps of control flow.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/session_state.h"

namespace graft {

/// What the rounds of a loop collect: parts of equal shape, one after the other.
struct Session::State::Collected {
  std::unique_ptr<Buffer> memory = std::make_unique<Buffer>();
  Buffer staging;              ///< on a device: one place for all rounds to write to, so that they can be recorded
  char* part = nullptr;        ///< where what is staged goes
  char* direct = nullptr;      ///< where the result lies already; null: in `memory`
  std::vector<int64_t> shape;  ///< of one part
  int64_t part_bytes = 0, direct_bytes = 0;
  Buffer turns;  ///< parts of the rounds that a device goes through by itself

  char* base() const { return direct ? direct : memory->data(); }
};

/// What a step of control flow keeps from run to run.
struct Session::State::ControlWork {
  struct Body {
    std::unique_ptr<State> state;
    std::vector<BufferView> inputs, outputs;

    void run(OutputAllocator allocate, RoundContext& round) {
      for (BufferView& output : outputs) output.data = nullptr, output.on_device = state->stream != nullptr;
      state->run(inputs, outputs, allocate, &round);
    }
  };
  struct Carried {
    Buffer places[2];
  };
  std::vector<Body> bodies;
  std::vector<Carried> carried;
  std::vector<Collected> collected;
  Buffer condition;
  // On a device: numbers of rounds, the one of this round, and a condition that is true.
  Buffer numbers, number, going;
  int64_t first_number = -1;
  bool counts = false;           ///< the body reads the number of its round
  std::vector<Buffer> unread;    ///< by a branch's output: memory for one that nobody reads
  std::vector<int> step_output;  ///< by result: the output of the step, -1 where nobody reads it
  // Where the device decides, session_decided.cpp.
  bool decides = false;  ///< nothing of it has to be known to the host
  Buffer count;          ///< a RoundCount
  Recordings recordings;

  /// Whether the step gives out what rounds collect.
  bool collects() const {
    return std::any_of(step_output.begin() + static_cast<std::ptrdiff_t>(carried.size()), step_output.end(),
                       [](int output) { return output >= 0; });
  }
};

/// What a body's run is told about the memory of its results.
struct Session::State::RoundContext {
  State* outer;
  int step;
  ControlWork* work;
  const Bindings* bindings;
  Bindings* counted;  ///< takes the sizes that the step binds; null where there are none
  int64_t round = 0, limit = 0;
  int from = 0;  ///< of the two places of what is carried, the one that a round reads on a device that decides
};

/// A tensor as the body or the step that takes it sees it.
BufferView view_of(const EngineTensor& tensor, void* data, const Bindings& bindings, bool on_device);

}  // namespace graft
