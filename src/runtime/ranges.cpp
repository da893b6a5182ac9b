// SPDX-License-Identifier: Apache-2.0
// NVTX without its headers: what a profiler and a program agree on there (nvtxTypes.h of NVTX 3, interface version 2).
#include "runtime/ranges.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/environment.h"
#include "base/log.h"

namespace graft {
namespace {

using Function = void (*)();

/// Functions of a module of NVTX: the profiler writes those that it has into the places of a table that ends with null.
/// Numbers of a module begin with 1.
template <size_t kCount>
struct Module {
  std::array<Function, kCount> functions = {};
  std::array<Function*, kCount + 1> places = {};

  Module() {
    for (size_t i = 0; i < kCount; ++i) places[i] = &functions[i];
  }
};

constexpr size_t kRangePush = 9, kRangePop = 11;  // NVTX_CBID_CORE_RangePushA, RangePop

/// All modules: a profiler may want each, also for functions that are never called.
struct Modules {
  Module<16> core;
  Module<9> cuda;
  Module<15> opencl;
  Module<7> cuda_runtime;
  Module<16> core2;
  Module<7> sync;
};

Modules& modules() {
  static Modules& one = *new Modules;  // the profiler keeps its places until the process ends
  return one;
}

int get_module_table(int32_t module, Function*** table, unsigned* size) {
  Modules& all = modules();
  const auto give = [&](auto& chosen) {
    if (table) *table = chosen.places.data();
    if (size) *size = static_cast<unsigned>(chosen.functions.size());
    return 1;
  };
  switch (module) {  // NvtxCallbackModule
    case 1: return give(all.core);
    case 2: return give(all.cuda);
    case 3: return give(all.opencl);
    case 4: return give(all.cuda_runtime);
    case 5: return give(all.core2);
    case 6: return give(all.sync);
    default: return 0;
  }
}

void take_profiler_version(uint32_t) {}

/// NvtxExportTableCallbacks
struct Callbacks {
  size_t struct_size;
  int (*get_module_table)(int32_t module, Function*** table, unsigned* size);
};
/// NvtxExportTableVersionInfo
struct VersionInfo {
  size_t struct_size;
  uint32_t version, reserved;
  void (*set_profiler_version)(uint32_t version);
};

const void* get_export_table(uint32_t id) {
  static const Callbacks callbacks = {sizeof(Callbacks), get_module_table};
  static const VersionInfo version = {sizeof(VersionInfo), 3, 0, take_profiler_version};
  if (id == 1) return &callbacks;
  return id == 3 ? &version : nullptr;
}

using Initialise = int (*)(const void* (*get_table)(uint32_t));

/// Null, having said why, where there is no profiler.
const RangeTool* open_nvtx() {
  const auto none = [](const char* why) -> const RangeTool* {
    log(LogLevel::kWarning, "GRAFT_RANGES=nvtx: {}; ranges are told to nobody", why);
    return nullptr;
  };
  const char* const path = std::getenv("NVTX_INJECTION64_PATH");
  if (!path || !*path) return none("NVTX_INJECTION64_PATH names no profiler (`nsys profile --trace=nvtx` sets it)");
  void* const library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (!library) return none(dlerror());
  const auto initialise = reinterpret_cast<Initialise>(dlsym(library, "InitializeInjectionNvtx2"));
  if (!initialise) return none("the library of NVTX_INJECTION64_PATH has no InitializeInjectionNvtx2");
  if (initialise(get_export_table) == 0) return none("the profiler of NVTX_INJECTION64_PATH refuses to begin");
  const auto& functions = modules().core.functions;
  static RangeTool tool = {reinterpret_cast<int (*)(const char*)>(functions[kRangePush]),
                           reinterpret_cast<int (*)()>(functions[kRangePop])};
  if (!tool.push || !tool.pop) return none("the profiler of NVTX_INJECTION64_PATH takes no ranges");
  return &tool;
}

}  // namespace

const RangeTool* range_tool() {
  static const RangeTool* const tool = environment().nvtx_ranges ? open_nvtx() : nullptr;
  return tool;
}

}  // namespace graft
