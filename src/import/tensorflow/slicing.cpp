// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <numeric>
#include <optional>

#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max(), kBegin = std::numeric_limits<int64_t>::min();
constexpr int64_t kFar = int64_t{1} << 40;  // behind the last element, in arithmetic with sizes
constexpr int64_t kMostPlaces = 1 << 20;  // of OneHot, which become a constant

/// Where slices of consecutive axes begin and end.
struct Slices {
  std::vector<int64_t> begins, ends, axes, steps;
  void add(int64_t axis, int64_t begin, int64_t end, int64_t step) {
    axes.push_back(axis), begins.push_back(begin), ends.push_back(end), steps.push_back(step);
  }
  ValueId of(Conversion& c, ValueId value) const {
    if (axes.empty()) return value;
    return c.add("Slice", {value, c.integers_constant(begins), c.integers_constant(ends), c.integers_constant(axes),
                           c.integers_constant(steps)});
  }
};

using Elements = std::vector<std::optional<int64_t>>;

/// The elements of a row of integers, as far as constants tell: of those that are put together, some may be.
Elements known_elements(Conversion& c, ValueId row) {
  const TensorData constant = c.given(row).constant;
  Elements elements;
  for (int64_t i = 0; constant && i < constant.element_count(); ++i) elements.push_back(constant.read_integer(i));
  if (constant) return elements;
  const int maker = c.graph().value(row).producer;
  const std::string op = maker < 0 ? "" : c.graph().nodes[static_cast<size_t>(maker)].op;
  if (op == "Cast" || op == "Concat") {
    const std::vector<ValueId> parts = c.graph().nodes[static_cast<size_t>(maker)].inputs;
    for (const ValueId part : parts) {
      const Elements more = known_elements(c, part);
      elements.insert(elements.end(), more.begin(), more.end());
    }
    return elements;
  }
  const std::optional<int64_t> count = c.rank_of(row) == 0 ? 1 : c.size_of(row, 0).as_constant();
  if (!count || *count > 64) c.refuse("how many axes it cuts is known only while running");
  return Elements(static_cast<size_t>(*count));
}

/// One element of a row, as a row.
ValueId element(Conversion& c, ValueId row, size_t place) {
  const auto at = static_cast<int64_t>(place);
  return c.add("Slice", {c.cast(row, DType::kInt64), c.integers_constant({at}), c.integers_constant({at + 1}),
                         c.integers_constant({0})});
}

/// From places that the run tells, so many elements; all behind them where their number is negative.
ValueId slice_while_running(Conversion& c) {
  const ValueId begin = c.tensor("begin"), size = c.tensor("size");
  const Elements begins = known_elements(c, begin), sizes = known_elements(c, size);
  ValueId value = c.tensor("input");
  for (size_t i = 0; i < begins.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    const bool all = i < sizes.size() && sizes[i] == -1;
    const bool whole = i < sizes.size() && sizes[i] && c.size_of(value, axis).as_constant() == *sizes[i];
    if (begins[i] == 0 && (all || whole)) continue;
    const ValueId start = element(c, begin, i), count = element(c, size, i);
    const ValueId to_end = c.add("Less", {count, c.integers_constant({0})});
    const ValueId behind = c.add("Where", {to_end, c.integers_constant({kFar}), c.add("Add", {start, count})});
    value = c.add("Slice", {value, start, behind, c.integers_constant({axis})});
    if (i >= sizes.size() || !sizes[i] || *sizes[i] < 1) continue;
    std::vector<int64_t> shape(static_cast<size_t>(c.rank_of(value)), 0);  // 0: as it is
    shape[i] = *sizes[i];
    value = c.add("Reshape", {value, c.integers_constant(shape)});
  }
  return value;
}

void slice(Conversion& c) {
  const bool known = c.given(c.tensor("begin")).constant && c.given(c.tensor("size")).constant;
  if (!known) return c.give(slice_while_running(c));
  const std::vector<int64_t> begin = c.integers("begin"), size = c.integers("size");
  if (begin.size() != size.size()) c.refuse("its begin and size have not as many elements");
  Slices slices;
  for (size_t axis = 0; axis < begin.size(); ++axis) {
    if (begin[axis] == 0 && size[axis] < 0) continue;  // all of it
    slices.add(static_cast<int64_t>(axis), begin[axis], size[axis] < 0 ? kEnd : c.sum(begin[axis], size[axis]), 1);
  }
  c.give(slices.of(c, c.tensor("input")));
}

