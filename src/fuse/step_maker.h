// SPDX-License-Identifier: Apache-2.0
// One step of a fused program made anew as several.
#pragma once

#include <vector>

#include "fuse/fused_program.h"

namespace graft {

/// Makes steps of some forms of one region each, which stands for the region of `step`: it has the same inputs and
/// outputs, and perhaps more tensors. What one step defines and another reads becomes a tensor of the program, appended
/// to `tensors`. The arguments must live as long as this.
class StepMaker {
 public:
  StepMaker(const FusedStep& step, const Region& region, std::vector<FusedTensor>& tensors);

  /// Lets a tensor of the region lie in the memory of a tensor of the program, of the same number of elements.
  void place(int tensor, int memory) { memory_[tensor] = memory; }
  /// The program's tensor of a region's one; made when there is none yet.
  int memory_of(int tensor);
  /// A step of `forms`, which gives `outputs`, tensors of the region. It has the name and nodes of the whole one.
  FusedStep make(const std::vector<Form>& forms, const std::vector<int>& outputs);

 private:
  const FusedStep& step_;
  const Region& region_;
  std::vector<FusedTensor>& tensors_;
  std::vector<int> memory_;  ///< by region tensor: tensor of the program, -1 for none yet
};

}  // namespace graft
