// SPDX-License-Identifier: Apache-2.0
#include "driver/weight_places.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "graph/bodies.h"
#include "tile/panel_layout.h"

namespace graft {
namespace {

constexpr int kMostAxes = 4;       // whose orders are tried, axes of one element apart
constexpr int64_t kSamples = 16;   // elements that are compared before all are
constexpr int64_t kPiece = 4096;   // elements that are compared or copied at a time

/// The strides of a row-major tensor.
std::vector<int64_t> row_major(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

/// The index that element `at` of a tensor of that shape has at a place.
int64_t index_at(const WeightPlace& place, std::span<const int64_t> shape, int64_t at) {
  int64_t index = place.offset;
  for (size_t axis = shape.size(); axis-- > 0; at /= shape[axis]) index += at % shape[axis] * place.strides[axis];
  return index;
}

/// Calls visit(first, index, stride, count) for pieces of the parameter whose elements lie evenly in the constant.
template <class Visit>
void visit_pieces(const WeightPlace& place, std::span<const int64_t> shape, const Visit& visit) {
  const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  const int64_t row = shape.empty() ? 1 : shape.back(), stride = shape.empty() ? 1 : place.strides.back();
  for (int64_t first = 0; first < count; first += row) {
    const int64_t index = index_at(place, shape, first);
    for (int64_t i = 0; i < row; i += kPiece) visit(first + i, index + i * stride, stride, std::min(kPiece, row - i));
  }
}

void read_evenly(const TensorData& data, int64_t index, int64_t stride, std::span<double> values) {
  if (stride == 1) return data.read_doubles(index, values);
  for (double& value : values) value = data.read_double(index), index += stride;
}

/// What rounding to the type changes at most, relative to a number, and the least that it tells from zero.
struct Rounding {
  double relative = 0x1p-21, least = 0;
};

Rounding rounding_of(DType type) {
  if (type == DType::kFloat16) return {0x1p-10, 0x1p-24};
  if (type == DType::kBFloat16) return {0x1p-7, 0};
  return {};
}

bool agrees(double has, double wanted, const Rounding& rounding) {
  return std::abs(has - wanted) <= rounding.relative * std::abs(wanted) + rounding.least;
}

bool has_samples(const TensorData& constant, const WeightPlace& place, const TensorData& weight,
                 const Rounding& rounding) {
  const int64_t count = weight.element_count();
  for (int64_t i = 0; i < kSamples; ++i) {
    const int64_t at = (i * (count - 1)) / (kSamples - 1);
    if (!agrees(constant.read_double(index_at(place, weight.shape(), at)), weight.read_double(at), rounding)) {
      return false;
    }
  }
  return true;
}

bool has_all(const TensorData& constant, const WeightPlace& place, const TensorData& weight, const Rounding& rounding) {
  std::vector<double> has, wanted;
  bool same = true;
  visit_pieces(place, weight.shape(), [&](int64_t first, int64_t index, int64_t stride, int64_t count) {
    if (!same) return;
    has.resize(static_cast<size_t>(count)), wanted.resize(static_cast<size_t>(count));
    read_evenly(constant, index, stride, has);
    weight.read_doubles(first, wanted);
    for (size_t i = 0; i < has.size() && same; ++i) same = agrees(has[i], wanted[i], rounding);
  });
  return same;
}

/// Calls visit(name, constant) for those of floats, in bodies, too, by the names of large_constants, which reads them.
void visit_constants(const Graph& graph, const std::string& prefix,
                     const std::function<void(const std::string&, const TensorData&)>& visit) {
  for (const Value& value : graph.values) {
    if (value.constant && is_float(value.constant->type())) visit(prefix + value.name, *value.constant);
  }
  for (const Node& node : graph.nodes) {
    for (const NodeBody& body : bodies_of(node)) {
      visit_constants(*body.graph, fmt::format("{}{}/{}/", prefix, node.name, body.attribute), visit);
    }
  }
}

/// A constant of the plan's graph. Those that are held packed are unpacked for the caller alone.
TensorData elements_of(const Plan& plan, const std::string& name, const TensorData& constant) {
  const auto packed = std::find_if(plan.packed.begin(), plan.packed.end(),
                                   [&](const PackedConstant& each) { return each.name == name; });
  if (packed == plan.packed.end()) return constant;
  return tile::unpack(tile::parse_panel_layout(packed->layout), packed->data, packed->view).reshaped(constant.shape());
}

/// Axes of more than one element.
std::vector<size_t> long_axes(std::span<const int64_t> shape) {
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != 1) axes.push_back(axis);
  }
  return axes;
}

/// A constant in which weights are looked for.
class Constant {
 public:
  Constant(const std::string& name, TensorData data)
      : name_(name), data_(std::move(data)), axes_(long_axes(data_.shape())), strides_(row_major(data_.shape())) {}