/// The specification of StridedSlice, as it is read from left to right.
class StridedSlice {
 public:
  explicit StridedSlice(Conversion& c)
      : c_(c), begins_(c.tensor("begin")), ends_(c.tensor("end")), begin_(known_elements(c, begins_)),
        end_(known_elements(c, ends_)), steps_(c.integers("strides")) {
    if (begin_.size() != end_.size() || begin_.size() != steps_.size() || begin_.size() > 63) {
      c.refuse("its begin, end and strides have not as many elements");
    }
  }

  ValueId build() {
    const ValueId input = c_.tensor("input");
    const int rank = c_.rank_of(input);
    for (size_t i = 0; i < begin_.size(); ++i) read(i, rank);
    if (axis_ > rank) c_.refuse("it names more axes than there are");
    ValueId value = slices_.of(c_, input);
    for (const Cut& cut : cuts_) value = made(value, cut);
    if (!removed_.empty()) value = c_.add("Squeeze", {value, c_.integers_constant(removed_)});
    if (!added_.empty()) value = c_.add("Unsqueeze", {value, c_.integers_constant(added_)});
    return value;
  }

 private:
  /// Of one axis, between bounds that the run tells; or one element.
  struct Cut {
    int64_t axis = 0, step = 1;
    ValueId begin = kNoValue, end = kNoValue;  ///< rows of one element; no end: one element
  };

  bool is_set(std::string_view mask, size_t i) const { return (c_.integer(mask) >> i) & 1; }

  ValueId made(ValueId value, const Cut& cut) {
    if (cut.end == kNoValue) return c_.add("Gather", {value, cut.begin}, {{"axis", cut.axis}});
    return c_.add("Slice", {value, cut.begin, cut.end, c_.integers_constant({cut.axis}),
                            c_.integers_constant({cut.step})});
  }

  void read(size_t i, int rank) {
    if (is_set("ellipsis_mask", i)) {
      int64_t behind = 0;  // axes that what follows names
      for (size_t k = i + 1; k < begin_.size(); ++k) behind += !is_set("new_axis_mask", k);
      const int64_t skipped = rank - behind - axis_;
      if (skipped < 0) c_.refuse("it names more axes than there are");
      axis_ += skipped, result_ += skipped;
    } else if (is_set("new_axis_mask", i)) {
      added_.push_back(result_++);
    } else if (is_set("shrink_axis_mask", i)) {
      if (begin_[i]) {
        slices_.add(axis_, *begin_[i], *begin_[i] == -1 ? kEnd : c_.sum(*begin_[i], 1), 1);
      } else {
        cuts_.push_back({.axis = axis_, .begin = element(c_, begins_, i)});
      }
      removed_.push_back(axis_++);
    } else {
      const int64_t step = steps_[i];
      if (step == 0) c_.refuse("a stride is 0");
      const std::optional<int64_t> begin = is_set("begin_mask", i) ? (step > 0 ? 0 : kEnd) : begin_[i];
      const std::optional<int64_t> end = is_set("end_mask", i) ? (step > 0 ? kEnd : kBegin) : end_[i];
      if (!begin || !end) {
        cuts_.push_back({.axis = axis_, .step = step,
                         .begin = begin ? c_.integers_constant({*begin}) : element(c_, begins_, i),
                         .end = end ? c_.integers_constant({*end}) : element(c_, ends_, i)});
      } else if (*begin != 0 || *end != kEnd || step != 1) {
        slices_.add(axis_, *begin, *end, step);
      }
      ++axis_, ++result_;
    }
  }

  Conversion& c_;
  ValueId begins_, ends_;
  Elements begin_, end_;
  std::vector<int64_t> steps_, removed_, added_;
  std::vector<Cut> cuts_;
  Slices slices_;
  int64_t axis_ = 0, result_ = 0;  ///< of the input, and of what is given
};

