// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/nvrtc.h"

#include <vector>

#include <fmt/format.h>

#include "base/cuda_library.h"
#include "base/error.h"

namespace graft::cuda {
namespace {

using Program = struct NvrtcProgram*;

/// The functions of libnvrtc that are used; `library.handle` is null when it was not found.
struct Nvrtc {
  CudaLibrary library;
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

Nvrtc open_nvrtc() {
  Nvrtc nvrtc{.library = open_cuda_library("nvrtc", {13, 12})};
  CudaLibrary& library = nvrtc.library;
  library.require(nvrtc.version, "nvrtcVersion");
  library.require(nvrtc.create, "nvrtcCreateProgram");
  library.require(nvrtc.destroy, "nvrtcDestroyProgram");
  library.require(nvrtc.compile, "nvrtcCompileProgram");
  library.require(nvrtc.log_size, "nvrtcGetProgramLogSize");
  library.require(nvrtc.log, "nvrtcGetProgramLog");
  library.require(nvrtc.cubin_size, "nvrtcGetCUBINSize");
  library.require(nvrtc.cubin, "nvrtcGetCUBIN");
  library.require(nvrtc.ptx_size, "nvrtcGetPTXSize");
  library.require(nvrtc.ptx, "nvrtcGetPTX");
  set_function(nvrtc.set_flow_callback, library.find("nvrtcSetFlowCallback"));
  if (!library.missing.empty()) library.handle = nullptr;
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

std::string nvrtc_problem() { return nvrtc().library.missing; }

std::string nvrtc_version() {
  int major = 0, minor = 0;
  if (!nvrtc().library.handle || nvrtc().version(&major, &minor) != 0) return "";
  return fmt::format("NVRTC {}.{}", major, minor);
}

std::string compile_source(const std::string& source, const std::string& architecture, codegen::Progress& progress,
                           const CompileMode& mode) {
  const std::string problem = nvrtc_problem();
  GRAFT_USER_CHECK(problem.empty(), kDevice, problem, "CUDA code generation");
  const Nvrtc& api = nvrtc();
  Program program = nullptr;
  GRAFT_CHECK(api.create(&program, source.c_str(), "graft_kernels.cu", 0, nullptr, nullptr) == 0,
              "NVRTC does not accept a program");
  std::string arch = architecture;
  if (mode.ptx) arch.replace(0, arch.find('_'), "compute");
  const std::string architecture_option = "--gpu-architecture=" + arch;
  // A product and a sum stay two roundings, as intrinsics.inc says; fused ones are written as such.
  std::vector<const char*> options = {architecture_option.c_str(), "--std=c++17", "--fmad=false",
                                      "--device-as-default-execution-space", "--diag-suppress=177,550"};
  if (mode.report) options.push_back("--ptxas-options=-v");
  int major = 0, minor = 0;
  const bool known = api.version(&major, &minor) == 0;
  if (mode.quick) options.push_back(known && major >= 13 ? "--Ofast-compile=max" : "--ptxas-options=-O1");
  if (api.set_flow_callback) api.set_flow_callback(program, &wants_stop, &progress);
  const int outcome = api.compile(program, static_cast<int>(options.size()), options.data());
  const std::string log = outcome == 0 && !mode.report ? "" : result(program, api.log_size, api.log);
  std::string code;
  if (outcome == 0) {
    code = mode.ptx ? result(program, api.ptx_size, api.ptx) : result(program, api.cubin_size, api.cubin);
  }
  api.destroy(&program);
  progress.check();
  GRAFT_CHECK(outcome == 0, fmt::format("NVRTC rejects generated code for {}: {}", architecture, log.c_str()));
  GRAFT_CHECK(!code.empty(), "NVRTC gave no code for " + architecture);
  if (mode.report) *mode.report = log.c_str();
  return code;
}

}  // namespace graft::cuda
