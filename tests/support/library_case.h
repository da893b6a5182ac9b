// SPDX-License-Identifier: Apache-2.0
// A step of a small graph, run in a library and in the interpreter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/tensor_data.h"
#include "device/device.h"
#include "library/match.h"
#include "runtime/session.h"

namespace graft {

/// The normalised region of the step of a graph (in its text form) that is made of `node` and what is fused with it.
Region region_of(std::string_view graph, std::string_view node);

/// The call that the region is under a schedule (its text), or "no: " and the reason.
std::string call_text(const Region& region, std::string_view schedule);

/// One step as an engine, whose weights are packed as the schedule asks, with inputs drawn from a seed.
class LibraryCase {
 public:
  LibraryCase(Region region, std::string_view schedule, Bindings bindings);

  /// What the interpreter says.
  TensorData expected() const;
  /// What a session on so many threads, or on a device, computes; the status is that of the run.
  TensorData run(int threads, Status& status, LibrarySource source, std::shared_ptr<Device> device = nullptr) const;
  /// The greatest difference as a share of the largest expected magnitude.
  static double difference(const TensorData& expected, const TensorData& actual);

  Engine engine() const;
  const std::vector<TensorData>& inputs() const { return inputs_; }

 private:
  TensorData packed_weights(size_t input, const tile::PanelLayout& layout) const;

  Region region_;
  LibrarySchedule schedule_;
  Bindings bindings_;
  std::vector<TensorData> inputs_;  ///< row-major, by region input
};

}  // namespace graft
