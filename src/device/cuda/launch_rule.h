// SPDX-License-Identifier: Apache-2.0
// What a launch of a kernel needs besides its threads and its memory, as the code generator's lines tell it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/size.h"
#include "device/device.h"

namespace graft {

/// A tensor of which the kernel's copies bring boxes: sizes s0, s1 ... are the kernel's parameters after its buffers.
struct BoxRule {
  int buffer = 0;  ///< the parameter that holds its address
  int element_bytes = 2;
  int swizzle = 0;  ///< bytes of a line that is swizzled: 32, 64 or 128
  struct Axis {
    Size extent, stride;  ///< in elements
    int64_t box = 1;
  };
  std::vector<Axis> axes;  ///< the contiguous one first
};

/// How blocks of a kernel are launched.
struct LaunchRule {
  int cluster = 1;             ///< blocks of one grid point
  int64_t most_blocks = 0;     ///< of one launch, each of which goes on to further grid points; 0: any number
  int buffers = 0, sizes = 0;  ///< parameters: buffers, then sizes, then the status, then one for each of:
  std::vector<BoxRule> boxes;
};

/// A descriptor of a tensor as kernels take it, by value.
struct alignas(64) TensorMap {
  uint64_t words[16] = {};
};

/// Reads `NAME threads N shared BYTES [cluster N] [persistent N] [buffers N sizes N tma ...]`; gives the name, and the
/// kernel without its function. Throws Error{device} when the line is damaged.
std::pair<std::string, DeviceKernel> parse_launch_line(std::string_view line, int multiprocessors);

/// The descriptors for a launch with these arguments, in the order of the rule, encoded anew. A tensor that does not
/// begin at a multiple of 16 bytes gets an empty one: its kernel copies otherwise.
std::vector<TensorMap> tensor_maps(const LaunchRule& rule, void** arguments);

/// The TMA descriptors of the launches of a stream: those of a kernel whose buffers and sizes are as in a launch before
/// are that launch's. Some thousand launches are remembered.
class LaunchedMaps {
 public:
  /// As tensor_maps() gives them; valid until the next call.
  std::span<TensorMap> of(const std::shared_ptr<const LaunchRule>& rule, void** arguments);

 private:
  struct Known {
    std::shared_ptr<const LaunchRule> rule;  ///< kept, so that its address stays its name
    std::vector<TensorMap> maps;
  };

  std::map<std::vector<uint64_t>, Known> known_;  ///< by rule, addresses of the boxed buffers, sizes
  std::vector<uint64_t> key_;
};

}  // namespace graft
