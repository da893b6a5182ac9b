// SPDX-License-Identifier: Apache-2.0
// graft bench: how fast a plan runs, and how sure that is.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include "commands.h"
#include "console.h"
#include "model_options.h"
#include "output.h"
#include "runtime/device_code.h"
#include "tensor_set.h"

namespace graft {
namespace {

/// Above this the machine was not quiet enough to trust the figures.
constexpr double kNoisy = 0.1;

/// How many items one run does, and how that is known.
struct Batch {
  int64_t size = 1;
  std::string source;  ///< "axis 0 of 'x' is named batch"; empty when no axis has such a name
};

struct BenchCommand {
  ModelOptions model;
  InputOptions inputs;
  int warmup = 10, iterations = 0;
  double duration = 3, deadline = 0;
  bool host_io = false;
  std::string json;

  int run() const;
  std::vector<double> measure(const std::function<void()>& run_once) const;
  Batch find_batch(const Engine& engine, const std::vector<TensorData>& given) const;
  void report(const LoadedEngine& loaded, const std::vector<TensorData>& given, std::vector<double> times) const;
};

/// Whether exporters give the axis of independent items this name: batch, batch_size, N, ...
bool names_batch(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name == "n" || name == "bs" || name.starts_with("batch");
}

/// The first axis of an input that is named like a batch; else a size of such a name that was fixed when compiling.
Batch BenchCommand::find_batch(const Engine& engine, const std::vector<TensorData>& given) const {
  for (size_t i = 0; i < given.size(); ++i) {
    const EngineTensor& input = engine.tensors[engine.inputs[i]];
    for (size_t axis = 0; axis < input.shape.size(); ++axis) {
      const auto symbol = input.shape[axis].as_symbol();
      if (!symbol || !names_batch(*symbol)) continue;
      return {given[i].shape()[axis], fmt::format("axis {} of '{}' is named {}", axis, input.name, *symbol)};
    }
  }
  for (const auto& [key, value] : engine.options) {
    const size_t equals = value.find('=');
    int64_t size = 0;
    if (key != "dim" || equals == value.npos || !names_batch(value.substr(0, equals))) continue;
    const char* end = value.data() + value.size();
    const auto read = std::from_chars(value.data() + equals + 1, end, size);
    if (read.ec == std::errc() && read.ptr == end) return {size, fmt::format("compiled for {}", value)};
  }
  return {};
}

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && line.find(": ") != line.npos) return line.substr(line.find(": ") + 2);
  }
  return "cpu";
}

std::vector<double> BenchCommand::measure(const std::function<void()>& run_once) const {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < warmup; ++i) {
    stop_if_interrupted();
    show_progress("bench", "warming up", i, warmup);
    run_once();
  }
  std::vector<double> milliseconds;
  const auto start = Clock::now();
  const auto enough = [&] {
    if (iterations > 0) return static_cast<int>(milliseconds.size()) >= iterations;
    return std::chrono::duration<double>(Clock::now() - start).count() >= duration && milliseconds.size() >= 2;
  };
  while (!enough()) {
    stop_if_interrupted();
    const auto begin = Clock::now();
    run_once();
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  clear_progress();
  return milliseconds;
}

