// SPDX-License-Identifier: Apache-2.0
// An engine on a device with memory of its own: its kernels, and its constants once for all sessions.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "engine/engine.h"

namespace graft {

struct DeviceCode {
  /// Modules and constants that another engine has there, too, are its: `other`, of `engine_of_other`; both or none are
  /// null.
  DeviceCode(const Engine& engine, std::shared_ptr<Device> on, std::shared_ptr<const DeviceCode> other = nullptr,
             const Engine* engine_of_other = nullptr);
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

  std::shared_ptr<const DeviceModule> module_for(const std::vector<std::byte>& code, const Engine* other) const;
  void* constant_for(const TensorData& constant, const Engine* other) const;

  std::shared_ptr<const DeviceCode> other_;
  std::unique_ptr<DeviceStream> stream_;
  std::vector<std::unique_ptr<void, Release>> memory_;  // of the constants; goes before the stream
};

}  // namespace graft
