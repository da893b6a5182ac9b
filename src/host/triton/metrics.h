// SPDX-License-Identifier: Apache-2.0
// What the backend counts beside Triton's own metrics, under the same address.
#pragma once

#include <memory>
#include <string>

#include "triton.h"

namespace graft::triton {

/// A number with the labels of a model. One that the server does not want (--allow-metrics=false) counts nothing.
class Metric {
 public:
  Metric() = default;
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
  MetricFamily runs, joined, copied_bytes, retries, cancelled, arena_bytes, interpreted_steps;
};

/// The metrics of one model.
struct ModelMetrics {
  ModelMetrics() = default;
  ModelMetrics(const MetricFamilies& families, const std::string& model, uint64_t version);
  Metric runs;               ///< of engines
  Metric joined;             ///< requests that shared their run with others
  Metric copied_bytes;       ///< of inputs, to join them
  Metric retries;            ///< requests that ran again alone, as their joined run had failed
  Metric cancelled;          ///< runs that were ended: all their clients had gone, or the deadline had come
  Metric arena_bytes;        ///< memory of intermediate results, of all instances
  Metric interpreted_steps;  ///< steps of the engine that no kernel could be made for
};

}  // namespace graft::triton
