// SPDX-License-Identifier: Apache-2.0
#include "shared/run_engine.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "base/convert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "graph/dynamic_type.h"
#include "modules/kernel_source.h"
#include "runtime/bind.h"

namespace graft::fuzz {
namespace {

constexpr int kThreads = 2;
constexpr int64_t kSessionBytes = int64_t{256} << 20;
/// The most that the inputs of a run have, and its outputs, so that an execution stays short.
constexpr int64_t kCallerBytes = int64_t{4} << 20;
/// How the error of a broken condition ends (base/error.cpp), behind the number of its line.
constexpr std::string_view kBug = "). This is a bug in Graft";

/// Whether the error of a broken condition is quoted: "(CONDITION at src/FILE:LINE). This is a bug in Graft". A name in
/// an input may hold the sentence, as a fuzzer tries what the program compares with; the place it does not guess.
bool quotes_a_bug(std::string_view text) {
  for (size_t end = text.find(kBug); end != text.npos; end = text.find(kBug, end + 1)) {
    const std::string_view before = text.substr(0, end);
    const size_t colon = before.find_last_not_of("0123456789");
    if (colon == text.npos || colon + 1 == end || before[colon] != ':') continue;
    const std::string_view path = before.substr(0, colon);
    const size_t source = path.rfind(" at src/");
    const bool code = path.ends_with(".cpp") || path.ends_with(".h");
    if (code && source != path.npos && path.find(' ', source + 4) == path.npos) return true;
  }
  return false;
}

/// What came of all executions of this process.
struct {
  int64_t engines = 0, runs = 0;
} counts;

/// A size within the range that the engine was compiled for, mostly a small one.
int64_t draw_size(const Engine& engine, const std::string& symbol, Random& random) {
  constexpr int64_t kSmall[] = {1, 2, 3, 4, 7, 0, 17, 64};
  const int64_t size = kSmall[std::min(random.integer(0, 7), random.integer(0, 7))];
  const auto found = engine.symbols.find(symbol);
  if (found == engine.symbols.end()) return size;
  const SymbolRange& range = found->second;
  const int64_t most = range.max > 0 ? range.max : std::max<int64_t>(range.min, 64);
  return std::clamp(random.chance(0.2) ? range.opt : size, range.min, std::max(range.min, most));
}

/// The shapes of all inputs under sizes drawn for their symbols; nothing where they are more than a run may have.
std::optional<std::vector<std::vector<int64_t>>> draw_shapes(const Engine& engine, Random& random) {
  std::set<std::string, std::less<>> symbols;
  for (const int input : engine.inputs) {
    for (const Size& size : engine.tensors[input].shape) size.collect_symbols(symbols);
  }
  Bindings bindings;
  for (const std::string& symbol : symbols) bindings[symbol] = draw_size(engine, symbol, random);
  std::vector<std::vector<int64_t>> shapes;
  int64_t bytes = 0;
  for (const int input : engine.inputs) {
    const EngineTensor& tensor = engine.tensors[input];
    if (tensor.type == DType::kString || tensor.type == DType::kUndefined) return std::nullopt;
    std::vector<int64_t>& shape = shapes.emplace_back();
    try {
      shape = concrete_shape(tensor, bindings);
      bytes += packed_bytes(tensor.type, checked_element_count(tensor.type, shape));
    } catch (const Error&) {
      return std::nullopt;
    }
    if (bytes > kCallerBytes) return std::nullopt;
  }
  return shapes;
}

/// Fills a buffer with elements: of small numbers, of bits of any kind, or of a few extreme numbers among small ones.
void fill(const GuardedMemory& memory, DType type, Contents contents, Random& random) {
  const int64_t manner = contents == Contents::kTame ? 0 : random.integer(0, 9);
  const int width = bit_width(type);
  if (manner == 9 || width < 8 || kind_of(type) == DTypeKind::kComplex) {
    for (size_t i = 0; i < memory.bytes(); ++i) memory.data()[i] = static_cast<std::byte>(random.next());
    return;
  }
  const size_t step = static_cast<size_t>(width) / 8;
  constexpr double kExtremes[] = {0, -1, 1e30, -1e30, HUGE_VAL, -HUGE_VAL, NAN, 1e-40, 2147483648.0, -9.3e18};
  const int64_t high = manner < 5 ? 3 : 40;
  for (size_t at = 0; at + step <= memory.bytes(); at += step) {
    uint64_t bits = 0;
    if (type == DType::kBool) {
      bits = random.next() & 1;
    } else if (is_float(type)) {
      const double value = manner == 8 && random.chance(0.1) ? kExtremes[random.integer(0, 9)] : random.uniform(-2, 2);
      bits = encode_float(type, value);
    } else {
      const int64_t low = manner < 3 || is_unsigned(type) ? 0 : -3;
      bits = static_cast<uint64_t>(manner == 8 && random.chance(0.1) ? static_cast<int64_t>(random.next())
                                                                     : random.integer(low, high));
    }
    std::memcpy(memory.data() + at, &bits, step);
  }
}

std::string draw_text(Random& random) {
  constexpr std::string_view kPieces[] = {"", "a", "B c", "12", "-1e3", ".", "\xc3\xa9", "\xff", "aa,bb", " "};
  std::string text;
  for (int64_t pieces = random.integer(0, 3); pieces > 0; --pieces) text += kPieces[random.integer(0, 9)];
  return text;
}

TensorData draw_tensor(DType type, std::vector<int64_t> shape, Random& random) {
  const int64_t count = checked_element_count(type, shape);
  if (type == DType::kString) {
    std::vector<std::string> texts;
    for (int64_t i = 0; i < count; ++i) texts.push_back(draw_text(random));
    return TensorData::from_strings(std::move(shape), std::move(texts));
  }
  const GuardedMemory memory(static_cast<size_t>(packed_bytes(type, count)), GuardedEnd::kLast);
  fill(memory, type, Contents::kWild, random);
  return TensorData::from_bytes(type, std::move(shape), {memory.data(), memory.bytes()});
}

/// Sizes that the type leaves open are small ones.
std::vector<int64_t> draw_shape(const DynamicType& tensor, Random& random) {
  std::vector<int64_t> shape;
  if (!tensor.shape) return {random.integer(0, 3)};
  for (const auto& size : *tensor.shape) shape.push_back(size.value_or(random.integer(0, 3)));
  return shape;
}

/// A value of the type; throws where no such tensor fits in memory.
DynamicValue draw_value(const DynamicType& type, Random& random) {
  switch (type.kind) {
    case DynamicType::Kind::kTensor:
      return draw_tensor(type.type, draw_shape(type, random), random);
    case DynamicType::Kind::kSequence: {
      std::vector<DynamicValue> elements;
      for (int64_t count = random.integer(0, 3); count > 0; --count) {
        elements.push_back(draw_value(*type.element, random));
      }
      return DynamicValue::sequence(std::move(elements));
    }
    case DynamicType::Kind::kOptional:
      return random.chance(0.3) ? DynamicValue() : draw_value(*type.element, random);
    case DynamicType::Kind::kMap: {
      const int64_t count = random.integer(0, 3);
      std::vector<int64_t> shape = draw_shape(*type.element, random);
      shape.insert(shape.begin(), count);
      return DynamicValue::map(draw_tensor(type.type, {count}, random),
                               draw_tensor(type.element->type, std::move(shape), random));
    }
    case DynamicType::Kind::kOther:
      break;
  }
  return {};
}

/// Elements of an input of strings or of other values: handles that the session gave.
void hold_values(Session& session, const EngineTensor& tensor, const GuardedMemory& memory, Random& random) {
  for (size_t at = 0; at + sizeof(uint64_t) <= memory.bytes(); at += sizeof(uint64_t)) {
    const uint64_t handle = tensor.handles == "str"
                                ? session.hold_text(draw_text(random))
                                : session.hold(draw_value(parse_dynamic_type(tensor.handles), random));
    std::memcpy(memory.data() + at, &handle, sizeof handle);
  }
}

/// The description of this machine, mostly; or of another whose kernels run here: one without its newer instructions,
/// or one with vectors of 512 bits, which LLVM takes apart where registers are narrower.
std::string draw_target(uint64_t seed) {
  constexpr std::string_view kWide = "wide";
  constexpr std::string_view kNames[] = {"native", "native", "native", "native", "portable", "x86-64-v3", kWide, kWide};
  const Target here = host_cpu(kThreads);
  const std::string_view name = kNames[hash64(std::to_string(seed)) % std::size(kNames)];
  Target target = here;
  if (name == kWide) {
    target.name = kWide, target.vector_bits = 512, target.vector_registers = 32, target.masked_memory = true;
  } else {
    target = find_target(name, kThreads);
  }
  return print(why_not_runnable(target, here).empty() ? target : here);
}

/// Where outputs of a run go.
struct Outputs {
  std::vector<std::optional<GuardedMemory>> memory;
  int64_t bytes = 0;
  GuardedEnd end = GuardedEnd::kLast;
};

void* allocate_output(void* context, int output, DType, std::span<const int64_t>, size_t bytes) {
  auto& outputs = *static_cast<Outputs*>(context);
  outputs.bytes += std::min<int64_t>(static_cast<int64_t>(bytes), kSessionBytes);
  if (outputs.bytes > kCallerBytes) return nullptr;
  return outputs.memory[static_cast<size_t>(output)].emplace(bytes, outputs.end).data();
}

}  // namespace

void report_finding(const std::string& what) {
  fmt::print(stderr, "FINDING: {}\n", what);
  std::abort();
}

void check_text(std::string_view text) {
  if (quotes_a_bug(text)) report_finding(std::string(text));
}

Execution::Execution() = default;

Execution::~Execution() {
  const double processor = static_cast<double>(std::clock() - processor_) / CLOCKS_PER_SEC;
  const double seconds = std::min(elapsed(), processor);
  if (seconds > kSeconds) report_finding(fmt::format("it took {:.1f} s, more than {}", seconds, kSeconds));
}

double Execution::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

double Execution::deadline(double seconds) const {
  constexpr double kLeast = 0.001;  // 0 is no deadline
  return std::clamp(kDeadlines - elapsed(), kLeast, seconds);
}

bool Execution::attempt(const std::function<void()>& part) {
  try {
    part();
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) report_finding(error.what());
    check_text(error.what());
    return false;
  }
}

