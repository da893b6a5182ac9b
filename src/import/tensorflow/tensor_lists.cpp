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

/// A list of so many elements of sizes that are stated (-1: nobody has), which are zeros until they are set.
ValueId zeros(Conversion& c, ValueId elements, DType type, const std::vector<int64_t>& stated) {
  std::vector<int64_t> sizes = {1};
  for (const int64_t size : stated) sizes.push_back(size < 0 ? 1 : size);
  const ValueId count = c.add("Unsqueeze", {c.cast(elements, DType::kInt64), c.integers_constant({0})});
  // One axis after the other: of the first a run may say how long it is, and the others are known all the same.
  const ValueId row = c.add("Expand", {c.cast(scalar(c, 0), type), count});
  return c.add("Expand", {with_axes(c, row, static_cast<int>(sizes.size())), c.integers_constant(sizes)});
}

void reserve(Conversion& c) {
  const ValueId stated = c.tensor("element_shape");
  if (c.rank_of(stated) != 1) c.refuse("a list whose elements have any number of axes");
  c.give(zeros(c, c.tensor("num_elements"), c.type("element_dtype"), c.integers("element_shape")));
}

/// An array of TensorFlow 1 is a list, too, which its `flow` stands for; nothing takes what its handle becomes. Where
/// its elements' sizes are not stated all are set together, or it stays.
void reserve_array(Conversion& c) {
  const bool stated = c.has("element_shape");
  const auto sizes = stated ? c.integers("element_shape") : std::vector<int64_t>{};
  c.give({scalar(c, 0), zeros(c, c.tensor("size"), c.type("dtype"), sizes)});
}

void from_tensor(Conversion& c) {
  const ValueId tensor = c.tensor("tensor");
  if (c.rank_of(tensor) == 0) c.refuse("a list of a tensor without axes");
  c.give(tensor);
}

void set_element(Conversion& c, std::string_view of, std::string_view value) {
  const ValueId list = c.tensor(of);
  const ValueId item = c.add("Unsqueeze", {c.tensor(value), c.integers_constant({0})});
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

void set_item(Conversion& c) { set_element(c, "input_handle", "item"); }
void write(Conversion& c) { set_element(c, "flow_in", "value"); }

/// The elements of numbers, one or several.
std::function<void(Conversion&)> take(std::string_view of, std::string_view numbers) {
  return [of, numbers](Conversion& c) {
    c.give(c.add("Gather", {c.tensor(of), c.tensor(numbers)}, {{"axis", int64_t{0}}}));
  };
}

/// Whether an argument is 0, 1, 2 ...
bool counts_up(Conversion& c, std::string_view name) {
  const auto* reference = std::get_if<frontend::Reference>(&c.argument(name).is);
  if (!reference) return false;
  const auto is_number = [&](const frontend::Argument& argument, int64_t wanted) {
    const auto* value = std::get_if<frontend::Reference>(&argument.is);
    if (!value) return false;
    const TensorData& known = c.foreign().values[static_cast<size_t>(value->value)].constant;
    return known && known.element_count() == 1 && known.read_double(0) == static_cast<double>(wanted);
  };
  for (const frontend::ForeignNode& node : c.foreign().nodes) {
    if (node.op != "Range" || node.outputs.empty() || node.outputs[0] != reference->value) continue;
    return node.arguments.size() == 3 && is_number(node.arguments[0], 0) && is_number(node.arguments[2], 1);
  }
  const TensorData known = c.given(c.tensor(name)).constant;
  if (!known) return false;
  for (int64_t i = 0; i < known.element_count(); ++i) {
    if (known.read_double(i) != static_cast<double>(i)) return false;
  }
  return true;
}

/// All elements at once.
void set_all(Conversion& c) {
  if (!counts_up(c, "indices")) c.refuse("elements that are set in another order than from the first on");
  const ValueId value = c.tensor("value");
  if (c.rank_of(value) == 0) c.refuse("a list of a tensor without axes");
  c.give(value);
}

void stack(Conversion& c) { c.give(c.tensor("input_handle")); }

std::function<void(Conversion&)> count(std::string_view of) {
  return [of](Conversion& c) { c.give(c.cast(length(c, c.tensor(of)), DType::kInt32)); };
}

}  // namespace

std::vector<frontend::Row> tensor_list_rows() {
  return {
      {"TensorListReserve(shape_type element_shape, int32:0 num_elements, *, element_dtype)", reserve},
      {"TensorListFromTensor(element_dtype tensor, shape_type element_shape)", from_tensor},
      {"TensorListSetItem(variant input_handle, int32:0 index, element_dtype item)", set_item},
      {"TensorListGetItem(variant input_handle, int32:0 index, int32 element_shape)",
       take("input_handle", "index")},
      {"TensorListStack(variant input_handle, int32 element_shape)", stack},
      {"TensorListLength(variant input_handle)", count("input_handle")},
      {"TensorArrayV3(int32:0 size, *, dtype, element_shape=None)", reserve_array},
      {"TensorArrayWriteV3(resource handle, int32:0 index, T value, variant flow_in)", write},
      {"TensorArrayReadV3(resource handle, int32:0 index, variant flow_in)", take("flow_in", "index")},
      {"TensorArrayGatherV3(resource handle, int32:1 indices, variant flow_in)", take("flow_in", "indices")},
      {"TensorArrayScatterV3(resource handle, int32:1 indices, T value, variant flow_in)", set_all},
      {"TensorArraySizeV3(resource handle, variant flow_in)", count("flow_in")},
  };
}

}  // namespace graft::tensorflow
