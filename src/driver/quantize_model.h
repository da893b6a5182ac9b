// SPDX-License-Identifier: Apache-2.0
// Post-training quantisation: from a network of f32 and samples of its inputs to one of 8 bits, with its error.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "quantize/ranges.h"

namespace graft {

/// Inputs to calibrate with. Batches are asked for in order, once to calibrate and once for each network that is
/// measured, and only one is held at a time.
struct CalibrationData {
  size_t count = 0;
  /// Batch `index`, one tensor per input of the graph in its order, of the types and shapes that the graph takes. May
  /// throw, which ends quantising.
  std::function<std::vector<TensorData>(size_t index)> batch;
  std::string where;  ///< what errors name: the file or folder
};

struct QuantiseOptions {
  quantize::Method method = quantize::Method::kMse;
  std::optional<double> max_error;  ///< bound of QuantisedModel::error; above 0
};

/// What became of a Conv, MatMul or Gemm.
struct QuantisedLayer {
  std::string node, op;
  bool quantised = false;
  double noise_db = 0;  ///< signal to noise that its input and weights have after rounding; of quantised layers
  std::string reason;   ///< why it stays f32
};

struct QuantisedModel {
  Graph graph;  ///< of QuantizeLinear and DequantizeLinear around operators of ONNX
  std::vector<QuantisedLayer> layers;
  size_t batches = 0;
  /// Over all batches and outputs of floats: the largest difference from f32, as a share of the output's range in f32.
  double error = 0;
  double noise_db = 0;  ///< signal to noise of all outputs of floats together; infinite where nothing differs
};

/// Quantises a graph that was imported. Runs the network in f32, and the quantised one, on this machine. With a bound,
/// layers stay f32, those that round worst first, in the fewest number that a search by halves finds to meet it.
/// Throws unsupported where nothing can be quantised, naming each candidate's reason, or where the bound cannot be met,
/// naming the best that was found; invalid_argument for data that does not fit or holds NaN; `cancelled`.
QuantisedModel quantise_model(const Graph& imported, const CalibrationData& data, const QuantiseOptions& choices,
                              const CompileOptions& options);

/// A table of the layers and the error, in text.
std::string print(const QuantisedModel& model);

}  // namespace graft