std::optional<std::vector<Output>> run_once(const std::shared_ptr<const LoadedEngine>& engine, uint64_t seed,
                                            Contents contents, double deadline) {
  Random random(seed);
  const Engine& network = *engine->engine;
  const auto shapes = draw_shapes(network, random);
  if (!shapes) return std::nullopt;
  const auto end = [&] { return random.chance(0.75) ? GuardedEnd::kLast : GuardedEnd::kFirst; };
  std::vector<GuardedMemory> memory;
  std::vector<BufferView> inputs;
  for (size_t i = 0; i < shapes->size(); ++i) {
    const DType type = network.tensors[network.inputs[i]].type;
    const int64_t count = checked_element_count(type, (*shapes)[i]);
    memory.emplace_back(static_cast<size_t>(packed_bytes(type, count)), end());
    fill(memory.back(), type, contents, random);
    inputs.push_back({memory.back().data(), type, (*shapes)[i], {}});
  }
  std::vector<BufferView> views(network.outputs.size());
  Outputs outputs{.memory = std::vector<std::optional<GuardedMemory>>(views.size()), .end = end()};
  Session session(engine, kThreads);
  session.set_memory_limit(kSessionBytes);
  session.set_deadline(deadline);
  const bool held = Execution::attempt([&] {
    for (size_t i = 0; i < memory.size(); ++i) {
      const EngineTensor& input = network.tensors[network.inputs[i]];
      if (!input.handles.empty()) hold_values(session, input, memory[i], random);
    }
  });
  if (!held) return std::nullopt;
  const Status status = session.run(inputs, views, allocate_output, &outputs);
  if (!status.ok()) {
    if (status.kind() == ErrorKind::kInternal) report_finding(status.message());
    check_text(status.message());
    return std::nullopt;
  }
  std::vector<Output> results;
  ++counts.runs;
  for (size_t i = 0; i < views.size(); ++i) {
    results.push_back({std::move(*outputs.memory[i]), std::move(views[i])});
  }
  return results;
}

