// SPDX-License-Identifier: Apache-2.0
// A call in cuDNN: a plan and the addresses that it was run with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "library/cudnn/chosen_plan.h"

namespace graft::cudnn {

/// Ready to run on the stream of its plan; one thread at a time.
class Plan {
 public:
  explicit Plan(std::shared_ptr<const ChosenPlan> chosen);

  int64_t workspace_bytes() const { return chosen_->workspace; }
  /// Puts the work into the stream. Returns 0 or cuDNN's status.
  int run(void* const* buffers, void* workspace);
  const std::string& implementation() const { return chosen_->implementation; }

 private:
  /// A tensor of the graph that a run gives an address.
  struct Place {
    int buffer = -1;    ///< below 0: a number of the graph
    int64_t bytes = 0;  ///< where in the buffer it begins
  };

  std::shared_ptr<const ChosenPlan> chosen_;
  std::vector<Place> places_;  ///< by identity in the graph, from 1 on
  // The last run's addresses, and what cuDNN takes them in.
  std::vector<void*> addresses_;
  std::unique_ptr<Descriptor> addresses_pack_;
  void* packed_workspace_ = nullptr;
};

}  // namespace graft::cudnn