void BenchCommand::report(const LoadedEngine& loaded, const std::vector<TensorData>& given,
                          std::vector<double> times) const {
  const Engine& engine = *loaded.engine;
  const std::string device = loaded.device ? loaded.device->device->name() : processor();
  const double sum = std::accumulate(times.begin(), times.end(), 0.0), mean = sum / static_cast<double>(times.size());
  double squares = 0;
  for (const double time : times) squares += (time - mean) * (time - mean);
  const double variation = std::sqrt(squares / static_cast<double>(times.size())) / mean;
  std::sort(times.begin(), times.end());
  const double median = quantile(times, 0.5);
  const Batch batch = find_batch(engine, given);
  const double throughput = 1000 * static_cast<double>(batch.size) / mean;
  if (json.empty() || message_stream(json) == stdout) {
    for (size_t i = 0; i < given.size(); ++i) {
      print_to(stdout, "{}  {}\n", engine.tensors[engine.inputs[i]].name, describe(given[i]));
    }
    const std::string where =
        !loaded.device ? fmt::format("{}, {} threads", device, engine.threads)
                       : fmt::format("{}, inputs and outputs {}", device, host_io ? "on the host" : "on the device");
    print_to(
        stdout,
        "{} runs, {}: median {:.3f} ms, p90 {:.3f}, p95 {:.3f}, p99 {:.3f}, min {:.3f}\n"
        "{:.1f} items per second (items = {} per run: {}), coefficient of variation {:.1f} %\n",
        times.size(), where, median, quantile(times, 0.9), quantile(times, 0.95), quantile(times, 0.99), times.front(),
        throughput, batch.size, batch.source.empty() ? "no axis is named like a batch" : batch.source, 100 * variation);
    if (variation > kNoisy) {
      print_to(stdout,
               "warning: the times vary by more than {:.0f} %: other work is running, or the machine throttles\n",
               100 * kNoisy);
    }
  }
  if (json.empty()) return;
  const nlohmann::json row = {{"bench", "graft bench"},
                              {"case", model.path()},
                              {"device", device},
                              {"dtype", given.empty() ? "" : std::string(name_of(given[0].type()))},
                              {"batch", batch.size},
                              {"graft_ms", median},
                              {"peers", nlohmann::json::object()},
                              {"ratio", nullptr},
                              {"runs", times.size()},
                              {"threads", engine.threads},
                              {"p90_ms", quantile(times, 0.9)},
                              {"p95_ms", quantile(times, 0.95)},
                              {"p99_ms", quantile(times, 0.99)},
                              {"per_second", throughput},
                              {"coefficient_of_variation", variation}};
  const auto replace = nlohmann::json::error_handler_t::replace;
  write_output(json, nlohmann::json::array({row}).dump(1, ' ', true, replace) + "\n");
}

int BenchCommand::run() const {
  std::vector<std::string> files = inputs.files();
  files.push_back(model.path());
  check_output("--json", json, files);
  const auto engine = model.load_engine();
  check_output_unread("--json", json);
  std::vector<TensorData> given = inputs.read(*engine->engine);
  Session session(engine);
  session.set_deadline(deadline);
  const InterruptibleSession interruptible(session);
  if (engine->device && !host_io) {
    DeviceTensors tensors(*engine, given);
    report(*engine, given, measure([&] { tensors.run(session); }));
    return 0;
  }
  OutputBuffers buffers(*engine->engine);
  report(*engine, given, measure([&] { buffers.run(session, given); }));
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* sub = app.add_subcommand("bench", "measure how fast a plan or a model runs");
  const auto command = std::make_shared<BenchCommand>();
  command->model.add_to(*sub, "a plan, or an ONNX file, which is compiled first");
  command->inputs.add_to(*sub);
  sub->add_option("--warmup", command->warmup, "runs before measuring")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  sub->add_option("--duration", command->duration, "seconds to measure")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  sub->add_option("--iterations", command->iterations, "runs to measure, instead of a duration")
      ->check(CLI::Range(1, 100000000));
  sub->add_flag("--host-io", command->host_io,
                "on a GPU: copy inputs and outputs from and to the host in every run (they stay on the device)");
  sub->add_option("--json", command->json, "also write the figures as a list of rows; - is standard output")
      ->type_name("FILE");
  sub->add_option("--deadline", command->deadline, "the most seconds that a run may take before it is ended")
      ->check(CLI::PositiveNumber)->type_name("S");
  sub->footer(R"(
Examples:
  graft bench model.graft --size batch=8 --duration 10
  graft bench model.onnx --shapes image:1x3x224x224 --iterations 200 --json row.json
Items per second count the axis that the model names batch, batch_size or N.
Results are compared with other runtimes, side by side in one process, by ./dev bench.)");
  sub->callback([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
