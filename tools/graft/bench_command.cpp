// SPDX-License-Identifier: Apache-2.0
// graft bench: how fast a plan runs, and how sure that is.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "bench_streams.h"
#include "commands.h"
#include "console.h"
#include "driver/metrics.h"
#include "graph/symbols.h"
#include "json_output.h"
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

/// What was measured, in figures.
struct BenchFigures {
  size_t runs = 0;
  double median = 0, mean = 0, min = 0, p90 = 0, p95 = 0, p99 = 0;  ///< ms
  double variation = 0;
  double per_second = 0;  ///< items
  int streams = 1;
  std::optional<DeviceParts> parts;
};

struct BenchCommand {
  ModelOptions model;
  InputOptions inputs;
  BenchSettings settings;
  int streams = 1;
  std::string hint;
  std::optional<double> latency_bound;  ///< ms
  JsonOutput json;
  std::string metrics;  ///< the file, or empty

  int run() const;
  int choose_streams(const std::shared_ptr<const LoadedEngine>& engine, const std::vector<TensorData>& given) const;
  Batch find_batch(const Engine& engine, const std::vector<TensorData>& given) const;
  int check_bound(const BenchFigures& figures) const;
};

/// Whether exporters give the axis of independent items this name: batch, batch_size, N, ...
bool names_batch(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name == "n" || name == "bs" || name.starts_with("batch");
}

/// A size that is called so, `batch=8`, among what the caller fixed when compiling.
std::optional<Batch> find_fixed_batch(const Engine& engine) {
  for (const auto& [key, value] : engine.options) {
    const size_t equals = value.find('=');
    int64_t size = 0;
    if (key != "dim" || equals == value.npos || !names_batch(value.substr(0, equals))) continue;
    const char* end = value.data() + value.size();
    const auto read = std::from_chars(value.data() + equals + 1, end, size);
    if (read.ec == std::errc() && read.ptr == end) return Batch{size, fmt::format("compiled for {}", value)};
  }
  return std::nullopt;
}

/// Whether the first axis of each result has this size.
bool leads_results(const Engine& engine, const Size& size) {
  return !engine.outputs.empty() && std::all_of(engine.outputs.begin(), engine.outputs.end(), [&](int output) {
    const EngineTensor& result = engine.tensors[output];
    return !result.shape.empty() && result.shape[0] == size;
  });
}

/// The first axis of a model that names none, as graphs of TensorFlow do: open, and called after its input and
/// place alone; or of a shape that the caller gave when compiling, which the results have as well.
std::optional<Batch> find_unnamed_batch(const Engine& engine, const std::vector<TensorData>& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    const EngineTensor& input = engine.tensors[engine.inputs[i]];
    if (input.shape.empty()) continue;
    const auto symbol = input.shape[0].as_symbol();
    if (symbol && *symbol == dimension_symbol(input.name + "_0")) {
      return Batch{given[i].shape()[0], fmt::format("axis 0 of '{}' is open, and has no name", input.name)};
    }
    const auto is_shape = [&](const std::pair<std::string, std::string>& option) {
      return option.first == "shape" && option.second.starts_with(input.name + ":");
    };
    if (std::any_of(engine.options.begin(), engine.options.end(), is_shape) && leads_results(engine, input.shape[0])) {
      return Batch{given[i].shape()[0], fmt::format("axis 0 of '{}', fixed when compiling, and of each result",
                                                    input.name)};
    }
  }
  return std::nullopt;
}

/// The first axis of an input that is named like a batch; else a size of such a name that was fixed when compiling;
/// else the first axis where the model names none.
Batch BenchCommand::find_batch(const Engine& engine, const std::vector<TensorData>& given) const {
  for (size_t i = 0; i < given.size(); ++i) {
    const EngineTensor& input = engine.tensors[engine.inputs[i]];
    for (size_t axis = 0; axis < input.shape.size(); ++axis) {
      const auto symbol = input.shape[axis].as_symbol();
      if (!symbol || !names_batch(*symbol)) continue;
      return {given[i].shape()[axis], fmt::format("axis {} of '{}' is named {}", axis, input.name, *symbol)};
    }
  }
  if (const auto fixed = find_fixed_batch(engine)) return *fixed;
  return find_unnamed_batch(engine, given).value_or(Batch{});
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && line.find(": ") != line.npos) return line.substr(line.find(": ") + 2);
  }
  return "cpu";
}

