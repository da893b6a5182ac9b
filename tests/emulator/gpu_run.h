// SPDX-License-Identifier: Apache-2.0
// Graphs on the emulated GPUs of this process, against the interpreter.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/tensor_data.h"
#include "driver/compile.h"
#include "graph/graph.h"
#include "plan/build_engine.h"

namespace graft {

/// A graph with inputs drawn from a seed and what the interpreter makes of them. `sizes`: values of its symbols;
/// `precision`: what the passes then lower it to, `fp16`, `bf16` or `tf32`.
class GpuCase {
 public:
  GpuCase(std::string_view text, Bindings sizes, const std::string& precision = "");

  /// Builds for a target (`sm_90a`) with the step of that name done by a schedule, by the cost model's where that is
  /// empty; fails the test when the schedule is refused or a step has no kernel. Gives the outputs, or none.
  std::vector<TensorData> run(const std::string& target, const std::string& step, const std::string& schedule) const;
  /// Gives an input other numbers; the interpreter's results follow.
  void replace(const std::string& input, TensorData data);
  const TensorData& input(const std::string& name) const { return inputs_.at(name); }
  /// The greatest difference of an output to the interpreter's, as a share of its largest number.
  double difference(const std::vector<TensorData>& actual) const;

 private:
  BuiltEngine build(const std::string& target, const Record* record) const;

  Graph given_, graph_;
  CompileOptions options_;
  Bindings sizes_;
  std::map<std::string, TensorData> inputs_;
  std::vector<TensorData> expected_;
};

/// How far results of a type may be from the interpreter's at most, as a share of the largest; `integer`: not at all.
double tolerance_on_gpu(std::string_view type);

}  // namespace graft
