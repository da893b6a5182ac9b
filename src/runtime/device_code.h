// SPDX-License-Identifier: Apache-2.0
// An engine on a device with memory of its own: its kernels, and its constants once for all sessions.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "engine/engine.h"

namespace graft {

struct DeviceCode {
  DeviceCode(const Engine& engine, std::shared_ptr<Device> on);
  ~DeviceCode();
  DeviceCode(const DeviceCode&) = delete;
  DeviceCode& operator=(const DeviceCode&) = delete;

  std::shared_ptr<Device> device;
  std::vector<std::shared_ptr<const DeviceModule>> modules;
  std::vector<DeviceKernel> kernels;  ///< by EngineKernel; without a function where no step needs one
  std::vector<void*> constants;       ///< by Engine::constants

 private:
  std::unique_ptr<DeviceStream> stream_;
};

}  // namespace graft
