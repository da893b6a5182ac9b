// SPDX-License-Identifier: Apache-2.0
// Branches and loops that a device goes through without the host: what is recorded, replayed and read.
#include <gtest/gtest.h>

#include "device/host_device.h"
#include "driver/compile.h"
#include "support/control_flow_case.h"

namespace graft {
namespace {

using namespace graft_test;

constexpr int kUntilReplayed = 4;  ///< runs

/// A network on a device that decides.
class Network {
 public:
  explicit Network(const std::string& text) : graph_(inferred(text)), device_(std::make_shared<HostDevice>()) {
    device_->decides = true;
    CompileOptions options;
    options.interpret = true;
    options.tuning = Tuning::kOff;
    Compiled compiled = compile_from(graph_, Stage::kImport, options);
    session_ = std::make_unique<Session>(
        load_code(std::make_shared<const Engine>(queued(std::move(compiled.engine))), queued_steps(), device_), 1);
  }
  void expect(const TensorsByName& inputs) { expect_results(*session_, graph_, inputs); }
  void warm_up(const TensorsByName& inputs) {
    for (int i = 0; i < kUntilReplayed; ++i) expect(inputs);
  }
  /// What one more run reads from the device and replays there.
  std::pair<int, int> downloads_and_replays(const TensorsByName& inputs) {
    device_->downloads = device_->replays = 0;
    expect(inputs);
    return {device_->downloads, device_->replays};
  }
  Session& session() { return *session_; }

 private:
  Graph graph_;
  std::shared_ptr<HostDevice> device_;
  std::unique_ptr<Session> session_;
};

/// x f32[n] times two until it sums to more than `bound`, in at most LIMIT rounds.
std::string doubles(const std::string& limit) {
  return R"(graph "doubles" {
  opset "" 28
  input %x: f32[n]
  input %bound: f32[]
  input %given: i64[]
  constant %limit: i64[] = {40}
  %y: ? = Loop "loop" ()" +
         limit + R"(, _, %x, %bound) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: ?
    input %bound: ?
    constant %axes: i64[1] = {0}
    %next: ? = Add "add" (%s, %s)
    %sum: ? = ReduceSum "sum" (%next, %axes) {keepdims = 0}
    %more: ? = Less "less" (%sum, %bound)
    output %more
    output %next
  }, captures = [1]}
  %z: ? = Neg "negate" (%y)
  output %z
})";
}

TensorsByName up_to(float bound, int64_t given = 0, std::vector<float> x = {1, 2}) {
  const auto count = static_cast<int64_t>(x.size());
  return {{"x", floats({count}, x)}, {"bound", floats({}, {bound})}, {"given", integer(given)}};
}

TEST(Decided, a_loop_of_few_rounds_is_part_of_what_is_recorded) {
  Network network(doubles("%limit"));
  network.warm_up(up_to(100));
  for (const float bound : {100.0f, 1e30f, 0.0f, 7.0f, 100.0f}) {
    // What kernels found, and the result.
    EXPECT_EQ(network.downloads_and_replays(up_to(bound)), std::pair(2, 1)) << bound;
  }
}

TEST(Decided, a_limit_may_be_another_in_each_run) {
  Network network(doubles("%given"));
  network.warm_up(up_to(1e6, 30));
  for (const int64_t limit : {30, 0, 1, 2, 5, 31, 512}) {
    EXPECT_EQ(network.downloads_and_replays(up_to(1e6, limit)), std::pair(2, limit > 0 ? 1 : 0)) << limit;
  }
  // The host looks once behind the first 16 of 20 rounds, and once behind those that may follow.
  EXPECT_EQ(network.downloads_and_replays(up_to(1e6, 1 << 20)), std::pair(4, 2));
}

TEST(Decided, sizes_may_change_and_come_back) {
  Network network(doubles("%limit"));
  const std::vector<float> longer(5000, 1.0f);
  for (int i = 0; i < 3; ++i) {
    network.warm_up(up_to(1000));
    network.warm_up(up_to(40000, 0, longer));
  }
  EXPECT_EQ(network.downloads_and_replays(up_to(1000)), std::pair(2, 1));
  EXPECT_EQ(network.downloads_and_replays(up_to(40000, 0, longer)), std::pair(2, 1));
}

TEST(Decided, rounds_that_collect_are_counted) {
  Network network(kWhile);
  const auto given = [](float bound, bool going) {
    return TensorsByName{{"x", floats({2}, {1, 2})}, {"bound", floats({}, {bound})}, {"going", boolean(going)}};
  };
  network.warm_up(given(1e6, true));
  for (const float bound : {1e6f, 0.0f, 30.0f, 1e9f}) network.expect(given(bound, true));
  network.expect(given(100, false));
  const auto [downloads, replays] = network.downloads_and_replays(given(30, true));
  EXPECT_EQ(downloads, 4);  // how many rounds, what kernels found, and two results
  EXPECT_EQ(replays, 1);
}

