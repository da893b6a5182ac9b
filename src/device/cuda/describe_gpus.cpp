// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/describe_gpus.h"

#include <dlfcn.h>

#include <fstream>
#include <regex>

#include <fmt/format.h>

#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"

namespace graft {
namespace {

using cuda::check;
using cuda::driver;

constexpr int kMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

/// The version as the driver's own file states it, with a comma before it; the driver API tells that of CUDA only.
std::string version_of_kernel_module() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::smatch match;
  std::getline(file, line);
  return std::regex_search(line, match, std::regex("[0-9]+\\.[0-9]+(\\.[0-9]+)?")) ? ", " + match.str() : "";
}

}  // namespace

std::string describe_cuda_driver() {
  const std::string missing = why_no_cuda_device();
  if (!missing.empty()) return "none: " + missing;
  Dl_info info{};
  const bool found = dladdr(reinterpret_cast<const void*>(driver().init), &info) && info.dli_fname;
  return fmt::format("CUDA {}{}, {}", cuda_driver_version(), version_of_kernel_module(),
                     found ? info.dli_fname : "libcuda.so.1");
}

uint64_t memory_of_gpu(int ordinal) {
  cuda_architecture(ordinal);  // which says why there is none
  int device = 0;
  size_t bytes = 0;
  check(driver().device_get(&device, ordinal), "opening the GPU");
  check(driver().device_memory(&bytes, device), "asking the GPU");
  return bytes;
}

int find_gpu(const std::string& architecture) {
  if (!why_no_cuda_device().empty()) return -1;
  int count = 0;
  check(driver().device_count(&count), "counting GPUs");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    if (cuda_architecture(ordinal) == architecture) return ordinal;
  }
  return -1;
}

std::vector<std::string> describe_gpus() {
  std::vector<std::string> lines;
  if (!why_no_cuda_device().empty()) return lines;
  int count = 0;
  check(driver().device_count(&count), "counting GPUs");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0, multiprocessors = 0;
    size_t bytes = 0;
    char name[256] = "";
    check(driver().device_get(&device, ordinal), "opening the GPU");
    check(driver().device_name(name, sizeof name, device), "naming the GPU");
    check(driver().device_attribute(&multiprocessors, kMultiprocessors, device), "asking the GPU");
    check(driver().device_memory(&bytes, device), "asking the GPU");
    lines.push_back(fmt::format("{}, {}, {} multiprocessors, {:.1f} GB", cuda_architecture(ordinal), name,
                                multiprocessors, static_cast<double>(bytes) / 1e9));
  }
  return lines;
}

}  // namespace graft
