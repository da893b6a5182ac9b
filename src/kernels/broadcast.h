// SPDX-License-Identifier: Apache-2.0
// Pairs of elements of two tensors that broadcast to one shape.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace graft {

class Broadcast {
 public:
  /// Throws invalid_argument when the shapes do not broadcast.
  Broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b)
      : shape_(std::max(a.size(), b.size())), first_(shape_.size()), second_(shape_.size()) {
    int64_t first_stride = 1, second_stride = 1;
    for (size_t axis = shape_.size(); axis-- > 0;) {
      const size_t behind = shape_.size() - axis;
      const int64_t one = behind > a.size() ? 1 : a[a.size() - behind];
      const int64_t other = behind > b.size() ? 1 : b[b.size() - behind];
      GRAFT_USER_CHECK(one == other || one == 1 || other == 1, kInvalidArgument,
                       fmt::format("[{}] and [{}] do not broadcast", fmt::join(a, ", "), fmt::join(b, ", ")), "");
      shape_[axis] = one == 1 ? other : one;
      first_[axis] = one == 1 ? 0 : first_stride;
      second_[axis] = other == 1 ? 0 : second_stride;
      first_stride *= one;
      second_stride *= other;
    }
  }
  const std::vector<int64_t>& shape() const { return shape_; }

  /// Calls `visit(place, place in a, place in b)` for each element, in order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    if (std::find(shape_.begin(), shape_.end(), 0) != shape_.end()) return;
    std::vector<int64_t> index(shape_.size());
    int64_t first = 0, second = 0;
    for (int64_t at = 0;; ++at) {
      visit(at, first, second);
      size_t axis = shape_.size();
      for (; axis-- > 0;) {
        first += first_[axis];
        second += second_[axis];
        if (++index[axis] < shape_[axis]) break;
        first -= first_[axis] * shape_[axis];
        second -= second_[axis] * shape_[axis];
        index[axis] = 0;
      }
      if (axis == static_cast<size_t>(-1)) return;
    }
  }

 private:
  std::vector<int64_t> shape_, first_, second_;  ///< and the strides of either
};

}  // namespace graft
