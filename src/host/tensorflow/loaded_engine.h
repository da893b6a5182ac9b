// SPDX-License-Identifier: Apache-2.0
// Engines of a process for tensors that lie in the host's memory, on any device: what engine.h is over TensorFlow's
// tensors, and tests/tensorflow/program, where there is no TensorFlow.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device_share.h"
#include "graft/graft.h"

namespace graft::tensorflow_host {

/// Which file a path names, and in which state: another one may take its place while a process has the first.
struct FileState {
  uint64_t device = 0, file = 0, bytes = 0;
  int64_t seconds = 0, nanoseconds = 0;  ///< when it was last written
  static FileState of(const std::string& path);  ///< zeros where there is none
  bool operator==(const FileState&) const = default;
};

/// Where a plan lies: in the graph, or in a file as it was when the plan was asked for first (then `bytes` is empty).
struct PlanSource {
  std::string_view bytes;
  std::string path = {};
  FileState state = {};
  static PlanSource in_file(std::string path) { return {{}, path, FileState::of(path)}; }
  bool operator==(const PlanSource&) const = default;
};

/// Immutable, and usable from any number of threads at the same time.
class LoadedEngine {
 public:
  /// The engine of a plan on a device; loads it unless somebody has it. Throws Error.
  static std::shared_ptr<LoadedEngine> of(const PlanSource& plan, const std::string& device);
  /// The engine that a graph names (graft_host_publish_engine). Throws Error where this process has none.
  static std::shared_ptr<LoadedEngine> named(const std::string& name, const std::string& device);
  /// Compiles a model (a GraphDef) for a device. Throws Error.
  static std::shared_ptr<LoadedEngine> build(std::string_view model, const std::vector<graft_option>& options,
                                             const std::string& device);
  LoadedEngine(graft::Engine engine, PlanSource plan, std::string device);
  ~LoadedEngine();
  LoadedEngine(const LoadedEngine&) = delete;
  LoadedEngine& operator=(const LoadedEngine&) = delete;

  const graft_engine* handle() const { return sessions_.engine().handle(); }
  const std::string& device() const { return device_; }

  /// A run of the caller's: a session that nobody else uses, whose memory stays inside of a share.
  class Run {
   public:
    /// `share`: see DeviceShare. Throws Error.
    Run(LoadedEngine& engine, double share);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    graft_session* session() const { return session_->handle(); }
    /// Runs where the inputs lie; `allocator` gives the outputs, in the host's memory.
    graft_status operator()(const std::vector<graft_tensor>& inputs, std::vector<graft_tensor>& outputs,
                            const graft_allocator& allocator, graft_error& error);

   private:
    LoadedEngine& engine_;
    const bool limited_;
    SessionPool::Taken session_;
  };

 private:
  bool is_of(const PlanSource& plan, const std::string& device) const { return plan == plan_ && device == device_; }

  SessionPool sessions_;
  PlanSource plan_;  ///< its bytes are those that the engine keeps
  std::string device_;
  DeviceShare& held_;
};

}  // namespace graft::tensorflow_host
