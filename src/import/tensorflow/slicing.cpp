// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <numeric>

#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max(), kBegin = std::numeric_limits<int64_t>::min();
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

void slice(Conversion& c) {
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
      : c_(c), begin_(c.integers("begin")), end_(c.integers("end")), steps_(c.integers("strides")) {
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
    if (!removed_.empty()) value = c_.add("Squeeze", {value, c_.integers_constant(removed_)});
    if (!added_.empty()) value = c_.add("Unsqueeze", {value, c_.integers_constant(added_)});
    return value;
  }

 private:
  bool is_set(std::string_view mask, size_t i) const { return (c_.integer(mask) >> i) & 1; }

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
      slices_.add(axis_, begin_[i], begin_[i] == -1 ? kEnd : c_.sum(begin_[i], 1), 1);
      removed_.push_back(axis_++);
    } else {
      const int64_t step = steps_[i];
      if (step == 0) c_.refuse("a stride is 0");
      const int64_t begin = is_set("begin_mask", i) ? (step > 0 ? 0 : kEnd) : begin_[i];
      const int64_t end = is_set("end_mask", i) ? (step > 0 ? kEnd : kBegin) : end_[i];
      if (begin != 0 || end != kEnd || step != 1) slices_.add(axis_, begin, end, step);
      ++axis_, ++result_;
    }
  }

  Conversion& c_;
  std::vector<int64_t> begin_, end_, steps_, removed_, added_;
  Slices slices_;
  int64_t axis_ = 0, result_ = 0;  ///< of the input, and of what is given
};

void strided_slice(Conversion& c) { c.give(StridedSlice(c).build()); }

void gather_first(Conversion& c) {
  c.give(c.add("Gather", {c.tensor("params"), c.tensor("indices")}, {{"axis", int64_t{0}}}));
}

/// Rows of a variable, which is a constant here.
void gather_variable(Conversion& c) {
  if (c.integer("batch_dims") != 0) c.refuse("gathering in batches");
  c.give(c.add("Gather", {c.tensor("resource"), c.tensor("indices")}, {{"axis", int64_t{0}}}));
}

void gather(Conversion& c) {
  if (c.integer("batch_dims") != 0) c.refuse("gathering in batches");
  const ValueId params = c.tensor("params");
  const int64_t axis = c.axis(c.integer("axis"), c.rank_of(params));
  c.give(c.add("Gather", {params, c.tensor("indices")}, {{"axis", axis}}));
}

/// What lies behind the last axis of the indices, each of which names an element or a part.
void gather_parts(Conversion& c) {
  if (c.has("batch_dims") && c.integer("batch_dims") != 0) c.refuse("gathering in batches");
  c.give(c.add("GatherND", {c.tensor("params"), c.cast(c.tensor("indices"), DType::kInt64)}));
}

void put_parts(Conversion& c) {
  c.give(c.add("ScatterND", {c.tensor("tensor"), c.cast(c.tensor("indices"), DType::kInt64), c.tensor("updates")}));
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
      {"OneHot(TI indices, int32:0 depth, T:0 on_value, T:0 off_value, *, axis=-1)", one_hot},
      {"GatherV2(Tparams params, Tindices indices, Taxis axis, *, batch_dims=0)", gather},
  };
}

}  // namespace graft::tensorflow
