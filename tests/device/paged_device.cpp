// SPDX-License-Identifier: Apache-2.0
#include "device/paged_device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "base/error.h"

namespace graft_test {
namespace {

/// Allocations as pages that nobody may touch, each with a shadow that holds the bytes.
class Pages {
 public:
  explicit Pages(int good_uploads) : good_uploads_(good_uploads) {}
  ~Pages() { EXPECT_TRUE(blocks_.empty()) << blocks_.size() << " allocations were not released"; }

  void* allocate(size_t bytes) {
    void* pages = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw graft::Error(graft::ErrorKind::kOutOfMemory, "no pages", "paged device");
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<char*>(pages)].resize(bytes);
    return pages;
  }
  void release(void* memory) {
    if (!memory) return;
    const std::lock_guard lock(mutex_);
    const auto at = blocks_.find(static_cast<char*>(memory));
    ASSERT_NE(at, blocks_.end()) << "what was never allocated is released";
    munmap(memory, at->second.size());
    blocks_.erase(at);
  }
  void count_upload() {
    if (good_uploads_-- <= 0) throw graft::Error(graft::ErrorKind::kDevice, "the cable is out", "paged device");
  }
  /// Where the bytes of [memory, memory + bytes) are.
  char* shadow(const void* memory, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto* place = static_cast<const char*>(memory);
    for (auto& [begin, block] : blocks_) {
      if (place >= begin && place + bytes <= begin + block.size()) return block.data() + (place - begin);
    }
    throw graft::Error(graft::ErrorKind::kInternal, "memory beyond an allocation is used", "paged device");
  }

 private:
  std::mutex mutex_;
  std::map<char*, std::vector<char>> blocks_;
  std::atomic<int> good_uploads_;
};

class PagedStream : public graft::DeviceStream {
 public:
  explicit PagedStream(std::shared_ptr<Pages> pages) : pages_(std::move(pages)) {}
  void use(void*) override {}
  void* native() override { return nullptr; }
  std::unique_ptr<graft::DeviceScope> enter() override { return nullptr; }
  void begin_run() override {}
  void end_run() override {}
  void catch_up() override {}
  void* allocate(int64_t bytes) override { return pages_->allocate(static_cast<size_t>(std::max<int64_t>(bytes, 1))); }
  void release(void* memory) noexcept override { pages_->release(memory); }
  void upload(void* to, const void* from, size_t bytes) override {
    pages_->count_upload();
    if (bytes > 0) std::memcpy(pages_->shadow(to, bytes), from, bytes);
  }
  void download(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, pages_->shadow(from, bytes), bytes);
  }
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memmove(pages_->shadow(to, bytes), pages_->shadow(from, bytes), bytes);
  }
  void clear(void* memory, size_t bytes) override { std::memset(pages_->shadow(memory, bytes), 0, bytes); }
  void launch(const graft::DeviceKernel&, int64_t, void**) override { refuse(); }
  void wait() override {}
  void begin_recording() override { refuse(); }
  std::shared_ptr<graft::DeviceGraph> end_recording() override { return nullptr; }
  void abandon_recording() noexcept override {}
  void replay(const graft::DeviceGraph&) override { refuse(); }
  void mark(int) override {}
  double elapsed_us(int, int) override { return 0; }

 private:
  static void refuse() { throw graft::Error(graft::ErrorKind::kInternal, "it runs no kernels", "paged device"); }
  std::shared_ptr<Pages> pages_;
};

class PagedDevice : public graft::Device {
 public:
  explicit PagedDevice(int good_uploads) : pages_(std::make_shared<Pages>(good_uploads)) {}
  const std::string& name() const override { return name_; }
  double peak_gflops(bool) const override { return 0; }
  std::unique_ptr<graft::DeviceStream> make_stream() override { return std::make_unique<PagedStream>(pages_); }
  std::shared_ptr<const graft::DeviceModule> load(std::span<const std::byte>) override {
    throw graft::Error(graft::ErrorKind::kInternal, "it loads no kernels", "paged device");
  }
  std::vector<graft::DeviceActivity> trace(const std::function<void()>&) override {
    throw graft::Error(graft::ErrorKind::kDevice, "it runs no kernels", "paged device");
  }

 private:
  std::string name_ = "paged memory";
  std::shared_ptr<Pages> pages_;
};

}  // namespace

std::shared_ptr<graft::Device> make_paged_device(int good_uploads) {
  return std::make_shared<PagedDevice>(good_uploads);
}

}  // namespace graft_test
