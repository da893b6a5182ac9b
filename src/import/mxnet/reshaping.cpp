// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// A size of the result: a number (-1: what is left), or the product of some of the input's axes.
struct Extent {
  int64_t number = 1;
  std::vector<int64_t> axes = {};
};

/// Reads MXNet's codes: 0 copies an axis, -1 is what is left, -2 copies all that remain, -3 joins two, and -4 a b
/// splits one.
class Codes {
 public:
  Codes(Conversion& c, int rank, std::vector<int64_t> codes) : c_(c), rank_(rank), codes_(std::move(codes)) {}

  std::vector<Extent> extents() {
    for (next_ = 0; next_ < codes_.size(); ++next_) take(codes_[next_]);
    return std::move(extents_);
  }

 private:
  void take(int64_t code) {
    if (code > 0) {
      extents_.push_back({code});
      ++axis_;
    } else if (code == 0) {
      extents_.push_back({1, {axis()}});
    } else if (code == -1) {
      extents_.push_back({-1});
      ++axis_;
    } else if (code == -2) {
      while (axis_ < rank_) extents_.push_back({1, {axis_++}});
    } else if (code == -3) {
      const int64_t first = axis();
      extents_.push_back({1, {first, axis()}});
    } else if (code == -4) {
      split();
    } else {
      c_.refuse(fmt::format("{} in its shape", code));
    }
  }

  /// The next axis of the input.
  int64_t axis() {
    if (axis_ >= rank_) c_.refuse("a shape that copies more axes than there are");
    return axis_++;
  }

  void split() {
    if (next_ + 2 >= codes_.size()) c_.refuse("-4 in its shape without the two sizes behind it");
    const auto size = c_.size_of(c_.tensor("data"), axis()).as_constant();
    int64_t first = codes_[next_ + 1], second = codes_[next_ + 2];
    if (first == -1 || second == -1) {
      const int64_t known = first == -1 ? second : first;
      if (!size || known <= 0 || *size % known != 0) c_.refuse("-4 in its shape, of an axis that does not divide");
      (first == -1 ? first : second) = *size / known;
    }
    extents_.push_back({first});
    extents_.push_back({second});
    next_ += 2;
  }

  Conversion& c_;
  int rank_;
  std::vector<int64_t> codes_;
  std::vector<Extent> extents_;
  size_t next_ = 0;
  int64_t axis_ = 0;
};

/// The number that an extent is, where sizes are known.
std::optional<int64_t> known(Conversion& c, ValueId data, const Extent& extent) {
  int64_t product = extent.number;
  for (const int64_t axis : extent.axes) {
    const auto size = c.size_of(data, axis).as_constant();
    if (!size) return std::nullopt;
    product = c.product(product, *size);
  }
  return product;
}

/// An extent as a tensor of one element, computed while running.
ValueId computed(Conversion& c, ValueId data, const Extent& extent) {
  ValueId product = kNoValue;
  for (const int64_t axis : extent.axes) {
    const ValueId size = c.add("Shape", {data}, {{"start", axis}, {"end", axis + 1}});
    product = product == kNoValue ? size : c.add("Mul", {product, size});
  }
  return product;
}

void reshape_to(Conversion& c, ValueId data, const std::vector<Extent>& extents) {
  std::vector<int64_t> numbers;
  std::vector<ValueId> parts;
  bool fixed = true;
  for (const Extent& extent : extents) {
    const auto number = known(c, data, extent);
    fixed = fixed && number;
    numbers.push_back(number.value_or(0));
    parts.push_back(number ? c.integers_constant({*number}) : computed(c, data, extent));
  }
  const ValueId shape = fixed ? c.integers_constant(numbers) : c.add("Concat", parts, {{"axis", int64_t{0}}});
  c.give(c.add("Reshape", {data, shape}, {{"allowzero", int64_t{1}}}));
}

void reshape(Conversion& c) {
  const ValueId data = c.tensor("data");
  const int rank = c.rank_of(data);
  std::vector<int64_t> codes = integers(c, "shape");
  if (codes.empty()) c.refuse("the shape that versions before 0.9 gave as target_shape");
  if (!flag(c, "reverse")) return reshape_to(c, data, Codes(c, rank, codes).extents());
  if (std::find(codes.begin(), codes.end(), -4) != codes.end()) c.refuse("-4 in a shape that is read from behind");
  std::reverse(codes.begin(), codes.end());
  std::vector<Extent> extents = Codes(c, rank, codes).extents();
  std::reverse(extents.begin(), extents.end());
  for (Extent& extent : extents) {
    for (int64_t& axis : extent.axes) axis = rank - 1 - axis;
  }
  reshape_to(c, data, extents);
}

void flatten(Conversion& c) { c.give(c.add("Flatten", {c.tensor("data")}, {{"axis", int64_t{1}}})); }

void expand_dims(Conversion& c) {
  c.give(c.add("Unsqueeze", {c.tensor("data"), c.integers_constant({integer(c, "axis")})}));
}

/// The axes named, or all of size 1.
void squeeze(Conversion& c) {
  const ValueId data = c.tensor("data");
  const int rank = c.rank_of(data);
  std::vector<int64_t> axes = integers(c, "axis");
  for (int64_t& axis : axes) axis = c.axis(axis, rank);
  for (int axis = 0; axis < rank && !given(c, "axis"); ++axis) {
    const auto size = c.size_of(data, axis).as_constant();
    if (!size) c.refuse("whether an axis has size 1 is known only while running");
    if (*size == 1) axes.push_back(axis);
  }
  if (!axes.empty() && static_cast<int>(axes.size()) == rank) axes.erase(axes.begin());  // MXNet keeps one axis
  c.give(axes.empty() ? data : c.add("Squeeze", {data, c.integers_constant(axes)}));
}

}  // namespace

std::vector<Row> reshaping_rows() {
  return {
      {"Reshape reshape", "data, shape=(), reverse=False, target_shape=(), keep_highest=False", reshape},
      {"Flatten flatten", "data", flatten},
      {"expand_dims", "data, axis", expand_dims},
      {"squeeze", "data, axis=None", squeeze},
  };
}

}  // namespace graft::mxnet
