// SPDX-License-Identifier: Apache-2.0
// Where the time of an engine's runs goes, step by step: what `graft inspect` shows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/size.h"
#include "device/activity.h"
#include "runtime/session.h"

namespace graft {

/// Profiles of several runs of one shape.
struct Measurement {
  std::vector<double> milliseconds;  ///< by step, the median
  std::vector<StepTime> last;        ///< of the last run
  double total = 0;                  ///< of the medians
  size_t arena_bytes = 0;
  std::vector<DeviceActivity> activities;  ///< of one replay on a device
  std::string untraced;                    ///< why there are none
};

/// Runs a session so many times, after one run that also plans the memory.
Measurement measure(const std::shared_ptr<const LoadedEngine>& engine, std::vector<TensorData>& given, int runs);

/// A size of the run, or -1 when it depends on what the run computes.
double value_of(const Size& size, const Bindings& bindings);
/// Bytes that a step reads and writes at least, or -1 when they depend on what the run computes: of a table whose rows
/// are gathered those rows, not the table.
double moved_bytes(const EngineStep& step, const Bindings& bindings);
/// Whether a step multiplies fp16 or bf16, for which GPUs have units of their own.
bool multiplies_halves(const Engine& engine, const EngineStep& step);

}  // namespace graft
