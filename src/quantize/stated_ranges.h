// SPDX-License-Identifier: Apache-2.0
// Ranges that a network itself states: operators that round floats to so many steps, as training for quantisation
// leaves them (FakeQuantWithMinMaxVars, QuantizeAndDequantize of TensorFlow).
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "quantize/calibration_file.h"

namespace graft::quantize {

/// Takes roundings to at most 256 steps between constants out of a graph:
///   (round((Clip(x, low, high) - low) / step) * step) + low -> x, and the same without the shifts by low
/// and gives the range of each x by its name.
std::map<std::string, CalibratedTensor, std::less<>> take_stated_ranges(Graph& graph);

/// Ranges that follow from others: what moves a tensor, or takes the largest of windows of it, has its range, and Relu
/// and Clip have what they leave of it. Movement has no range of its own: the tensor before it has the same.
void spread_ranges(const Graph& graph, std::map<std::string, CalibratedTensor, std::less<>>& ranges);

}  // namespace graft::quantize
