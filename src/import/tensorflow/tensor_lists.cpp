// SPDX-License-Identifier: Apache-2.0
// Lists of tensors, which TensorFlow 2 keeps arrays in (TensorArray): inside of an engine one is a tensor, its elements
// along the first axis. Sizes that nobody states when a list is made are 1 there, and grow with what is put in.
#include <numeric>

#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

constexpr int64_t kMostListed = 1 << 16;  // elements whose numbers become a constant

ValueId scalar(Conversion& c, int64_t number) {
  return c.constant(TensorData::from_values(DType::kInt64, {}, std::vector<int64_t>{number}));
}

/// How many elements a list has, as an i64 of rank 0.
ValueId length(Conversion& c, ValueId list) { return c.add("Gather", {c.add("Shape", {list}), scalar(c, 0)}); }

/// A tensor of one axis with axes of size 1 behind it, `rank` together.
ValueId with_axes(Conversion& c, ValueId row, int rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank) - 1);
  std::iota(axes.begin(), axes.end(), 1);
  return rank == 1 ? row : c.add("Unsqueeze", {row, c.integers_constant(axes)});
}

/// 0, 1, 2 ... along the first of `rank` axes.
ValueId numbers(Conversion& c, ValueId list, int rank) {
  const int64_t count = c.size_of(list, 0).as_constant().value_or(-1);
  if (count >= 0 && count <= kMostListed) {
    std::vector<int64_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return with_axes(c, c.integers_constant(all), rank);
  }
  // Of ones, as many as the list has, so that both are known to have one size.
  const ValueId size = c.add("Gather", {c.add("Shape", {list}), c.integers_constant({0})});
  const ValueId ones = c.add("Expand", {scalar(c, 1), size});
  return with_axes(c, c.add("CumSum", {ones, scalar(c, 0)}, {{"exclusive", int64_t{1}}}), rank);
}

/// Elements are zeros until they are set.
void reserve(Conversion& c) {
  const ValueId stated = c.tensor("element_shape");
  if (c.rank_of(stated) != 1) c.refuse("a list whose elements have any number of axes");
  std::vector<int64_t> sizes = {1};
  for (const int64_t size : c.integers("element_shape")) sizes.push_back(size < 0 ? 1 : size);
  const ValueId count = c.add("Unsqueeze", {c.cast(c.tensor("num_elements"), DType::kInt64), c.integers_constant({0})});
  // One axis after the other: of the first a run may say how long it is, and the others are known all the same.
  const ValueId row = c.add("Expand", {c.cast(scalar(c, 0), c.type("element_dtype")), count});
  c.give(c.add("Expand", {with_axes(c, row, static_cast<int>(sizes.size())), c.integers_constant(sizes)}));
}

void from_tensor(Conversion& c) {
  const ValueId tensor = c.tensor("tensor");
  if (c.rank_of(tensor) == 0) c.refuse("a list of a tensor without axes");
  c.give(tensor);
}

void set_item(Conversion& c) {
  const ValueId list = c.tensor("input_handle");
  const ValueId item = c.add("Unsqueeze", {c.tensor("item"), c.integers_constant({0})});
  const int rank = c.rank_of(list);
  if (c.rank_of(item) != rank) c.refuse("an element with another number of axes than the list's have");
  if (c.type_of(item) != c.type_of(list)) c.refuse("an element of another type than the list's");
  for (int axis = 1; axis < rank; ++axis) {
    const bool stretched = c.size_of(item, axis) == Size(1) && !(c.size_of(list, axis) == Size(1));
    if (stretched) c.refuse("elements that differ in size");
  }
  if (c.size_of(list, 0).as_constant() == 1) return c.give(item);
  const ValueId index = c.cast(c.tensor("index"), DType::kInt64);
  c.give(c.add("Where", {c.add("Equal", {numbers(c, list, rank), index}), item, list}));
}

void get_item(Conversion& c) {
  c.give(c.add("Gather", {c.tensor("input_handle"), c.tensor("index")}, {{"axis", int64_t{0}}}));
}

void stack(Conversion& c) { c.give(c.tensor("input_handle")); }

void count(Conversion& c) { c.give(c.cast(length(c, c.tensor("input_handle")), DType::kInt32)); }

}  // namespace

std::vector<frontend::Row> tensor_list_rows() {
  return {
      {"TensorListReserve(shape_type element_shape, int32:0 num_elements, *, element_dtype)", reserve},
      {"TensorListFromTensor(element_dtype tensor, shape_type element_shape)", from_tensor},
      {"TensorListSetItem(variant input_handle, int32:0 index, element_dtype item)", set_item},
      {"TensorListGetItem(variant input_handle, int32:0 index, int32 element_shape)", get_item},
      {"TensorListStack(variant input_handle, int32 element_shape)", stack},
      {"TensorListLength(variant input_handle)", count},
  };
}

}  // namespace graft::tensorflow
