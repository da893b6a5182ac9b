// SPDX-License-Identifier: Apache-2.0
// Steps of control flow that a device goes through without the host: both branches, or two rounds of a loop, are
// recorded, and what of them runs is decided by bytes in its memory.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "runtime/bind.h"
#include "runtime/session_control.h"
#include "runtime/strided_copy.h"

namespace graft {
namespace {

/// Rounds between two looks at the deadline: at first, and at most while they take less than kLongEnough together.
constexpr int64_t kFirstRounds = 16, kMostRounds = 512;
constexpr auto kLongEnough = std::chrono::milliseconds(10);
/// What they may collect.
constexpr int64_t kMostCollected = int64_t{16} << 20;

/// A byte of a RoundCount.
const void* going_of(const Buffer& count) { return count.data() + offsetof(RoundCount, going); }
const void* odd_of(const Buffer& count) { return count.data() + offsetof(RoundCount, odd); }

}  // namespace

/// Whether the host has to know nothing of a step before it runs, as far as the engine tells.
bool Session::State::may_decide(const EngineStep& step, const ControlWork& with) const {
  if (!stream) return false;
  for (const ControlWork::Body& body : with.bodies) {
    if (!body.state->can_record) return false;
  }
  if (step.control.kind == ControlFlow::Kind::kBranch) return step.control.symbols.empty() && stream->can_decide();
  const State& body = *with.bodies[0].state;
  const size_t changing = 2 + with.carried.size();
  for (const InputRead& read : body.input_reads) {
    if (read.input < changing) return false;
  }
  return body.engine->tensors[body.engine->outputs[0]].type == DType::kBool && stream->can_decide();
}

/// Whether a step may be part of what is recorded around it: what the host knows of it has to be the same in each run.
/// Rounds without a condition the host queues faster than a device decides them, unless it is kept from that.
bool Session::State::may_nest(int step) const {
  const ControlWork& with = *control.at(step);
  const EngineStep& s = engine->steps[step];
  if (!with.decides) return false;
  for (const ControlWork::Body& body : with.bodies) {
    if (!body.state->input_reads.empty()) return false;
  }
  if (s.control.kind == ControlFlow::Kind::kBranch) return true;
  if (!s.control.has_limit || (!inside && with.bodies[0].state->keeps_condition)) return false;
  const EngineTensor& limit = engine->tensors[roots[s.tensors[0]]];
  if (limit.storage != Storage::kConstant || limit.index < 0 || element_count(limit.shape) != Size(1)) return false;
  return read_element(host_copy_of(s.tensors[0]), limit.type, 0) <= kMostRounds;
}

/// Memory that recorded launches of this session and those of its bodies use, beside tensors of a caller.
void Session::State::add_places(std::vector<void*>& places) const {
  const auto add = [&](const Buffer& buffer) { places.push_back(buffer.data()); };
  places.push_back(reinterpret_cast<void*>(cleared));
  add(arena);
  add(scratch);
  for (const auto* staging : {&staging_in, &staging_out, &second_out}) {
    for (const Buffer& buffer : *staging) add(buffer);
  }
  for (const auto& [step, with] : control) {
    add(with->condition);
    add(with->count);
    for (const Buffer& unread : with->unread) add(unread);
    for (const ControlWork::Carried& carried : with->carried) add(carried.places[0]), add(carried.places[1]);
    for (const Collected& collected : with->collected) add(collected.staging), add(collected.turns);
  }
  for_each_body([&](const State& body) { body.add_places(places); });
}

/// Makes both branches ready. False where the host has to: one fails with these sizes, which perhaps nobody takes.
bool Session::State::place_branches(RoundContext& round, std::vector<void*>& places) {
  const EngineStep& step = engine->steps[round.step];
  ControlWork& with = *round.work;
  size_t operand = 1;
  try {
    for (size_t b = 0; b < with.bodies.size(); ++b) {
      capture(round, with, b, operand);
      operand += static_cast<size_t>(step.control.captured[b]);
      State& body = *with.bodies[b].state;
      Prepared& p = body.prepare(with.bodies[b].inputs);
      body.place(p);
      places.push_back(&p);
      for (size_t o = 0; o < p.shapes.size(); ++o) {
        const int position = with.step_output[o];
        if (position < 0) continue;
        const int tensor = result_tensor(round.step, static_cast<size_t>(position));
        if (concrete_shape(engine->tensors[tensor], *round.bindings) != p.shapes[o]) return false;
        if (!engine->has_computed_symbols) continue;
        memory[tensor] = own[tensor].reserve(concrete_bytes(engine->tensors[tensor], *round.bindings), session_memory,
                                             "tensor ", engine->tensors[tensor].name);
      }
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kOutOfMemory) throw;
    return false;
  }
  return true;
}

/// A branch by the device. False where the host has to do it.
bool Session::State::decide_branch(RoundContext& round) {
  ControlWork& with = *round.work;
  if (!with.decides || profiling || stream->is_captured()) return false;
  const EngineStep& step = engine->steps[round.step];
  if (element_count(engine->tensors[step.tensors[0]].shape).evaluate(*round.bindings) <= 0) return false;
  std::vector<void*> places;
  if (!place_branches(round, places)) return false;
  const auto queue = [&] {
    for (size_t b = 0; b < with.bodies.size(); ++b) {
      stream->begin_branch(pointer(step.tensors[0]), b == 1);
      with.bodies[b].run(give_branch_result, round);
      stream->end_part();
    }
  };
  if (stream->is_recording()) return queue(), true;
  for (const int tensor : step.tensors) places.push_back(pointer(tensor));
  const DeviceGraph* graph = recording_of(with.recordings, places, queue);
  if (!graph) return false;
  stream->replay(*graph);
  return true;
}

/// Makes a round ready, whose sizes are those of all rounds; null where they are not, or it cannot.
Prepared* Session::State::place_loop(RoundContext& round) {
  ControlWork& with = *round.work;
  ControlWork::Body& body = with.bodies[0];
  const EngineTensor* const inner = body.state->engine->tensors.data();
  with.count.reserve(sizeof(RoundCount), session_memory, "the number of a round");
  body.inputs[0] = view_of(inner[body.state->engine->inputs[0]], with.count.data(), {}, true);
  body.inputs[1] = view_of(inner[body.state->engine->inputs[1]], with.going.data(), {}, true);
  body.state->on_host[0] = nullptr;
  Prepared* p = nullptr;
  try {
    p = &body.state->prepare(body.inputs);
  } catch (const Error&) {
    return nullptr;  // perhaps there is no round
  }
  if (!p->shapes[0].empty()) return nullptr;
  for (size_t k = 0; k < with.carried.size(); ++k) {
    if (p->shapes[1 + k] != body.inputs[2 + k].shape) return nullptr;
  }
  return p;
}

/// The rounds of a loop by the device. False where the host has to do them.
bool Session::State::decide_loop(RoundContext& round, int condition) {
  ControlWork& with = *round.work;
  ControlWork::Body& body = with.bodies[0];
  const bool records = stream && stream->is_recording();
  const bool decides = with.decides && !profiling && (records || !body.state->keeps_condition);
  if (!decides || stream->is_captured()) return false;
  for (Collected& collected : with.collected) collected.part_bytes = 0;
  if (condition >= 0 && element_count(engine->tensors[condition].shape).evaluate(*round.bindings) <= 0) return false;
  Prepared* const p = place_loop(round);
  if (!p) return false;
  const int64_t most = place_results(round, *p);
  if (most < std::min(round.limit, records ? kMostRounds : kFirstRounds)) return false;  // large parts
  const auto queue = [&] { queue_loop(round); };
  std::vector<BufferView> given(body.inputs.begin() + 2, body.inputs.end());
  const DeviceGraph* graph = nullptr;
  if (!records) {
    std::vector<void*> places{p};
    for (size_t i = with.carried.size(); i < given.size(); ++i) places.push_back(given[i].data);
    graph = recording_of(with.recordings, places, queue);
    if (!graph) return std::copy(given.begin(), given.end(), body.inputs.begin() + 2), false;
  }
  for (size_t k = 0; k < with.carried.size(); ++k) {
    BufferView& state = body.inputs[2 + k];
    state.data = with.carried[k].places[0].data();
    copy_bytes(state.data, given[k].data, dense_bytes(state));
  }
  // The shape of what is collected tells how many rounds there were.
  const bool asks = !body.state->keeps_condition && with.collects();
  auto* const count = reinterpret_cast<RoundCount*>(with.count.data());
  const void* going = condition >= 0 ? pointer(condition) : with.going.data();
  int64_t rounds = std::min(most, kFirstRounds);
  if (records || round.limit <= most) rounds = round.limit;
  for (int64_t end = 0; round.round == end && end < round.limit;) {
    stop.check();
    const auto start = Clock::now();
    end = round.limit - end < rounds ? round.limit : end + rounds;
    stream->set_count(count, round.round, end, going);
    records ? queue() : stream->replay(*graph);
    int64_t reached = end;
    if (!records && (asks || end < round.limit)) {
      RoundCount now;
      stream->download(&now, count, sizeof now);
      reached = now.round;
    }
    keep_parts(round, *p, reached - round.round);
    round.round = reached;
    going = with.condition.data();
    if (Clock::now() - start < kLongEnough) rounds = std::min(2 * rounds, most);
  }
  return true;
}

/// Memory for what rounds give. Tells how many of them may go by before what they collect is taken away.
int64_t Session::State::place_results(RoundContext& round, Prepared& p) {
  ControlWork& with = *round.work;
  State& body = *with.bodies[0].state;
  body.place(p);
  int64_t most = std::min(round.limit, kMostRounds);
  const auto reserve = [&](Buffer& buffer, int64_t bytes, std::string_view what) {
    buffer.reserve(bytes, session_memory, what);
  };
  reserve(with.condition, 1, "the condition of a loop");
  for (size_t result = 0; result + 1 < p.shapes.size(); ++result) {
    const int64_t bytes = concrete_bytes(body.engine->tensors[body.engine->outputs[1 + result]], p.bindings);
    if (result < with.carried.size()) {
      for (Buffer& place : with.carried[result].places) reserve(place, bytes, "what a loop carries");
    } else if (with.step_output[result] < 0) {
      reserve(with.unread[result], bytes, "a result that nobody reads");
    } else {
      Collected& collected = with.collected[result - with.carried.size()];
      collected.part_bytes = bytes;
      reserve(collected.staging, bytes, "a part of what a loop collects");
      most = std::min(most, kMostCollected / std::max<int64_t>(bytes, 1));
    }
  }
  for (Collected& collected : with.collected) {
    reserve(collected.turns, std::max<int64_t>(most, 0) * collected.part_bytes, "what a loop collects");
  }
  return most;
}

/// Recorded: rounds in pairs, each from one of the two places of what is carried to the other; in the end it lies in
/// the first.
void Session::State::queue_loop(RoundContext& round) {
  ControlWork& with = *round.work;
  stream->begin_loop(going_of(with.count));
  queue_round(round, 0);
  stream->begin_branch(going_of(with.count), true);
  queue_round(round, 1);
  stream->end_part();
  stream->end_part();
  if (with.carried.empty()) return;
  stream->begin_branch(odd_of(with.count), true);
  for (size_t k = 0; k < with.carried.size(); ++k) {
    const auto& places = with.carried[k].places;
    BufferView& state = with.bodies[0].inputs[2 + k];
    state.data = places[0].data();
    copy_bytes(state.data, places[1].data(), dense_bytes(state));
  }
  stream->end_part();
}

void Session::State::queue_round(RoundContext& round, int from) {
  ControlWork& with = *round.work;
  ControlWork::Body& body = with.bodies[0];
  auto* const count = reinterpret_cast<RoundCount*>(with.count.data());
  for (size_t k = 0; k < with.carried.size(); ++k) body.inputs[2 + k].data = with.carried[k].places[from].data();
  round.from = from;
  body.run(give_turn_result, round);
  for (const Collected& collected : with.collected) {
    if (collected.part_bytes == 0) continue;
    stream->copy_of_round(collected.turns.data(), collected.staging.data(), static_cast<size_t>(collected.part_bytes),
                          count);
  }
  stream->count_round(count, body.state->keeps_condition ? with.going.data() : with.condition.data());
}

/// The memory that place_results() took.
void* Session::State::give_turn_result(void* context, int output, DType, std::span<const int64_t>, size_t) {
  const RoundContext& round = *static_cast<RoundContext*>(context);
  ControlWork& with = *round.work;
  if (output == 0) return with.condition.data();
  const auto result = static_cast<size_t>(output) - 1;
  if (result < with.carried.size()) return with.carried[result].places[1 - round.from].data();
  if (with.step_output[result] < 0) return with.unread[result].data();
  return with.collected[result - with.carried.size()].staging.data();
}

/// Takes away what the last rounds, `count` of them, have collected.
void Session::State::keep_parts(RoundContext& round, const Prepared& p, int64_t count) {
  ControlWork& with = *round.work;
  const State& body = *with.bodies[0].state;
  for (size_t k = 0; k < with.collected.size() && count > 0; ++k) {
    Collected& collected = with.collected[k];
    const size_t output = 1 + with.carried.size() + k;
    if (with.step_output[output - 1] < 0) continue;
    const DType type = body.engine->tensors[body.engine->outputs[output]].type;
    void* to = next_parts(round, count, collected, type, p.shapes[output], collected.part_bytes);
    copy_bytes(to, collected.turns.data(), count * collected.part_bytes);
  }
}

}  // namespace graft
