// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "import/aten/axes.h"
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

/// What all pooling has; an empty stride is the kernel's.
Attributes window(Conversion& c, size_t axes) {
  const std::vector<int64_t> kernel = c.integers("kernel_size", axes), half = c.integers("padding", axes);
  std::vector<int64_t> stride = c.has("stride") ? c.integers("stride") : kernel, pads = half;
  if (stride.empty()) stride = kernel;
  if (stride.size() == 1) stride.assign(axes, stride[0]);
  pads.insert(pads.end(), half.begin(), half.end());
  return {{"kernel_shape", kernel}, {"strides", stride}, {"pads", pads}, {"ceil_mode", int64_t{c.flag("ceil_mode")}}};
}

/// Positions within each map, where graph operators count through all of them.
ValueId positions(Conversion& c, ValueId x, const Attributes& attributes, int axes) {
  const ValueId through = c.add_several("MaxPool", {x}, Attributes(attributes), 2)[1];
  const ValueId size = c.add("ReduceProd", {sizes(c, x, 2), kNoValue}, {{"keepdims", int64_t{0}}});
  if (c.rank_of(x) != axes + 2) c.refuse("an input of another number of axes");
  return c.add("Mod", {through, size});
}

/// Values and positions are operators of their own: nearly nobody takes the positions.
Build max_pool(int axes, bool with_positions) {
  return [=](Conversion& c) {
    Attributes attributes = window(c, static_cast<size_t>(axes));
    attributes["dilations"] = c.integers("dilation", static_cast<size_t>(axes));
    const ValueId self = c.tensor("self");
    const auto pool = [&](ValueId x) { return c.add("MaxPool", {x}, Attributes(attributes)); };
    const auto where = [&](ValueId x) { return positions(c, x, attributes, axes); };
    std::vector<ValueId> results = {with_batch(c, self, axes + 1, pool)};
    if (with_positions) results.push_back(with_batch(c, self, axes + 1, where));
    c.give(std::move(results));
  };
}

/// A divisor of the caller's own stands for the number of elements of a window.
Build avg_pool(int axes) {
  return [=](Conversion& c) {
    Attributes attributes = window(c, static_cast<size_t>(axes));
    const bool divided = axes > 1 && c.has("divisor_override");
    if (divided && c.flag("ceil_mode")) c.refuse("a divisor of the caller's own beside ceil_mode");
    attributes["count_include_pad"] = int64_t{divided || c.flag("count_include_pad")};
    ValueId result = with_batch(c, c.tensor("self"), axes + 1,
                                [&](ValueId x) { return c.add("AveragePool", {x}, Attributes(attributes)); });
    if (divided) {
      double count = 1;
      for (const int64_t size : c.integers("kernel_size", static_cast<size_t>(axes)))
        count *= static_cast<double>(size);
      result = c.add("Mul", {result, number(c, count / c.real("divisor_override"), result)});
    }
    c.give(result);
  };
}

/// Windows that differ in size are rows of a matrix: i has those from floor(i n / m) to ceil((i + 1) n / m).
ValueId mean_of_windows(Conversion& c, ValueId x, int64_t axis, int64_t wanted) {
  const auto size = c.size_of(x, axis).as_constant();
  if (!size) c.refuse("windows of an input whose size is known only while running");
  TensorData weights = table(c, c.type_of(x), {*size, wanted});
  for (int64_t i = 0; i < wanted; ++i) {
    const int64_t begin = i * *size / wanted, end = ((i + 1) * *size + wanted - 1) / wanted;
    for (int64_t at = begin; at < end; ++at)
      weights.write_double(at * wanted + i, 1.0 / static_cast<double>(end - begin));
  }
  const int64_t last = c.rank_of(x) - 1;
  std::vector<int64_t> order(static_cast<size_t>(last + 1));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::swap(order[static_cast<size_t>(axis)], order[static_cast<size_t>(last)]);
  return transposed(c, c.add("MatMul", {transposed(c, x, order), c.constant(std::move(weights))}), order);
}

