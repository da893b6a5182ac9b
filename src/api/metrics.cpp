// SPDX-License-Identifier: Apache-2.0
// The C interface: what this process has counted.
#include "api/handles.h"
#include "driver/metrics.h"

using graft::api_detail::guarded;

static_assert(GRAFT_COUNTER == static_cast<int>(graft::SampleKind::kCounter) &&
              GRAFT_GAUGE == static_cast<int>(graft::SampleKind::kGauge));

extern "C" {

graft_status graft_metrics(void (*take)(void* context, const graft_metric* metric), void* context,
                           graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(take, kInvalidArgument, "the function that takes the metrics is NULL", "graft_metrics");
    for (const graft::MetricSample& metric : graft::read_metrics()) {
      const graft_metric given{metric.name, metric.help, static_cast<int32_t>(metric.kind),
                               metric.of_engine ? metric.engine.c_str() : nullptr,
                               metric.of_engine ? metric.device.c_str() : nullptr, metric.value};
      take(context, &given);
    }
  });
}

graft_status graft_metrics_text(void (*take)(void* context, const char* text), void* context, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(take, kInvalidArgument, "the function that takes the text is NULL", "graft_metrics_text");
    take(context, graft::prometheus_text().c_str());
  });
}

}  // extern "C"
