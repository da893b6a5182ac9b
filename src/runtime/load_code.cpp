// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <fmt/format.h>

#include "base/file.h"
#include "device/cpu/load_object.h"
#include "runtime/session_state.h"

namespace graft {

namespace {

/// The mapped files that constants lie in.
std::vector<std::shared_ptr<const MappedFile>> files_of(const Engine& engine) {
  std::set<std::shared_ptr<const MappedFile>> files;
  for (const TensorData& constant : engine.constants) {
    if (constant.type() == DType::kString || constant.byte_count() == 0 || constant.is_deferred()) continue;
    if (auto file = MappedFile::find(constant.bytes().data())) files.insert(std::move(file));
  }
  return {files.begin(), files.end()};
}

std::shared_ptr<LoadedEngine> load_whole(std::shared_ptr<const Engine> engine, LibrarySource libraries,
                                         std::shared_ptr<Device> device, const HostKernelSource& host_kernels);

/// The kernel of a step of plain C++.
HostKernel make_kernel(const EngineStep& step, const HostKernelSource& host_kernels) {
  const std::string where = fmt::format("node '{}' ({})", step.name, step.host->op);
  const HostKernelInfo* info = find_host_kernel(step.host->domain, step.host->op);
  GRAFT_USER_CHECK(info, kUnsupported, "this version of Graft has no kernel for it", where);
  GRAFT_USER_CHECK(info->make || host_kernels, kDevice, fmt::format("the module '{}' was not given", info->module),
                   where);
  try {
    const MakeHostKernel make = info->make ? info->make : host_kernels(*info);
    return make(*step.host);
  } catch (const Error& error) {
    throw Error(error.kind(), error.what(), where);
  }
}

/// The bodies of control flow; a run looks at all files where it begins, not in each round.
void load_bodies(LoadedEngine& loaded, const Engine& engine, const std::shared_ptr<Device>& device,
                 const HostKernelSource& host_kernels) {
  for (size_t s = 0; s < engine.steps.size(); ++s) {
    for (const auto& body : engine.steps[s].bodies) {
      auto inner = load_whole(body, loaded.libraries, device, host_kernels);
      loaded.files.insert(loaded.files.end(), inner->files.begin(), inner->files.end());
      inner->files.clear();
      loaded.bodies[static_cast<int>(s)].push_back(std::move(inner));
    }
  }
}

std::shared_ptr<LoadedEngine> load_whole(std::shared_ptr<const Engine> engine, LibrarySource libraries,
                                         std::shared_ptr<Device> device, const HostKernelSource& host_kernels) {
  auto loaded = std::make_shared<LoadedEngine>();
  loaded->libraries = std::move(libraries);
  loaded->regions = parse_regions(*engine);
  for (size_t s = 0; s < engine->steps.size(); ++s) {
    if (engine->steps[s].host) loaded->host[static_cast<int>(s)] = make_kernel(engine->steps[s], host_kernels);
  }
  if (device) {
    load_bodies(*loaded, *engine, device, host_kernels);
    loaded->device = std::make_shared<const DeviceCode>(*engine, std::move(device));
    loaded->engine = std::move(engine);
    return loaded;
  }
  loaded->files = files_of(*engine);
  load_bodies(*loaded, *engine, nullptr, host_kernels);
  for (const auto& bytes : engine->objects) {
    auto object = std::make_shared<LoadedObject>();
    const Status status =
        LoadedObject::load({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, object.get());
    GRAFT_USER_CHECK(status.ok(), kDevice, status.message(), "kernel object");
    loaded->objects.push_back(std::move(object));
  }
  std::vector<bool> wanted(engine->kernels.size());
  for (const EngineStep& step : engine->steps) {
    if (step.kind == StepKind::kKernel) wanted[step.kernel] = true;
  }
  for (size_t k = 0; k < engine->kernels.size(); ++k) {
    const EngineKernel& kernel = engine->kernels[k];
    const bool known = kernel.object >= 0 && kernel.object < static_cast<int>(loaded->objects.size());
    void* entry = known ? loaded->objects[kernel.object]->find(kernel.name) : nullptr;
    GRAFT_USER_CHECK(entry || !wanted[k], kInvalidModel, "its object does not define it",
                     fmt::format("kernel '{}'", kernel.name));
    loaded->kernels.push_back(reinterpret_cast<KernelFunction>(entry));
  }
  loaded->engine = std::move(engine);
  return loaded;
}

}  // namespace

std::shared_ptr<const LoadedEngine> load_code(std::shared_ptr<const Engine> engine, LibrarySource libraries,
                                              std::shared_ptr<Device> device, const HostKernelSource& host_kernels,
                                              std::shared_ptr<const CountedEngine> counted) {
  auto loaded = load_whole(std::move(engine), std::move(libraries), std::move(device), host_kernels);
  loaded->counted = std::move(counted);
  return loaded;
}

}  // namespace graft
