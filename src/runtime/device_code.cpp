// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_code.h"

#include <fmt/format.h>

#include "base/error.h"

namespace graft {

DeviceCode::DeviceCode(const Engine& engine, std::shared_ptr<Device> on)
    : device(std::move(on)), stream_(device->make_stream()) {
  for (const auto& code : engine.objects) modules.push_back(device->load(code));
  kernels.resize(engine.kernels.size());
  for (const EngineStep& step : engine.steps) {
    const bool beside = step.kind == StepKind::kLibrary && step.kernel >= 0;  // for sizes that the library refuses
    if (step.kind != StepKind::kKernel && !beside) continue;
    const EngineKernel& kernel = engine.kernels[step.kernel];
    const bool known = kernel.object >= 0 && kernel.object < static_cast<int>(modules.size());
    const DeviceKernel* found = known ? modules[kernel.object]->find(kernel.name) : nullptr;
    if (!found && beside) continue;
    GRAFT_USER_CHECK(found, kInvalidModel, "its unit does not define it", fmt::format("kernel '{}'", kernel.name));
    kernels[step.kernel] = *found;
  }
  constants.reserve(engine.constants.size());
  memory_.reserve(engine.constants.size());
  for (const TensorData& constant : engine.constants) {
    const auto bytes = constant.type() == DType::kString ? std::span<const std::byte>() : constant.bytes();
    memory_.push_back({stream_->allocate(static_cast<int64_t>(bytes.size())), Release{stream_.get()}});
    constants.push_back(memory_.back().get());
    stream_->upload(constants.back(), bytes.data(), bytes.size());
  }
}

}  // namespace graft