/// x f32[n] doubled or negated; the other branch needs n to be 4.
constexpr const char* kChoice = R"(graph "choice" {
  opset "" 28
  input %x: f32[n]
  input %c: bool[]
  constant %square: i64[2] = {2, 2}
  constant %all: i64[1] = {-1}
  %y: f32[n] = If "choose" (%c, %x, %x, %square, %all) {else_branch = graph "else" {
    input %x: ?
    %e: ? = Add "double" (%x, %x)
    output %e
  }, then_branch = graph "then" {
    input %x: ?
    input %square: ?
    input %all: ?
    %s: ? = Reshape "square" (%x, %square)
    %t: ? = Transpose "turn" (%s) {perm = [1, 0]}
    %f: f32[n] = Reshape "flat" (%t, %all)
    output %f
  }, captures = [1, 3]}
  %z: ? = Neg "negate" (%y)
  output %z
})";

TEST(Decided, a_branch_is_part_of_what_is_recorded) {
  Network network(R"(graph "choice" {
  opset "" 28
  input %x: f32[n]
  input %c: bool[]
  %y: f32[n] = If "choose" (%c, %x, %x) {else_branch = graph "else" {
    input %x: ?
    %e: ? = Add "double" (%x, %x)
    output %e
  }, then_branch = graph "then" {
    input %x: ?
    %f: ? = Mul "square" (%x, %x)
    output %f
  }, captures = [1, 1]}
  %z: ? = Neg "negate" (%y)
  output %z
})");
  const auto given = [](bool c) { return TensorsByName{{"x", floats({3}, {1, 2, 3})}, {"c", boolean(c)}}; };
  network.warm_up(given(true));
  for (const bool c : {true, false, true}) EXPECT_EQ(network.downloads_and_replays(given(c)), std::pair(2, 1));
}

TEST(Decided, a_branch_that_nobody_takes_may_not_fit_these_sizes) {
  Network network(kChoice);
  for (int i = 0; i < kUntilReplayed; ++i) {
    network.expect({{"x", floats({3}, {1, 2, 3})}, {"c", boolean(false)}});
    network.expect({{"x", floats({4}, {1, 2, 3, 4})}, {"c", boolean(true)}});
    network.expect({{"x", floats({4}, {1, 2, 3, 4})}, {"c", boolean(false)}});
  }
}

TEST(Decided, loops_and_branches_lie_in_loops) {
  // The outer loop counts up to `bound`; the inner one adds until a multiple of its round is passed.
  Network network(R"(graph "nested" {
  opset "" 28
  input %x: f32[]
  input %bound: f32[]
  constant %limit: i64[] = {50}
  constant %few: i64[] = {5}
  %y: ?, %all: ? = Loop "outer" (%limit, _, %x, %bound, %few) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: f32[]
    input %bound: ?
    input %few: ?
    constant %inner_limit: i64[] = {5}
    %t: f32[], %parts: ? = Loop "inner" (%inner_limit, _, %s, %i) {body = graph "inner body" {
      input %j: i64[]
      input %d: bool[]
      input %u: f32[]
      input %i: ?
      %k: ? = Add "both" (%i, %j)
      %f: ? = Cast "as_float" (%k) {to = 1}
      %v: ? = Add "add" (%u, %f)
      output %d
      output %v
      output %f
    }, captures = [1]}
    constant %axes: i64[1] = {0}
    %sum: ? = ReduceSum "sum" (%parts, %axes) {keepdims = 0}
    %large: ? = Greater "large" (%sum, %bound)
    %w: f32[] = If "choose" (%large, %t, %t, %sum) {else_branch = graph "else" {
      input %t: ?
      %e: ? = Identity "same" (%t)
      output %e
    }, then_branch = graph "then" {
      input %t: ?
      input %sum: ?
      %g: ? = Sub "less" (%t, %sum)
      output %g
    }, captures = [1, 2]}
    %more: ? = Less "goes_on" (%w, %bound)
    output %more
    output %w
    output %sum
  }, captures = [2]}
  output %y
  output %all
})");
  const auto given = [](float x, float bound) {
    return TensorsByName{{"x", floats({}, {x})}, {"bound", floats({}, {bound})}};
  };
  network.warm_up(given(0, 100));
  const auto [downloads, replays] = network.downloads_and_replays(given(0, 100));
  EXPECT_EQ(downloads, 4);
  EXPECT_EQ(replays, 1);
  for (const float bound : {0.0f, 20.0f, 31.0f, 1000.0f, 1e9f}) network.expect(given(1, bound));
}

}  // namespace
}  // namespace graft
