// SPDX-License-Identifier: Apache-2.0
// Places in an order, and what runs along one: as comparisons of all pairs, which fuse with what sums them up.
#include <algorithm>
#include <limits>
#include <numeric>

#include "import/aten/axes.h"
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

ValueId reduced(Conversion& c, std::string_view op, ValueId x, int64_t axis, bool keeps = false) {
  return c.add(op, {x, c.integers_constant({axis})}, {{"keepdims", int64_t{keeps}}});
}

ValueId unsqueezed(Conversion& c, ValueId x, int64_t axis) {
  return c.add("Unsqueeze", {x, c.integers_constant({axis})});
}

// ---- Among sorted numbers ----

/// For each value how many of the sorted ones do not lie behind it; what is no number lies behind all of them.
void give_places(Conversion& c, std::string_view sorted, std::string_view values, bool right) {
  const auto [steps, given] = operands(c, sorted, values);
  if (c.rank_of(steps) != 1 && c.rank_of(steps) != c.rank_of(given)) c.refuse("sorted rows of another rank");
  const ValueId row = c.rank_of(steps) == 1 ? steps : unsqueezed(c, steps, -2);
  const ValueId behind = c.add(right ? "Greater" : "GreaterOrEqual", {row, unsqueezed(c, given, -1)});
  const ValueId before = c.cast(c.add("Not", {behind}), DType::kInt64);
  c.give(c.cast(reduced(c, "ReduceSum", before, -1), c.flag("out_int32") ? DType::kInt32 : DType::kInt64));
}

void search_sorted(Conversion& c) {
  if (c.has("sorter")) c.refuse("an order beside the numbers that are to be sorted");
  give_places(c, "sorted_sequence", "self", c.flag("right") || (c.has("side") && c.text("side") == "right"));
}

/// How many elements lie in each of equally wide bins; the last one has its upper bound, too.
void histogram(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int64_t bins = c.integer("bins");
  const double low = c.real("min"), high = c.real("max");
  if (bins < 1 || bins > 4096 || !is_float(c.type_of(self))) c.refuse("bins of integers, none or too many of them");
  if (low >= high) c.refuse("bounds that only the data tells");
  const ValueId x = c.add("Reshape", {self, c.integers_constant({-1, 1})});
  const ValueId from = number(c, low, x), to = number(c, high, x);
  const ValueId scaled = c.add("Div", {c.add("Mul", {c.add("Sub", {x, from}), number(c, static_cast<double>(bins), x)}),
                                       number(c, high - low, x)});
  const ValueId bin = c.add("Min", {c.add("Floor", {scaled}), number(c, static_cast<double>(bins - 1), x)});
  const ValueId inside = c.add("And", {c.add("GreaterOrEqual", {x, from}), c.add("LessOrEqual", {x, to})});
  TensorData numbers = table(c, DType::kInt64, {bins});
  for (int64_t i = 0; i < bins; ++i) numbers.write_integer(i, i);
  const ValueId same = c.add("Equal", {bin, c.cast(c.constant(std::move(numbers)), c.type_of(x))});
  c.give(reduced(c, "ReduceSum", c.cast(c.add("And", {same, inside}), c.type_of(x)), 0));
}

// ---- The k-th ----

/// The k-th smallest along an axis and its place. `poisons`: where something is no number, neither is the result.
void give_kth(Conversion& c, ValueId x, int64_t axis, int64_t k, bool keeps, bool poisons) {
  const auto size = c.size_of(x, axis).as_constant();
  if (size && (k < 1 || k > *size)) c.refuse("a k that is no place of its axis");
  const auto both = c.add_several("TopK", {x, c.integers_constant({k})}, {{"axis", axis}, {"largest", int64_t{0}}}, 2);
  ValueId value = sliced(c, both[0], axis, k - 1, k), place = sliced(c, both[1], axis, k - 1, k);
  if (poisons && is_float(c.type_of(x))) {
    const ValueId any = c.cast(reduced(c, "ReduceMax", c.cast(c.add("IsNaN", {x}), DType::kInt32), axis, true),
                               DType::kBool);
    value = c.add("Where", {any, number(c, std::numeric_limits<double>::quiet_NaN(), x), value});
  }
  if (!keeps) {
    value = c.add("Squeeze", {value, c.integers_constant({axis})});
    place = c.add("Squeeze", {place, c.integers_constant({axis})});
  }
  c.give({value, place});
}

void kth_value(Conversion& c) {
  const ValueId x = c.tensor("self");
  if (c.rank_of(x) == 0) c.refuse("a number without axes");
  give_kth(c, x, c.axis(c.integer("dim"), c.rank_of(x)), c.integer("k"), c.flag("keepdim"), false);
}