  /// Where it has the weight: in any order of axes, in part of one of them.
  std::optional<WeightPlace> find(const TensorData& weight) const {
    const std::vector<size_t> axes = long_axes(weight.shape());
    if (axes.size() != axes_.size() || axes.size() > kMostAxes) return std::nullopt;
    std::vector<size_t> order(axes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    do {
      if (auto place = find(weight, axes, order)) return place;
    } while (std::next_permutation(order.begin(), order.end()));
    return std::nullopt;
  }

 private:
  /// `order`: by axis of the weight, which of the constant's it is.
  std::optional<WeightPlace> find(const TensorData& weight, const std::vector<size_t>& axes,
                                  const std::vector<size_t>& order) const {
    WeightPlace place{.constant = name_, .strides = std::vector<int64_t>(weight.shape().size(), 0)};
    int64_t parts = 1, step = 0;  // how many places there are along the one axis that is longer than the weight's
    for (size_t i = 0; i < axes.size(); ++i) {
      const size_t axis = axes_[order[i]];
      const int64_t more = data_.shape()[axis] - weight.shape()[axes[i]];
      if (more < 0 || (more > 0 && step > 0)) return std::nullopt;
      if (more > 0) parts = more + 1, step = strides_[axis];
      place.strides[axes[i]] = strides_[axis];
    }
    const Rounding rounding = bit_width(data_.type()) < bit_width(weight.type()) ? rounding_of(data_.type())
                                                                                 : rounding_of(weight.type());
    for (int64_t part = 0; part < parts; ++part, place.offset += step) {
      if (has_samples(data_, place, weight, rounding) && has_all(data_, place, weight, rounding)) return place;
    }
    return std::nullopt;
  }

  std::string name_;
  TensorData data_;
  std::vector<size_t> axes_;
  std::vector<int64_t> strides_;
};

int64_t number(std::string_view text, std::string_view whole) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, value);
  GRAFT_USER_CHECK(fault == std::errc() && stop == end && value >= 0 && value < int64_t{1} << 40, kInvalidArgument,
                   fmt::format("'{}' is no place of a weight", whole), "read_weight");
  return value;
}

/// Throws unless every element of a tensor of that shape has an index below `count`.
void check_inside(const WeightPlace& place, std::span<const int64_t> shape, int64_t count) {
  bool inside = place.strides.size() == shape.size() && place.offset < count;
  int64_t last = place.offset;
  for (size_t axis = 0; inside && axis < shape.size(); ++axis) {
    inside = shape[axis] == 0 || place.strides[axis] == 0 || shape[axis] - 1 <= (count - last) / place.strides[axis];
    if (inside && shape[axis] > 0) last += (shape[axis] - 1) * place.strides[axis];
  }
  GRAFT_USER_CHECK(inside && last < count, kInvalidArgument,
                   fmt::format("'{}' lies outside of the constant of {} elements", print(place), count), "read_weight");
}

}  // namespace

std::string print(const WeightPlace& place) {
  return fmt::format("{} {} {}", place.offset, fmt::join(place.strides, ","), place.constant);
}

WeightPlace parse_weight_place(std::string_view text) {
  const size_t first = text.find(' '), second = first == text.npos ? first : text.find(' ', first + 1);
  GRAFT_USER_CHECK(second != text.npos, kInvalidArgument, fmt::format("'{}' is no place of a weight", text),
                   "read_weight");
  WeightPlace place{.constant = std::string(text.substr(second + 1)), .offset = number(text.substr(0, first), text)};
  for (std::string_view rest = text.substr(first + 1, second - first - 1); !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    place.strides.push_back(number(rest.substr(0, comma), text));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return place;
}

std::vector<std::optional<WeightPlace>> find_weights(const Plan& plan, std::span<const TensorData> weights) {
  std::vector<std::optional<WeightPlace>> places(weights.size());
  visit_constants(plan.graph, "", [&](const std::string& name, const TensorData& data) {
    std::optional<Constant> constant;
    for (size_t i = 0; i < weights.size(); ++i) {
      const TensorData& weight = weights[i];
      if (places[i] || !is_float(weight.type()) || weight.element_count() < kSamples ||
          weight.element_count() > data.element_count()) {
        continue;
      }
      if (!constant) constant.emplace(name, elements_of(plan, name, data));
      places[i] = constant->find(weight);
    }
  });
  return places;
}

TensorData read_weight(const Plan& plan, const WeightPlace& place, DType type, std::vector<int64_t> shape) {
  std::optional<TensorData> found;
  visit_constants(plan.graph, "", [&](const std::string& name, const TensorData& data) {
    if (name == place.constant) found = data;
  });
  GRAFT_USER_CHECK(found && is_float(type), kInvalidArgument,
                   fmt::format("the plan has no weights '{}'", place.constant), "read_weight");
  checked_element_count(type, shape, "read_weight");
  check_inside(place, shape, found->element_count());
  const TensorData constant = elements_of(plan, place.constant, *found);
  TensorData made = TensorData::zeros(type, shape);
  std::vector<double> values;
  visit_pieces(place, shape, [&](int64_t first, int64_t index, int64_t stride, int64_t count) {
    values.resize(static_cast<size_t>(count));
    read_evenly(constant, index, stride, values);
    made.write_doubles(first, values);
  });
  return made;
}

}  // namespace graft