std::shared_ptr<const LoadedEngine> load_engine(Engine engine) {
  for (const EngineStep& step : engine.steps) {
    for (const Candidate& candidate : step.candidates) check_text(candidate.reason);
  }
  std::shared_ptr<const LoadedEngine> loaded;
  Execution::attempt([&] { loaded = load(std::move(engine), "cpu", kThreads); });
  if (loaded) ++counts.engines;
  return loaded;
}

int64_t draw_changes(Random& random) {
  int64_t changes = 1;
  while (changes < 6 && random.chance(0.3)) ++changes;
  return changes;
}

CompileOptions fuzz_options(bool interpret, double deadline) {
  CompileOptions options;
  options.threads = kThreads;
  options.tuning = Tuning::kOff;
  options.interpret = interpret;
  options.deadline = deadline;
  return options;
}

void run_both_ways(const MakeEngine& make, uint64_t seed) {
  const Execution execution;
  for (const bool interpret : {true, false}) {
    Engine engine;
    CompileOptions options = fuzz_options(interpret, execution.deadline(Execution::kCompileSeconds));
    options.targets = {draw_target(seed)};
    if (!Execution::attempt([&] { engine = make(options); })) continue;
    const auto loaded = load_engine(std::move(engine));
    if (!loaded) continue;
    constexpr uint64_t kRuns = 2;
    for (uint64_t run = 0; run < kRuns; ++run) {
      run_once(loaded, seed + run, Contents::kWild, execution.deadline(Execution::kRunSeconds));
    }
  }
}

void prepare(int* count, char*** arguments, int length) {
  // One call of the mutator for each execution: more changes leave few inputs that compile.
  static std::string given[] = {fmt::format("-max_len={}", length), "-mutate_depth=1"};
  static std::vector<char*> extended(*arguments, *arguments + *count);
  for (std::string& argument : given) extended.insert(extended.begin() + 1, argument.data());
  *count += static_cast<int>(std::size(given));
  extended.push_back(nullptr);
  *arguments = extended.data();
  set_log_callback([](LogLevel, std::string_view text) { check_text(text); });
  std::atexit([] { fmt::print(stderr, "{} engines were built, {} runs ended well\n", counts.engines, counts.runs); });
  const std::string missing = why_no_generator(host_cpu(kThreads));
  if (missing.empty()) return;
  fmt::print(stderr, "kernels are to be run, and there is no code generator: {}\n", missing);
  std::exit(1);
}

}  // namespace graft::fuzz
