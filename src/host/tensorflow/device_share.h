// SPDX-License-Identifier: Apache-2.0
// How much of a device's memory the engines of this process take together: TensorFlow's
// per_process_gpu_memory_fraction.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "graft/graft.h"

namespace graft::tensorflow_host {

/// What the engines of this process hold on one device. Usable from any thread.
class DeviceShare {
 public:
  static DeviceShare& of(const std::string& device);
  explicit DeviceShare(std::string device) : device_(std::move(device)) {}

  /// An engine, by any address that is its own, with the bytes of its constants.
  void add(const void* engine, uint64_t constants);
  void remove(const void* engine);
  /// Has a session of an engine keep what all engines hold together inside of a share (0.25) of the device's memory;
  /// 0: no limit. Throws Error where the others hold so much already, or where there is no such device.
  void limit(const void* engine, Session& session, double share);
  /// Takes note of what a session holds between runs.
  void note(const void* engine, const Session& session);

 private:
  struct Held {
    uint64_t constants = 0;
    std::map<const Session*, uint64_t> sessions = {};
  };
  /// What all hold but one session.
  uint64_t held_beside(const Session& session) const;
  uint64_t whole();

  const std::string device_;
  std::mutex mutex_;
  std::map<const void*, Held> engines_;
  uint64_t whole_ = 0;  ///< the device's memory; 0 until somebody asks
};

}  // namespace graft::tensorflow_host
