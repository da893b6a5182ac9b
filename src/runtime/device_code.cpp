// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_code.h"

#include <fmt/format.h>

#include "base/error.h"

namespace graft {

std::shared_ptr<const DeviceModule> DeviceCode::module_for(const std::vector<std::byte>& code,
                                                           const Engine* other) const {
  for (size_t m = 0; other && m < other->objects.size(); ++m) {
    if (other->objects[m] == code) return other_->modules[m];
  }
  return device->load(code);
}

/// Null where the other has none with these bytes.
void* DeviceCode::constant_for(const TensorData& constant, const Engine* other) const {
  for (size_t c = 0; other && c < other->constants.size(); ++c) {
    const TensorData& known = other->constants[c];
    if (known.byte_count() == constant.byte_count() && known.shares_bytes_with(constant)) return other_->constants[c];
  }
  return nullptr;
}

DeviceCode::DeviceCode(const Engine& engine, std::shared_ptr<Device> on, std::shared_ptr<const DeviceCode> other,
                       const Engine* engine_of_other)
    : device(std::move(on)), other_(std::move(other)), stream_(device->make_stream()) {
  for (const auto& code : engine.objects) modules.push_back(module_for(code, engine_of_other));
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
    const bool has_bytes = constant.type() != DType::kString;
    if (void* const known = has_bytes ? constant_for(constant, engine_of_other) : nullptr) {
      constants.push_back(known);
      continue;
    }
    const auto bytes = has_bytes ? constant.bytes() : std::span<const std::byte>();
    memory_.push_back({stream_->allocate(static_cast<int64_t>(bytes.size())), Release{stream_.get()}});
    constants.push_back(memory_.back().get());
    stream_->upload(constants.back(), bytes.data(), bytes.size());
  }
}

}  // namespace graft
