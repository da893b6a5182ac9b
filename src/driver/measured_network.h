// SPDX-License-Identifier: Apache-2.0
// Networks that are compiled to be measured while a model is quantised.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "driver/compile.h"
#include "runtime/session.h"

namespace graft {

/// A graph compiled for this processor without measuring candidates, and its results. One thread at a time uses it.
class MeasuredNetwork {
 public:
  MeasuredNetwork(Graph graph, CompileOptions options);

  /// Runs once; the results are there until the next run. Throws invalid_argument for inputs that do not fit.
  const std::vector<TensorData>& run(const std::vector<TensorData>& inputs);

  const Plan& plan() const { return plan_; }
  const std::shared_ptr<const LoadedEngine>& loaded() const { return loaded_; }

 private:
  static void* allocate(void* context, int output, DType type, std::span<const int64_t> shape, size_t bytes);

  Plan plan_;
  std::shared_ptr<const LoadedEngine> loaded_;
  Session session_;
  std::vector<TensorData> results_;
};

/// How far results are from those in f32, over any number of runs.
class Difference {
 public:
  void add(const std::vector<TensorData>& expected, const std::vector<TensorData>& actual);

  /// The largest difference, as a share of the range that the output has in f32.
  double error() const;
  /// Signal to noise of all outputs of floats together; infinite where nothing differs.
  double noise_db() const;

 private:
  struct Output {
    double largest = 0, low = std::numeric_limits<double>::infinity(), high = -low;
  };
  std::vector<Output> outputs_;
  double signal_ = 0, noise_ = 0;
};

/// Noise, as a share of the signal's mean square, in decibels below it.
double decibels(double noise);

}  // namespace graft