BenchFigures figures_of(BenchTimes times, int streams, const Batch& batch) {
  std::vector<double>& sorted = times.milliseconds;
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  BenchFigures figures{.runs = sorted.size(), .streams = streams};
  figures.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  double squares = 0;
  for (const double time : sorted) squares += (time - figures.mean) * (time - figures.mean);
  figures.variation = std::sqrt(squares / count) / figures.mean;
  figures.min = sorted.front(), figures.median = quantile(sorted, 0.5);
  figures.p90 = quantile(sorted, 0.9), figures.p95 = quantile(sorted, 0.95), figures.p99 = quantile(sorted, 0.99);
  // Of one session the mean, so that what happens between runs does not count; of several what they did together.
  const double runs_a_second = streams == 1 ? 1000 / figures.mean : count / times.seconds;
  figures.per_second = runs_a_second * static_cast<double>(batch.size);
  return figures;
}

void print_figures(const LoadedEngine& loaded, const std::vector<TensorData>& given, const BenchFigures& figures,
                   const Batch& batch, bool host_io) {
  const Engine& engine = *loaded.engine;
  for (size_t i = 0; i < given.size(); ++i) {
    print_to(stdout, "{}  {}\n", engine.tensors[engine.inputs[i]].name, describe(given[i]));
  }
  std::string where = !loaded.device ? fmt::format("{}, {} threads", processor(), engine.threads)
                                     : fmt::format("{}, inputs and outputs {}", loaded.device->device->name(),
                                                   host_io ? "on the host" : "on the device");
  if (figures.streams > 1) where += fmt::format(", {} streams", figures.streams);
  print_to(stdout,
           "{} runs, {}: median {:.3f} ms, mean {:.3f}, p90 {:.3f}, p95 {:.3f}, p99 {:.3f}, min {:.3f}\n"
           "{:.1f} items per second (items = {} per run: {}), coefficient of variation {:.1f} %\n",
           figures.runs, where, figures.median, figures.mean, figures.p90, figures.p95, figures.p99, figures.min,
           figures.per_second, batch.size, batch.source.empty() ? "no axis is named like a batch" : batch.source,
           100 * figures.variation);
  if (figures.parts) {
    print_to(stdout, "apart: inputs to the device {:.3f} ms, compute {:.3f}, outputs to the host {:.3f}\n",
             figures.parts->upload, figures.parts->compute, figures.parts->download);
  }
  if (figures.variation > kNoisy) {
    print_to(stdout,
             "warning: the times vary by more than {:.0f} %: other work is running, or the machine throttles\n",
             100 * kNoisy);
  }
}

/// What was chosen when the engine was compiled.
std::string option_of(const Engine& engine, std::string_view name) {
  for (const auto& [key, value] : engine.options) {
    if (key == name) return value;
  }
  return "";
}

nlohmann::json row_of(const LoadedEngine& loaded, const std::vector<TensorData>& given, const BenchFigures& figures,
                      const Batch& batch, const std::string& path) {
  const Engine& engine = *loaded.engine;
  nlohmann::json shapes = nlohmann::json::object();
  for (size_t i = 0; i < given.size(); ++i) shapes[engine.tensors[engine.inputs[i]].name] = given[i].shape();
  nlohmann::json row = {{"bench", "graft bench"},
                        {"case", path},
                        {"version", GRAFT_VERSION},
                        {"device", loaded.device ? loaded.device->device->name() : processor()},
                        {"dtype", given.empty() ? "" : std::string(name_of(given[0].type()))},
                        {"precision", option_of(engine, "precision")},
                        {"shapes", shapes},
                        {"batch", batch.size},
                        {"graft_ms", figures.median},
                        {"peers", nlohmann::json::object()},
                        {"ratio", nullptr},
                        {"runs", figures.runs},
                        {"threads", engine.threads},
                        {"streams", figures.streams},
                        {"min_ms", figures.min},
                        {"mean_ms", figures.mean},
                        {"p90_ms", figures.p90},
                        {"p95_ms", figures.p95},
                        {"p99_ms", figures.p99},
                        {"per_second", figures.per_second},
                        {"coefficient_of_variation", figures.variation}};
  const auto part = [&](double DeviceParts::* time) {
    return figures.parts ? nlohmann::json((*figures.parts).*time) : nlohmann::json(nullptr);
  };
  row["h2d_ms"] = part(&DeviceParts::upload);
  row["compute_ms"] = part(&DeviceParts::compute);
  row["d2h_ms"] = part(&DeviceParts::download);
  return row;
}

