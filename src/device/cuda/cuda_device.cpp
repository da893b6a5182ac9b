// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_device.h"

#include <map>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch_rule.h"
#include "device/cuda/trace.h"
#include "target/peak.h"

namespace graft {
namespace {

using cuda::check;
using cuda::Current;
using cuda::driver;
using cuda::Handle;

// Numbers of the driver API.
constexpr int kComputeMajor = 75, kComputeMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
constexpr int kMultiprocessors = 16, kClockRate = 13;  // CU_DEVICE_ATTRIBUTE_*; the clock in kHz
constexpr int kMaxDynamicShared = 8;                   // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

class CudaModule : public DeviceModule {
 public:
  /// `code`: lines as parse_launch_line reads them, an empty line, and the cubin.
  CudaModule(Handle context, int multiprocessors, std::span<const std::byte> code)
      : context_(context), multiprocessors_(multiprocessors) {
    const std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
    const size_t end = text.find("\n\n");
    GRAFT_USER_CHECK(end != text.npos, kDevice, "the code of a unit has no list of kernels", "CUDA");
    const std::vector<std::byte> cubin(code.begin() + static_cast<std::ptrdiff_t>(end) + 2, code.end());
    const Current current(context_);
    check(driver().module_load(&module_, cubin.data()), "kernels cannot be loaded");
    std::string_view lines = text.substr(0, end + 1);
    while (!lines.empty()) {
      const size_t stop = lines.find('\n');
      add(lines.substr(0, stop));
      lines.remove_prefix(stop + 1);
    }
  }
  ~CudaModule() override {
    try {
      const Current current(context_);
      driver().module_unload(module_);
    } catch (const Error&) {
      // The driver is gone, and the code with it.
    }
  }
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  const DeviceKernel* find(std::string_view name) const override {
    const auto it = kernels_.find(name);
    return it == kernels_.end() ? nullptr : &it->second;
  }

 private:
  void add(std::string_view line) {
    auto [name, kernel] = parse_launch_line(line, multiprocessors_);
    check(driver().module_function(&kernel.function, module_, name.c_str()), "kernel " + name);
    check(driver().set_function_attribute(kernel.function, kMaxDynamicShared, static_cast<int>(kernel.shared_bytes)),
          "shared memory of kernel " + name);
    kernels_.emplace(name, std::move(kernel));
  }

  Handle context_, module_ = nullptr;
  int multiprocessors_;
  std::map<std::string, DeviceKernel, std::less<>> kernels_;
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
  std::unique_ptr<DeviceStream> make_stream() override {
    constexpr int kOverlaps = 9;  // the first generation whose kernels can wait for others
    return make_cuda_stream(context_, attribute(kComputeMajor) >= kOverlaps);
  }
  std::shared_ptr<const DeviceModule> load(std::span<const std::byte> code) override {
    return std::make_shared<CudaModule>(context_, attribute(kMultiprocessors), code);
  }
  std::vector<DeviceActivity> trace(const std::function<void()>& work) override { return trace_cuda(work); }

  double peak_gflops(bool half) const override {
    const double rate = operations_per_clock(architecture(), half);
    return rate > 0 ? 1e-6 * rate * attribute(kMultiprocessors) * attribute(kClockRate) : 0;
  }

  std::string architecture() const {
    const int major = attribute(kComputeMajor), minor = attribute(kComputeMinor);
    return fmt::format("sm_{}{}{}", major, minor, major == 9 ? "a" : "");
  }

 private:
  int attribute(int which) const {
    int value = 0;
    check(driver().device_attribute(&value, which, device_), "asking the GPU");
    return value;
  }

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
