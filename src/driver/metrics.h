// SPDX-License-Identifier: Apache-2.0
// What this process has counted, as metrics with names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace graft {

enum class SampleKind : uint8_t { kCounter, kGauge };

/// A number that is counted, of all engines of a name on a device, or of the process.
struct MetricSample {
  const char* name;  ///< as Prometheus spells it
  const char* help;
  SampleKind kind;
  bool of_engine;
  std::string engine, device;
  double value;
};

/// Those of one name together. Safe from any thread.
std::vector<MetricSample> read_metrics();
/// The same as text for Prometheus, in its exposition format 0.0.4.
std::string prometheus_text();

}  // namespace graft
