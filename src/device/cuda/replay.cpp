// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/replay.h"

namespace graft::cuda {
namespace {

constexpr int kRelaxedCapture = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED: other threads may allocate meanwhile

/// What `work` puts into the stream, ready to be launched again.
class Graph {
 public:
  Graph(Handle stream, const std::function<void()>& work) {
    check(driver().capture_begin(stream, kRelaxedCapture), "a capture cannot begin");
    try {
      work();
    } catch (...) {
      driver().capture_end(stream, &graph_);
      release();
      throw;
    }
    const Result end = driver().capture_end(stream, &graph_);
    const Result made = end == 0 ? driver().graph_instantiate(&executable_, graph_, 0) : end;
    if (made != 0) release();
    check(made, "the work cannot be captured");
  }
  ~Graph() { release(); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(Handle stream) const { check(driver().graph_launch(executable_, stream), "replaying a graph"); }

 private:
  void release() {
    if (executable_) driver().graph_exec_destroy(executable_);
    if (graph_) driver().graph_destroy(graph_);
  }
  Handle graph_ = nullptr, executable_ = nullptr;
};

class Event {
 public:
  Event() { check(driver().event_create(&event_, 0), "an event cannot be made"); }
  ~Event() { driver().event_destroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(Handle stream) const { check(driver().event_record(event_, stream), "recording an event"); }
  void wait() const { check(driver().event_wait(event_), "waiting for the GPU"); }
  double milliseconds_since(const Event& earlier) const {
    float milliseconds = 0;
    check(driver().event_elapsed(&milliseconds, earlier.event_, event_), "reading an event");
    return milliseconds;
  }

 private:
  Handle event_ = nullptr;
};

}  // namespace

double time_replays(Handle stream, const std::function<void()>& work, int repetitions) {
  const Graph graph(stream, work);
  const Event begin, end;
  graph.launch(stream);  // the first launch also brings the graph to the GPU
  begin.record(stream);
  for (int i = 0; i < repetitions; ++i) graph.launch(stream);
  end.record(stream);
  end.wait();
  return end.milliseconds_since(begin) / repetitions;
}

}  // namespace graft::cuda
