// SPDX-License-Identifier: Apache-2.0
#include "metrics.h"

#include <string_view>

#include "failure.h"
#include "graft/graft_c.h"

namespace graft::triton {
namespace {

MetricFamily family(MetricKind kind, const char* name, const char* description) {
  TRITONSERVER_MetricFamily* made = nullptr;
  ignore(TRITONSERVER_MetricFamilyNew(&made, kind, name, description));
  return MetricFamily(made);
}

}  // namespace

Metric::Metric(TRITONSERVER_MetricFamily* family) {
  if (!family) return;
  TRITONSERVER_Metric* made = nullptr;
  ignore(TRITONSERVER_MetricNew(&made, family, nullptr, 0));
  metric_.reset(made);
}

Metric::Metric(TRITONSERVER_MetricFamily* family, const std::string& model, const std::string& version) {
  if (!family) return;
  const TRITONSERVER_Parameter* labels[] = {TRITONSERVER_ParameterNew("model", ParameterType::kString, model.c_str()),
                                            TRITONSERVER_ParameterNew("version", ParameterType::kString,
                                                                      version.c_str())};
  TRITONSERVER_Metric* made = nullptr;
  ignore(TRITONSERVER_MetricNew(&made, family, labels, std::size(labels)));
  metric_.reset(made);
  for (const TRITONSERVER_Parameter* label : labels) {
    TRITONSERVER_ParameterDelete(const_cast<TRITONSERVER_Parameter*>(label));
  }
}

void Metric::add(double value) const {
  if (metric_) ignore(TRITONSERVER_MetricIncrement(metric_.get(), value));
}

void Metric::Delete::operator()(TRITONSERVER_Metric* metric) const { ignore(TRITONSERVER_MetricDelete(metric)); }

void DeleteFamily::operator()(TRITONSERVER_MetricFamily* family) const {
  ignore(TRITONSERVER_MetricFamilyDelete(family));
}

MetricFamilies::MetricFamilies()
    : runs(family(MetricKind::kCounter, "graft_runs", "Runs of engines")),
      failures(family(MetricKind::kCounter, "graft_run_failures",
                      "Runs of engines that failed, those that were cancelled included")),
      seconds(family(MetricKind::kCounter, "graft_run_seconds", "Seconds in runs of engines")),
      joined(family(MetricKind::kCounter, "graft_joined_requests", "Requests that shared their run with others")),
      copied_bytes(family(MetricKind::kCounter, "graft_copied_bytes",
                          "Bytes of inputs that were copied, as requests that were joined did not lie side by side")),
      retries(family(MetricKind::kCounter, "graft_retried_requests",
                     "Requests that ran again alone, as their joined run had failed")),
      cancelled(family(MetricKind::kCounter, "graft_cancelled_runs",
                       "Runs that were ended: their clients had gone, or their deadline had come")),
      arena_bytes(family(MetricKind::kGauge, "graft_arena_bytes",
                         "Bytes of intermediate results of all instances, by their last runs")),
      interpreted_steps(family(MetricKind::kGauge, "graft_interpreted_steps",
                               "Steps of the engine that run in the interpreter, as no kernel could be made")) {}

ModelMetrics::ModelMetrics(const MetricFamilies& families, const std::string& model, uint64_t version) {
  const auto made = [&](const MetricFamily& family) { return Metric(family.get(), model, std::to_string(version)); };
  runs = made(families.runs);
  failures = made(families.failures);
  seconds = made(families.seconds);
  joined = made(families.joined);
  copied_bytes = made(families.copied_bytes);
  retries = made(families.retries);
  cancelled = made(families.cancelled);
  arena_bytes = made(families.arena_bytes);
  interpreted_steps = made(families.interpreted_steps);
}

ProcessMetrics::ProcessMetrics()
    : lines_{Line{"graft_kernel_compilations_total",
                  family(MetricKind::kCounter, "graft_kernel_compilations", "Requests for kernels to a code generator"),
                  {}},
             Line{"graft_kernel_compile_seconds_total",
                  family(MetricKind::kCounter, "graft_kernel_compile_seconds", "Seconds in code generators"),
                  {}},
             Line{"graft_kernel_cache_hits_total",
                  family(MetricKind::kCounter, "graft_kernel_cache_hits", "Kernels found in the kernel cache"),
                  {}},
             Line{"graft_kernel_cache_misses_total",
                  family(MetricKind::kCounter, "graft_kernel_cache_misses", "Kernels that the kernel cache lacked"),
                  {}}} {
  for (Line& line : lines_) line.metric = Metric(line.family.get());
}

void ProcessMetrics::update() {
  const std::lock_guard lock(mutex_);
  const auto take = [](void* context, const graft_metric* counted) {
    for (Line& line : static_cast<ProcessMetrics*>(context)->lines_) {
      if (std::string_view(counted->name) != line.source) continue;
      line.metric.add(counted->value - line.told);
      line.told = counted->value;
    }
  };
  graft_error error;
  graft_metrics(take, this, &error);  // what fails is told with the next update
}

}  // namespace graft::triton
