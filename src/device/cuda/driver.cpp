// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/driver.h"

#include <dlfcn.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/set_function.h"

namespace graft::cuda {
namespace {

Driver open_driver() {
  Driver d;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    d.missing = "there is no NVIDIA driver (libcuda.so.1 is not on this machine): install it, or run on the CPU";
    return d;
  }
  const auto find = [&](auto& function, const char* name) {
    if (!set_function(function, dlsym(library, name)) && d.missing.empty())
      d.missing = fmt::format("the NVIDIA driver is too old: it has no {}", name);
  };
  find(d.init, "cuInit");
  find(d.error_string, "cuGetErrorString");
  find(d.version, "cuDriverGetVersion");
  find(d.device_count, "cuDeviceGetCount");
  find(d.device_get, "cuDeviceGet");
  find(d.device_name, "cuDeviceGetName");
  find(d.device_attribute, "cuDeviceGetAttribute");
  find(d.device_memory, "cuDeviceTotalMem_v2");
  find(d.retain_context, "cuDevicePrimaryCtxRetain");
  find(d.current_context, "cuCtxGetCurrent");
  find(d.push_context, "cuCtxPushCurrent_v2");
  find(d.pop_context, "cuCtxPopCurrent_v2");
  find(d.memory_info, "cuMemGetInfo_v2");
  find(d.allocate, "cuMemAlloc_v2");
  find(d.release, "cuMemFree_v2");
  find(d.upload, "cuMemcpyHtoDAsync_v2");
  find(d.download, "cuMemcpyDtoHAsync_v2");
  find(d.copy, "cuMemcpyDtoDAsync_v2");
  find(d.fill, "cuMemsetD8Async");
  find(d.stream_create, "cuStreamCreate");
  find(d.stream_wait, "cuStreamSynchronize");
  find(d.stream_destroy, "cuStreamDestroy_v2");
  find(d.stream_wait_event, "cuStreamWaitEvent");
  find(d.begin_capture, "cuStreamBeginCapture_v2");
  find(d.end_capture, "cuStreamEndCapture");
  find(d.is_capturing, "cuStreamIsCapturing");
  find(d.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  find(d.graph_instantiate, "cuGraphInstantiateWithFlags");
  find(d.graph_launch, "cuGraphLaunch");
  find(d.graph_destroy, "cuGraphDestroy");
  find(d.graph_exec_destroy, "cuGraphExecDestroy");
  find(d.event_create, "cuEventCreate");
  find(d.event_record, "cuEventRecord");
  find(d.event_wait, "cuEventSynchronize");
  find(d.event_elapsed, "cuEventElapsedTime");
  find(d.event_destroy, "cuEventDestroy_v2");
  find(d.module_load, "cuModuleLoadData");
  find(d.module_unload, "cuModuleUnload");
  find(d.module_function, "cuModuleGetFunction");
  find(d.set_function_attribute, "cuFuncSetAttribute");
  find(d.launch, "cuLaunchKernelEx");
  if (!d.missing.empty()) return d;
  find(d.encode_tiled, "cuTensorMapEncodeTiled");
  find(d.begin_capture_to_graph, "cuStreamBeginCaptureToGraph");
  find(d.capture_info, "cuStreamGetCaptureInfo_v3");
  find(d.graph_add_node, "cuGraphAddNode_v2");
  find(d.conditional_handle, "cuGraphConditionalHandleCreate");
  d.missing.clear();  // older drivers do without
  const Result result = d.init(0);
  const char* reason = nullptr;
  if (result != 0) d.error_string(result, &reason);
  if (result != 0) d.missing = fmt::format("the NVIDIA driver does not start: {}", reason ? reason : "no reason given");
  return d;
}

}  // namespace

const Driver& driver() {
  static const Driver instance = open_driver();
  return instance;
}

Current::Current(Handle context) {
  Handle now = nullptr;
  if (driver().current_context(&now) == 0 && now == context) return;
  check(driver().push_context(context), "entering the context");
  pushed_ = true;
}

Current::~Current() {
  Handle mine = nullptr;
  if (pushed_) driver().pop_context(&mine);
}

void check(Result result, const std::string& what) {
  if (result == 0) return;
  const char* reason = nullptr;
  driver().error_string(result, &reason);
  throw Error(ErrorKind::kDevice, fmt::format("{}: {}", what, reason ? reason : fmt::format("error {}", result)),
              "CUDA");
}

}  // namespace graft::cuda
