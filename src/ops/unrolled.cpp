// SPDX-License-Identifier: Apache-2.0
#include "ops/unrolled.h"

#include <algorithm>
#include <utility>

#include "ops/recurrent.h"

namespace graft {
namespace {

constexpr int64_t kLongest = 512;  // steps
constexpr int64_t kTogether = 16;  // steps that are put together at a time

}  // namespace

bool is_unrolled(const Size& length) {
  const auto steps = length.as_constant();
  return steps && *steps >= 1 && *steps <= kLongest;
}

int64_t unrolled_steps(Definition& d, const Size& length) {
  const auto steps = length.as_constant();
  if (!steps) d.unsupported("a recurrence over a length that is not known when compiling");
  if (*steps < 1 || *steps > kLongest) {
    d.unsupported("a recurrence over " + std::to_string(*steps) + " steps (1 to " + std::to_string(kLongest) + ")");
  }
  return *steps;
}

Steps::Steps(Definition& d, std::vector<Tensor> steps) : parts_(std::move(steps)) {
  if (std::ssize(parts_) <= kTogether) return;
  std::vector<Tensor> parts;
  for (size_t first = 0; first < parts_.size(); first += kTogether) {
    const size_t last = std::min(first + kTogether, parts_.size());
    const auto begin = parts_.begin();
    const Steps some(d, {begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last)});
    Shape shape = parts_[first].shape();
    shape.insert(shape.begin(), Size(static_cast<int64_t>(last - first)));
    parts.push_back(d.compute("steps", parts_[first].type(), shape, [&](const Indices& i) {
      return some.element(i[0], {i.begin() + 1, i.end()});
    }));
  }
  parts_ = std::move(parts);
  each_ = kTogether;
}

Expr Steps::element(const Expr& step, const Indices& indices) const {
  return between(0, parts_.size(), step, indices);
}

/// The parts [first, last), halved until one is left, so that an element meets log(steps) comparisons.
Expr Steps::between(size_t first, size_t last, const Expr& step, const Indices& indices) const {
  if (last - first == 1) {
    Indices own = indices;
    if (each_ > 1) own.insert(own.begin(), step - make_index(static_cast<int64_t>(first) * each_));
    return parts_[first].wide(own);
  }
  const size_t middle = (first + last) / 2;
  return select(lt(step, make_index(static_cast<int64_t>(middle) * each_)), between(first, middle, step, indices),
                between(middle, last, step, indices));
}

}  // namespace graft
