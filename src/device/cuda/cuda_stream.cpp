// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_stream.h"

#include <algorithm>
#include <climits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "device/cuda/decisions.h"
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
constexpr int kIf = 0, kWhile = 1;                   // CU_GRAPH_COND_TYPE_*
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
                                    .attribute_count = overlaps() ? 1U : 0U};
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
    recording_ = true;
  }
  std::shared_ptr<DeviceGraph> end_recording() override {
    const Current current(context_);
    recording_ = false;
    Handle recorded = nullptr;
    check(driver().end_capture(stream_, &recorded), "recording launches");
    return std::make_shared<CudaGraph>(context_, recorded);
  }
  void abandon_recording() noexcept override {
    quietly(context_, [&] {
      Handle recorded = nullptr;
      driver().end_capture(stream_, &recorded);
      if (!parts_.empty()) recorded = parts_.front().around;  // which holds the graphs of parts
      if (recorded) driver().graph_destroy(recorded);
    });
    parts_.clear();
    recording_ = false;
  }
  bool is_recording() const override { return recording_; }
  void replay(const DeviceGraph& graph) override {
    const Current current(context_);
    const Handle stream = behind_ ? callers_ : stream_;
    check(driver().graph_launch(static_cast<const CudaGraph&>(graph).ready(), stream), "launching a graph");
  }

  bool can_decide() override {
    const Current current(context_);
    if (!decisions_) decisions_ = cuda::decisions_in(context_);
    return decisions_ != nullptr;
  }
  void begin_branch(const void* flag, bool wanted) override { begin_part(kIf, flag, wanted); }
  void begin_loop(const void* flag) override { begin_part(kWhile, flag, true); }
  void end_part() override {
    const Current current(context_);
    const Part part = parts_.back();
    if (part.condition == kWhile) decide(part.handle, part.flag, true);
    Handle graph = nullptr;
    check(driver().end_capture(stream_, &graph), "recording a part");
    check(driver().begin_capture_to_graph(stream_, part.around, &part.node, nullptr, 1, kThreadLocal),
          "recording what follows a part");
    behind_part_ = true;
    parts_.pop_back();
  }
  void set_count(RoundCount* count, int64_t round, int64_t limit, const void* condition) override {
    void* arguments[] = {&count, &round, &limit, &condition};
    launch_own(decisions_->set_count, 1, 1, arguments);
  }
  void count_round(RoundCount* count, const void* condition) override {
    void* arguments[] = {&count, &condition};
    launch_own(decisions_->count_round, 1, 1, arguments);
  }
  void copy_of_round(void* to, const void* from, size_t bytes, const RoundCount* count) override {
    constexpr size_t kThreads = 256, kWord = 16, kMostBlocks = 1024;
    const size_t blocks = std::clamp<size_t>(bytes / (kThreads * kWord), 1, kMostBlocks);
    void* arguments[] = {&to, &from, &bytes, &count};
    launch_own(decisions_->copy_of_round, static_cast<unsigned>(blocks), kThreads, arguments);
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
  /// A part of a recording, whose work goes into a graph of its own.
  struct Part {
    int condition = kIf;
    Handle around = nullptr;  ///< the graph that the part's node is in
    Handle node = nullptr;
    unsigned long long handle = 0;
    const void* flag = nullptr;
  };

  /// Whether a launch may begin before the one before it has ended. Nobody knows what it is behind in a graph of the
  /// caller's, and a part is no kernel.
  bool overlaps() { return !std::exchange(behind_part_, false) && overlaps_ && !captured_; }
  void launch_own(Handle function, unsigned blocks, unsigned threads, void** arguments) {
    catch_up();
    const Current current(context_);
    const cuda::LaunchConfig config{.grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .stream = stream_};
    check(driver().launch(&config, function, arguments, nullptr), "launching a kernel");
    behind_part_ = false;
  }
  void decide(unsigned long long handle, const void* flag, unsigned wanted) {
    void* arguments[] = {&handle, &flag, &wanted};
    launch_own(decisions_->decide, 1, 1, arguments);
  }
  /// Libraries put their work into this one stream, so that what is around a part is not recorded meanwhile.
  void begin_part(int condition, const void* flag, bool wanted) {
    const Current current(context_);
    constexpr const char* kWhat = "recording a part";
    int status = 0;
    uint64_t number = 0;
    Handle graph = nullptr;
    const Handle* before = nullptr;
    const void* edges = nullptr;
    size_t count = 0;
    Part part{.condition = condition, .flag = flag};
    check(driver().capture_info(stream_, &status, &number, &graph, &before, &edges, &count), kWhat);
    check(driver().conditional_handle(&part.handle, graph, context_, 0, 0), kWhat);
    decide(part.handle, flag, wanted ? 1 : 0);
    check(driver().capture_info(stream_, &status, &number, &graph, &before, &edges, &count), kWhat);
    const std::vector<Handle> last(before, before + count);
    check(driver().end_capture(stream_, &part.around), kWhat);
    cuda::ConditionalNode node{.handle = part.handle, .condition = condition, .context = context_};
    parts_.push_back(part);
    check(driver().graph_add_node(&parts_.back().node, part.around, last.data(), nullptr, last.size(), &node), kWhat);
    check(driver().begin_capture_to_graph(stream_, node.graphs[0], nullptr, nullptr, 0, kThreadLocal), kWhat);
    behind_part_ = true;
  }
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
  bool recording_ = false;
  bool behind_part_ = false;  ///< the next launch is the first of a part, or the first behind one
  std::vector<Part> parts_;   ///< the innermost last
  const cuda::Decisions* decisions_ = nullptr;
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
