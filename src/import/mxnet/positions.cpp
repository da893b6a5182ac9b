// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/positions.h"

namespace graft::mxnet {

using frontend::Conversion;

ValueId integer_scalar(Conversion& c, int64_t value) {
  return c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {value}));
}

ValueId count_up_to(Conversion& c, ValueId count) {
  return c.add("Range", {integer_scalar(c, 0), count, integer_scalar(c, 1)});
}

std::vector<int64_t> shape_along(Conversion& c, ValueId data, int64_t axis) {
  std::vector<int64_t> shape(static_cast<size_t>(c.rank_of(data)), 1);
  shape[static_cast<size_t>(axis)] = -1;
  return shape;
}

ValueId positions(Conversion& c, ValueId data, int64_t axis) {
  const ValueId size = c.add("Shape", {data}, {{"start", axis}, {"end", axis + 1}});
  const ValueId count = c.add("Squeeze", {size, c.integers_constant({0})});
  return c.add("Reshape", {count_up_to(c, count), c.integers_constant(shape_along(c, data, axis))});
}

}  // namespace graft::mxnet
