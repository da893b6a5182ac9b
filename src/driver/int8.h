// SPDX-License-Identifier: Apache-2.0
// The precision int8 of what is compiled inside of a framework: by ranges that a file or the network has, or by a
// network that learns them while it serves in f32.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "driver/calibrator.h"
#include "driver/quantize_model.h"

namespace graft {

/// What was chosen beside `precision=int8`.
struct Int8Choices {
  bool asked = false;  ///< `precision` is int8, fp8, int4 or auto; the others are choices of it
  QuantiseOptions quantise;
  /// Runs after which a network that learns becomes one of 8 bits by itself; 0: when it is told to; nothing: it does
  /// not learn.
  std::optional<int64_t> learned_runs;
};
/// Takes `precision` where it is int8, fp8, int4 or auto, `calibration-iters`, and the choices of quantise_model; false
/// for all others. Throws invalid_argument naming the key, the value and what is allowed.
bool set_choice(Int8Choices& choices, OptionText choice);

/// A network of f32 that counts its activations while it serves, and then becomes one of 8 bits. It keeps the inputs of
/// its first runs, at most 64 samples and 64 MiB beyond the first run, to measure the error with. Thread-safe: one
/// runs, the others wait.
class LearningNetwork {
 public:
  /// Copies the network's constants, which its caller may free. Throws unsupported where nothing can be quantised, or
  /// where inputs are no tensors of numbers.
  LearningNetwork(const Graph& imported, QuantiseOptions choices, const CompileOptions& options);

  /// Runs in f32 and counts; `use` looks at the results, in the network's order. Throws invalid_argument for inputs
  /// that do not fit.
  void run(const std::vector<TensorData>& inputs, const std::function<void(std::span<const TensorData>)>& use);
  int64_t runs() const;
  /// Quantises by what was counted. Throws as quantise_model does, and invalid_argument where nothing has run.
  QuantisedModel quantise(const CompileOptions& options) const;
  const Graph& imported() const { return imported_; }

 private:
  void keep(const std::vector<TensorData>& inputs, int64_t samples);

  const Graph imported_;
  const QuantiseOptions choices_;
  std::string network_;  ///< its hash
  std::optional<SampleForm> form_;
  std::unique_ptr<Calibrator> calibrator_;
  mutable std::mutex mutex_;
  SampleCount count_;
  std::vector<std::vector<TensorData>> kept_;
  int64_t kept_samples_ = 0, kept_bytes_ = 0;
};

/// An engine of 8 bits with the report on it (nothing where the network was quantised, or has nothing to quantise
/// beside others that have), or a network that learns.
struct Int8Engine {
  std::optional<Compiled> compiled;
  std::optional<quantize::Report> report;
  std::shared_ptr<LearningNetwork> learning;
};

/// Compiles a graph that was imported. Throws invalid_argument where it has neither Q/DQ nor ranges and is not to learn
/// either, saying what to do.
Int8Engine compile_int8(const Graph& imported, const Int8Choices& choices, const CompileOptions& options);
/// The graphs of a model's segments.
struct SegmentGraphs {
  size_t count;
  std::function<Graph(size_t segment)> graph_of;
};
/// The same for a segment: one in which nothing can be quantised computes in f32 if another one is quantised.
Int8Engine compile_int8(const SegmentGraphs& segments, size_t segment, const Int8Choices& choices,
                        const CompileOptions& options);

}  // namespace graft
