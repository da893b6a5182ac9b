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
  DeviceCode(const DeviceCode&) = delete;
  DeviceCode& operator=(const DeviceCode&) = delete;

  std::shared_ptr<Device> device;
  std::vector<std::shared_ptr<const DeviceModule>> modules;
  std::vector<DeviceKernel> kernels;  ///< by EngineKernel; without a function where no step needs one
  std::vector<void*> constants;       ///< by Engine::constants

 private:
  struct Release {
    DeviceStream* stream;
    void operator()(void* memory) const { stream->release(memory); }
  };

  std::unique_ptr<DeviceStream> stream_;
  std::vector<std::unique_ptr<void, Release>> memory_;  // of the constants; goes before the stream
};

}  // namespace graft
