// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_stream.h"

#include <algorithm>
#include <climits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch_rule.h"

namespace graft {
namespace {

using cuda::Address;
using cuda::check;
using cuda::Current;
using cuda::driver;
using cuda::Handle;

// Numbers of the driver API.
constexpr unsigned kNonBlocking = 1;                 // CU_STREAM_NON_BLOCKING
constexpr unsigned kDisableTiming = 2;               // CU_EVENT_DISABLE_TIMING
constexpr int kThreadLocal = 1;                      // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
constexpr int kRelaxed = 2;                          // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr uintptr_t kPerThreadStream = 2;            // CU_STREAM_PER_THREAD; 1 is CU_STREAM_LEGACY
constexpr cuda::Result kOutOfMemory = 2;             // CUDA_ERROR_OUT_OF_MEMORY
constexpr int kProgrammaticStreamSerialization = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

Address address(const void* memory) { return reinterpret_cast<Address>(memory); }

/// Runs what must not throw, in the context.
template <class Body>
void quietly(Handle context, const Body& body) noexcept {
  try {
    const Current current(context);
    body();
  } catch (const Error&) {
    // The driver is gone, and what it held with it.
  }
}

class CudaGraph : public DeviceGraph {
 public:
  CudaGraph(Handle context, Handle recorded) : context_(context) {
    const cuda::Result result = driver().graph_instantiate(&ready_, recorded, 0);
    driver().graph_destroy(recorded);
    check(result, "making a graph of launches");
  }
  ~CudaGraph() override {
    quietly(context_, [&] { driver().graph_exec_destroy(ready_); });
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  Handle ready() const { return ready_; }

 private:
  Handle context_, ready_ = nullptr;
};

/// While a stream is captured, this thread may take memory and wait for others all the same.
class CudaScope : public DeviceScope {
 public:
  explicit CudaScope(Handle context) : current_(context) {
    check(driver().exchange_capture_mode(&callers_mode_), "preparing for what is captured");
  }
  ~CudaScope() override { driver().exchange_capture_mode(&callers_mode_); }
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;

