// SPDX-License-Identifier: Apache-2.0
// What a lower precision costs a network: its outputs beside those in f32.
#pragma once

#include <string>
#include <vector>

#include "driver/compile.h"

namespace graft {

/// How far one output is from the same in f32.
struct OutputError {
  std::string output;
  double largest = 0;     ///< absolute; infinite where one of the two is not finite
  double range = 0;       ///< largest minus smallest finite element in f32
  int64_t differing = 0;  ///< of an output that is not a float: elements that differ
  int64_t elements = 0;
};

/// The errors of all outputs, or why there are none.
struct PrecisionError {
  std::vector<OutputError> outputs;
  std::string not_measured;  ///< empty: they were measured
};

/// Builds the network once more in f32 (choices by the cost model, nothing is tuned), runs both engines on this machine
/// or on `options.device`, on the same random inputs (floats in [-1, 1], integers 0 or 1, seeded by GRAFT_SEED, sizes
/// as the options say they usually are), and compares. `imported`: the graph that `engine` was compiled from, at stage
/// `done`. It gives up after `limit` seconds, as far as it can tell beforehand, and where the engine cannot run here.
/// Throws `cancelled` when the caller stops it. Thread-safe.
PrecisionError measure_precision_error(const Graph& imported, Stage done, const Engine& engine,
                                       const CompileOptions& options, double limit);

/// `y: 0.0012 (0.05 % of its range)` for each output, with commas between; of more than four the worst.
std::string print(const PrecisionError& error);

}  // namespace graft
