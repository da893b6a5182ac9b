// SPDX-License-Identifier: Apache-2.0
// TMA descriptors are encoded by the driver once, not at each launch: on an emulated GPU, which counts.
#include <gtest/gtest.h>

#include "device/cuda/cuda_device.h"
#include "graph/infer.h"
#include "modules/kernel_source.h"
#include "plan/build_engine.h"
#include "runtime/session.h"
#include "target/target.h"

extern "C" int64_t graft_emulated_descriptions();

namespace graft {
namespace {

/// A matrix multiplication in blocks of which some warps only copy, by TMA.
Engine product() {
  Graph graph = parse_graph(R"(graph "main" {
  opset "" 21
  input %x: f16[m, 128]
  input %w: f16[128, 128]
  %y: ? = MatMul "product" (%x, %w)
  output %y
})");
  infer_types(graph);
  BuildOptions options{.target = find_target("sm_90a", 2)};
  options.compile_kernels = kernel_code;
  Record record = build_engine(fuse(graph), options).record;
  record.regions.begin()->second.way =
      "generated product m=128 n=128 k=64 threads=256 stages=4 panel=0 producers=128 teams=1 group=1 split=1 early=0";
  options.record = &record;
  return build_engine(fuse(graph), options).engine;
}

TEST(Descriptions, are_made_again_only_when_sizes_or_places_change) {
  Session session(load_code(std::make_shared<const Engine>(product()), {}, open_cuda_device(0)));
  session.set_profiling(true);  // step by step, so that nothing is replayed
  std::vector<uint16_t> x(256 * 128, 0x3C00), w(128 * 128, 0x3C00), y(256 * 128);
  const auto descriptions_of_a_run = [&](int64_t rows) {
    const BufferView inputs[] = {{x.data(), DType::kFloat16, {rows, 128}, {}},
                                 {w.data(), DType::kFloat16, {128, 128}, {}}};
    std::vector<BufferView> outputs = {{y.data(), DType::kFloat16, {rows, 128}, {}}};
    const int64_t before = graft_emulated_descriptions();
    const Status status = session.run(inputs, outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(y[0], 0x5800);  // 128
    return graft_emulated_descriptions() - before;
  };
  EXPECT_GT(descriptions_of_a_run(256), 0);
  EXPECT_EQ(descriptions_of_a_run(256), 0);
  EXPECT_GT(descriptions_of_a_run(128), 0);
  EXPECT_EQ(descriptions_of_a_run(128), 0);
  EXPECT_EQ(descriptions_of_a_run(256), 0);
}

}  // namespace
}  // namespace graft