 private:
  Current current_;
  int callers_mode_ = kRelaxed;
};

class CudaStream : public DeviceStream {
 public:
  CudaStream(Handle context, bool overlaps) : context_(context), overlaps_(overlaps) {
    const Current current(context_);
    check(driver().stream_create(&stream_, kNonBlocking), "a stream cannot be made");
    check(driver().event_create(&fence_, kDisableTiming), "an event cannot be made");
  }
  ~CudaStream() override {
    quietly(context_, [&] {
      for (const Handle event : marks_) driver().event_destroy(event);
      driver().event_destroy(fence_);
      driver().stream_destroy(stream_);
    });
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  /// What ran in the order of another stream may still be at work in the session's memory.
  void use(void* native) override {
    if (native == callers_) return;
    catch_up();
    callers_ = native;
    if (callers_ && !ask_captured()) follow(callers_, stream_);
  }
  void* native() override { return stream_; }
  std::unique_ptr<DeviceScope> enter() override { return std::make_unique<CudaScope>(context_); }
  void begin_run() override {
    behind_ = callers_ != nullptr;
    captured_ = ask_captured();
  }
  bool is_captured() const override { return captured_; }
  void end_run() override {
    if (callers_ && !behind_) follow(callers_, stream_);
  }
  void catch_up() override {
    if (std::exchange(behind_, false)) follow(stream_, callers_);
  }

  void* allocate(int64_t bytes) override {
    const Current current(context_);
    Address memory = 0;
    const auto rounded = (static_cast<size_t>(std::max<int64_t>(bytes, 1)) + 255) / 256 * 256;
    const cuda::Result result = driver().allocate(&memory, rounded);
    if (result == kOutOfMemory) {
      size_t free = 0, whole = 0;
      driver().memory_info(&free, &whole);
      throw Error(ErrorKind::kOutOfMemory,
                  fmt::format("cannot allocate {} bytes; {} of {} are free", rounded, free, whole), "GPU");
    }
    check(result, fmt::format("cannot allocate {} bytes", rounded));
    return reinterpret_cast<void*>(memory);
  }
  void release(void* memory) noexcept override {
    if (!memory) return;
    quietly(context_, [&] { driver().release(address(memory)); });
  }
  void upload(void* to, const void* from, size_t bytes) override {
    catch_up();
    const Current current(context_);
    if (bytes > 0) check(driver().upload(address(to), from, bytes, stream_), "copying to the GPU");
    wait();
  }
  void download(void* to, const void* from, size_t bytes) override {
    catch_up();
    const Current current(context_);
    if (bytes > 0) check(driver().download(to, address(from), bytes, stream_), "copying from the GPU");
    wait();
  }
  void copy(void* to, const void* from, size_t bytes) override {
    catch_up();
    const Current current(context_);
    if (bytes > 0) check(driver().copy(address(to), address(from), bytes, stream_), "copying on the GPU");
  }
  void clear(void* memory, size_t bytes) override {
    catch_up();
    const Current current(context_);
    check(driver().fill(address(memory), 0, bytes, stream_), "clearing memory");
  }
  void launch(const DeviceKernel& kernel, int64_t grid, void** arguments) override {
    if (const LaunchRule* rule = kernel.rule.get()) {
      if (rule->most_blocks > 0) grid = std::min(grid, rule->most_blocks);
      grid *= rule->cluster;
      const std::span<TensorMap> maps = maps_.of(kernel.rule, arguments);
      arguments_.assign(arguments, arguments + rule->buffers + rule->sizes + 1);
      for (TensorMap& map : maps) arguments_.push_back(&map);
      arguments = arguments_.data();
    }
    GRAFT_USER_CHECK(grid <= INT_MAX, kUnsupported, fmt::format("a launch of {} blocks", grid), "GPU");
    catch_up();
    const Current current(context_);
    cuda::LaunchAttribute early{.id = kProgrammaticStreamSerialization};
    early.number = 1;
    const cuda::LaunchConfig config{.grid = {static_cast<unsigned>(grid), 1, 1},
                                    .block = {static_cast<unsigned>(kernel.threads), 1, 1},
                                    .shared_bytes = static_cast<unsigned>(kernel.shared_bytes),
                                    .stream = stream_,
                                    .attributes = &early,
                                    .attribute_count = overlaps_ && !captured_ ? 1U : 0U};  // behind anybody's node
    check(driver().launch(&config, kernel.function, arguments, nullptr), "launching a kernel");
  }
  void wait() override {
    catch_up();
    const Current current(context_);
    check(driver().stream_wait(stream_), "waiting for the GPU");
  }

  void begin_recording() override {
    catch_up();
    const Current current(context_);
    check(driver().begin_capture(stream_, kThreadLocal), "recording launches");
  }
  std::shared_ptr<DeviceGraph> end_recording() override {
    const Current current(context_);
    Handle recorded = nullptr;
    check(driver().end_capture(stream_, &recorded), "recording launches");
    return std::make_shared<CudaGraph>(context_, recorded);
  }
  void replay(const DeviceGraph& graph) override {
    const Current current(context_);
    const Handle stream = behind_ ? callers_ : stream_;
    check(driver().graph_launch(static_cast<const CudaGraph&>(graph).ready(), stream), "launching a graph");
  }

  void mark(int number) override {
    catch_up();
    const Current current(context_);
    while (static_cast<int>(marks_.size()) <= number) {
      Handle event = nullptr;
      check(driver().event_create(&event, 0), "an event cannot be made");
      marks_.push_back(event);
    }
    check(driver().event_record(marks_[number], stream_), "noting the time");
  }
  double elapsed_us(int from, int to) override {
    const Current current(context_);
    for (const int number : {from, to}) check(driver().event_wait(marks_[number]), "waiting for the GPU");
    float milliseconds = 0;
    check(driver().event_elapsed(&milliseconds, marks_[from], marks_[to]), "reading the time");
    return 1e3 * static_cast<double>(milliseconds);
  }

 private:
  /// The default streams cannot be captured, and asking about them while another one is is an error.
  bool ask_captured() const {
    if (reinterpret_cast<uintptr_t>(callers_) <= kPerThreadStream) return false;
    const Current current(context_);
    int status = 0;
    check(driver().is_capturing(callers_, &status), "asking whether a stream is captured");
    return status != 0;
  }
  /// What `after` queues from now on waits for what `before` holds now.
  void follow(Handle after, Handle before) {
    const Current current(context_);
    check(driver().event_record(fence_, before), "noting a place in a stream");
    check(driver().stream_wait_event(after, fence_, 0), "waiting for another stream");
  }

  Handle context_, stream_ = nullptr, callers_ = nullptr, fence_ = nullptr;
  bool captured_ = false;
  bool behind_ = false;  ///< the caller's stream may hold work that this one's has to wait for
  std::vector<Handle> marks_;
  std::vector<void*> arguments_;  ///< of a launch with a rule
  LaunchedMaps maps_;
  bool overlaps_;
};

}  // namespace

std::unique_ptr<DeviceStream> make_cuda_stream(void* context, bool overlaps) {
  return std::make_unique<CudaStream>(context, overlaps);
}

}  // namespace graft
