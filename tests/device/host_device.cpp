// SPDX-License-Identifier: Apache-2.0
#include "device/host_device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "runtime/interpret_step.h"

namespace graft_test {

using namespace graft;

HostStream::~HostStream() { EXPECT_TRUE(blocks_.empty()) << "memory was not released"; }

void HostStream::queue(Work work) {
  if (!recording_) return work();
  (parts_.empty() ? recording_->work : parts_.back().work).push_back(std::move(work));
}

void* HostStream::allocate(int64_t bytes) {
  return *blocks_.insert(std::aligned_alloc(256, static_cast<size_t>(bytes + 255) / 256 * 256)).first;
}
void HostStream::release(void* memory) noexcept {
  EXPECT_EQ(blocks_.erase(memory), 1U);
  std::free(memory);
}
void HostStream::upload(void* to, const void* from, size_t bytes) {
  EXPECT_FALSE(recording_) << "a recording waits for nothing";
  std::memcpy(to, from, bytes);
}
void HostStream::download(void* to, const void* from, size_t bytes) {
  ++state_.downloads;
  EXPECT_FALSE(recording_) << "a recording waits for nothing";
  std::memcpy(to, from, bytes);
}
void HostStream::copy(void* to, const void* from, size_t bytes) {
  queue([=] { std::memmove(to, from, bytes); });
}
void HostStream::clear(void* memory, size_t bytes) { std::memset(memory, 0, bytes); }
void HostStream::launch(const DeviceKernel&, int64_t, void**) { FAIL() << "there are no kernels"; }

void HostStream::replay(const DeviceGraph& graph) {
  ++state_.replays;
  for (const Work& work : static_cast<const RecordedWork&>(graph).work) work();
}

void HostStream::end_part() {
  Part part = std::move(parts_.back());
  parts_.pop_back();
  queue([part = std::move(part)] {
    const auto runs = [&] { return (*static_cast<const uint8_t*>(part.flag) != 0) == part.wanted; };
    while (runs()) {
      for (const Work& work : part.work) work();
      if (!part.loops) break;
    }
  });
}

void HostStream::set_count(RoundCount* count, int64_t round, int64_t limit, const void* condition) {
  queue([=] {
    *count = {round, limit, round, uint8_t{round < limit && *static_cast<const uint8_t*>(condition) != 0}, 0};
  });
}
void HostStream::count_round(RoundCount* count, const void* condition) {
  queue([=] {
    count->going = uint8_t{++count->round < count->limit && *static_cast<const uint8_t*>(condition) != 0};
    count->odd ^= 1;
  });
}
void HostStream::copy_of_round(void* to, const void* from, size_t bytes, const RoundCount* count) {
  queue([=] {
    std::memcpy(static_cast<char*>(to) + static_cast<size_t>(count->round - count->first) * bytes, from, bytes);
  });
}

namespace {

constexpr const char* kLibrary = "queued steps";

class QueuedStep : public ReadyLibraryCall {
 public:
  QueuedStep(const Engine& engine, int step, Bindings bindings, HostStream& stream)
      : engine_(engine), step_(step), bindings_(std::move(bindings)), stream_(stream) {}
  int64_t slices() const override { return 1; }
  int64_t scratch_bytes() const override { return 0; }
  int run(int64_t, void* const* buffers, void*) const override {
    const size_t count = engine_.steps[static_cast<size_t>(step_)].tensors.size();
    stream_.queue([this, given = std::vector<void*>(buffers, buffers + count)] {
      interpret_step(engine_, step_, given, bindings_, references_);
    });
    return 0;
  }

 private:
  const Engine& engine_;
  int step_;
  Bindings bindings_;
  HostStream& stream_;
  mutable std::map<int, ReferenceStep> references_;
};

}  // namespace

Engine queued(Engine interpreted) {
  for (EngineStep& step : interpreted.steps) {
    for (auto& body : step.bodies) body = std::make_shared<const Engine>(queued(*body));
    if (step.kind != StepKind::kInterpreter || !step.count_symbol.empty()) continue;
    step.kind = StepKind::kLibrary;
    step.library = kLibrary;
  }
  return interpreted;
}

LibrarySource queued_steps() {
  return [](const Engine& engine, const EngineStep& step, const Bindings& sizes, const LibraryPlace& place) {
    const auto index = static_cast<int>(&step - engine.steps.data());
    return std::make_shared<const QueuedStep>(engine, index, sizes, *static_cast<HostStream*>(place.stream));
  };
}

}  // namespace graft_test
