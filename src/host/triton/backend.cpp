// SPDX-License-Identifier: Apache-2.0
// The functions that Triton's server looks for in libtriton_graft.so.
#include <memory>
#include <string>
#include <string_view>

#include "failure.h"
#include "instance.h"
#include "model.h"

namespace graft::triton {
namespace {

/// What all models share.
struct Backend {
  MetricFamilies families;
  ProcessMetrics process;
  Watch watch;
  RunLog run_log;

  explicit Backend(TRITONBACKEND_Backend* backend) : run_log(backend) {}
};

void log(LogLevel level, std::string_view message) {
  const ServerLog kind = level == LogLevel::kError     ? ServerLog::kError
                         : level == LogLevel::kWarning ? ServerLog::kWarning
                                                       : ServerLog::kVerbose;
  ignore(TRITONSERVER_LogMessage(kind, "graft", 0, std::string(message).c_str()));
}

/// A server of another major version has other functions, an older one lacks some.
void check_version() {
  uint32_t major = 0, minor = 0;
  check(TRITONBACKEND_ApiVersion(&major, &minor));
  if (major == kApiMajor && minor >= kApiMinor) return;
  const auto text = [](uint32_t first, uint32_t second) {
    return std::to_string(first) + "." + std::to_string(second);
  };
  throw Error(ErrorKind::kUnsupported, "this server has the backend interface " + text(major, minor) +
                                           ", and libtriton_graft.so is for " + text(kApiMajor, kApiMinor) +
                                           " and later ones of the same major version: docs/SERVING.md names servers");
}


Backend& backend_of(TRITONBACKEND_Model* model) {
  TRITONBACKEND_Backend* backend = nullptr;
  void* state = nullptr;
  check(TRITONBACKEND_ModelBackend(model, &backend));
  check(TRITONBACKEND_BackendState(backend, &state));
  return *static_cast<Backend*>(state);
}

TRITONBACKEND_Model* handle_of(TRITONBACKEND_ModelInstance* instance) {
  TRITONBACKEND_Model* model = nullptr;
  check(TRITONBACKEND_ModelInstanceModel(instance, &model));
  return model;
}

Model& model_of(TRITONBACKEND_ModelInstance* instance) {
  TRITONBACKEND_Model* const model = handle_of(instance);
  void* state = nullptr;
  check(TRITONBACKEND_ModelState(model, &state));
  return *static_cast<Model*>(state);
}

}  // namespace
}  // namespace graft::triton

#define GRAFT_ENTRY extern "C" __attribute__((visibility("default"), used)) TRITONSERVER_Error*

GRAFT_ENTRY TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  using namespace graft::triton;
  return guarded([&] {
    check_version();
    graft::set_log(log, graft::LogLevel::kWarning);
    auto state = std::make_unique<Backend>(backend);
    check(TRITONBACKEND_BackendSetState(backend, state.get()));
    static_cast<void>(state.release());
  });
}

GRAFT_ENTRY TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend) {
  using namespace graft::triton;
  return guarded([&] {
    void* state = nullptr;
    check(TRITONBACKEND_BackendState(backend, &state));
    delete static_cast<Backend*>(state);
    graft::set_log({});
  });
}

/// Instances run on the CPU unless their group says something else.
GRAFT_ENTRY TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend*, TRITONBACKEND_BackendAttribute* attributes) {
  using namespace graft::triton;
  return TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(attributes, InstanceKind::kCpu, 1, nullptr, 0);
}

GRAFT_ENTRY TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  using namespace graft::triton;
  return guarded([&] {
    Backend& backend = backend_of(model);
    auto state = std::make_unique<Model>(model, backend.families, backend.watch, backend.run_log);
    backend.process.update();
    check(TRITONBACKEND_ModelSetState(model, state.get()));
    static_cast<void>(state.release());
  });
}

GRAFT_ENTRY TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  using namespace graft::triton;
  return guarded([&] {
    void* state = nullptr;
    check(TRITONBACKEND_ModelState(model, &state));
    delete static_cast<Model*>(state);
  });
}

GRAFT_ENTRY TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  using namespace graft::triton;
  return guarded([&] {
    auto state = std::make_unique<Instance>(instance, model_of(instance));
    backend_of(handle_of(instance)).process.update();  // one of another device has an engine of its own
    check(TRITONBACKEND_ModelInstanceSetState(instance, state.get()));
    static_cast<void>(state.release());
  });
}

GRAFT_ENTRY TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  using namespace graft::triton;
  return guarded([&] {
    void* state = nullptr;
    check(TRITONBACKEND_ModelInstanceState(instance, &state));
    delete static_cast<Instance*>(state);
  });
}

GRAFT_ENTRY TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests,
                                               uint32_t count) {
  using namespace graft::triton;
  return guarded([&] {
    void* state = nullptr;
    check(TRITONBACKEND_ModelInstanceState(instance, &state));
    static_cast<Instance*>(state)->execute({requests, count});
  });
}
