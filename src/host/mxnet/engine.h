// SPDX-License-Identifier: Apache-2.0
// Engines, and the arrays that hold their plans: a plan is a parameter of the symbol, saved and loaded as weights are.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graft/graft_c.h"
#include "mxnet/lib_api.h"

namespace graft::extension {

/// Immutable, and usable from any number of threads at the same time.
class Engine {
 public:
  /// Takes the handle over.
  explicit Engine(graft_engine* handle) : handle_(handle, graft_engine_release) {}
  /// Runs once, on MXNet's own memory.
  void run(const mxnet::ext::MXTensor* inputs, size_t input_count, std::vector<mxnet::ext::MXTensor>& outputs);

 private:
  using Session = std::unique_ptr<graft_session, void (*)(graft_session*)>;
  Session take_session();
  graft_tensor view_of(const mxnet::ext::MXTensor& tensor) const;

  std::unique_ptr<graft_engine, void (*)(graft_engine*)> handle_;
  std::mutex mutex_;
  std::vector<Session> free_;  ///< of calls that have ended
};

/// The plan of an engine in an array that `variable` allocates: what it is and its content's hash, then its bytes.
void write_plan(const graft_engine& engine, mxnet::ext::Node& variable);

/// The engine of such an array: one for the process, as long as it is in use, and a while longer. Throws Failure for an
/// array that is none, or that was changed.
std::shared_ptr<Engine> engine_of(const mxnet::ext::MXTensor& plan, const std::string& device);

}  // namespace graft::extension
