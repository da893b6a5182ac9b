// SPDX-License-Identifier: Apache-2.0
// The one place where activations are counted: a network of f32 that runs for its caller, whoever has the inputs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/calibration_data.h"
#include "driver/measured_network.h"
#include "quantize/calibration_file.h"
#include "quantize/histogram.h"
#include "quantize/places.h"

namespace graft {

/// Ranges of activations by name.
using CalibratedTensors = std::map<std::string, quantize::CalibratedTensor, std::less<>>;

/// Runs a network on the processor and counts, in histograms, the activations that would be quantised: its memory does
/// not grow with the runs. One thread at a time uses it.
class Calibrator {
 public:
  /// `graph` is prepared (quantize::prepare), and `places` are its own. Of the activations `by_channel`, which are
  /// among the ranges of `places`, the channels are looked at as well.
  Calibrator(const Graph& graph, const quantize::Places& places, const CompileOptions& options,
             const std::vector<ValueId>& by_channel = {});

  /// Runs once and counts. The results of the network, in its order, are there until the next run; watched activations
  /// may follow them. Throws invalid_argument for inputs that do not fit.
  const std::vector<TensorData>& run(const std::vector<TensorData>& inputs);

  /// The range of each activation, by a method, and the noise of such codes in it; of those that `known` has, that one.
  /// Throws invalid_argument naming `where` and the first activation that was NaN, infinite or without elements.
  CalibratedTensors ranges(quantize::Method method, quantize::Codes codes, const quantize::Calibration* known,
                           const std::string& where) const;
  /// The largest magnitude of each channel (of the last axis), by activation.
  std::map<std::string, std::vector<float>, std::less<>> magnitudes() const;

 private:
  struct Watched {
    std::string name;
    bool is_input = false;
    size_t number = 0;  ///< of the input, or of the result of the watched network
    bool by_channel = false;
    quantize::Histogram histogram = {};
    std::vector<float> magnitudes = {};  ///< the largest of each channel
    void add(const TensorData& tensor);
  };
  /// Of the graph with its watched activations as results.
  std::unique_ptr<MeasuredNetwork> watch(const Graph& graph, const quantize::Places& places, CompileOptions options,
                                         const std::vector<ValueId>& by_channel);

  std::vector<Watched> watched_;  ///< in the order of the network
  std::unique_ptr<MeasuredNetwork> network_;
  int threads_;
};

}  // namespace graft
