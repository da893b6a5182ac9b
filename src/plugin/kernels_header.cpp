// SPDX-License-Identifier: Apache-2.0
#include "plugin/support_text.h"

namespace graft::plugin {
namespace {

constexpr char kSizes[] = R"text(
namespace graft_made {

// --- sizes: int64, floor division and mod towards minus infinity ---
inline int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
inline int64_t mod(int64_t a, int64_t b) { return a - b * floor_div(a, b); }
inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
/// Bytes of memory that the next may follow: kernels read and write 16 at a time.
inline int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

enum class Type { f32, f16, bf16, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

/// A tensor that is handed in or given out, row-major.
struct Tensor {
  const char* name;
  Type type;
  int rank;
};

/// A kernel and what a launch of it needs beside its arguments.
struct KernelFacts {
  const char* name;
  unsigned threads;
  unsigned shared_bytes;              ///< dynamic shared memory of a block
  int64_t blocks_per_multiprocessor;  ///< its blocks go on to further points of the grid; 0: a block for each point
};

/// The kernels of one architecture.
struct Variant {
  int major, minor;      ///< its compute capability
  bool own_features;     ///< runs on exactly this one, as sm_90a does; others also on later minor numbers
  const void* cubin;
  const void* ptx;       ///< for GPUs that are later than all cubins; null: none
  const void* constants; ///< that kernels read; null: none
  size_t constant_bytes;
  const KernelFacts* kernels;
  int kernel_count;
};

/// Room at the beginning of the workspace, where a kernel notes an index that was out of range.
constexpr int64_t kStatusBytes = 256;
)text";

constexpr char kLoading[] = R"text(
/// Code on the device of the context in which it was loaded. Launches neither allocate nor copy, so that they can be
/// captured in a graph; load() has to come before.
class Kernels {
 public:
  Kernels() = default;
  ~Kernels() { unload(); }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// Loads the variant for the current context's device, unless it is there. CUDA_ERROR_NO_BINARY_FOR_GPU: none fits.
  CUresult load(const Variant* variants, int count) {
    CUcontext current = nullptr;
    CUdevice device = 0;
    CUresult result = cuCtxGetCurrent(&current);
    if (result != CUDA_SUCCESS) return result;
    if (context_ && context_ == current) return CUDA_SUCCESS;
    unload();
    if ((result = cuCtxGetDevice(&device)) != CUDA_SUCCESS) return result;
    int major = 0, minor = 0;
    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    cuDeviceGetAttribute(&multiprocessors_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    if (!choose(variants, count, major, minor)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    result = load_code(variants[variant_]);
    if (result == CUDA_SUCCESS) result = load_constants(variants[variant_]);
    if (result == CUDA_SUCCESS) context_ = current;
    if (result != CUDA_SUCCESS) unload();
    return result;
  }

  /// Which of the variants was loaded.
  int variant() const { return variant_; }
  bool is_loaded() const { return context_ != nullptr; }
  const void* constant(int64_t offset) const { return reinterpret_cast<const char*>(constants_) + offset; }

  /// `arguments`: pointers to the values of the kernel's parameters.
  CUresult launch(int kernel, int64_t grid, void** arguments, CUstream stream) const {
    if (grid == 0) return CUDA_SUCCESS;
    const KernelFacts& facts = facts_[kernel];
    if (facts.blocks_per_multiprocessor > 0) grid = min(grid, facts.blocks_per_multiprocessor * multiprocessors_);
    if (grid < 0 || grid > 2147483647) return CUDA_ERROR_INVALID_VALUE;
    CUlaunchConfig config{};
    config.gridDimX = static_cast<unsigned>(grid);
    config.blockDimX = facts.threads;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = facts.shared_bytes;
    config.hStream = stream;
    return cuLaunchKernelEx(&config, functions_[kernel], arguments, nullptr);
  }

 private:
  /// The latest cubin that runs on the device, else the latest PTX.
  bool choose(const Variant* variants, int count, int major, int minor) {
    int best = -1, best_minor = -1;
    for (int i = 0; i < count; ++i) {
      const Variant& each = variants[i];
      const bool runs = each.major == major && (each.own_features ? each.minor == minor : each.minor <= minor);
      if (runs && each.minor >= best_minor) best = i, best_minor = each.minor;
    }
    is_ptx_ = best < 0;
    for (int i = 0; i < count && is_ptx_; ++i) {
      const Variant& each = variants[i];
      if (!each.ptx || each.major * 100 + each.minor > major * 100 + minor) continue;
      const bool later = best < 0 || each.major * 100 + each.minor > variants[best].major * 100 + variants[best].minor;
      if (later) best = i;
    }
    variant_ = best < 0 ? 0 : best;
    return best >= 0;
  }

  CUresult load_code(const Variant& variant) {
    CUresult result = CUDA_SUCCESS;
    functions_.assign(static_cast<size_t>(variant.kernel_count), nullptr);
    facts_ = variant.kernels;
    if (variant.kernel_count > 0) result = cuModuleLoadData(&module_, is_ptx_ ? variant.ptx : variant.cubin);
    for (int k = 0; k < variant.kernel_count && result == CUDA_SUCCESS; ++k) {
      CUfunction& function = functions_[static_cast<size_t>(k)];
      result = cuModuleGetFunction(&function, module_, facts_[k].name);
      if (result != CUDA_SUCCESS || facts_[k].shared_bytes == 0) continue;
      result = cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  static_cast<int>(facts_[k].shared_bytes));
    }
    return result;
  }

  CUresult load_constants(const Variant& variant) {
    if (variant.constant_bytes == 0) return CUDA_SUCCESS;
    const CUresult result = cuMemAlloc(&constants_, variant.constant_bytes);
    return result == CUDA_SUCCESS ? cuMemcpyHtoD(constants_, variant.constants, variant.constant_bytes) : result;
  }

  void unload() {
    if (module_) cuModuleUnload(module_);
    if (constants_) cuMemFree(constants_);
    module_ = nullptr, constants_ = 0, context_ = nullptr;
    functions_.clear();
  }

  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUdeviceptr constants_ = 0;
  std::vector<CUfunction> functions_;
  const KernelFacts* facts_ = nullptr;
  int variant_ = 0, multiprocessors_ = 1;
  bool is_ptx_ = false;
};

}  // namespace graft_made
)text";

constexpr char kEmbed[] = R"text(# The bytes of a file as an array of C++, ended by a zero:
#   cmake -D FILE=... -D NAME=... -D OUT=... -P embed.cmake
file(READ ${FILE} hexadecimal HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hexadecimal}")
file(WRITE ${OUT} "extern \"C\" {\nextern const unsigned char ${NAME}[];\n"
  "alignas(256) const unsigned char ${NAME}[] = {${bytes}0};\n}\n")
)text";

}  // namespace

std::string include_line(const std::string& header) { return "#include " + header + "\n"; }

std::string kernels_header() {
  return "// Made by `graft plugin`: what the plugins of this folder share. Needs C++17 and the driver's cuda.h.\n"
         "#pragma once\n\n" +
         include_line("<cuda.h>") + "\n" + include_line("<cstddef>") + include_line("<cstdint>") +
         include_line("<vector>") + kSizes + kLoading;
}

std::string embed_script() { return kEmbed; }

}  // namespace graft::plugin