void strided_slice(Conversion& c) { c.give(StridedSlice(c).build()); }

/// Elements along an axis by indices that the axes before `batches` have, too.
ValueId gather_in_batches(Conversion& c, ValueId params, ValueId indices, int axis, int64_t batches) {
  const int rank = c.rank_of(params), index_rank = c.rank_of(indices);
  if (batches < 0) batches += index_rank;
  if (batches < 0 || batches > axis || batches > index_rank) c.refuse("more axes of batches than there are");
  const auto first = static_cast<int>(batches);
  std::vector<int64_t> order, back;  // the axis behind the batches, and where it was
  for (int i = 0; i < rank; ++i) order.push_back(i < first ? i : i == first ? axis : i <= axis ? i - 1 : i);
  const ValueId turned = axis == first ? params : c.add("Transpose", {params}, {{"perm", order}});
  const ValueId named = c.add("Unsqueeze", {c.cast(indices, DType::kInt64), c.integers_constant({-1})});
  const ValueId found = c.add("GatherND", {turned, named}, {{"batch_dims", batches}});
  if (axis == first) return found;
  const int between = axis - first, chosen = index_rank - first;
  for (int i = 0; i < first; ++i) back.push_back(i);
  for (int i = 0; i < between; ++i) back.push_back(first + chosen + i);
  for (int i = 0; i < chosen; ++i) back.push_back(first + i);
  for (int i = first + between + chosen; i < c.rank_of(found); ++i) back.push_back(i);
  return c.add("Transpose", {found}, {{"perm", back}});
}

ValueId gather_along(Conversion& c, ValueId params, ValueId indices, int64_t axis) {
  const int64_t batches = c.integer("batch_dims");
  if (batches != 0) return gather_in_batches(c, params, indices, static_cast<int>(axis), batches);
  return c.add("Gather", {params, indices}, {{"axis", axis}});
}

void gather_first(Conversion& c) {
  c.give(c.add("Gather", {c.tensor("params"), c.tensor("indices")}, {{"axis", int64_t{0}}}));
}

/// Rows of a variable, which is a constant here.
void gather_variable(Conversion& c) {
  const int64_t batches = c.integer("batch_dims");
  const ValueId indices = c.tensor("indices");
  const int64_t axis = batches < 0 ? batches + c.rank_of(indices) : batches;
  c.give(gather_along(c, c.tensor("resource"), indices, axis));
}

void gather(Conversion& c) {
  const ValueId params = c.tensor("params");
  const int64_t axis = c.axis(c.integer("axis"), c.rank_of(params));
  c.give(gather_along(c, params, c.tensor("indices"), axis));
}

/// The positions of the elements other than 0, one behind the other.
void positions(Conversion& c) {
  c.give(c.add("Transpose", {c.add("NonZero", {c.tensor("input")})}, {{"perm", std::vector<int64_t>{1, 0}}}));
}

/// What lies behind the last axis of the indices, each of which names an element or a part.
void gather_parts(Conversion& c) {
  c.give(c.add("GatherND", {c.tensor("params"), c.cast(c.tensor("indices"), DType::kInt64)},
               {{"batch_dims", c.integer("batch_dims")}}));
}

void put_parts(Conversion& c) {
  c.give(c.add("ScatterND", {c.tensor("tensor"), c.cast(c.tensor("indices"), DType::kInt64), c.tensor("updates")}));
}

/// The diagonal with so many below and above it, all of them where the number is negative; 0 elsewhere.
void band_part(Conversion& c) {
  constexpr int64_t kAll = int64_t{1} << 40;
  const auto bound = [&](std::string_view name) {
    const ValueId given = c.cast(c.tensor(name), DType::kInt64);
    const auto constant = [&](int64_t element) {
      return c.constant(TensorData::from_values(DType::kInt64, {}, std::vector{element}));
    };
    return c.add("Where", {c.add("Less", {given, constant(0)}), constant(kAll), given});
  };
  const ValueId below = c.add("Trilu", {c.tensor("input"), bound("num_upper")}, {{"upper", int64_t{0}}});
  c.give(c.add("Trilu", {below, c.add("Neg", {bound("num_lower")})}, {{"upper", int64_t{1}}}));
}

