// SPDX-License-Identifier: Apache-2.0
// torch.classes.graft.Engine: an engine as an attribute of a module, which is saved and loaded with it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include "graft/graft.h"

namespace graft::torchscript {

/// A weight that torch takes from an engine.
struct NativeWeight {
  c10::ScalarType type = c10::ScalarType::Undefined;
  std::vector<int64_t> sizes;
  std::string place;  ///< as graft_host_find_weights gives it
};

/// What an engine knows of the module that it is part of.
struct EngineSettings {
  std::string device = "cpu";
  std::string name = "engine";       ///< what errors and counts call it
  bool has_native = false;           ///< the module has what it stands for, for inputs that it refuses
  std::vector<std::string> readers;  ///< by input: the operator that reads it first, with its source line
  std::vector<int64_t> computed;     ///< inputs that the module computes, rather than takes
  std::vector<NativeWeight> weights;  ///< what the module has instead of the engine takes these from it

  std::string print() const;
  /// Throws for a text that print() does not give.
  static EngineSettings parse(const std::string& text);
};

/// Immutable, and usable from any number of threads at the same time.
class Engine : public torch::CustomClassHolder {
 public:
  /// What a module's file holds of it: the format's version, the version of torch, the settings as text (in format 1
  /// the device), the plan's bytes.
  using State = std::tuple<int64_t, std::string, std::string, at::Tensor>;

  /// Takes the handle over.
  Engine(graft_engine* handle, EngineSettings settings);
  /// Throws for a state of a newer format, naming both. Reads older formats, and states of any version of torch: a plan
  /// has nothing of torch, and torch has read the rest of the module's file by then.
  static c10::intrusive_ptr<Engine> from_state(const State& state);
  State state() const;
  /// Reads what graft_engine_save_bytes gives.
  static c10::intrusive_ptr<Engine> from_plan(const at::Tensor& plan, EngineSettings settings);
  std::string plan_bytes() const;

  /// By tensor: under which number weight() gives it from now on; nothing where the engine has no such weights. For who
  /// writes the module, before anybody else has the engine.
  std::vector<std::optional<int64_t>> keep_weights(const std::vector<at::Tensor>& tensors);
  /// Makes a weight out of those of the engine, where the engine runs.
  at::Tensor weight(int64_t index) const;

  /// Runs once. Inputs are used where they lie, outputs are made by torch's allocator beside them. Gives nothing, and
  /// counts that, for inputs outside of its ranges, and computed ones of another type, where has_native(); else throws.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs);
  std::string describe() const { return graft_engine_describe(handle()); }
  bool has_native() const { return settings_.has_native; }
  /// Whether it runs in fp32 and learns to be of int8.
  bool learns() const { return graft_engine_calibration_runs(handle()) >= 0; }
  /// A name by which the process finds it until it is withdrawn.
  std::string publish() const;
  /// The layers and the error of one of int8, with its name before; empty for others.
  std::string quantization() const;
  std::vector<std::string> input_names() const;
  size_t output_count() const { return graft_engine_output_count(handle()); }

 private:
  graft_engine* handle() const { return sessions_.engine().handle(); }
  graft_tensor view_of(const at::Tensor& tensor, size_t index) const;
  std::string describe_input(size_t index) const;
  bool may_refuse_type(const at::Tensor& tensor, size_t index) const;
  void count_refusal(const char* message);

  SessionPool sessions_;
  EngineSettings settings_;
  std::once_flag refused_;
  std::string refusal_;  ///< the first one, which stands for all of them in the log
};

constexpr int64_t kEngineFormat = 4;

/// Throws unless torch is the version that this library was built with.
void check_torch_version();

}  // namespace graft::torchscript
