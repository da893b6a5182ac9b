// SPDX-License-Identifier: Apache-2.0
// A version of a model in the repository: its file, its configuration, and an engine for each device that its instances
// run on, which they share.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "metrics.h"
#include "run_log.h"
#include "settings.h"
#include "signature.h"
#include "triton.h"
#include "watch.h"

namespace graft::triton {

/// Usable from any number of threads at the same time.
class Model {
 public:
  /// Loads the model, or compiles it, and completes its configuration. Throws Error and ServerFailure.
  Model(TRITONBACKEND_Model* model, const MetricFamilies& families, Watch& watch, RunLog& run_log);

  /// The engine for a device (`cpu`, `cuda:1`), made when it is asked for first. Throws Error.
  Engine engine_on(const std::string& device);
  const std::string& name() const { return name_; }
  const Settings& settings() const { return settings_; }
  const Signature& signature() const { return signature_; }
  /// Whether requests bring a batch, whose rows can be joined.
  bool batched() const { return batched_; }
  /// Of each output, whether the server keeps it for the next request of its sequence.
  const std::vector<bool>& kept_outputs() const { return kept_outputs_; }
  const ModelMetrics& metrics() const { return metrics_; }
  Watch& watch() const { return watch_; }
  RunLog& run_log() const { return run_log_; }
  const std::string& version() const { return version_; }

 private:
  Engine make_engine(const std::string& device) const;

  std::string name_, path_, version_;
  Settings settings_;
  Signature signature_;
  std::vector<bool> kept_outputs_;
  bool batched_ = false;
  ModelMetrics metrics_;
  Watch& watch_;
  RunLog& run_log_;
  std::mutex mutex_;
  std::map<std::string, Engine> engines_;  ///< by device
};

}  // namespace graft::triton
