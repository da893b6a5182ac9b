// SPDX-License-Identifier: Apache-2.0
// Branches and loops whose values stay in the memory of a device: a GPU where there is one, pages that the host may not
// touch, and memory of the host whose device decides by itself.
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cuda/cuda_device.h"
#include "device/host_device.h"
#include "device/paged_device.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "support/control_flow_case.h"

namespace graft {
namespace {

using namespace graft_test;

constexpr double kTolerance = 1e-5;
constexpr int kRuns = 4;  ///< step by step, recorded, replayed

class ControlFlowOnDevice : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (is_gpu() && !why_no_cuda_device().empty()) GTEST_SKIP() << why_no_cuda_device();
    if (is_host()) {
      host_ = std::make_shared<HostDevice>();
      host_->decides = true;
      device_ = host_;
    } else {
      device_ = is_gpu() ? open_cuda_device(0) : make_paged_device();
    }
  }
  bool is_gpu() const { return GetParam() == "cuda"; }
  bool is_host() const { return GetParam() == "host"; }

  CompileOptions options() const {
    CompileOptions options;
    options.interpret = !is_gpu();
    options.tuning = Tuning::kOff;
    options.device = is_gpu() ? "cuda" : "cpu";
    return options;
  }
  std::shared_ptr<const LoadedEngine> load(const Graph& graph) {
    Compiled compiled = compile_from(graph, Stage::kImport, options());
    if (is_gpu()) return graft::load(std::move(compiled.engine), "cuda", 1);
    if (is_host()) {
      return load_code(std::make_shared<const Engine>(queued(std::move(compiled.engine))), queued_steps(), device_);
    }
    return load_code(std::make_shared<const Engine>(std::move(compiled.engine)), {}, device_);
  }
  /// Every case several times in one session, alone and in turn.
  void expect_all(const std::string& text, const std::vector<TensorsByName>& cases) {
    const Graph graph = inferred(text);
    Session session(load(graph), 1);
    for (const TensorsByName& each : cases) {
      for (int i = 0; i < kRuns; ++i) expect_results(session, graph, each, kTolerance);
    }
    for (const TensorsByName& each : cases) expect_results(session, graph, each, kTolerance);
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<HostDevice> host_;
};

TEST_P(ControlFlowOnDevice, a_loop_collects_its_rounds) { expect_all(kSums, {sums(9), sums(1), sums(0), sums(2000)}); }

TEST_P(ControlFlowOnDevice, a_loop_of_known_length_writes_into_outputs_of_known_size) {
  expect_all(kKnown, {{{"x", floats({1, 3}, {1, 2, 3})}}, {{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}}});
}

TEST_P(ControlFlowOnDevice, a_condition_ends_a_loop_early_and_branches_nest_in_it) {
  const auto given = [](float bound, bool going) {
    return TensorsByName{{"x", floats({2}, {1, 2})}, {"bound", floats({}, {bound})}, {"going", boolean(going)}};
  };
  expect_all(kWhile, {given(100, true), given(1, true), given(100, false), given(1e6f, true)});
}

TEST_P(ControlFlowOnDevice, a_carried_shape_may_grow_in_each_round) {
  expect_all(kGrows, {{{"x", floats({2}, {1, 2})}, {"limit", integer(5)}},
                      {{"x", floats({1}, {3})}, {"limit", integer(0)}},
                      {{"x", floats({3}, {1, 2, 3})}, {"limit", integer(40)}}});
}

TEST_P(ControlFlowOnDevice, branches_may_give_other_shapes) {
  const TensorData x = floats({2, 2}, {0, 1, 2, 3});
  expect_all(kBranches, {{{"x", x}, {"c", boolean(true)}}, {{"x", x}, {"c", boolean(false)}}});
}

/// A Scan backwards over the second axis of x f32[n, length], with what it sums and each sum squared.
constexpr const char* kScan = R"(graph "scan" {
  opset "" 28
  input %x: f32[n, length]
  input %start: f32[n]
  %sum: ?, %squares: ? = Scan "scan" (%start, %x) {body = graph "body" {
    input %s: f32[n]
    input %e: f32[n]
    %next: ? = Add "add" (%s, %e)
    %square: ? = Mul "square" (%next, %next)
    output %next
    output %square
  }, num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], captures = [0]}
  output %sum
  output %squares
})";

