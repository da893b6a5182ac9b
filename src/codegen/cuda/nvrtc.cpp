// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/nvrtc.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::cuda {
namespace {

using Program = struct NvrtcProgram*;

/// The functions of libnvrtc that are used; `handle` is null when it was not found.
struct Nvrtc {
  void* handle = nullptr;
  std::string tried;
  int (*version)(int*, int*) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*ptx_size)(Program, size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  int (*set_flow_callback)(Program, int (*)(void*, void*), void*) = nullptr;  ///< null before NVRTC 12.9
};

/// NVRTC asks this while it compiles; 1 makes it give up.
int wants_stop(void* progress, void*) { return static_cast<codegen::Progress*>(progress)->stop() ? 1 : 0; }

std::vector<std::string> matching_files(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return files;
}

/// Where NVRTC may lie: the loader's own paths, a toolkit, the folders of pip's packages.
std::vector<std::string> candidates() {
  std::vector<std::string> paths = {"libnvrtc.so.13", "libnvrtc.so.12"};
  std::vector<std::string> patterns;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* root = std::getenv(variable)) patterns.push_back(fmt::format("{}/lib64/libnvrtc.so.1?", root));
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* root = std::getenv(variable)) {
      patterns.push_back(fmt::format("{}/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1?", root));
    }
  }
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&matching_files), &self) && self.dli_fname) {
    // <site-packages>/graft/lib/libgraft_cuda.so, or a build folder beside nothing of interest
    const std::string path(self.dli_fname);
    const std::string folder = path.substr(0, path.rfind('/'));
    for (const char* up : {"/..", "/../.."}) patterns.push_back(folder + up + "/nvidia/*/lib/libnvrtc.so.1?");
  }
  for (const char* root : {"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/usr/local/cuda-*/lib",
                           "/usr/local/lib/python3*/dist-packages/nvidia/*/lib", "/usr/lib/x86_64-linux-gnu"}) {
    patterns.push_back(std::string(root) + "/libnvrtc.so.1?");
  }
  for (const std::string& pattern : patterns) {
    std::vector<std::string> files = matching_files(pattern);
    paths.insert(paths.end(), files.rbegin(), files.rend());  // the newest version of a folder first
  }
  return paths;
}

Nvrtc open_nvrtc() {
  Nvrtc nvrtc;
  for (const std::string& path : candidates()) {
    nvrtc.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (nvrtc.handle) break;
  }
  if (!nvrtc.handle) return nvrtc;
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(nvrtc.handle, name));
    complete &= function != nullptr;
  };
  find(nvrtc.version, "nvrtcVersion");
  find(nvrtc.create, "nvrtcCreateProgram");
  find(nvrtc.destroy, "nvrtcDestroyProgram");
  find(nvrtc.compile, "nvrtcCompileProgram");
  find(nvrtc.log_size, "nvrtcGetProgramLogSize");
  find(nvrtc.log, "nvrtcGetProgramLog");
  find(nvrtc.cubin_size, "nvrtcGetCUBINSize");
  find(nvrtc.cubin, "nvrtcGetCUBIN");
  find(nvrtc.ptx_size, "nvrtcGetPTXSize");
  find(nvrtc.ptx, "nvrtcGetPTX");
  if (!complete) nvrtc.handle = nullptr;
  find(nvrtc.set_flow_callback, "nvrtcSetFlowCallback");
  return nvrtc;
}

const Nvrtc& nvrtc() {
  static const Nvrtc instance = open_nvrtc();
  return instance;
}

using SizeOf = int (*)(Program, size_t*);
using TextOf = int (*)(Program, char*);

std::string result(Program program, SizeOf size_of, TextOf text_of) {
  size_t size = 0;
  if (size_of(program, &size) != 0) return "";
  std::string text(size, '\0');
  return text_of(program, text.data()) == 0 ? text : "";
}

}  // namespace

std::string nvrtc_problem() {
  if (nvrtc().handle) return "";
  return "libnvrtc.so.13 or .12 was not found (searched the loader's paths, CUDA_HOME, /usr/local/cuda and pip's "
         "nvidia folders): install the CUDA toolkit or `pip install nvidia-cuda-nvrtc`";
}

std::string nvrtc_version() {
  int major = 0, minor = 0;
  if (!nvrtc().handle || nvrtc().version(&major, &minor) != 0) return "";
  return fmt::format("NVRTC {}.{}", major, minor);
}

std::string compile_source(const std::string& source, const std::string& architecture, codegen::Progress& progress,
                           bool ptx, std::string* report) {
  const std::string problem = nvrtc_problem();
  GRAFT_USER_CHECK(problem.empty(), kDevice, problem, "CUDA code generation");
  const Nvrtc& api = nvrtc();
  Program program = nullptr;
  GRAFT_CHECK(api.create(&program, source.c_str(), "graft_kernels.cu", 0, nullptr, nullptr) == 0,
              "NVRTC does not accept a program");
  std::string arch = architecture;
  if (ptx) arch.replace(0, arch.find('_'), "compute");
  const std::string architecture_option = "--gpu-architecture=" + arch;
  // A product and a sum stay two roundings, as intrinsics.inc says; fused ones are written as such.
  std::vector<const char*> options = {architecture_option.c_str(), "--std=c++17", "--fmad=false",
                                      "--device-as-default-execution-space", "--diag-suppress=177,550"};
  if (report) options.push_back("--ptxas-options=-v");
  if (api.set_flow_callback) api.set_flow_callback(program, &wants_stop, &progress);
  const int outcome = api.compile(program, static_cast<int>(options.size()), options.data());
  const std::string log = outcome == 0 && !report ? "" : result(program, api.log_size, api.log);
  std::string code;
  if (outcome == 0) code = ptx ? result(program, api.ptx_size, api.ptx) : result(program, api.cubin_size, api.cubin);
  api.destroy(&program);
  progress.check();
  GRAFT_CHECK(outcome == 0, fmt::format("NVRTC rejects generated code for {}: {}", architecture, log.c_str()));
  GRAFT_CHECK(!code.empty(), "NVRTC gave no code for " + architecture);
  if (report) *report = log.c_str();
  return code;
}

}  // namespace graft::cuda
