// SPDX-License-Identifier: Apache-2.0
// A network is built by the choices that were fastest alone, unless it is slower by them: on an emulated GPU, with
// times of regions that a cache remembers.
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "device/cuda/cuda_device.h"
#include "graph/infer.h"
#include "modules/kernel_source.h"
#include "plan/build_engine.h"
#include "plan/whole_network.h"
#include "target/target.h"

namespace graft {
namespace {

constexpr const char* kProducts = R"(graph "main" {
  opset "" 21
  input %x: f32[48, 64]
  input %w: f32[64, 64]
  %y: ? = MatMul "product" (%x, %w)
  output %y
})";

/// Each way of a region is faster than those before it, as a cache says; `whole` gives the times of networks.
TimingCache times(const std::function<std::optional<double>(int asked)>& whole) {
  TimingCache cache;
  cache.find = [whole, networks = 0, known = std::map<std::string, double>()](
                   const std::string& key) mutable -> std::optional<double> {
    if (key.starts_with("whole ")) return whole(networks++);
    return known.try_emplace(key, 10.0 / static_cast<double>(known.size() + 1)).first->second;
  };
  return cache;
}

BuiltEngine build(const TimingCache& timings, Tuning tuning = Tuning::kFast) {
  Graph graph = parse_graph(kProducts);
  infer_types(graph);
  BuildOptions options{.target = find_target("sm_90a", 2), .tuning = tuning};
  options.device = open_cuda_device(0);
  options.compile_kernels = kernel_code;
  options.timings = timings;
  return build_engine(fuse(graph), options);
}

const RegionChoice& choice_of(const BuiltEngine& built) { return built.record.regions.begin()->second; }

TEST(WholeNetwork, what_is_fastest_alone_is_taken) {
  const BuiltEngine built = build(times([](int asked) { return asked == 0 ? 1.0 : 1.005; }));
  const BuiltEngine modelled = build({}, Tuning::kOff);
  ASSERT_EQ(built.record.regions.size(), 1u);
  EXPECT_NE(choice_of(built).way, choice_of(modelled).way);
  EXPECT_EQ(built.engine.steps[0].schedule, choice_of(built).way.substr(std::string("generated ").size()));
}

TEST(WholeNetwork, unless_the_network_is_slower_by_it) {
  const BuiltEngine alone = build(times([](int asked) { return asked == 0 ? 1.0 : 1.005; }));
  const BuiltEngine built = build(times([](int asked) { return asked == 0 ? 1.0 : 0.9; }));
  const BuiltEngine modelled = build({}, Tuning::kOff);
  const RegionChoice& choice = choice_of(built);
  EXPECT_EQ(choice.way, choice_of(modelled).way);
  EXPECT_EQ(choice.milliseconds, 10.0);  // the first of the region that the cache was asked for
  EXPECT_EQ(built.engine.steps[0].schedule, modelled.engine.steps[0].schedule);
  ASSERT_FALSE(choice.lost.empty());
  EXPECT_EQ(choice.lost.back().name, choice_of(alone).way);
  EXPECT_EQ(choice.lost.back().reason,
            "the whole network is slower by what is fastest alone: 1.0000 against 0.9000 ms");
  EXPECT_EQ(built.engine.steps[0].milliseconds, 10.0);
  EXPECT_EQ(built.engine.steps[0].candidates.back().reason, choice.lost.back().reason);
}

TEST(WholeNetwork, times_are_those_of_the_device) {
  BuildOptions options{.target = find_target("sm_90a", 2), .tuning = Tuning::kFast};
  options.device = open_cuda_device(0);
  std::map<std::string, double> kept;
  options.timings.store = [&](const std::string& key, double milliseconds) { kept[key] = milliseconds; };
  const auto engine = std::make_shared<const Engine>(build({}, Tuning::kOff).engine);
  const std::vector<double> measured = time_engines({engine, engine}, {"first", "second"}, options);
  ASSERT_EQ(measured.size(), 2u);
  EXPECT_GT(measured[0], 0);
  EXPECT_EQ(kept, (std::map<std::string, double>{{"first", measured[0]}, {"second", measured[1]}}));
}

}  // namespace
}  // namespace graft
