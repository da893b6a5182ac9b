// SPDX-License-Identifier: Apache-2.0
#include "plan/whole_network.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "plan/sample_tensors.h"

namespace graft {
namespace {

constexpr int kRounds = 7;
constexpr double kMilliseconds = 20;  // of one measurement

/// A session of an engine at its usual sizes.
class Whole {
 public:
  Whole(const std::shared_ptr<const Engine>& engine, const BuildOptions& options)
      : session_(load_code(engine, options.libraries.source, options.device)) {
    Bindings usual;
    for (const auto& [name, range] : engine->symbols) usual[name] = std::max<int64_t>(1, range.opt);
    uint64_t seed = 0;
    const auto add = [&](const std::vector<int>& tensors, std::vector<BufferView>& views) {
      for (const int tensor : tensors) {
        const EngineTensor& decl = engine->tensors[static_cast<size_t>(tensor)];
        std::vector<int64_t> shape;
        for (const Size& size : decl.shape) shape.push_back(size.evaluate(usual));
        views.push_back(data_.add(decl.type, shape, ++seed));
      }
    };
    std::vector<BufferView> inputs, outputs;
    add(engine->inputs, inputs), add(engine->outputs, outputs);
    check(session_.run(inputs, outputs));
  }

  /// The mean of as many replays as fill some milliseconds.
  double measure() {
    const int replays = last_ > 0 ? static_cast<int>(std::clamp(kMilliseconds / last_, 2.0, 500.0)) : 2;
    check(session_.time_steps(replays, last_));
    return last_;
  }

 private:
  static void check(const Status& status) {
    GRAFT_USER_CHECK(status.ok(), kUnsupported, "it cannot be measured: " + status.message(), "network");
  }

  SampleTensors data_;
  Session session_;
  double last_ = 0;
};

}  // namespace

std::vector<double> time_engines(const std::vector<std::shared_ptr<const Engine>>& engines,
                                 const std::vector<std::string>& keys, const BuildOptions& options) {
  for (const auto& engine : engines) {
    for (const EngineStep& step : engine->steps) {
      GRAFT_USER_CHECK(step.bodies.empty(), kUnsupported, "on made-up data its rounds might never end",
                       fmt::format("node '{}'", step.name));
    }
  }
  std::vector<std::unique_ptr<Whole>> wholes;
  for (const auto& engine : engines) wholes.push_back(std::make_unique<Whole>(engine, options));
  std::vector<std::vector<double>> times(engines.size());
  for (const auto& whole : wholes) whole->measure();
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < wholes.size(); ++i) times[i].push_back(wholes[i]->measure());
  }
  std::vector<double> medians;
  for (size_t i = 0; i < times.size(); ++i) {
    std::nth_element(times[i].begin(), times[i].begin() + kRounds / 2, times[i].end());
    medians.push_back(times[i][kRounds / 2]);
    if (options.timings.store) options.timings.store(keys[i], medians.back());
  }
  return medians;
}

}  // namespace graft
