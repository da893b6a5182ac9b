// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_device.h"

#include <charconv>
#include <climits>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "device/cuda/driver.h"
#include "device/cuda/replay.h"

namespace graft {
namespace {

using cuda::Address;
using cuda::check;
using cuda::driver;
using cuda::Handle;

// Numbers of the driver API.
constexpr int kComputeMajor = 75, kComputeMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
constexpr int kMaxDynamicShared = 8;                   // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr unsigned kNonBlocking = 1;                   // CU_STREAM_NON_BLOCKING
constexpr cuda::Result kOutOfMemory = 2;               // CUDA_ERROR_OUT_OF_MEMORY

Address address(const void* memory) { return reinterpret_cast<Address>(memory); }

class CudaModule : public DeviceModule {
 public:
  /// `code`: lines `name threads N shared BYTES`, an empty line, and the cubin.
  CudaModule(Handle context, std::span<const std::byte> code) : context_(context) {
    const std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
    const size_t end = text.find("\n\n");
    GRAFT_USER_CHECK(end != text.npos, kDevice, "the code of a unit has no list of kernels", "CUDA");
    const std::vector<std::byte> cubin(code.begin() + static_cast<std::ptrdiff_t>(end) + 2, code.end());
    check(driver().module_load(&module_, cubin.data()), "kernels cannot be loaded");
    std::string_view lines = text.substr(0, end + 1);
    while (!lines.empty()) {
      const size_t stop = lines.find('\n');
      add(lines.substr(0, stop));
      lines.remove_prefix(stop + 1);
    }
  }
  ~CudaModule() override {
    if (driver().set_context(context_) == 0) driver().module_unload(module_);
  }
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  const DeviceKernel* find(std::string_view name) const override {
    const auto it = kernels_.find(name);
    return it == kernels_.end() ? nullptr : &it->second;
  }

 private:
  void add(std::string_view line) {
    const size_t name_end = line.find(" threads "), threads_end = line.find(" shared ");
    GRAFT_USER_CHECK(name_end != line.npos && threads_end != line.npos, kDevice, "the list of kernels is damaged",
                     "CUDA");
    const auto number = [](std::string_view text) {
      int64_t value = 0;
      std::from_chars(text.data(), text.data() + text.size(), value);
      return value;
    };
    const std::string name(line.substr(0, name_end));
    DeviceKernel kernel{.threads = static_cast<int>(number(line.substr(name_end + 9))),
                        .shared_bytes = number(line.substr(threads_end + 8))};
    check(driver().module_function(&kernel.function, module_, name.c_str()), "kernel " + name);
    check(driver().set_function_attribute(kernel.function, kMaxDynamicShared, static_cast<int>(kernel.shared_bytes)),
          "shared memory of kernel " + name);
    kernels_.emplace(name, kernel);
  }

  Handle context_, module_ = nullptr;
  std::map<std::string, DeviceKernel, std::less<>> kernels_;
};

class CudaStream : public DeviceStream {
 public:
  explicit CudaStream(Handle context) : context_(context) {
    enter();
    check(driver().stream_create(&stream_, kNonBlocking), "a stream cannot be made");
  }
  ~CudaStream() override {
    if (driver().set_context(context_) == 0) driver().stream_destroy(stream_);
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void* allocate(int64_t bytes) override {
    enter();
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
    if (memory && driver().set_context(context_) == 0) driver().release(address(memory));
  }
  void upload(void* to, const void* from, size_t bytes) override {
    enter();
    if (bytes > 0) check(driver().upload(address(to), from, bytes, stream_), "copying to the GPU");
    wait();
  }
  void download(void* to, const void* from, size_t bytes) override {
    enter();
    if (bytes > 0) check(driver().download(to, address(from), bytes, stream_), "copying from the GPU");
    wait();
  }
  void copy(void* to, const void* from, size_t bytes) override {
    enter();
    if (bytes > 0) check(driver().copy(address(to), address(from), bytes, stream_), "copying on the GPU");
  }
  void clear(void* memory, size_t bytes) override {
    enter();
    check(driver().fill(address(memory), 0, bytes, stream_), "clearing memory");
  }
  void launch(const DeviceKernel& kernel, int64_t grid, void** arguments) override {
    GRAFT_USER_CHECK(grid <= INT_MAX, kUnsupported, fmt::format("a launch of {} blocks", grid), "GPU");
    enter();
    check(driver().launch(kernel.function, static_cast<unsigned>(grid), 1, 1, static_cast<unsigned>(kernel.threads), 1,
                          1, static_cast<unsigned>(kernel.shared_bytes), stream_, arguments, nullptr),
          "launching a kernel");
  }
  void wait() override {
    enter();
    check(driver().stream_wait(stream_), "waiting for the GPU");
  }
  void* native() override {
    enter();
    return stream_;
  }
  double time(const std::function<void()>& work, int repetitions) override {
    enter();
    return cuda::time_replays(stream_, work, repetitions);
  }

 private:
  /// A context belongs to a thread; the caller's thread may change between calls.
  void enter() const { check(driver().set_context(context_), "entering the context"); }

  Handle context_, stream_ = nullptr;
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int ordinal) {
    const std::string missing = why_no_cuda_device();
    GRAFT_USER_CHECK(missing.empty(), kDevice, missing, "CUDA");
    int count = 0;
    check(driver().device_count(&count), "counting GPUs");
    GRAFT_USER_CHECK(ordinal >= 0 && ordinal < count, kDevice,
                     fmt::format("there is no GPU {}: this machine has {}", ordinal, count), "CUDA");
    check(driver().device_get(&device_, ordinal), "opening the GPU");
    char name[256] = "";
    check(driver().device_name(name, sizeof name, device_), "naming the GPU");
    name_ = name;
    check(driver().retain_context(&context_, device_), "a context on the GPU");
  }

  const std::string& name() const override { return name_; }
  std::unique_ptr<DeviceStream> make_stream() override { return std::make_unique<CudaStream>(context_); }
  std::shared_ptr<const DeviceModule> load(std::span<const std::byte> code) override {
    check(driver().set_context(context_), "entering the context");
    return std::make_shared<CudaModule>(context_, code);
  }

  std::string architecture() const {
    int major = 0, minor = 0;
    check(driver().device_attribute(&major, kComputeMajor, device_), "asking the GPU");
    check(driver().device_attribute(&minor, kComputeMinor, device_), "asking the GPU");
    return fmt::format("sm_{}{}{}", major, minor, major == 9 ? "a" : "");
  }

 private:
  int device_ = 0;
  Handle context_ = nullptr;
  std::string name_;
};

}  // namespace

std::shared_ptr<Device> open_cuda_device(int ordinal) { return std::make_shared<CudaDevice>(ordinal); }

std::string why_no_cuda_device() {
  if (!driver().missing.empty()) return driver().missing;
  int count = 0;
  check(driver().device_count(&count), "counting GPUs");
  return count > 0 ? "" : "the NVIDIA driver sees no GPU";
}

std::string cuda_driver_version() {
  GRAFT_USER_CHECK(driver().missing.empty(), kDevice, driver().missing, "CUDA");
  int version = 0;
  check(driver().version(&version), "asking the driver");
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string cuda_architecture(int ordinal) { return CudaDevice(ordinal).architecture(); }

}  // namespace graft
