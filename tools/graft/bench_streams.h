// SPDX-License-Identifier: Apache-2.0
// Runs of an engine, timed: one after the other, or on several sessions at once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tensor_set.h"

namespace graft {

/// How long and on what to measure.
struct BenchSettings {
  int warmup = 10;       ///< runs of each session before
  int iterations = 0;    ///< runs of each session; 0: as many as the duration has room for
  double duration = 3;   ///< seconds
  double run_deadline = 0;  ///< seconds that a run may take; 0: no limit
  bool host_io = false;  ///< on a device: inputs and outputs lie on the host
};

/// Times of runs.
struct BenchTimes {
  std::vector<double> milliseconds;  ///< of each run of all sessions
  double seconds = 0;                ///< from the first begin to the last end
};

/// Runs that many sessions at once, each on its own thread with its share of the engine's threads. Throws cancelled
/// when a stop was asked for, and what the first run that fails says.
BenchTimes measure_streams(const std::shared_ptr<const LoadedEngine>& engine, const std::vector<TensorData>& given,
                           int streams, const BenchSettings& settings);

/// The value below which that share of sorted times lies.
double quantile(const std::vector<double>& sorted, double share);

/// The number of streams with the most runs a second whose 99th percentile stays within the bound (ms), by trials of
/// part of the duration: 1, 2, 4, ... up to the engine's threads, or 8 on a device. Nothing when not even one does.
std::optional<int> best_streams(const std::shared_ptr<const LoadedEngine>& engine, const std::vector<TensorData>& given,
                                const BenchSettings& settings, std::optional<double> bound_ms);

/// Where the time of a run with inputs and outputs on the host goes, in milliseconds, each part by itself.
struct DeviceParts {
  double upload = 0, compute = 0, download = 0;
};
/// Nothing on a CPU, and where the device cannot time its steps alone.
std::optional<DeviceParts> measure_parts(const std::shared_ptr<const LoadedEngine>& engine,
                                         const std::vector<TensorData>& given);

}  // namespace graft
