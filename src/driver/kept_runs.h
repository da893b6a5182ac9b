// SPDX-License-Identifier: Apache-2.0
// What is kept of passes over the samples: inputs of a few runs, and results in f32.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "driver/measured_network.h"

namespace graft {

/// The inputs of a few runs, for measurements that take many.
class KeptRuns {
 public:
  /// Of `samples` along the first axis; where a run may have any number of them, only as many as are wanted.
  void add(const std::vector<TensorData>& inputs, int64_t samples, bool is_divisible);
  const std::vector<std::vector<TensorData>>& runs() const { return runs_; }
  void clear() { *this = {}; }

 private:
  std::vector<std::vector<TensorData>> runs_;
  int64_t samples_ = 0, bytes_ = 0;
};

/// The results of a network on all samples, where they fit: each network that is tried is compared with them.
class ReferenceResults {
 public:
  explicit ReferenceResults(MeasuredNetwork& network) : network_(network) {}

  /// Of a run; samples may come in another order each time.
  const std::vector<TensorData>& of(const std::vector<TensorData>& inputs);

 private:
  MeasuredNetwork& network_;
  std::map<uint64_t, std::vector<TensorData>> kept_;  ///< by a hash of the inputs
  int64_t bytes_ = 0;
};

}  // namespace graft