/// How often each number below `size` is among a row's, or the sum of the weights there; only whether, if binary.
void count_numbers(Conversion& c) {
  const ValueId input = c.tensor("input"), weights = c.tensor("weights");
  const DType type = c.type_of(weights);
  const auto place = c.integers_constant({-1});
  const auto scalar = [&](int64_t element) {
    return c.constant(TensorData::from_values(DType::kInt64, {}, std::vector{element}));
  };
  const ValueId all = c.add("Range", {scalar(0), c.cast(c.tensor("size"), DType::kInt64), scalar(1)});
  const ValueId hit = c.add("Equal", {c.add("Unsqueeze", {c.cast(input, DType::kInt64), place}), all});
  ValueId counted = c.cast(hit, type);
  const bool weighted = c.rank_of(weights) > 0 && !c.size_of(weights, 0).is(0);
  if (weighted && c.rank_of(weights) != c.rank_of(input)) c.refuse("weights of other axes than the numbers'");
  if (weighted && !c.flag("binary_output")) counted = c.add("Mul", {counted, c.add("Unsqueeze", {weights, place})});
  const std::string_view joined = c.flag("binary_output") ? "ReduceMax" : "ReduceSum";
  c.give(c.add(joined, {counted, c.integers_constant({-2})}, {{"keepdims", int64_t{0}}}));
}

/// The named axes from their ends.
void reverse(Conversion& c) {
  const ValueId value = c.tensor("tensor");
  Slices slices;
  for (const int64_t axis : c.integers("axis")) slices.add(c.axis(axis, c.rank_of(value)), kEnd, kBegin, -1);
  c.give(slices.of(c, value));
}

/// on_value at the place along a new axis that each index names, and off_value elsewhere; an index outside names none.
void one_hot(Conversion& c) {
  const ValueId indices = c.tensor("indices");
  const int64_t depth = c.integer("depth");
  if (depth < 0 || depth > kMostPlaces) c.refuse("its depth is negative or too large");
  const int rank = c.rank_of(indices) + 1;
  const int64_t axis = c.axis(c.integer("axis"), rank);
  std::vector<int64_t> places(static_cast<size_t>(depth)), shape(static_cast<size_t>(rank), 1);
  std::iota(places.begin(), places.end(), 0);
  shape[static_cast<size_t>(axis)] = depth;
  const ValueId along = c.constant(TensorData::from_values(DType::kInt64, shape, places));
  const ValueId wide = c.add("Unsqueeze", {c.cast(indices, DType::kInt64), c.integers_constant({axis})});
  c.give(c.add("Where", {c.add("Equal", {wide, along}), c.tensor("on_value"), c.tensor("off_value")}));
}

}  // namespace

std::vector<frontend::Row> slicing_rows() {
  return {
      {"Slice(T input, Index:1 begin, Index:1 size)", slice},
      {"StridedSlice(T input, Index:1 begin, Index:1 end, Index:1 strides, *, begin_mask=0, end_mask=0, "
       "ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0)", strided_slice},
      {"Gather(Tparams params, Tindices indices, *, validate_indices=True)", gather_first},
      {"ResourceGather(dtype resource, Tindices indices, *, batch_dims=0)", gather_variable},
      {"GatherNd(Tparams params, Tindices indices, *, batch_dims=0)", gather_parts},
      {"TensorScatterUpdate(T tensor, Tindices indices, T updates)", put_parts},
      {"ReverseV2(T tensor, Tidx:1 axis)", reverse},
      {"Where(T input)", positions},
      {"MatrixBandPart(T input, Tindex:0 num_lower, Tindex:0 num_upper)", band_part},
      {"DenseBincount(Tidx input, Tidx:0 size, T weights, *, binary_output=False)", count_numbers},
      {"OneHot(TI indices, int32:0 depth, T:0 on_value, T:0 off_value, *, axis=-1)", one_hot},
      {"GatherV2(Tparams params, Tindices indices, Taxis axis, *, batch_dims=0)", gather},
  };
}

}  // namespace graft::tensorflow
