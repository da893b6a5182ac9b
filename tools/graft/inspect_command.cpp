// SPDX-License-Identifier: Apache-2.0
// graft inspect: what is in a plan, and where its time goes.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "commands.h"
#include "console.h"
#include "device/activity.h"
#include "driver/compile.h"
#include "inspection.h"
#include "json_output.h"
#include "losses_report.h"
#include "machine_peak.h"
#include "measurement.h"
#include "model_options.h"
#include "output.h"
#include "runtime/bind.h"
#include "runtime/device_code.h"
#include "strategy/schedule.h"
#include "target/peak.h"
#include "target/target.h"
#include "tensor_set.h"

namespace graft {
namespace {

struct InspectCommand {
  ModelOptions model;
  InputOptions inputs;
  std::string trace, html;
  JsonOutput json;
  bool text = false, no_run = false, losses = false, metadata = false;
  int runs = 20;

  int run() const;
  int show_losses() const;
  int show_metadata() const;
};

void print_signature(const Engine& engine) {
  const auto line = [&](const char* what, int tensor) {
    std::vector<std::string> sizes;
    for (const Size& size : engine.tensors[tensor].shape) sizes.push_back(size.to_string());
    print_to(stdout, "{} {}  {}[{}]\n", what, engine.tensors[tensor].name, name_of(engine.tensors[tensor].type),
             fmt::join(sizes, ", "));
  };
  constexpr size_t kShown = 40;  // characters of a name
  const std::string name = engine.name.empty() ? "engine" : engine.name;
  print_to(stdout, "{}{}, for {} threads of {}\n", name.substr(0, kShown), name.size() > kShown ? "..." : "",
           engine.threads, parse_target(engine.target).name);
  for (const auto& [key, value] : engine.options) print_to(stdout, "option {} = {}\n", key, value);
  for (const auto& [name, range] : engine.symbols) {
    print_to(stdout, "size {} = {} to {}, usually {}\n", name, range.min,
             range.max > 0 ? std::to_string(range.max) : "any", range.opt);
  }
  for (const int input : engine.inputs) line("input ", input);
  for (const int output : engine.outputs) line("output", output);
}

/// The peak of what multiplies in a step, in GFLOP/s.
double peak_of_products(const Engine& engine, const EngineStep& step, const MachinePeak& peak) {
  if (peak.half_gflops <= 0) return peak.gflops;
  if (multiplies_halves(engine, step)) return peak.half_gflops;
  const ContractUnit* unit = step.kind == StepKind::kKernel ? tile::parse_schedule(step.schedule).unit : nullptr;
  return unit && unit->splits() ? std::max(peak.gflops, peak.half_gflops * unit->rate) : peak.gflops;
}

/// How near a step is to what the machine can do: arithmetic or memory, whichever it is nearer to.
std::string share_of_peak(const EngineStep& step, double most, double milliseconds, const Bindings& bindings,
                          const MachinePeak& peak) {
  if (milliseconds <= 0) return "";
  const double gflops = value_of(step.operations, bindings) / milliseconds * 1e-6;
  const double bandwidth = moved_bytes(step, bindings) / milliseconds * 1e-6;
  const double arithmetic = most > 0 ? gflops / most : 0;
  const double memory = peak.gigabytes_per_s > 0 ? bandwidth / peak.gigabytes_per_s : 0;
  if (arithmetic <= 0 && memory <= 0) return "";
  if (arithmetic >= memory) return fmt::format("{:.0f} % arithmetic", 100 * std::min(1.0, arithmetic));
  return memory > 1 ? "from caches" : fmt::format("{:.0f} % memory", 100 * memory);
}

void print_steps(const LoadedEngine& loaded, const Measurement* measured, const Bindings& bindings,
                 const MachinePeak& peak) {
  const Engine& engine = *loaded.engine;
  Table table("rrrlllll");
  table.add({"step", "ms", "%", "of the peak", "runs as", "kernel", "node", "fused"});
  for (size_t s = 0; s < engine.steps.size(); ++s) {
    const EngineStep& step = engine.steps[s];
    const double time = measured ? measured->milliseconds[s] : 0;
    table.add({std::to_string(s), measured ? fmt::format("{:.3f}", time) : "",
               measured && measured->total > 0 ? fmt::format("{:.1f}", 100 * time / measured->total) : "",
               share_of_peak(step, peak_of_products(engine, step, peak), time, bindings, peak),
               std::string(name_of(step.kind)), step.kernel >= 0 ? engine.kernels[step.kernel].name : step.library,
               step.name, fmt::format("{}", fmt::join(step.operators, " + "))});
  }
  print_to(stdout, "\n{}", table);
  if (measured && peak.gflops > 0) {
    const std::string half =
        peak.half_gflops > 0 ? fmt::format(", {:.0f} in products of halves", peak.half_gflops) : "";
    print_to(stdout, "{:.3f} ms in all; {}: {:.0f} GFLOP/s fp32{}, {:.1f} GB/s (caches may exceed it)\n",
             measured->total, loaded.device ? "peaks" : "measured peaks", peak.gflops, half, peak.gigabytes_per_s);
  }
}

/// Steps are timed one by one above; what a replayed run adds between kernels, or saves, shows here.
void print_replay(const Measurement& measured) {
  if (!measured.untraced.empty()) print_to(stdout, "time between kernels: not known, {}\n", measured.untraced);
  if (measured.activities.empty()) return;
  const ActivitySummary summary = summarize(measured.activities);
  print_to(stdout, "replayed: {} kernels, copies and fills in {:.3f} ms, {:.3f} ms of it between them ({:.1f} %)",
           measured.activities.size(), summary.whole_us / 1000, summary.idle_us / 1000,
           100 * summary.idle_us / summary.whole_us);
  if (!summary.after_longest.empty()) {
    print_to(stdout, "; the longest pause, {:.1f} us, is before {}", summary.longest_idle_us, summary.after_longest);
  }
  print_to(stdout, "\n");
}

/// What each kernel's region was done with, and what lost against it; equal steps are told once.
void print_candidates(const Engine& engine) {
  Table table("rlrl");
  table.add({"step", "candidate", "ms", "because"});
  const auto time = [](double milliseconds) { return milliseconds > 0 ? fmt::format("{:.4f}", milliseconds) : ""; };
  std::set<int> told;
  bool any = false;
  for (size_t s = 0; s < engine.steps.size(); ++s) {
    const EngineStep& step = engine.steps[s];
    if (step.candidates.empty() || (step.kernel >= 0 && !told.insert(step.kernel).second)) continue;
    any = true;
    const std::string way =
        step.library.empty() ? fmt::format("{} {}", name_of(step.kind), step.schedule) : step.library;
    table.add({std::to_string(s), way, time(step.milliseconds), "chosen"});
    for (const Candidate& lost : step.candidates) table.add({"", lost.name, time(lost.milliseconds), lost.reason});
  }
  if (any) print_to(stdout, "\n{}", table);
}

/// Sizes of weights and arena, and the largest intermediate results.
void print_memory(const Engine& engine, const Measurement* measured, const Bindings& bindings) {
  double weights = 0;
  for (const TensorData& constant : engine.constants) weights += static_cast<double>(constant.byte_count());
  print_to(stdout, "\nmemory: weights {}", bytes_text(weights));
  if (measured) print_to(stdout, ", arena {}", bytes_text(static_cast<double>(measured->arena_bytes)));
  print_to(stdout, ", {} kernels in {} units\n", engine.kernels.size(), engine.objects.size());
  if (!measured) return;
  std::vector<std::pair<double, const EngineTensor*>> sizes;
  for (const EngineTensor& tensor : engine.tensors) {
    if (tensor.storage == Storage::kArena && tensor.first_step >= 0) {
      sizes.emplace_back(value_of(tensor.bytes, bindings), &tensor);
    }
  }
  std::stable_sort(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Table table("rll");
  table.add({"bytes", "lives in steps", "largest intermediate results"});
  for (size_t i = 0; i < std::min<size_t>(sizes.size(), 8); ++i) {
    const auto& [bytes, tensor] = sizes[i];
    table.add({bytes_text(bytes), fmt::format("{} to {}", tensor->first_step, tensor->last_step), tensor->name});
  }
  print_to(stdout, "{}", table);
}

/// The Chrome trace format, which Perfetto and chrome://tracing open.
void write_trace(const std::string& path, const Engine& engine, const Measurement& measured) {
  nlohmann::json events = nlohmann::json::array();
  for (const StepTime& time : measured.last) {
    const EngineStep& step = engine.steps[time.step];
    events.push_back({{"name", step.name},
                      {"cat", name_of(step.kind)},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", time.begin_us},
                      {"dur", time.end_us - time.begin_us},
                      {"args", {{"operators", step.operators}, {"nodes", step.nodes}, {"schedule", step.schedule}}}});
  }
  for (const DeviceActivity& activity : measured.activities) {
    events.push_back({{"name", activity.name},
                      {"cat", "replay"},
                      {"ph", "X"},
                      {"pid", 2},
                      {"tid", 1},
                      {"ts", activity.begin_us - measured.activities[0].begin_us},
                      {"dur", activity.end_us - activity.begin_us}});
  }
  const nlohmann::json trace = {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
  write_output(path, trace.dump(1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

/// `batch=8`
std::string text_of(const Bindings& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, size);
  return text;
}

/// The variant for these sizes; what was not chosen is at the main optimum.
size_t variant_number(const Engine& engine, const Bindings& chosen) {
  Bindings sizes = chosen;
  sizes.insert(engine.typical.begin(), engine.typical.end());
  return tightest_variant(engine, sizes);
}

/// Which optimum of a plan is shown.
struct Optimum {
  std::string line;                                         ///< for people; empty where there is one
  nlohmann::json sizes = nlohmann::json::object();          ///< of it
  nlohmann::json all = nlohmann::json::array();             ///< as graft_engine_describe has them, without steps
};

/// Takes the variant of a plan with several optima that runs of these sizes take.
Optimum choose_variant(std::shared_ptr<const LoadedEngine>& loaded, const Bindings& sizes) {
  Optimum optimum;
  const std::vector<EngineVariant>& variants = loaded->engine->variants;
  if (variants.empty()) return optimum;
  const size_t number = variant_number(*loaded->engine, sizes);
  std::vector<std::string> all, same;
  for (size_t v = 0; v < variants.size(); ++v) {
    const auto first = std::find_if(variants.begin(), variants.end(),
                                    [&](const EngineVariant& other) { return other.engine == variants[v].engine; });
    const auto earlier = static_cast<size_t>(first - variants.begin());
    all.push_back(text_of(variants[v].optima));
    if (v != number && variants[v].engine == variants[number].engine) same.push_back(all[v]);
    optimum.all.push_back({{"sizes", variants[v].optima},
                           {"same_as", earlier < v ? nlohmann::json(earlier) : nlohmann::json(nullptr)},
                           {"steps", nlohmann::json::array()}});
  }
  optimum.sizes = variants[number].optima;
  optimum.line = fmt::format("optimum {}{}, of {}\n", all[number],
                             same.empty() ? "" : fmt::format(" (the same steps as {})", fmt::join(same, "; ")),
                             fmt::join(all, "; "));
  if (loaded->variants[number]) loaded = loaded->variants[number];
  return optimum;
}

const Engine& variant_of(const Engine& engine, const Bindings& sizes) {
  const size_t number = variant_number(engine, sizes);
  return engine.variants.empty() || !engine.variants[number].engine ? engine : *engine.variants[number].engine;
}

void print_all(const LoadedEngine& loaded, const std::string& optimum, const Measurement* measured,
               const Bindings& bindings, const MachinePeak& peak) {
  print_signature(*loaded.engine);
  print_to(stdout, "{}", optimum);
  print_steps(loaded, measured, bindings, peak);
  if (measured) print_replay(*measured);
  print_candidates(*loaded.engine);
  print_memory(*loaded.engine, measured, bindings);
}

void warn_where_peaks_vary(const PeakMeter& meter) {
  if (!meter.varies()) return;
  log(LogLevel::kWarning,
      "the peaks of this machine were far below the best that is known of it while the steps were measured: other work "
      "is running, or the machine throttles");
}

/// What this machine's processor can do, where its target's description says too little or too much of it.
Peak measured_peak(const Engine& engine, const MachinePeak& machine) {
  Peak peak = peak_of(parse_target(engine.target));
  if (machine.gflops > 0) {
    const double operations = machine.gflops * 1e9;
    peak.instructions *= operations / peak.operations;
    peak.operations = peak.half = operations;
  }
  if (machine.gigabytes_per_s > 0) peak.bytes = machine.gigabytes_per_s * 1e9;
  return peak;
}

/// Regions by the time that they lose: as measured, or, with --no-run, as the cost model expects.
int InspectCommand::show_losses() const {
  std::vector<std::string> files = inputs.files();
  files.push_back(model.path());
  json.check(files);
  std::shared_ptr<const LoadedEngine> loaded;
  std::optional<Engine> planned;
  const auto check = [this](const Engine& signature) { inputs.check(signature); };
  if (no_run) planned = model.planned_engine();
  else loaded = model.load_engine(check);
  check_output_unread("--json", json.path());
  std::vector<TensorData> given;
  if (!no_run) given = inputs.read(*loaded->engine);
  const Bindings chosen = no_run ? inputs.check(*planned) : bind_inputs(*loaded->engine, views_of(given));
  if (loaded) choose_variant(loaded, chosen);
  const Engine& engine = planned ? variant_of(*planned, chosen) : *loaded->engine;
  Bindings sizes = engine.typical;
  for (const auto& [name, value] : chosen) sizes[name] = value;
  std::vector<double> milliseconds;
  std::optional<Peak> peak;
  if (!no_run) {
    std::optional<PeakMeter> meter;
    if (!loaded->device) meter.emplace(engine.threads);
    milliseconds = measure(loaded, given, runs).milliseconds;
    if (meter) {
      peak = measured_peak(engine, meter->measure());
      warn_where_peaks_vary(*meter);
    }
  }
  const std::vector<RegionLoss> regions = losses_of(engine, sizes, milliseconds, peak);
  if (json.leaves_text()) print_losses(engine, regions);
  if (json.wanted()) write_losses(json.path(), model.path(), engine, regions);
  return 0;
}

/// Without building an engine.
int InspectCommand::show_metadata() const {
  json.check({model.path()});
  Metadata all;
  if (model.is_plan()) {
    model.check_plan_choices();
    const Plan plan = open_plan(model.path());
    all = plan.metadata;
    add_time_of_file(all, model.path());
    all = all_metadata(all, plan.graph, plan.options);
  } else {
    const Graph graph = import_model({.path = model.path()}, model.compile_options());
    clear_progress();
    add_origin(all, {.path = model.path()});
    all = all_metadata(all, graph, {});
  }
  if (json.leaves_text()) {
    for (const auto& [key, value] : all) print_to(stdout, "{} = {}\n", printable(key), printable(value));
  }
  nlohmann::json facts = nlohmann::json::object();
  for (const auto& [key, value] : all) facts.emplace(key, value);
  json.write(facts);
  return 0;
}

int InspectCommand::run() const {
  if (losses) return show_losses();
  if (metadata) return show_metadata();
  std::vector<std::string> files = inputs.files();
  files.push_back(model.path());
  check_output("--trace", trace, files);
  check_output("--html", html, files);
  json.check(files);
  json.check_apart("--trace", trace);
  json.check_apart("--html", html);
  auto loaded = model.load_engine([this](const Engine& signature) { inputs.check(signature); });
  check_output_unread("--trace", trace);
  Bindings chosen;
  if (text || no_run) chosen = inputs.check(*loaded->engine);
  if (text) {
    print_text(stdout, print(*loaded->engine));
    return 0;
  }
  std::optional<Measurement> measured;
  std::vector<TensorData> given;
  Bindings bindings;
  MachinePeak peak;
  if (!no_run) {
    given = inputs.read(*loaded->engine);
    chosen = bindings = bind_inputs(*loaded->engine, views_of(given));
  }
  const Optimum optimum = choose_variant(loaded, chosen);
  const Engine& engine = *loaded->engine;
  if (!no_run) {
    std::optional<PeakMeter> meter;
    if (!loaded->device) meter.emplace(engine.threads);
    measured = measure(loaded, given, runs);
    peak = meter ? meter->measure() : measure_peak(*loaded->device->device);
    if (meter) warn_where_peaks_vary(*meter);
  }
  const Measurement* shown = measured ? &*measured : nullptr;
  if (json.leaves_text() && message_stream(html) == stdout) print_all(*loaded, optimum.line, shown, bindings, peak);
  if (!trace.empty() && measured) write_trace(trace, engine, *measured);
  if (!html.empty() || json.wanted()) {
    nlohmann::json report = inspection(*loaded, shown, bindings, peak);
    report["optima"] = optimum.all, report["optimum"] = optimum.sizes;
    if (!html.empty()) write_output(html, inspection_page(report));
    json.write(report);
  }
  return 0;
}

}  // namespace

void add_inspect(Command app, Action& action) {
  Command sub = app.add_command("inspect", "show the steps of a plan, their times and rejected candidates");
  const auto command = std::make_shared<InspectCommand>();
  command->model.add_to(sub, "a plan, or a model (as of graft compile), which is compiled first");
  command->model.add_deadline(sub);
  command->inputs.add_to(sub);
  sub.add_option("--runs", command->runs, "number of runs; times are medians")
      .in_range(1, 1000000)
      .show_default();
  const auto quiet = sub.add_flag("--no-run", command->no_run, "show the plan, measure nothing");
  sub.add_option("--trace", command->trace,
                  "write the steps of a run, and a GPU's kernels, for ui.perfetto.dev or chrome://tracing")
      .type_name("FILE")
      .excludes(quiet);
  sub.add_option("--html", command->html,
                  "write a page for a browser (no network needed): regions, time, roofline, memory, candidates")
      .type_name("FILE");
  command->json.add_to(sub);
  sub.add_flag("--text", command->text, "print the whole plan as text instead");
  sub.add_flag("--losses", command->losses,
                "sort regions by the time lost against the limits of the target's arithmetic and memory, with\n"
                "the reasons for which faster candidates were refused; with --no-run by the cost model's\n"
                "times, for any --target");
  sub.add_flag("--metadata", command->metadata,
                "show only where the plan comes from (model, hash, time, version) and what its maker says of it\n"
                "(graft compile --metadata KEY=VALUE)");
  sub.footer(R"(
Examples:
  graft inspect model.graft --size batch=8 --trace run.json
  graft inspect model.onnx --losses --no-run --tune off --target sm_90a --precision fp16)");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
