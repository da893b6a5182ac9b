// SPDX-License-Identifier: Apache-2.0
#include "import/aten/axes.h"

#include <algorithm>

namespace graft::aten {

using frontend::Conversion;

ValueId sliced(Conversion& c, ValueId x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  return c.add("Slice", {x, c.integers_constant({begin}), c.integers_constant({end}), c.integers_constant({axis}),
                         c.integers_constant({step})});
}

int64_t wrapped_axis(const Conversion& c, int64_t given, int rank) { return c.axis(given, std::max(rank, 1)); }

ValueId transposed(Conversion& c, ValueId x, std::vector<int64_t> order) {
  for (int64_t& axis : order) axis = c.axis(axis, c.rank_of(x));
  return std::is_sorted(order.begin(), order.end()) ? x : c.add("Transpose", {x}, {{"perm", std::move(order)}});
}

ValueId joined(Conversion& c, std::vector<ValueId> parts) {
  if (parts.empty()) return c.integers_constant({});
  return parts.size() == 1 ? parts[0] : c.add("Concat", std::move(parts), {{"axis", int64_t{0}}});
}

TensorData table(Conversion& c, DType type, const std::vector<int64_t>& shape) {
  constexpr int64_t kMost = int64_t{1} << 24;
  int64_t count = 1;
  for (const int64_t size : shape) count = c.product(count, size);
  if (count < 0 || count > kMost) c.refuse("sizes for which its table would be large");
  return TensorData::zeros(type, shape);
}

ValueId sizes(Conversion& c, ValueId x, int64_t begin, int64_t end) {
  return c.add("Shape", {x}, {{"start", begin}, {"end", std::min<int64_t>(end, c.rank_of(x))}});
}

ValueId indices(Conversion& c, std::string_view name) {
  const ValueId given = c.tensor(name);
  if (is_float(c.type_of(given)) || c.type_of(given) == DType::kBool) c.refuse("indices that are no integers");
  return c.cast(given, DType::kInt64);
}

}  // namespace graft::aten
