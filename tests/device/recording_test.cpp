// SPDX-License-Identifier: Apache-2.0
// What a session records and replays, on a device whose work is functions of the host.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>

#include "device/device.h"
#include "runtime/session.h"

namespace graft {
namespace {

using Work = std::function<void()>;

struct RecordedWork : DeviceGraph {
  std::vector<Work> work;
};

/// Memory of the host; what is queued runs at once, or when it is replayed.
class HostStream : public DeviceStream {
 public:
  explicit HostStream(int& replays) : replays_(replays) {}
  ~HostStream() override { EXPECT_TRUE(blocks_.empty()) << "memory was not released"; }

  void queue(Work work) {
    if (!recording_) return work();
    recording_->work.push_back(std::move(work));
  }
  bool holds(const void* memory) const { return blocks_.contains(const_cast<void*>(memory)); }

  void use(void*) override {}
  void* native() override { return this; }
  std::unique_ptr<DeviceScope> enter() override { return nullptr; }
  void begin_run() override {}
  void end_run() override {}
  void catch_up() override {}
  void* allocate(int64_t bytes) override {
    return *blocks_.insert(std::aligned_alloc(256, static_cast<size_t>(bytes + 255) / 256 * 256)).first;
  }
  void release(void* memory) noexcept override {
    EXPECT_EQ(blocks_.erase(memory), 1U);
    std::free(memory);
  }
  void upload(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override {
    queue([=] { std::memmove(to, from, bytes); });
  }
  void clear(void* memory, size_t bytes) override { std::memset(memory, 0, bytes); }
  void launch(const DeviceKernel&, int64_t, void**) override { FAIL() << "there are no kernels"; }
  void wait() override {}
  void begin_recording() override { recording_ = std::make_shared<RecordedWork>(); }
  std::shared_ptr<DeviceGraph> end_recording() override { return std::exchange(recording_, nullptr); }
  void replay(const DeviceGraph& graph) override {
    ++replays_;
    for (const Work& work : static_cast<const RecordedWork&>(graph).work) work();
  }
  void mark(int) override {}
  double elapsed_us(int, int) override { return 0; }

 private:
  int& replays_;
  std::set<void*> blocks_;
  std::shared_ptr<RecordedWork> recording_;
};

class HostDevice : public Device {
 public:
  const std::string& name() const override { return name_; }
  double peak_gflops(bool) const override { return 0; }
  std::unique_ptr<DeviceStream> make_stream() override { return std::make_unique<HostStream>(replays); }
  std::shared_ptr<const DeviceModule> load(std::span<const std::byte>) override { return nullptr; }
  std::vector<DeviceActivity> trace(const std::function<void()>& work) override {
    work();
    return {{"work", 1, 2}};
  }
  int replays = 0;

 private:
  std::string name_ = "host";
};

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
  const LibrarySource source = [](const Engine&, const EngineStep&, const Bindings& sizes, const LibraryPlace& place) {
    return std::make_shared<const CopyThroughScratch>(*static_cast<HostStream*>(place.stream), sizes.at("rows"),
                                                      sizes.at("columns"));
  };
  Session session(load_code(copying_engine(), source, device), 1);
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

}  // namespace
}  // namespace graft
