// SPDX-License-Identifier: Apache-2.0
#include "driver/precision_error.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/compare.h"
#include "base/environment.h"
#include "base/error.h"
#include "driver/load.h"
#include "graph/evaluate_graph.h"

namespace graft {
namespace {

/// Steps of the interpreter in a second, on the machines that we know, and few.
constexpr double kInterpreterSpeed = 2e7;
constexpr size_t kMostPrinted = 4;

class Deadline {
 public:
  explicit Deadline(double seconds) : seconds_(seconds) {}
  double left() const {
    return seconds_ - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  double seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Why the error is not known, on its way out.
struct NotMeasured {
  std::string reason;
};

/// The options that make the same network in f32, as fast as can be.
CompileOptions reference_options(const CompileOptions& options, const Deadline& deadline) {
  CompileOptions chosen = options;
  chosen.precision = Precision::kFp32;
  chosen.tuning = Tuning::kOff;
  chosen.record.clear();
  if (!chosen.targets.empty()) chosen.targets.resize(1);
  chosen.progress = {};
  chosen.cancelled = [&deadline, asked = options.cancelled] { return deadline.left() < 0 || (asked && asked()); };
  return chosen;
}

struct Outputs {
  std::vector<TensorData> tensors;

  static void* allocate(void* context, int output, DType type, std::span<const int64_t> shape, size_t) {
    TensorData& tensor = static_cast<Outputs*>(context)->tensors[static_cast<size_t>(output)];
    tensor = TensorData::zeros(type, {shape.begin(), shape.end()});
    return tensor.mutable_bytes().data();
  }
};

/// Seconds that the steps of the interpreter may take.
double interpreting_seconds(const Engine& engine, const Bindings& sizes) {
  double steps = 0;
  for (const EngineStep& step : engine.steps) {
    if (step.kind != StepKind::kInterpreter) continue;
    try {
      steps += static_cast<double>(step.operations.evaluate(sizes));
    } catch (const Error&) {
      continue;  // known only while running
    }
  }
  return steps / kInterpreterSpeed;
}

/// The sizes of the inputs by their symbols.
Bindings sizes_of(const Graph& graph, const graft::TensorsByName& inputs) {
  Bindings sizes;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    const std::vector<int64_t>& shape = inputs.at(value.name).shape();
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (const auto symbol = (*value.shape)[axis].as_symbol()) sizes.emplace(*symbol, shape[axis]);
    }
  }
  return sizes;
}

std::vector<TensorData> run(Engine engine, const std::string& device, const Graph& graph,
                            const graft::TensorsByName& inputs, const Deadline& deadline) {
  if (interpreting_seconds(engine, sizes_of(graph, inputs)) > deadline.left()) {
    throw NotMeasured{"its steps in the interpreter would take longer than the limit"};
  }
  Session session(load(std::move(engine), device));
  std::vector<BufferView> given, views(session.engine().outputs.size());
  for (const int input : session.engine().inputs) {
    const TensorData& tensor = inputs.at(session.engine().tensors[static_cast<size_t>(input)].name);
    given.push_back({const_cast<std::byte*>(tensor.bytes().data()), tensor.type(), tensor.shape(), {}});
  }
  Outputs outputs{std::vector<TensorData>(views.size())};
  const Status status = session.run(given, views, Outputs::allocate, &outputs);
  if (!status.ok()) throw NotMeasured{status.message()};
  return std::move(outputs.tensors);
}

OutputError error_of(const std::string& name, const TensorData& expected, const TensorData& actual) {
  const Comparison found = compare(actual, expected, {});
  OutputError error{.output = name, .elements = found.elements};
  if (!is_float(expected.type())) {
    error.differing = found.outside;
    return error;
  }
  error.largest = std::isinf(found.worst_difference) ? found.worst_difference : found.largest;
  error.range = found.reference_high - found.reference_low;
  return error;
}

PrecisionError measure(const Graph& imported, Stage done, const Engine& engine, const CompileOptions& options,
                       const Deadline& deadline) {
  const TensorsByName inputs = random_inputs(imported, environment().seed);
  // First: a plan for another machine ends here, before anything is compiled to compare it with.
  const std::vector<TensorData> actual = run(engine, options.device, imported, inputs, deadline);
  Engine reference = compile_from(imported, done, reference_options(options, deadline)).engine;
  const std::vector<TensorData> expected = run(std::move(reference), options.device, imported, inputs, deadline);
  PrecisionError error;
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string& name = engine.tensors[static_cast<size_t>(engine.outputs[i])].name;
    if (expected[i].shape() != actual[i].shape()) {
      throw NotMeasured{fmt::format("the output '{}' has another shape than in f32", name)};
    }
    if (expected[i].type() != DType::kString) error.outputs.push_back(error_of(name, expected[i], actual[i]));
  }
  return error;
}

std::string print(const OutputError& error) {
  if (error.differing > 0) return fmt::format("{}: {} of {} differ", error.output, error.differing, error.elements);
  if (error.range == 0) return fmt::format("{}: {:.2g}", error.output, error.largest);
  return fmt::format("{}: {:.2g} ({:.2g} % of its range)", error.output, error.largest,
                     100 * error.largest / error.range);
}

/// What to sort by: shares of the range, where there is one.
double severity(const OutputError& error) {
  if (error.differing > 0) return static_cast<double>(error.differing) / static_cast<double>(error.elements);
  return error.range > 0 ? error.largest / error.range : error.largest;
}

}  // namespace

PrecisionError measure_precision_error(const Graph& imported, Stage done, const Engine& engine,
                                       const CompileOptions& options, double limit) {
  const Deadline deadline(limit);
  if (limit <= 0) return {{}, "it was not asked for"};
  try {
    return measure(imported, done, engine, options, deadline);
  } catch (const NotMeasured& why) {
    return {{}, why.reason};
  } catch (const Error& error) {
    const bool late = error.kind() == ErrorKind::kCancelled && !(options.cancelled && options.cancelled());
    if (late) return {{}, fmt::format("it would take longer than {:g} s", limit)};
    if (error.kind() == ErrorKind::kCancelled || error.kind() == ErrorKind::kInternal) throw;
    return {{}, error.what()};
  }
}

std::string print(const PrecisionError& error) {
  if (!error.not_measured.empty()) return "not measured: " + error.not_measured;
  std::vector<OutputError> rows = error.outputs;
  const size_t left_out = rows.size() > kMostPrinted ? rows.size() - kMostPrinted : 0;
  if (left_out > 0) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const OutputError& a, const OutputError& b) { return severity(a) > severity(b); });
    rows.resize(kMostPrinted);
  }
  std::vector<std::string> texts;
  for (const OutputError& row : rows) texts.push_back(print(row));
  if (left_out > 0) texts.push_back(fmt::format("and {} outputs that are nearer", left_out));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace graft
