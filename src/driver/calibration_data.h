// SPDX-License-Identifier: Apache-2.0
// Samples of a network's inputs, whoever has them: files, a C or C++ program, Python.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/compile_options.h"
#include "graph/graph.h"

namespace graft {

/// Inputs to calibrate with. Batches are asked for in order from 0, and again from 0 for each network that is measured;
/// only one is held at a time.
struct CalibrationData {
  /// Batch `index`: one tensor per input of the graph in its order, of any number of samples; nothing after the last
  /// one. May throw, which ends quantising.
  std::function<std::optional<std::vector<TensorData>>(size_t index)> batch;
  size_t count = 0;   ///< of batches; 0: until there is none
  std::string where;  ///< what errors name: the file or folder
  bool are_runs = false;  ///< batches are runs as they are, neither divided nor joined

  explicit operator bool() const { return static_cast<bool>(batch); }
};

/// How a network takes samples: one beside another along the first axis that its inputs have in common, or, where they
/// have none in common, each set of tensors as it is.
class SampleForm {
 public:
  /// Throws unsupported for a network without inputs, or with one that is no tensor of numbers.
  explicit SampleForm(const Graph& graph);

  bool is_batched() const { return batched_; }
  /// Samples of a run: what the network takes, or, where it takes any number, 8, as all activations of a run are in
  /// memory at once.
  int64_t samples_of_run() const { return fixed_.value_or(8); }
  bool is_fixed() const { return fixed_.has_value(); }
  /// The shape with which a tensor becomes input number `input`: with a first axis where it lacks that. Throws
  /// invalid_argument naming `where`, the input and the remedy.
  std::vector<int64_t> fitted(size_t input, DType type, std::vector<int64_t> shape, const std::string& where) const;
  /// The samples that tensors of fitted shapes hold; throws invalid_argument where they differ.
  int64_t samples(std::span<const std::vector<int64_t>> shapes, const std::string& where) const;

 private:
  struct Input {
    std::string name;
    DType type;
    std::optional<Shape> shape;
  };
  std::vector<Input> inputs_;
  std::optional<int64_t> fixed_;
  bool batched_ = false;
};

/// How many samples a pass has used.
struct SampleCount {
  size_t runs = 0;
  int64_t samples = 0;
  int64_t left_out = 0;  ///< at the end, too few for a network that takes a fixed number at a time
  uint64_t hash = 0;     ///< of the samples, whatever their order and their division into batches

  /// Counts a run on so many samples.
  void add(const std::vector<TensorData>& inputs, int64_t of_run);
};

/// Calls `use(inputs)` with what each run of the network takes: batches are divided, and joined where the network takes
/// a fixed number of samples. Reports progress as `what`. Throws invalid_argument for data that does not fit, or is not
/// enough for one run; `cancelled`.
SampleCount for_each_run(const CalibrationData& data, const SampleForm& form, const CompileOptions& options,
                         std::string_view what, const std::function<void(const std::vector<TensorData>&)>& use);

}  // namespace graft