TEST_P(ControlFlowOnDevice, a_scan_takes_its_elements_where_they_lie) {
  const TensorData start = floats({2}, {0.5, -1});
  expect_all(kScan, {{{"x", floats({2, 7}, {1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4, -5, -6, -7})}, {"start", start}},
                     {{"x", floats({2, 1}, {3, 4})}, {"start", start}}});
}

TEST_P(ControlFlowOnDevice, tensors_of_the_caller_may_lie_there) {
  const Graph graph = inferred(kSums);
  Session session(load(graph), 1);
  const std::vector<float> x{1, 2}, start{0, 10};
  const int64_t limit = 6;
  const auto stream = device_->make_stream();
  const auto sent = [&](const void* data, size_t bytes) {
    void* memory = stream->allocate(256);
    stream->upload(memory, data, bytes);
    return memory;
  };
  const std::vector<BufferView> inputs{{sent(x.data(), 8), DType::kFloat32, {2}, {}, true},
                                       {sent(&limit, 8), DType::kInt64, {}, {}, true},
                                       {sent(start.data(), 8), DType::kFloat32, {2}, {}, true}};
  for (int i = 0; i < kRuns; ++i) {
    std::vector<BufferView> outputs(2);
    for (BufferView& output : outputs) output.on_device = true;
    Status status = session.run(inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    status = session.wait();
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<float> sum(2), seen(12);
    stream->download(sum.data(), outputs[0].data, 8);
    EXPECT_EQ(outputs[1].shape, (std::vector<int64_t>{6, 2}));
    stream->download(seen.data(), outputs[1].data, 48);
    EXPECT_EQ(sum, (std::vector<float>{6, 22}));
    EXPECT_EQ(seen, (std::vector<float>{0, 10, 1, 12, 2, 14, 3, 16, 4, 18, 5, 20}));
  }
  for (const BufferView& input : inputs) stream->release(input.data);
}

TEST_P(ControlFlowOnDevice, an_index_out_of_range_in_a_round_names_the_node_and_the_session_stays_usable) {
  const Graph graph = inferred(R"(graph "picks" {
  opset "" 28
  input %x: f32[n]
  input %limit: i64[]
  input %start: f32[]
  %sum: ? = Loop "loop" (%limit, _, %start, %x) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: ?
    input %x: ?
    %e: ? = Gather "pick" (%x, %i) {axis = 0}
    %next: ? = Add "add" (%s, %e)
    output %c
    output %next
  }, captures = [1]}
  output %sum
})");
  Session session(load(graph), 1);
  const auto given = [](int64_t limit) {
    return TensorsByName{{"x", floats({3}, {1, 2, 3})}, {"limit", integer(limit)}, {"start", floats({}, {0})}};
  };
  for (int i = 0; i < 2; ++i) {
    expect_results(session, graph, given(3), kTolerance);
    const Results results = run(session, graph, given(5));
    EXPECT_EQ(results.status.kind(), ErrorKind::kInvalidArgument) << results.status.message();
    EXPECT_NE(results.status.message().find("'pick'"), std::string::npos) << results.status.message();
  }
  expect_results(session, graph, given(2), kTolerance);
}

TEST_P(ControlFlowOnDevice, a_deadline_ends_an_endless_loop_and_the_session_stays_usable) {
  const Graph graph = inferred(endless("Neg \"negate\" (%s)"));
  Session session(load(graph), 1);
  session.set_deadline(0.2);
  for (int i = 0; i < 2; ++i) {
    const Results results = run(session, graph, {{"x", floats({2}, {1, 2})}});
    EXPECT_EQ(results.status.kind(), ErrorKind::kCancelled) << results.status.message();
  }
}

TEST_P(ControlFlowOnDevice, the_memory_limit_ends_a_loop_that_grows_for_ever) {
  const Graph graph = inferred(endless("Concat \"join\" (%s, %s) {axis = 0}"));
  Session session(load(graph), 1);
  session.set_memory_limit(int64_t{1} << 20);
  const Results results = run(session, graph, {{"x", floats({2}, {1, 2})}});
  EXPECT_EQ(results.status.kind(), ErrorKind::kOutOfMemory) << results.status.message();
}

INSTANTIATE_TEST_SUITE_P(all, ControlFlowOnDevice, testing::Values("paged", "host", "cuda"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace graft
