// SPDX-License-Identifier: Apache-2.0
// What this process has counted, in C++; see graft_metrics.
//
//   for (const graft::Metric& metric : graft::metrics()) std::printf("%s %g\n", metric.name.c_str(), metric.value);
//   server.answer("/metrics", "text/plain; version=0.0.4", graft::metrics_text());
#pragma once

#include <string>
#include <vector>

#include "graft/graft.h"

namespace graft {
inline namespace api {

enum class MetricKind : int32_t { kCounter = GRAFT_COUNTER, kGauge = GRAFT_GAUGE };

/// A number that is counted, of all engines of a model on a device, or of the process.
struct Metric {
  std::string name, help;      ///< `graft_runs_total`, as Prometheus spells it
  MetricKind kind = MetricKind::kCounter;
  std::string engine, device;  ///< empty: of the process
  double value = 0;
};

/// All metrics of the process, those of one name together. From any thread. Throws Error.
inline std::vector<Metric> metrics() {
  std::vector<Metric> list;
  const auto take = [](void* context, const graft_metric* metric) {
    static_cast<std::vector<Metric>*>(context)->push_back(
        {metric->name, metric->help, static_cast<MetricKind>(metric->kind), metric->engine ? metric->engine : "",
         metric->device ? metric->device : "", metric->value});
  };
  graft_error error;
  detail::check(graft_metrics(take, &list, &error), error);
  return list;
}

/// The same as text for Prometheus. Throws Error.
inline std::string metrics_text() {
  std::string text;
  const auto take = [](void* context, const char* given) { *static_cast<std::string*>(context) = given; };
  graft_error error;
  detail::check(graft_metrics_text(take, &text, &error), error);
  return text;
}

}  // namespace api
}  // namespace graft
