// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
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
                                         std::shared_ptr<Device> device, const HostKernelSource& host_kernels,
                                         const LoadedEngine* other = nullptr);

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

/// The code in executable memory: another engine's where it has the same.
std::shared_ptr<const LoadedObject> load_object(const std::vector<std::byte>& bytes, const LoadedEngine* other) {
  for (size_t o = 0; other && o < other->engine->objects.size(); ++o) {
    if (other->engine->objects[o] == bytes) return other->objects[o];
  }
  auto object = std::make_shared<LoadedObject>();
  const Status status =
      LoadedObject::load({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, object.get());
  GRAFT_USER_CHECK(status.ok(), kDevice, status.message(), "kernel object");
  return object;
}

/// `other`: a loaded engine of the same network, of which code and constants are shared; or null.
std::shared_ptr<LoadedEngine> load_whole(std::shared_ptr<const Engine> engine, LibrarySource libraries,
                                         std::shared_ptr<Device> device, const HostKernelSource& host_kernels,
                                         const LoadedEngine* other) {
  auto loaded = std::make_shared<LoadedEngine>();
  loaded->libraries = std::move(libraries);
  loaded->regions = parse_regions(*engine);
  for (size_t s = 0; s < engine->steps.size(); ++s) {
    if (engine->steps[s].host) loaded->host[static_cast<int>(s)] = make_kernel(engine->steps[s], host_kernels);
  }
  if (device) {
    load_bodies(*loaded, *engine, device, host_kernels);
    loaded->device = std::make_shared<const DeviceCode>(*engine, std::move(device), other ? other->device : nullptr,
                                                        other ? other->engine.get() : nullptr);
    loaded->engine = std::move(engine);
    return loaded;
  }
  loaded->files = files_of(*engine);
  load_bodies(*loaded, *engine, nullptr, host_kernels);
  for (const auto& bytes : engine->objects) loaded->objects.push_back(load_object(bytes, other));
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

/// Where a run sees the size of a dimension of an engine.
VariantChoice::Dimension find_dimension(const Engine& engine, const std::string& symbol) {
  for (size_t input = 0; input < engine.inputs.size(); ++input) {
    const Shape& shape = engine.tensors[static_cast<size_t>(engine.inputs[input])].shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis].as_symbol() == symbol) return {input, axis, {}};
    }
  }
  throw Error(ErrorKind::kInternal, "no input has it as an axis", fmt::format("dimension '{}'", symbol));
}

VariantChoice choice_of(const Engine& engine) {
  VariantChoice choice;
  size_t count = 1;
  std::vector<std::string> symbols;
  for (const auto& [symbol, size] : engine.variants.front().optima) {
    VariantChoice::Dimension dimension = find_dimension(engine, symbol);
    std::set<int64_t> optima;
    for (const EngineVariant& variant : engine.variants) optima.insert(variant.optima.at(symbol));
    dimension.optima.assign(optima.begin(), optima.end());
    count *= optima.size();
    symbols.push_back(symbol);
    choice.dimensions.push_back(std::move(dimension));
  }
  GRAFT_CHECK(count == engine.variants.size(), "an engine's variants are not all combinations of its optima");
  choice.variants.resize(count);
  for (size_t v = 0; v < count; ++v) {
    size_t at = 0;
    for (size_t d = 0; d < symbols.size(); ++d) {
      const std::vector<int64_t>& optima = choice.dimensions[d].optima;
      const int64_t size = engine.variants[v].optima.at(symbols[d]);
      at = at * optima.size() + static_cast<size_t>(std::lower_bound(optima.begin(), optima.end(), size) -
                                                    optima.begin());
    }
    choice.variants[at] = v;
  }
  return choice;
}

/// Each distinct engine once.
void load_variants(LoadedEngine& loaded, const std::shared_ptr<Device>& device,
                   const HostKernelSource& host_kernels) {
  std::map<const Engine*, std::shared_ptr<const LoadedEngine>> known;
  if (loaded.engine->variants.empty()) return;
  loaded.choice = choice_of(*loaded.engine);
  for (const EngineVariant& variant : loaded.engine->variants) {
    std::shared_ptr<const LoadedEngine>& place = known[variant.engine.get()];
    if (variant.engine && !place) place = load_whole(variant.engine, loaded.libraries, device, host_kernels, &loaded);
    loaded.variants.push_back(place);
  }
}

}  // namespace

std::shared_ptr<const LoadedEngine> load_code(std::shared_ptr<const Engine> engine, LibrarySource libraries,
                                              std::shared_ptr<Device> device, const HostKernelSource& host_kernels,
                                              std::shared_ptr<const CountedEngine> counted) {
  auto loaded = load_whole(std::move(engine), std::move(libraries), device, host_kernels);
  load_variants(*loaded, device, host_kernels);
  loaded->counted = std::move(counted);
  return loaded;
}

}  // namespace graft
