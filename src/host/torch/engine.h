// SPDX-License-Identifier: Apache-2.0
// torch.classes.graft.Engine: an engine as an attribute of a module, which is saved and loaded with it.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include "graft/graft.h"

namespace graft::torchscript {

/// Immutable, and usable from any number of threads at the same time.
class Engine : public torch::CustomClassHolder {
 public:
  /// What a module's file holds of it: the format's version, the version of torch, the device, the plan's bytes.
  using State = std::tuple<int64_t, std::string, std::string, at::Tensor>;

  /// Takes the handle over.
  Engine(graft_engine* handle, std::string device);
  /// Throws for a state of another format or of another version of torch, naming both.
  static c10::intrusive_ptr<Engine> from_state(const State& state);
  State state() const;

  /// Runs once. Inputs are used where they lie, outputs are made by torch's allocator beside them.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs);
  std::string describe() const { return graft_engine_describe(handle()); }

 private:
  graft_engine* handle() const { return sessions_.engine().handle(); }
  graft_tensor view_of(const at::Tensor& tensor, size_t index) const;

  SessionPool sessions_;
  std::string device_;
};

/// Throws unless torch is the version that this library was built with.
void check_torch_version();

}  // namespace graft::torchscript
