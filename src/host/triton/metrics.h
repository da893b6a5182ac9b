// SPDX-License-Identifier: Apache-2.0
// What the backend counts beside Triton's own metrics, under the same address.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "triton.h"

namespace graft::triton {

/// A number with the labels of a model, or without any. One that the server does not want (--allow-metrics=false)
/// counts nothing.
class Metric {
 public:
  Metric() = default;
  explicit Metric(TRITONSERVER_MetricFamily* family);
  Metric(TRITONSERVER_MetricFamily* family, const std::string& model, const std::string& version);
  void add(double value) const;

 private:
  struct Delete {
    void operator()(TRITONSERVER_Metric* metric) const;
  };
  std::unique_ptr<TRITONSERVER_Metric, Delete> metric_;
};

struct DeleteFamily {
  void operator()(TRITONSERVER_MetricFamily* family) const;
};
using MetricFamily = std::unique_ptr<TRITONSERVER_MetricFamily, DeleteFamily>;

/// The families of all models; they outlive the metrics.
struct MetricFamilies {
  MetricFamilies();
  MetricFamily runs, failures, seconds, joined, copied_bytes, retries, cancelled, arena_bytes, interpreted_steps;
};

/// The metrics of one model.
struct ModelMetrics {
  ModelMetrics() = default;
  ModelMetrics(const MetricFamilies& families, const std::string& model, uint64_t version);
  Metric runs;               ///< of engines
  Metric failures;           ///< runs that failed, those that were cancelled included
  Metric seconds;            ///< in runs
  Metric joined;             ///< requests that shared their run with others
  Metric copied_bytes;       ///< of inputs, to join them
  Metric retries;            ///< requests that ran again alone, as their joined run had failed
  Metric cancelled;          ///< runs that were ended: all their clients had gone, or the deadline had come
  Metric arena_bytes;        ///< memory of intermediate results, of all instances
  Metric interpreted_steps;  ///< steps of the engine that no kernel could be made for
};

/// What the library counts of the process: kernels, of all models together.
class ProcessMetrics {
 public:
  ProcessMetrics();
  /// Adds what was counted since the last call: to be called when something was loaded. From any thread.
  void update();

 private:
  struct Line {
    const char* source;  ///< the name in graft_metrics
    MetricFamily family;
    Metric metric;
    double told = 0;
  };
  std::mutex mutex_;
  std::array<Line, 4> lines_;
};

}  // namespace graft::triton
