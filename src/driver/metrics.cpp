// SPDX-License-Identifier: Apache-2.0
#include "driver/metrics.h"

#include <cmath>

#include <fmt/format.h>

#include "driver/fallbacks.h"
#include "modules/kernel_source.h"
#include "runtime/counters.h"

namespace graft {
namespace {

constexpr double kSeconds = 1e-9;

/// A metric of the process and how it is read.
struct ProcessMetric {
  const char* name;
  const char* help;
  double (*read)(const KernelCounts& kernels);
};
constexpr ProcessMetric kProcess[] = {
    {"graft_kernel_compilations_total", "Requests for kernels to a code generator.",
     [](const KernelCounts& kernels) { return static_cast<double>(kernels.compilations); }},
    {"graft_kernel_compile_seconds_total", "Seconds in code generators, of all threads.",
     [](const KernelCounts& kernels) { return static_cast<double>(kernels.compile_nanoseconds) * kSeconds; }},
    {"graft_kernel_cache_hits_total", "Kernels found in the kernel cache.",
     [](const KernelCounts& kernels) { return static_cast<double>(kernels.cache_hits); }},
    {"graft_kernel_cache_misses_total", "Kernels that the kernel cache lacked.",
     [](const KernelCounts& kernels) { return static_cast<double>(kernels.cache_misses); }},
    {"graft_host_fallbacks_total", "Parts of models that ran in the host framework instead of an engine.",
     [](const KernelCounts&) { return static_cast<double>(fallback_count()); }},
};

/// A metric of engines and how it is read.
struct EngineMetric {
  const char* name;
  const char* help;
  SampleKind kind;
  double (*read)(const EngineCounts& counts);
};
constexpr EngineMetric kEngine[] = {
    {"graft_engines", "Engines that are loaded.", SampleKind::kGauge,
     [](const EngineCounts& counts) { return static_cast<double>(counts.engines); }},
    {"graft_sessions", "Sessions that live.", SampleKind::kGauge,
     [](const EngineCounts& counts) { return static_cast<double>(counts.sessions); }},
    {"graft_runs_total", "Runs that succeeded.", SampleKind::kCounter,
     [](const EngineCounts& counts) { return static_cast<double>(counts.runs.runs); }},
    {"graft_run_failures_total", "Runs that failed, without those that were cancelled.", SampleKind::kCounter,
     [](const EngineCounts& counts) { return static_cast<double>(counts.runs.failures); }},
    {"graft_run_cancellations_total", "Runs that were cancelled by a caller or a deadline.", SampleKind::kCounter,
     [](const EngineCounts& counts) { return static_cast<double>(counts.runs.cancellations); }},
    {"graft_run_seconds_total", "Seconds in runs; on a GPU until the work was queued.", SampleKind::kCounter,
     [](const EngineCounts& counts) { return static_cast<double>(counts.runs.nanoseconds) * kSeconds; }},
    {"graft_interpreted_steps_total", "Steps that the interpreter ran, as they have no kernel.", SampleKind::kCounter,
     [](const EngineCounts& counts) { return static_cast<double>(counts.runs.interpreted_steps); }},
    {"graft_arena_bytes", "Memory of intermediate results, by the last run of each session.", SampleKind::kGauge,
     [](const EngineCounts& counts) { return static_cast<double>(counts.runs.arena_bytes); }},
};

/// A label's value: names are the models' own.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    if (c == '\n') result += '\\';
    result += c == '\n' ? 'n' : c;
  }
  return result;
}

/// Whole numbers without an exponent.
std::string number(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

}  // namespace

std::vector<MetricSample> read_metrics() {
  std::vector<MetricSample> metrics;
  const KernelCounts kernels = kernel_counts();
  const std::vector<EngineCounts> engines = engine_counts();
  for (const ProcessMetric& metric : kProcess) {
    metrics.push_back({metric.name, metric.help, SampleKind::kCounter, false, "", "", metric.read(kernels)});
  }
  for (const EngineMetric& metric : kEngine) {
    for (const EngineCounts& counts : engines) {
      metrics.push_back(
          {metric.name, metric.help, metric.kind, true, counts.engine, counts.device, metric.read(counts)});
    }
  }
  return metrics;
}

std::string prometheus_text() {
  std::string text = "# HELP graft_build_info The version of Graft.\n# TYPE graft_build_info gauge\n"
                     "graft_build_info{version=\"" GRAFT_VERSION "\"} 1\n";
  std::string_view name;
  for (const MetricSample& metric : read_metrics()) {
    if (name != metric.name) {
      name = metric.name;
      text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, metric.help, name,
                          metric.kind == SampleKind::kCounter ? "counter" : "gauge");
    }
    text += name;
    if (metric.of_engine) {
      text += fmt::format("{{engine=\"{}\",device=\"{}\"}}", escaped(metric.engine), escaped(metric.device));
    }
    text += " " + number(metric.value) + "\n";
  }
  return text;
}

}  // namespace graft
