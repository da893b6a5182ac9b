// SPDX-License-Identifier: Apache-2.0
// --calibrate: samples of a network's inputs, from files of numpy.
#pragma once

#include <string>

#include "driver/calibration_data.h"

namespace graft {

/// The samples at a path: an .npy file for a network of one input, an .npz file whose entries have the names of the
/// inputs, or a folder of such files, which are taken in the order of their names. A tensor is one sample (without the
/// leading axis of the input) or a batch. Types and shapes of all files are checked here, the elements are read when a
/// batch is asked for. Throws invalid_argument naming file, input and remedy.
CalibrationData open_calibration(const std::string& path, const Graph& graph);

}  // namespace graft
