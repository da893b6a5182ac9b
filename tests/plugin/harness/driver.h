// SPDX-License-Identifier: Apache-2.0
// A GPU through the driver's interface: memory, a stream, graphs. Every failure ends the process with a line.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace harness {

[[noreturn]] inline void fail(const std::string& message) {
  std::fprintf(stderr, "FAILED: %s\n", message.c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

inline void require(bool good, const std::string& message) {
  if (!good) fail(message);
}

inline void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  fail(std::string(what) + ": " + (text ? text : "unknown error"));
}

/// The first GPU, current to this thread, and a stream on it.
class Gpu {
 public:
  Gpu() {
    check(cuInit(0), "starting the driver");
    check(cuDeviceGet(&device_, 0), "finding a GPU");
    check(cuDevicePrimaryCtxRetain(&context_, device_), "making a context");
    check(cuCtxPushCurrent(context_), "making the context current");
    check(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "making a stream");
  }
  std::string name() const {
    char text[128] = {};
    cuDeviceGetName(text, sizeof text, device_);
    return text;
  }
  CUstream stream() const { return stream_; }
  void wait() const { check(cuStreamSynchronize(stream_), "waiting for the GPU"); }

  /// What `work` puts into the stream, as a graph that is not run yet. No call that a capture forbids may be in it,
  /// such as an allocation.
  CUgraphExec capture(const std::function<void()>& work) const {
    check(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), "beginning a capture");
    work();
    CUgraph graph = nullptr;
    check(cuStreamEndCapture(stream_, &graph), "ending a capture");
    CUgraphExec ready = nullptr;
    check(cuGraphInstantiateWithFlags(&ready, graph, 0), "making a graph");
    return ready;
  }
  void replay(CUgraphExec graph) const { check(cuGraphLaunch(graph, stream_), "launching a graph"); }

 private:
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
};

/// Memory on the GPU with bytes behind it that nobody may write.
class Memory {
 public:
  Memory(const Gpu& gpu, size_t bytes) : gpu_(gpu), bytes_(bytes) {
    check(cuMemAlloc(&address_, bytes_ + kGuard), "allocating");
    clear();
  }
  ~Memory() { cuMemFree(address_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() const { return reinterpret_cast<void*>(address_); }
  void clear() const {
    check(cuMemsetD8Async(address_, kPattern, bytes_ + kGuard, gpu_.stream()), "filling memory");
    gpu_.wait();
  }
  void upload(const std::vector<char>& from) const {
    if (from.empty()) return;
    check(cuMemcpyHtoDAsync(address_, from.data(), from.size(), gpu_.stream()), "copying to the GPU");
    gpu_.wait();
  }
  /// The contents; ends the process where somebody wrote behind them.
  std::vector<char> download(const std::string& name) const {
    std::vector<char> to(bytes_ + kGuard);
    check(cuMemcpyDtoHAsync(to.data(), address_, to.size(), gpu_.stream()), "copying from the GPU");
    gpu_.wait();
    for (size_t i = bytes_; i < to.size(); ++i) {
      require(static_cast<unsigned char>(to[i]) == kPattern, "something was written behind the end of " + name);
    }
    to.resize(bytes_);
    return to;
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr unsigned char kPattern = 0xab;
  const Gpu& gpu_;
  size_t bytes_;
  CUdeviceptr address_ = 0;
};

}  // namespace harness
