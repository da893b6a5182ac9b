// SPDX-License-Identifier: Apache-2.0
// A device for tests whose memory is the host's and whose work is functions of the host: it runs at once, or when what
// was recorded is replayed.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "runtime/library_call.h"

namespace graft_test {

using Work = std::function<void()>;

struct RecordedWork : graft::DeviceGraph {
  std::vector<Work> work;
};

/// What its streams do, and have done.
struct HostDeviceState {
  int replays = 0, downloads = 0;
  bool captured = false;  ///< the caller's stream is
  bool decides = false;   ///< recordings may hold branches and loops
};

class HostStream : public graft::DeviceStream {
 public:
  explicit HostStream(HostDeviceState& state) : state_(state) {}
  ~HostStream() override;
  void queue(Work work);
  bool holds(const void* memory) const { return blocks_.contains(const_cast<void*>(memory)); }

  void use(void*) override {}
  void* native() override { return this; }
  std::unique_ptr<graft::DeviceScope> enter() override { return nullptr; }
  void begin_run() override {}
  void end_run() override {}
  void catch_up() override {}
  void* allocate(int64_t bytes) override;
  void release(void* memory) noexcept override;
  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void clear(void* memory, size_t bytes) override;
  void launch(const graft::DeviceKernel&, int64_t, void**) override;
  void wait() override {}
  void begin_recording() override { recording_ = std::make_shared<RecordedWork>(); }
  std::shared_ptr<graft::DeviceGraph> end_recording() override { return std::exchange(recording_, nullptr); }
  void abandon_recording() noexcept override { recording_ = nullptr, parts_.clear(); }
  void replay(const graft::DeviceGraph& graph) override;
  void mark(int) override {}
  double elapsed_us(int, int) override { return 0; }
  bool is_captured() const override { return state_.captured; }
  bool is_recording() const override { return recording_ != nullptr; }
  bool can_decide() override { return state_.decides; }
  void begin_branch(const void* flag, bool wanted) override { parts_.push_back({flag, wanted, false, {}}); }
  void begin_loop(const void* flag) override { parts_.push_back({flag, true, true, {}}); }
  void end_part() override;
  void set_count(graft::RoundCount* count, int64_t round, int64_t limit, const void* condition) override;
  void count_round(graft::RoundCount* count, const void* condition) override;
  void copy_of_round(void* to, const void* from, size_t bytes, const graft::RoundCount* count) override;

 private:
  struct Part {
    const void* flag;
    bool wanted, loops;
    std::vector<Work> work;
  };
  HostDeviceState& state_;
  std::set<void*> blocks_;
  std::shared_ptr<RecordedWork> recording_;
  std::vector<Part> parts_;
};

class HostDevice : public graft::Device, public HostDeviceState {
 public:
  const std::string& name() const override { return name_; }
  double peak_gflops(bool) const override { return 0; }
  std::unique_ptr<graft::DeviceStream> make_stream() override { return std::make_unique<HostStream>(*this); }
  std::shared_ptr<const graft::DeviceModule> load(std::span<const std::byte>) override { return nullptr; }
  std::vector<graft::DeviceActivity> trace(const std::function<void()>& work) override {
    work();
    return {{"work", 1, 2}};
  }

 private:
  std::string name_ = "host";
};

/// The engine whose interpreted steps, also those of bodies, are queued into a HostStream as calls of a library.
graft::Engine queued(graft::Engine interpreted);
/// That library.
graft::LibrarySource queued_steps();

}  // namespace graft_test
