// SPDX-License-Identifier: Apache-2.0
#include "measurement.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "console.h"
#include "fuse/rewrite_region.h"
#include "strategy/region_work.h"
#include "tensor_set.h"

namespace graft {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

Measurement measure(const std::shared_ptr<const LoadedEngine>& engine, std::vector<TensorData>& given, int runs) {
  Session session(engine);
  session.set_profiling(true);
  OutputBuffers buffers(*engine->engine);
  std::optional<DeviceTensors> on_device;  // there the first step would wait for copies
  if (engine->device) on_device.emplace(*engine, given);
  std::vector<std::vector<double>> times(engine->engine->steps.size());
  Measurement result;
  for (int i = 0; i <= runs; ++i) {
    stop_if_interrupted();
    show_progress("inspect", "measuring", i, runs + 1);
    if (on_device) {
      on_device->run(session);
    } else {
      buffers.run(session, given);
    }
    if (i == 0 && runs > 0) continue;  // the first run also plans the memory
    for (const StepTime& time : session.profile()) times[time.step].push_back((time.end_us - time.begin_us) / 1000);
  }
  clear_progress();
  for (const auto& list : times) result.milliseconds.push_back(median(list));
  result.total = std::accumulate(result.milliseconds.begin(), result.milliseconds.end(), 0.0);
  result.last = session.profile();
  result.arena_bytes = session.arena_bytes();
  if (on_device) {
    const Status status = session.trace_steps(result.activities);
    if (!status.ok()) result.untraced = status.message();
  }
  return result;
}

double value_of(const Size& size, const Bindings& bindings) {
  try {
    return static_cast<double>(size.evaluate(bindings));
  } catch (const Error&) {
    return -1;
  }
}

double moved_bytes(const EngineStep& step, const Bindings& bindings) {
  const double whole = value_of(step.bytes, bindings);
  if (whole < 0 || step.region.empty()) return whole;
  Region region = parse_region(step.region);
  normalise(region);
  return std::min(whole, least_work(region, bindings).bytes);
}

bool multiplies_halves(const Engine& engine, const EngineStep& step) {
  return std::any_of(step.tensors.begin(), step.tensors.end(), [&](int tensor) {
    const DType type = engine.tensors[tensor].type;
    return type == DType::kFloat16 || type == DType::kBFloat16;
  });
}

}  // namespace graft
