// SPDX-License-Identifier: Apache-2.0
// Engines, and the arrays that hold their plans: a plan is a parameter of the symbol, saved and loaded as weights are.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graft/graft.h"
#include "mxnet/lib_api.h"

namespace graft::extension {

/// Immutable, and usable from any number of threads at the same time.
class Engine {
 public:
  /// Takes the handle over.
  explicit Engine(graft_engine* handle) : sessions_(graft::Engine(handle)) {}
  /// Runs once, on MXNet's own memory. `scratch`: where intermediate results go; null: memory of the engine's own.
  void run(const mxnet::ext::MXTensor* inputs, size_t input_count, std::vector<mxnet::ext::MXTensor>& outputs,
           const mxnet::ext::OpResource* scratch);

 private:
  graft_tensor view_of(const mxnet::ext::MXTensor& tensor) const;

  SessionPool sessions_;
};

/// The plan of an engine in an array that `variable` allocates: what it is and its content's hash, then its bytes.
void write_plan(const graft_engine& engine, mxnet::ext::Node& variable);

/// The engine that a node names (graft_host_publish_engine); null where this process has none.
std::shared_ptr<Engine> named_engine(const std::string& name);

/// The engine of such an array: one for the process, as long as it is in use, and a while longer. Throws Failure for an
/// array that is none, or that was changed.
std::shared_ptr<Engine> engine_of(const mxnet::ext::MXTensor& plan, const std::string& device);

}  // namespace graft::extension