/// The same windows as rows of positions, the shorter ones with their last element again, which changes no maximum.
ValueId largest_of_windows(Conversion& c, ValueId x, int64_t axis, int64_t wanted) {
  const auto size = c.size_of(x, axis).as_constant();
  if (!size || *size == 0) c.refuse("windows of an input whose size is known only while running, or zero");
  const auto begin = [&](int64_t i) { return i * *size / wanted; };
  const auto end = [&](int64_t i) { return ((i + 1) * *size + wanted - 1) / wanted; };
  table(c, DType::kInt64, {wanted, *size / wanted + 2});  // refuses what would be large
  int64_t most = 0;
  for (int64_t i = 0; i < wanted; ++i) most = std::max(most, end(i) - begin(i));
  TensorData places = table(c, DType::kInt64, {wanted, most});
  for (int64_t i = 0; i < wanted; ++i) {
    for (int64_t k = 0; k < most; ++k) places.write_integer(i * most + k, std::min(begin(i) + k, end(i) - 1));
  }
  const ValueId windows = c.add("Gather", {x, c.constant(std::move(places))}, {{"axis", axis}});
  return c.add("ReduceMax", {windows, c.integers_constant({axis + 1})}, {{"keepdims", int64_t{0}}});
}

/// Kernels whose windows are of equal size; none where the output does not divide the input.
std::optional<std::vector<int64_t>> equal_windows(Conversion& c, ValueId x, const std::vector<int64_t>& wanted) {
  std::vector<int64_t> kernel;
  for (size_t axis = 0; axis < wanted.size(); ++axis) {
    const auto place = static_cast<int64_t>(axis) + c.rank_of(x) - std::ssize(wanted);
    const auto size = c.size_of(x, place).as_constant();
    if (wanted[axis] <= 0) c.refuse("an output without elements");
    if (!size || *size % wanted[axis] != 0) return std::nullopt;
    kernel.push_back(*size / wanted[axis]);
  }
  return kernel;
}

ValueId adaptive_pool(Conversion& c, ValueId x, const std::vector<int64_t>& wanted, bool mean) {
  const bool whole = std::all_of(wanted.begin(), wanted.end(), [](int64_t size) { return size == 1; });
  if (whole) return c.add(mean ? "GlobalAveragePool" : "GlobalMaxPool", {x});
  if (const auto kernel = equal_windows(c, x, wanted)) {
    if (std::all_of(kernel->begin(), kernel->end(), [](int64_t size) { return size == 1; })) return x;
    return c.add(mean ? "AveragePool" : "MaxPool", {x}, {{"kernel_shape", *kernel}, {"strides", *kernel}});
  }
  for (size_t axis = 0; axis < wanted.size(); ++axis) {
    x = (mean ? mean_of_windows : largest_of_windows)(c, x, static_cast<int64_t>(axis + 2), wanted[axis]);
  }
  return x;
}

/// The largest come with where they are.
Build adaptive(int axes, bool mean) {
  return [=](Conversion& c) {
    const ValueId self = c.tensor("self");
    const std::vector<int64_t> wanted = c.integers("output_size", static_cast<size_t>(axes));
    const auto pool = [&](ValueId x) { return adaptive_pool(c, x, wanted, mean); };
    const auto where = [&](ValueId x) {
      const auto kernel = equal_windows(c, x, wanted);
      return kernel ? positions(c, x, {{"kernel_shape", *kernel}, {"strides", *kernel}}, axes) : kNoValue;
    };
    std::vector<ValueId> results = {with_batch(c, self, axes + 1, pool)};
    if (!mean && equal_windows(c, self, wanted)) results.push_back(with_batch(c, self, axes + 1, where));
    c.give(std::move(results));
  };
}

}  // namespace

std::vector<Row> pooling_rows() {
  std::vector<Row> rows;
  for (int axes = 1; axes <= 3; ++axes) {
    const std::string n = std::to_string(axes), list = "int[" + n + "] ", d = n + "d";
    const std::string windows = "(Tensor self, " + list + "kernel_size, " + list + "stride=[], " + list + "padding=0, ";
    const std::string dilated = windows + list + "dilation=1, bool ceil_mode=False)";
    rows.push_back({"aten::max_pool" + d + dilated + " -> Tensor", max_pool(axes, false)});
    rows.push_back({"aten::max_pool" + d + "_with_indices" + dilated + " -> (Tensor, Tensor)", max_pool(axes, true)});
    rows.push_back({"aten::avg_pool" + d + windows + "bool ceil_mode=False, bool count_include_pad=True" +
                        (axes > 1 ? ", int? divisor_override=None" : "") + ") -> Tensor",
                    avg_pool(axes)});
    const std::string size = "(Tensor self, SymInt[" + n + "] output_size) -> Tensor";
    const std::string core = axes > 1 ? " _adaptive_avg_pool" + d : "";
    rows.push_back({"aten::adaptive_avg_pool" + d + core + size, adaptive(axes, true)});
    rows.push_back({"aten::adaptive_max_pool" + d + size, adaptive(axes, false)});
  }
  return rows;
}

}  // namespace graft::aten