int BenchCommand::choose_streams(const std::shared_ptr<const LoadedEngine>& engine,
                                 const std::vector<TensorData>& given) const {
  if (hint != "throughput") return streams;
  return best_streams(engine, given, settings, latency_bound).value_or(1);
}

/// The exit status by the bound. The row is there all the same: how far it is from the bound is what comes next.
int BenchCommand::check_bound(const BenchFigures& figures) const {
  if (!latency_bound || figures.p99 <= *latency_bound) return 0;
  const std::string with = figures.streams == 1 ? "one stream" : fmt::format("{} streams", figures.streams);
  print_to(stderr, "graft: p99 with {} is {:.3f} ms, above --latency-bound {:g} ms: allow more, or make the network "
           "faster\n", with, figures.p99, *latency_bound);
  return kFailure;
}

int BenchCommand::run() const {
  std::vector<std::string> files = inputs.files();
  files.push_back(model.path());
  json.check(files);
  check_output("--metrics", metrics, files);
  json.check_apart("--metrics", metrics);
  if (latency_bound && hint != "throughput") throw UsageError("--latency-bound goes with --hint throughput");
  const auto engine = model.load_engine([this](const Engine& signature) { inputs.check(signature); });
  check_output_unread("--json", json.path());
  const std::vector<TensorData> given = inputs.read(*engine->engine);
  const int chosen = choose_streams(engine, given);
  const Batch batch = find_batch(*engine->engine, given);
  BenchFigures figures = figures_of(measure_streams(engine, given, chosen, settings), chosen, batch);
  figures.parts = measure_parts(engine, given);
  if (json.leaves_text()) print_figures(*engine, given, figures, batch, settings.host_io);
  json.write(nlohmann::json::array({row_of(*engine, given, figures, batch, model.path())}));
  if (!metrics.empty()) write_output(metrics, prometheus_text());
  return check_bound(figures);
}

}  // namespace

void add_bench(Command app, Action& action) {
  Command sub = app.add_command("bench", "measure latency and throughput of a plan or a model");
  const auto command = std::make_shared<BenchCommand>();
  command->model.add_to(sub, "a plan, or a model (as of graft compile), which is compiled first");
  command->model.add_deadline(sub);
  command->inputs.add_to(sub);
  sub.add_option("--warmup", command->settings.warmup, "runs before measuring")
      .in_range(0, 1000000)
      .show_default();
  sub.add_option("--duration", command->settings.duration, "seconds to measure")
      .in_range(0.0, 86400.0)
      .show_default();
  sub.add_option("--iterations", command->settings.iterations, "runs to measure, instead of a duration")
      .in_range(1, 100000000);
  sub.add_flag("--host-io", command->settings.host_io,
                "on a GPU: copy inputs from and outputs to the host in every run (default: they stay on\n"
                "the device)");
  const auto streams = sub.add_option("--streams", command->streams,
                                       "concurrent sessions, each with its share of the threads")
                           .in_range(1, 4096).show_default();
  sub.add_option("--hint", command->hint,
                  "latency: one stream (the default); throughput: the stream count with the highest throughput\n"
                  "(tries 1, 2, 4, ...)")
      .one_of({"latency", "throughput"}).type_name("WHAT").excludes(streams);
  sub.add_option("--latency-bound", command->latency_bound,
                  "largest 99th percentile of the latency for --hint throughput: 7ms, 500us")
      .with_unit({{"us", 1e-3}, {"ms", 1}, {"s", 1e3}})
      .type_name("TIME");
  command->json.add_to(sub);
  sub.add_option("--metrics", command->metrics,
                  "write the counters of the process as text for Prometheus; - is standard output")
      .type_name("FILE");
  sub.add_option("--run-deadline", command->settings.run_deadline,
                  "limit of a run in seconds")
      .positive().type_name("S");
  sub.footer(R"(
Examples:
  graft bench model.graft --size batch=8 --duration 10
  graft bench model.onnx --shapes image:1x3x224x224 --iterations 200 --json row.json
  graft bench model.graft --hint throughput --latency-bound 7ms
Items per second count the axis named batch, batch_size or N in the model; without such an axis, the first dynamic one,
or the first one that --shapes fixed and the results have, too.
./dev bench compares with other runtimes, in turns in one process.)");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
