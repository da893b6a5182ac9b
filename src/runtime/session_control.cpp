// SPDX-License-Identifier: Apache-2.0
// Steps of control flow: the engines of bodies run as sessions of their own, which share the memory budget, the stop
// signal and the tensors of the one around them.
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "runtime/bind.h"
#include "runtime/session_control.h"
#include "runtime/strided_copy.h"

namespace graft {
namespace {

std::string where_of(const EngineStep& step) {
  return fmt::format("node '{}' ({})", step.name, step.operators.front());
}

/// Rounds whose numbers are sent to a device together.
constexpr int64_t kRoundsAtOnce = 512;

/// Memory for a round's results up to this size is taken at once where a loop's limit is known.
constexpr int64_t kMostAtOnce = int64_t{64} << 20;

}  // namespace

BufferView view_of(const EngineTensor& tensor, void* data, const Bindings& bindings, bool on_device) {
  return {data, tensor.type, concrete_shape(tensor, bindings), {}, on_device};
}

Session::State::State() = default;
Session::State::~State() = default;

void Session::State::open_bodies() {
  for (size_t s = 0; s < engine->steps.size(); ++s) {
    const EngineStep& step = engine->steps[s];
    if (step.kind != StepKind::kControl) continue;
    const auto code = loaded->bodies.find(static_cast<int>(s));
    GRAFT_CHECK(code != loaded->bodies.end() && code->second.size() == step.bodies.size(),
                "the bodies of " + step.name + " were not loaded");
    auto fresh = std::make_unique<ControlWork>();
    for (const auto& body : code->second) {
      auto state = inner_state(body);
      state->inside = true;
      state->study_engine();
      if (stream) state->open_device();
      ControlWork::Body& added = fresh->bodies.emplace_back();
      added.inputs.resize(body->engine->inputs.size());
      added.outputs.resize(body->engine->outputs.size());
      added.state = std::move(state);
    }
    const bool loops = step.control.kind == ControlFlow::Kind::kLoop;
    const size_t results = step.bodies[0]->outputs.size() - (loops ? 1 : 0);
    if (loops) fresh->bodies[0].state->keeps_condition = fresh->bodies[0].state->gives_condition_back();
    const auto carried = static_cast<size_t>(step.control.carried);
    fresh->carried = std::vector<ControlWork::Carried>(carried);
    fresh->collected = std::vector<Collected>(results - std::min(results, carried));
    fresh->unread = std::vector<Buffer>(results);
    fresh->step_output.assign(results, -1);
    for (size_t o = 0; o < step.control.results.size(); ++o) {
      fresh->step_output[static_cast<size_t>(step.control.results[o])] = static_cast<int>(o);
    }
    if (loops && stream) give_rounds(*fresh);
    fresh->decides = may_decide(step, *fresh);
    control[static_cast<int>(s)] = std::move(fresh);
  }
}

void Session::State::for_each_body(const std::function<void(State&)>& visit) const {
  for (const auto& entry : control) {
    for (ControlWork::Body& body : entry.second->bodies) visit(*body.state);
  }
}

/// Binds the sizes that an output of a step of control flow shows, and checks the others.
void Session::State::check_result(int step, int tensor, const std::vector<int64_t>& shape, const Bindings& bindings,
                                  Bindings* counted) const {
  const EngineTensor& expected = engine->tensors[tensor];
  const std::string where = where_of(engine->steps[step]);
  const bool same_rank = expected.shape.size() == shape.size();
  for (size_t axis = 0; same_rank && counted && axis < shape.size(); ++axis) {
    const auto symbol = expected.shape[axis].as_symbol();
    const auto& own_symbols = engine->steps[step].control.symbols;
    if (!symbol || std::find(own_symbols.begin(), own_symbols.end(), *symbol) == own_symbols.end()) continue;
    bind_symbol(*counted, *symbol, shape[axis], where);
  }
  GRAFT_USER_CHECK(same_rank && concrete_shape(expected, counted ? *counted : bindings) == shape, kInvalidArgument,
                   fmt::format("its result '{}' has the shape {}, not {} as was found when compiling", expected.name,
                               to_string(Shape(shape.begin(), shape.end())), to_string(expected.shape)), where);
}

int Session::State::result_tensor(int step, size_t output) const {
  const EngineStep& s = engine->steps[step];
  return s.tensors[static_cast<size_t>(s.input_count) + output];
}

/// A branch writes into the step's own outputs.
void* Session::State::give_branch_result(void* context, int output, DType, std::span<const int64_t> shape,
                                         size_t bytes) {
  RoundContext& round = *static_cast<RoundContext*>(context);
  State& outer = *round.outer;
  const int position = round.work->step_output[static_cast<size_t>(output)];
  if (position < 0) {
    return round.work->unread[static_cast<size_t>(output)].reserve(static_cast<int64_t>(bytes), outer.session_memory,
                                                                   "a result that nobody reads");
  }
  const int tensor = outer.result_tensor(round.step, static_cast<size_t>(position));
  outer.check_result(round.step, tensor, {shape.begin(), shape.end()}, *round.bindings, round.counted);
  if (outer.engine->has_computed_symbols) {
    outer.memory[tensor] = outer.own[tensor].reserve(static_cast<int64_t>(bytes), outer.session_memory, "tensor ",
                                                     outer.engine->tensors[tensor].name);
  }
  return outer.memory[tensor];
}

/// A round writes the condition, carried values beside those of the round before, and the next part of what is
/// collected.
void* Session::State::give_round_result(void* context, int output, DType type, std::span<const int64_t> shape,
                                        size_t size) {
  RoundContext& round = *static_cast<RoundContext*>(context);
  State& outer = *round.outer;
  const auto bytes = static_cast<int64_t>(size);
  if (output == 0) return round.work->condition.reserve(bytes, outer.session_memory, "the condition of a loop");
  const auto result = static_cast<size_t>(output) - 1;
  if (result < round.work->carried.size()) {
    return round.work->carried[result].places[round.round & 1].reserve(bytes, outer.session_memory,
                                                                       "what a loop carries");
  }
  const size_t k = result - round.work->carried.size();
  if (round.work->step_output[result] < 0) {
    return round.work->unread[result].reserve(bytes, outer.session_memory, "a result that nobody reads");
  }
  Collected& collected = round.work->collected[k];
  char* part = static_cast<char*>(outer.next_parts(round, 1, collected, type, shape, bytes));
  if (!round.work->bodies[0].state->can_record) return part;
  collected.part = part;
  return collected.staging.reserve(bytes, outer.session_memory, "a part of what a loop collects");
}

/// Where the parts of this round and those after it go, `count` in all.
void* Session::State::next_parts(const RoundContext& round, int64_t count, Collected& collected, DType type,
                                 std::span<const int64_t> shape, int64_t bytes) {
  if (round.round == 0) {
    GRAFT_USER_CHECK(bit_width(type) % 8 == 0, kUnsupported,
                     fmt::format("it collects elements of {}, which are no whole bytes", name_of(type)),
                     where_of(engine->steps[round.step]));
    collected.shape.assign(shape.begin(), shape.end());
    collected.part_bytes = bytes;
  }
  GRAFT_USER_CHECK(std::equal(shape.begin(), shape.end(), collected.shape.begin(), collected.shape.end()),
                   kInvalidArgument,
                   fmt::format("a result that it collects is {} in one round and {} in another",
                               to_string(Shape(collected.shape.begin(), collected.shape.end())),
                               to_string(Shape(shape.begin(), shape.end()))),
                   where_of(engine->steps[round.step]));
  const int64_t begin = checked_product(round.round, bytes, "what a loop collects");
  const int64_t end = checked_product(round.round + count, bytes, "what a loop collects");
  if (collected.direct) {
    GRAFT_USER_CHECK(end <= collected.direct_bytes, kInternal, "a loop collects more rounds than it has",
                     where_of(engine->steps[round.step]));
    return collected.direct + begin;
  }
  if (end > collected.memory->bytes() || !collected.memory->data()) {
    const bool bounded = round.limit <= kMostAtOnce / std::max<int64_t>(bytes, 1);
    const int64_t wanted = bounded ? round.limit * bytes : checked_product(end, 2, "what a loop collects");
    auto larger = std::make_unique<Buffer>();
    larger->reserve(std::max(wanted, end), session_memory, "what a loop collects");
    if (begin > 0) copy_bytes(larger->data(), collected.memory->data(), begin);
    collected.memory = std::move(larger);
  }
  return collected.memory->data() + begin;
}

/// One element of an input of a step of control flow.
int64_t Session::State::read_operand(int step, int tensor, const Bindings& bindings) const {
  const EngineTensor& from = engine->tensors[tensor];
  GRAFT_USER_CHECK(element_count(from.shape).evaluate(bindings) > 0, kInvalidArgument,
                   fmt::format("'{}' has no element", from.name), where_of(engine->steps[step]));
  return read_computed(tensor, 0);
}

/// Whether a loop's body never ends it: its first output is the condition that it was given, or constant and true.
bool Session::State::gives_condition_back() const {
  const int root = roots[engine->outputs[0]];
  const EngineTensor& condition = engine->tensors[root];
  if (root == engine->inputs[1]) return true;
  return condition.type == DType::kBool && condition.storage == Storage::kConstant && condition.index >= 0 &&
         dense_bytes(view_of(condition, nullptr, {}, false)) == 1 &&
         read_element(host_copy_of(root), DType::kBool, 0) != 0;
}

/// What a body's first output says of the next round; on a device the one thing that a round waits for.
bool Session::State::read_condition(const RoundContext& round) const {
  const ControlWork::Body& body = round.work->bodies[0];
  if (body.state->keeps_condition) return true;
  const BufferView& output = body.outputs[0];
  GRAFT_USER_CHECK(output.type == DType::kBool && dense_bytes(output) > 0, kInvalidModel,
                   "its graph gives no condition, one bool", where_of(engine->steps[round.step]));
  if (!stream) return *static_cast<const uint8_t*>(output.data) != 0;
  uint8_t condition = 0;
  stream->download(&condition, output.data, 1);
  return condition != 0;
}

void Session::State::copy_bytes(void* to, const void* from, int64_t bytes) const {
  if (bytes == 0) return;
  if (stream) {
    stream->copy(to, from, static_cast<size_t>(bytes));
  } else {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

/// What every round on a device is given: a place for its number, and a condition.
void Session::State::give_rounds(ControlWork& with) {
  static constexpr bool kTrue = true;
  const State& body = *with.bodies[0].state;
  with.counts = body.engine->tensors[body.engine->inputs[0]].first_step >= 0;
  with.number.reserve(sizeof(int64_t), session_memory, "the number of a round");
  with.going.reserve(sizeof kTrue, session_memory, "the condition of a loop");
  stream->upload(with.going.data(), &kTrue, sizeof kTrue);
  with.bodies[0].state->on_host[1] = &kTrue;
}

/// The number of the round where the body reads it. Numbers are sent ahead, so that rounds need not wait for the host.
void Session::State::give_round_number(RoundContext& round) {
  ControlWork& with = *round.work;
  with.bodies[0].state->on_host[0] = &round.round;
  if (!with.counts) return;
  const int64_t first = round.round / kRoundsAtOnce * kRoundsAtOnce;
  if (with.first_number != first) {
    std::vector<int64_t> numbers(kRoundsAtOnce);
    std::iota(numbers.begin(), numbers.end(), first);
    with.numbers.reserve(kRoundsAtOnce * 8, session_memory, "the numbers of rounds");
    with.first_number = -1;
    stream->upload(with.numbers.data(), numbers.data(), numbers.size() * sizeof numbers[0]);
    with.first_number = first;
  }
  copy_bytes(with.number.data(), with.numbers.data() + 8 * (round.round - first), 8);
}

/// Puts the parts of a round that are staged where they belong.
void Session::State::take_parts(ControlWork& with) const {
  for (Collected& collected : with.collected) {
    if (char* part = std::exchange(collected.part, nullptr)) {
      copy_bytes(part, collected.staging.data(), collected.part_bytes);
    }
  }
}

void Session::State::run_control(int step, const Bindings& bindings, Bindings* counted) {
  ControlWork& with = *control.at(step);
  RoundContext round{.outer = this, .step = step, .work = &with, .bindings = &bindings, .counted = counted};
  if (engine->steps[step].control.kind == ControlFlow::Kind::kLoop) {
    run_loop(round);
  } else if (!decide_branch(round)) {
    run_branch(round);
  }
}

/// Hands tensors of the step to the last inputs of a body, from the one given on.
void Session::State::capture(const RoundContext& round, ControlWork& with, size_t body, size_t first_operand) const {
  const EngineStep& step = engine->steps[round.step];
  std::vector<BufferView>& inputs = with.bodies[body].inputs;
  const auto count = static_cast<size_t>(step.control.captured[body]);
  for (size_t i = 0; i < count; ++i) {
    const int tensor = step.tensors[first_operand + i];
    const size_t input = inputs.size() - count + i;
    inputs[input] = view_of(engine->tensors[tensor], pointer(tensor), *round.bindings, stream != nullptr);
    with.bodies[body].state->on_host[input] = stream ? host_copy_of(tensor) : nullptr;
  }
}

void Session::State::run_branch(RoundContext& round) {
  if (stream && stream->is_recording()) throw NeedsHost();
  const EngineStep& step = engine->steps[round.step];
  const size_t taken = read_operand(round.step, step.tensors[0], *round.bindings) != 0 ? 1 : 0;
  ControlWork::Body& body = round.work->bodies[taken];
  capture(round, *round.work, taken, taken ? 1 + static_cast<size_t>(step.control.captured[0]) : 1);
  body.run(give_branch_result, round);
}

void Session::State::run_loop(RoundContext& round) {
  const EngineStep& step = engine->steps[round.step];
  ControlWork& with = *round.work;
  ControlWork::Body& body = with.bodies[0];
  size_t operand = 0;
  round.limit = std::numeric_limits<int64_t>::max();
  if (step.control.has_limit) round.limit = read_operand(round.step, step.tensors[operand++], *round.bindings);
  const int condition = step.control.has_condition ? step.tensors[operand++] : -1;
  for (size_t k = 0; k < with.carried.size(); ++k) {
    const int tensor = step.tensors[operand++];
    body.inputs[2 + k] = view_of(engine->tensors[tensor], pointer(tensor), *round.bindings, stream != nullptr);
  }
  capture(round, with, 0, operand);
  collect_in_place(round);
  if (!decide_loop(round, condition)) {
    if (stream && stream->is_recording()) throw NeedsHost();
    run_rounds(round, condition < 0 || read_operand(round.step, condition, *round.bindings) != 0);
  }
  for (size_t o = 0; o < step.control.results.size(); ++o) take_loop_result(round, o);
}

/// One round after the other, by the host.
void Session::State::run_rounds(RoundContext& round, bool going) {
  ControlWork& with = *round.work;
  ControlWork::Body& body = with.bodies[0];
  const EngineTensor* const inner = body.state->engine->tensors.data();
  const std::vector<int>& inner_inputs = body.state->engine->inputs;
  bool condition = true;
  void* const number = stream ? static_cast<void*>(with.number.data()) : &round.round;
  void* const before = stream ? static_cast<void*>(with.going.data()) : &condition;
  body.inputs[0] = view_of(inner[inner_inputs[0]], number, {}, stream != nullptr);
  body.inputs[1] = view_of(inner[inner_inputs[1]], before, {}, stream != nullptr);
  for (; round.round < round.limit && going; ++round.round) {
    stop.check();
    if (stream) give_round_number(round);
    body.run(give_round_result, round);
    take_parts(with);
    going = read_condition(round);
    for (size_t k = 0; k < with.carried.size(); ++k) {
      const BufferView& next = body.outputs[1 + k];
      body.inputs[2 + k].data = next.data;
      body.inputs[2 + k].shape = next.shape;
    }
  }
}

/// Where all sizes are known, what a loop collects lies in the step's outputs.
void Session::State::collect_in_place(const RoundContext& round) {
  ControlWork& with = *round.work;
  for (size_t k = 0; k < with.collected.size(); ++k) {
    const int output = with.step_output[with.carried.size() + k];
    with.collected[k].direct = nullptr;
    if (output < 0 || engine->has_computed_symbols) continue;
    const int tensor = result_tensor(round.step, static_cast<size_t>(output));
    with.collected[k].direct = static_cast<char*>(memory[tensor]);
    with.collected[k].direct_bytes = concrete_bytes(engine->tensors[tensor], *round.bindings);
  }
}

/// Makes a result of all rounds an output of the step.
void Session::State::take_loop_result(RoundContext& round, size_t output) {
  ControlWork& with = *round.work;
  const int tensor = result_tensor(round.step, output);
  const auto result = static_cast<size_t>(engine->steps[round.step].control.results[output]);
  const bool carried = result < with.carried.size();
  std::vector<int64_t> shape;
  void* source = nullptr;
  if (carried) {
    shape = with.bodies[0].inputs[2 + result].shape;
    source = with.bodies[0].inputs[2 + result].data;
  } else {
    Collected& collected = with.collected[result - with.carried.size()];
    shape = collected.shape;
    if (round.round == 0) shape = shape_of_nothing(round, tensor);
    else shape.insert(shape.begin(), round.round);
    source = collected.base();
  }
  check_result(round.step, tensor, shape, *round.bindings, round.counted);
  if (!engine->has_computed_symbols) {
    const int64_t bytes = concrete_bytes(engine->tensors[tensor], *round.bindings);
    if (source != memory[tensor]) copy_bytes(memory[tensor], source, bytes);
    return;
  }
  if (!source) source = own[tensor].reserve(0, session_memory, "tensor ", engine->tensors[tensor].name);
  memory[tensor] = source;
}

/// The shape of what a loop without rounds has collected: nobody knows the sizes that a round would have given.
std::vector<int64_t> Session::State::shape_of_nothing(const RoundContext& round, int tensor) const {
  Bindings known = round.counted ? *round.counted : *round.bindings;
  for (const std::string& symbol : engine->steps[round.step].control.symbols) known.try_emplace(symbol, 0);
  return concrete_shape(engine->tensors[tensor], known);
}

}  // namespace graft
