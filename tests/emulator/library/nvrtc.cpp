// SPDX-License-Identifier: Apache-2.0
// libnvrtc.so.13 as far as Graft uses it: kernels are compiled for the host that emulates a GPU. What it calls a cubin
// is a line `graft emulated sm_90a NAME BYTES` and a shared object.
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "host_compiler.h"
#include "translate.h"

namespace {

enum Result { kSuccess = 0, kInvalidInput = 3, kInvalidOption = 5, kCompilation = 6, kCancelled = 7 };

struct Program {
  std::string source, log, cubin, translated;
  int (*wants_stop)(void*, void*) = nullptr;
  void* payload = nullptr;
};

Program& program(void* handle) { return *static_cast<Program*>(handle); }

/// "sm_90a" of `--gpu-architecture=sm_90a`; compute_90a for PTX.
std::string architecture_of(int count, const char* const* options) {
  constexpr std::string_view kOption = "--gpu-architecture=";
  for (int i = 0; i < count; ++i) {
    const std::string_view option(options[i]);
    if (option.substr(0, kOption.size()) == kOption) return std::string(option.substr(kOption.size()));
  }
  return "";
}

int give(const std::string& text, char* to) {
  std::memcpy(to, text.data(), text.size());
  return kSuccess;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13, *minor = 0;
  return kSuccess;
}

int nvrtcCreateProgram(void** handle, const char* source, const char*, int headers, const char* const*,
                       const char* const*) {
  if (headers != 0) return kInvalidInput;
  *handle = new Program{.source = source, .log = "", .cubin = "", .translated = ""};
  return kSuccess;
}

int nvrtcDestroyProgram(void** handle) {
  delete &program(*handle);
  *handle = nullptr;
  return kSuccess;
}

int nvrtcCompileProgram(void* handle, int count, const char* const* options) {
  Program& p = program(handle);
  const std::string architecture = architecture_of(count, options);
  const size_t digits = architecture.find('_') + 1;
  if (digits == 0) return kInvalidOption;
  if (p.wants_stop && p.wants_stop(p.payload, nullptr) == 1) return kCancelled;
  try {
    p.translated = graft::emulator::translate(p.source);
  } catch (const std::runtime_error& error) {
    p.log = error.what();
    return kCompilation;
  }
  const size_t end = architecture.find_first_not_of("0123456789", digits);
  auto [name, object, log] = graft::emulator::compile_for_host(p.translated, architecture.substr(digits, end - digits));
  p.log = log;
  if (object.empty()) return kCompilation;
  p.cubin = "graft emulated " + architecture + " " + name + " " + std::to_string(object.size()) + "\n" + object;
  return kSuccess;
}

int nvrtcGetProgramLogSize(void* handle, size_t* size) {
  *size = program(handle).log.size() + 1;
  return kSuccess;
}
int nvrtcGetProgramLog(void* handle, char* to) { return give(program(handle).log + '\0', to); }
int nvrtcGetCUBINSize(void* handle, size_t* size) {
  *size = program(handle).cubin.size();
  return kSuccess;
}
int nvrtcGetCUBIN(void* handle, char* to) { return give(program(handle).cubin, to); }
int nvrtcGetPTXSize(void* handle, size_t* size) {
  *size = program(handle).translated.size() + 1;
  return kSuccess;
}
int nvrtcGetPTX(void* handle, char* to) { return give(program(handle).translated + '\0', to); }
int nvrtcSetFlowCallback(void* handle, int (*wants_stop)(void*, void*), void* payload) {
  program(handle).wants_stop = wants_stop, program(handle).payload = payload;
  return kSuccess;
}
}
#pragma GCC visibility pop
