// SPDX-License-Identifier: Apache-2.0
// Networks that are compiled to be measured while a model is quantised.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/compare.h"
#include "driver/compile.h"
#include "runtime/session.h"

namespace graft {

/// How long a network takes.
struct NetworkTimes {
  double milliseconds = 0;    ///< of a run
  std::vector<double> steps;  ///< of each step of the engine; their sum may be less
};

/// What a network is measured in and on.
struct MeasuredForm {
  Precision precision = Precision::kFp32;
  std::string device = "cpu";
};

/// A graph compiled for a device of this machine without measuring candidates, and its results. One thread at a time
/// uses it.
class MeasuredNetwork {
 public:
  MeasuredNetwork(Graph graph, CompileOptions options, const MeasuredForm& form = {});

  /// Runs once; the results are there until the next run. Throws invalid_argument for inputs that do not fit.
  const std::vector<TensorData>& run(const std::vector<TensorData>& inputs);
  /// The shortest of several runs, for about `seconds`, and not fewer than three; what a device computes, without the
  /// copies of inputs and outputs. Throws as run() does, and `cancelled`.
  NetworkTimes time(const std::vector<TensorData>& inputs, const CompileOptions& options, double seconds = 0.5);

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

  /// Of the worst output: the largest difference, as a share of the range that its finite elements have in f32; of one
  /// that is not of floats, the share of elements that differ. Infinite where an element is NaN or infinite in one of
  /// the two only, so that no bound holds; where it is the same in both, they are equal.
  double error() const;
  /// Signal to noise of all outputs of floats together; infinite where nothing differs, minus infinity where an error
  /// is infinite.
  double noise_db() const;
  /// The same of the worst output alone, the signal being what its elements vary by: their distance from their mean.
  /// Outputs that do not vary are left out.
  double worst_noise_db() const;
  /// Elements of the results in f32 that are NaN or infinite.
  int64_t not_finite() const { return not_finite_; }

 private:
  struct Output {
    double largest = 0, low = std::numeric_limits<double>::infinity(), high = -low;
    double sum = 0, squares = 0, noise = 0;  ///< of finite elements in f32; of the differences' squares
    int64_t count = 0;                       ///< of finite elements in f32
    int64_t elements = 0, differing = 0;  ///< of one that is not of floats

    double error() const;
    double noise_share() const;
  };
  void add_floats(Output& output, const TensorData& expected, const TensorData& actual);
  void add_others(Output& output, const Comparison& found, DTypeKind kind);

  std::vector<Output> outputs_;
  int64_t not_finite_ = 0;
};

/// Noise, as a share of the signal's mean square, in decibels below it; minus infinity for NaN.
double decibels(double noise);
/// The reverse: the noise of decibels; infinite for minus infinity.
double noise_power(double decibels);

}  // namespace graft
