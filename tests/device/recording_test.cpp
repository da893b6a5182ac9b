// SPDX-License-Identifier: Apache-2.0
// What a session records and replays, on a device whose work is functions of the host.
#include <gtest/gtest.h>

#include <cstring>

#include "device/host_device.h"
#include "runtime/session.h"

namespace graft {
namespace {

using namespace graft_test;

/// Copies through scratch memory, of which it wants more with every row.
class CopyThroughScratch : public ReadyLibraryCall {
 public:
  CopyThroughScratch(HostStream& stream, int64_t rows, int64_t columns)
      : stream_(stream), rows_(rows), columns_(columns) {}
  int64_t slices() const override { return 1; }
  int64_t scratch_bytes() const override { return rows_ * 4096; }
  int run(int64_t, void* const* buffers, void* scratch) const override {
    const auto bytes = static_cast<size_t>(rows_ * columns_) * sizeof(float);
    stream_.queue([this, bytes, scratch, from = buffers[0], to = buffers[1]] {
      ASSERT_TRUE(stream_.holds(scratch)) << "scratch memory is used that was given back";
      std::memcpy(scratch, from, bytes);
      std::memcpy(to, scratch, bytes);
    });
    return 0;
  }

 private:
  HostStream& stream_;
  int64_t rows_, columns_;
};

LibrarySource copies() {
  return [](const Engine&, const EngineStep&, const Bindings& sizes, const LibraryPlace& place) {
    return std::make_shared<const CopyThroughScratch>(*static_cast<HostStream*>(place.stream), sizes.at("rows"),
                                                      sizes.at("columns"));
  };
}

/// y = x, of two open sizes, by the library above.
std::shared_ptr<const Engine> copying_engine() {
  Engine engine;
  const Shape shape{Size::symbol("rows"), Size::symbol("columns")};
  for (const Storage storage : {Storage::kInput, Storage::kOutput}) {
    engine.tensors.push_back({.name = storage == Storage::kInput ? "x" : "y",
                              .type = DType::kFloat32,
                              .shape = shape,
                              .bytes = shape[0] * shape[1] * Size(4),
                              .storage = storage,
                              .index = 0});
  }
  engine.inputs = {0};
  engine.outputs = {1};
  EngineStep step;
  step.name = "copy";
  step.kind = StepKind::kLibrary;
  step.library = "copies";
  step.tensors = {0, 1};
  step.input_count = 1;
  engine.steps.push_back(std::move(step));
  engine.symbols = {{"rows", {}}, {"columns", {}}};
  return std::make_shared<const Engine>(std::move(engine));
}

TEST(Recording, is_made_anew_when_scratch_memory_moves) {
  const auto device = std::make_shared<HostDevice>();
  Session session(load_code(copying_engine(), copies(), device), 1);
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8}, y(8);
  const auto run = [&](int64_t rows) {
    x[0] += 1;
    const BufferView input{x.data(), DType::kFloat32, {rows, 8 / rows}, {}};
    BufferView output{y.data(), DType::kFloat32, {rows, 8 / rows}, {}};
    const Status status = session.run({&input, 1}, {&output, 1});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(y, x);
  };
  for (int i = 0; i < 3; ++i) run(1);
  EXPECT_EQ(device->replays, 2);
  run(4);  // its tensors lie where the others' do, but it wants more scratch memory
  for (int i = 0; i < 3; ++i) run(1);
  EXPECT_EQ(device->replays, 4);
}

TEST(Recording, is_neither_made_nor_replayed_while_the_callers_stream_is_captured) {
  const auto device = std::make_shared<HostDevice>();
  Session session(load_code(copying_engine(), copies(), device), 1);
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8}, y(8);
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const BufferView input{x.data(), DType::kFloat32, {2, 4}, {}};
      BufferView output{y.data(), DType::kFloat32, {2, 4}, {}};
      ASSERT_TRUE(session.run({&input, 1}, {&output, 1}).ok());
    }
  };
  run(3);
  EXPECT_EQ(device->replays, 2);
  EXPECT_FALSE(session.was_captured());
  device->captured = true;
  run(3);
  EXPECT_EQ(device->replays, 2);
  EXPECT_TRUE(session.was_captured());
}

/// A loop around that copy, whose body gives its condition back: (limit, x) -> x.
std::shared_ptr<const Engine> looping_engine() {
  const std::shared_ptr<const Engine> copy = copying_engine();
  const auto scalar = [](const char* name, DType type, int index) {
    const Size bytes(bit_width(type) / 8);
    return EngineTensor{
        .name = name, .type = type, .shape = {}, .bytes = bytes, .storage = Storage::kInput, .index = index};
  };
  Engine body = *copy;
  body.tensors.push_back(scalar("round", DType::kInt64, 0));
  body.tensors.push_back(scalar("condition", DType::kBool, 1));
  body.tensors[0].index = 2;
  body.tensors[1].index = 1;
  body.inputs = {2, 3, 0};
  body.outputs = {3, 1};
  Engine engine = *copy;
  engine.tensors.push_back(scalar("limit", DType::kInt64, 0));
  engine.tensors[0].index = 1;
  engine.inputs = {2, 0};
  EngineStep& step = engine.steps[0];
  step.name = "loop";
  step.kind = StepKind::kControl;
  step.operators = {"Loop"};
  step.library.clear();
  step.tensors = {2, 0, 1};
  step.input_count = 2;
  step.control = {.kind = ControlFlow::Kind::kLoop, .has_limit = true, .carried = 1, .captured = {0}, .results = {0}};
  step.bodies = {std::make_shared<const Engine>(std::move(body))};
  return std::make_shared<const Engine>(std::move(engine));
}

TEST(Recording, rounds_are_replayed_and_read_no_condition_that_their_body_gives_back) {
  const auto device = std::make_shared<HostDevice>();
  Session session(load_code(looping_engine(), copies(), device), 1);
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8}, y(8);
  constexpr int64_t kRounds = 20;
  // The first round reads the caller's memory and the others one of two places: each is new once, then recorded.
  int64_t expected = kRounds - 3;
  for (int run = 0; run < 3; ++run, expected += kRounds) {
    x[0] += 1;
    device->downloads = 0;
    int64_t limit = kRounds;
    const std::vector<BufferView> inputs{{&limit, DType::kInt64, {}, {}}, {x.data(), DType::kFloat32, {2, 4}, {}}};
    BufferView output{y.data(), DType::kFloat32, {2, 4}, {}};
    const Status status = session.run(inputs, {&output, 1});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(y, x);
    EXPECT_EQ(device->replays, expected);
    EXPECT_EQ(device->downloads, 2);  // what the steps of the graph and of the body found, and the result
  }
}

}  // namespace
}  // namespace graft
