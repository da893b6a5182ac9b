// SPDX-License-Identifier: Apache-2.0
#include "device_share.h"

#include "graft/graft_host.h"

namespace graft::tensorflow_host {

DeviceShare& DeviceShare::of(const std::string& device) {
  static std::mutex mutex;
  static auto* const made = new std::map<std::string, DeviceShare>;  // engines may outlive statics
  const std::lock_guard lock(mutex);
  return made->try_emplace(device, device).first->second;
}

void DeviceShare::add(const void* engine, uint64_t constants) {
  const std::lock_guard lock(mutex_);
  engines_[engine].constants = constants;
}

void DeviceShare::remove(const void* engine) {
  const std::lock_guard lock(mutex_);
  engines_.erase(engine);
}

void DeviceShare::note(const void* engine, const Session& session) {
  const std::lock_guard lock(mutex_);
  engines_[engine].sessions[&session] = graft_session_arena_bytes(session.handle());
}

uint64_t DeviceShare::held_beside(const Session& session) const {
  uint64_t held = 0;
  for (const auto& [engine, each] : engines_) {
    held += each.constants;
    for (const auto& [other, bytes] : each.sessions) held += other == &session ? 0 : bytes;
  }
  return held;
}

uint64_t DeviceShare::whole() {
  if (whole_ != 0) return whole_;
  graft_error error;
  const graft_status status = graft_host_device_memory(device_.c_str(), &whole_, &error);
  if (status != GRAFT_OK) throw Error(static_cast<ErrorKind>(status), error.message);
  return whole_;
}

void DeviceShare::limit(const void* engine, Session& session, double share) {
  if (share <= 0) return session.set_memory_limit(0);
  const std::lock_guard lock(mutex_);
  engines_[engine].sessions.try_emplace(&session, 0);
  const auto most = static_cast<uint64_t>(static_cast<double>(whole()) * share);
  const uint64_t held = held_beside(session);
  if (held >= most) {
    throw Error(ErrorKind::kOutOfMemory, "the engines of this process hold " + std::to_string(held) + " bytes of " +
                                             device_ + ", and may have " + std::to_string(most) +
                                             ": raise per_process_gpu_memory_fraction");
  }
  session.set_memory_limit(most - held);
}

}  // namespace graft::tensorflow_host