/// The lower of two middle ones.
void median(Conversion& c, ValueId x, int64_t axis, bool keeps) {
  const auto size = c.size_of(x, axis).as_constant();
  if (!size || *size == 0) c.refuse("its axis has a size known only while running, or none");
  give_kth(c, x, axis, (*size + 1) / 2, keeps, true);
}

void median_of_axis(Conversion& c) {
  const ValueId x = c.tensor("self");
  if (c.rank_of(x) == 0) c.refuse("a number without axes");
  median(c, x, c.axis(c.integer("dim"), c.rank_of(x)), c.flag("keepdim"));
}

void median_of_all(Conversion& c) {
  median(c, c.add("Reshape", {c.tensor("self"), c.integers_constant({-1})}), 0, false);
  c.give(c.results()[0]);
}

// ---- Along an axis ----

/// An axis as the last one, and each place of it beside all that come before and itself.
struct Prefixes {
  std::vector<int64_t> order;  ///< of the axes, which is its own inverse
  ValueId row = kNoValue;      ///< [.., 1, n]
  ValueId reached = kNoValue;  ///< [n, n]: whether a place lies behind, or is, another
  ValueId places = kNoValue;   ///< [n] of i64
};

Prefixes prefixes(Conversion& c, ValueId x, int64_t axis) {
  Prefixes made;
  made.order.resize(static_cast<size_t>(c.rank_of(x)));
  std::iota(made.order.begin(), made.order.end(), 0);
  std::swap(made.order[static_cast<size_t>(axis)], made.order.back());
  const ValueId moved = transposed(c, x, made.order);
  const auto whole = [&](int64_t value) {
    return c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {value}));
  };
  const ValueId size = c.add("Squeeze", {c.add("Shape", {moved}, {{"start", int64_t{-1}}}), c.integers_constant({0})});
  made.places = c.add("Range", {whole(0), size, whole(1)});
  made.row = unsqueezed(c, moved, -2);
  made.reached = c.add("LessOrEqual", {made.places, unsqueezed(c, made.places, -1)});
  return made;
}

double lowest(Conversion& c, ValueId x, bool largest) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (!is_float(c.type_of(x))) c.refuse("integers");
  return largest ? -infinity : infinity;
}

/// The extreme so far and its latest place.
Build running_extreme(bool largest) {
  return [largest](Conversion& c) {
    const ValueId x = c.tensor("self");
    if (c.rank_of(x) == 0) c.refuse("a number without axes");
    const Prefixes p = prefixes(c, x, c.axis(c.integer("dim"), c.rank_of(x)));
    const ValueId before = c.add("Where", {p.reached, p.row, number(c, lowest(c, x, largest), x)});
    const ValueId value = reduced(c, largest ? "ReduceMax" : "ReduceMin", before, -1);
    const ValueId none = c.add("IsNaN", {p.row});
    const ValueId equal = c.add("Equal", {p.row, unsqueezed(c, value, -1)});
    const ValueId same = c.add("And", {p.reached, c.add("Or", {none, equal})});
    const ValueId nowhere = c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {-1}));
    const ValueId place = reduced(c, "ReduceMax", c.add("Where", {same, p.places, nowhere}), -1);
    c.give({transposed(c, value, p.order), transposed(c, place, p.order)});
  };
}

/// The logarithm of a running sum of exponentials, each over the largest so far.
void log_sum_exp(Conversion& c) {
  const ValueId x = c.tensor("self");
  if (c.rank_of(x) == 0) return c.give(x);
  const Prefixes p = prefixes(c, x, c.axis(c.integer("dim"), c.rank_of(x)));
  const ValueId least = number(c, lowest(c, x, true), x), zero = number(c, 0, x);
  const ValueId before = c.add("Where", {p.reached, p.row, least});
  const ValueId largest = reduced(c, "ReduceMax", before, -1, true);
  const ValueId shift = c.add("Where", {c.add("IsInf", {largest}), zero, largest});
  const ValueId total = reduced(c, "ReduceSum", c.add("Exp", {c.add("Sub", {before, shift})}), -1, true);
  const ValueId result = c.add("Add", {c.add("Log", {total}), shift});
  c.give(transposed(c, c.add("Squeeze", {result, c.integers_constant({-1})}), p.order));
}

}  // namespace

std::vector<Row> ranking_rows() {
  return {
      {"aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, "
       "str? side=None, Tensor? sorter=None) -> Tensor", search_sorted},
      {"aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
       [](Conversion& c) { give_places(c, "boundaries", "self", c.flag("right")); }},
      {"aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", histogram},
      {"aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
       kth_value},
      {"aten::median(Tensor self) -> Tensor", median_of_all},
      {"aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", median_of_axis},
      {"aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", running_extreme(true)},
      {"aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", running_extreme(false)},
      {"aten::logcumsumexp(Tensor self, int dim) -> Tensor", log_sum_exp},
  };
}

}  // namespace graft::aten
