// SPDX-License-Identifier: Apache-2.0
// The precision `auto`: the fastest one on this machine whose error is within a bound.
#pragma once

#include "driver/quantize_model.h"

namespace graft {

/// Tries fp32, the lower floats that the options' device has (tf32, fp16, bf16), and int8: static with samples or a
/// calibration file, else dynamic. Each is compiled with choices by the cost model, compared with fp32, and timed
/// on `options.device` of this machine. The result is the fastest that keeps the bound of `choices`; fp32 keeps any,
/// and remains where nothing is faster by more than 2 %. Without samples the error is that of random inputs. What was
/// tried is in Report::tried. After `choices.search_limit` seconds nothing more is tried. Throws invalid_argument for a
/// metric that is no finite number and for data that does not fit; `cancelled`.
QuantisedModel choose_precision(const Graph& imported, const CalibrationData& data, const QuantiseOptions& choices,
                                const CompileOptions& options);

}  // namespace graft
