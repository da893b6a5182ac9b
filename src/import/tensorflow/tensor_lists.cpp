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

/// Whether nobody has put anything into a list: it has no elements, is made of a constant, or is what a function takes,
/// which the loop around it has looked at.
bool is_unset(Conversion& c, ValueId list) {
  if (c.size_of(list, 0).is(0)) return true;
  while (true) {
    const Value& value = c.graph().value(list);
    if (value.constant || value.producer < 0) return true;
    const Node& made = c.graph().nodes[static_cast<size_t>(value.producer)];
    if (made.op != "Expand" && made.op != "Unsqueeze" && made.op != "Cast") return false;
    list = made.inputs[0];
  }
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

/// The elements' sizes; none where they have any number of axes, which the first that is put in tells.
std::vector<int64_t> stated_sizes(Conversion& c) {
  return c.rank_of(c.tensor("element_shape")) == 1 ? c.integers("element_shape") : std::vector<int64_t>{};
}

void reserve(Conversion& c) {
  c.give(zeros(c, c.tensor("num_elements"), c.type("element_dtype"), stated_sizes(c)));
}

void reserve_none(Conversion& c) { c.give(zeros(c, scalar(c, 0), c.type("element_dtype"), stated_sizes(c))); }

/// A list of other length: without the elements from there on, or with zeros behind its own.
ValueId resized(Conversion& c, ValueId list, ValueId size, bool only_longer) {
  const int rank = c.rank_of(list);
  if (rank < 1) c.refuse("a list that has no axis of elements");
  const ValueId zero = c.integers_constant({0});
  const ValueId count = c.add("Unsqueeze", {length(c, list), zero});
  const ValueId missing = c.add("Max", {c.add("Sub", {size, count}), zero});
  const ValueId nothing = c.cast(scalar(c, 0), c.type_of(list));
  ValueId more = with_axes(c, c.add("Expand", {nothing, missing}), rank);
  if (rank > 1) {  // the first axis, which the run knows, is 1 here: the others are known all the same
    const ValueId rest = c.add("Shape", {list}, {{"start", int64_t{1}}});
    more = c.add("Expand", {more, c.add("Concat", {c.integers_constant({1}), rest}, {{"axis", int64_t{0}}})});
  }
  const ValueId whole = c.add("Concat", {list, more}, {{"axis", int64_t{0}}});
  return only_longer ? whole : c.add("Slice", {whole, zero, size, zero});
}

void resize(Conversion& c) {
  const ValueId size = c.add("Unsqueeze", {c.cast(c.tensor("size"), DType::kInt64), c.integers_constant({0})});
  c.give(resized(c, c.tensor("input_handle"), size, false));
}

/// A list whose elements are told by one of them: their axes where nobody has stated any.
ValueId with_axes_of(Conversion& c, ValueId list, ValueId item) {
  const int rank = c.rank_of(item);
  return c.rank_of(list) == 1 && rank > 1 ? with_axes(c, list, rank) : list;
}

void push_back(Conversion& c) {
  const ValueId item = c.add("Unsqueeze", {c.tensor("tensor"), c.integers_constant({0})});
  const ValueId list = with_axes_of(c, c.tensor("input_handle"), item);
  if (c.rank_of(item) != c.rank_of(list)) c.refuse("an element with another number of axes than the list's have");
  if (c.size_of(list, 0).is(0)) return c.give(item);
  const ValueId rest = c.add("Shape", {item}, {{"start", int64_t{1}}});
  std::vector<ValueId> joined = {list, item};
  for (int axis = 1; axis < c.rank_of(item); ++axis) {
    if (c.size_of(list, axis) == c.size_of(item, axis)) continue;
    if (!is_unset(c, list) || !c.size_of(list, axis).is(1)) c.refuse("elements that differ in size");
    const ValueId count = c.add("Shape", {list}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
    joined[0] = c.add("Expand", {list, c.add("Concat", {count, rest}, {{"axis", int64_t{0}}})});
    break;
  }
  c.give(c.add("Concat", joined, {{"axis", int64_t{0}}}));
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

void set_element(Conversion& c, std::string_view of, std::string_view value, bool grows) {
  const ValueId item = c.add("Unsqueeze", {c.tensor(value), c.integers_constant({0})});
  const ValueId begun = with_axes_of(c, c.tensor(of), item);
  const ValueId index = c.cast(c.tensor("index"), DType::kInt64);
  const bool unset = is_unset(c, begun);
  const ValueId behind = c.add("Unsqueeze", {c.add("Add", {index, scalar(c, 1)}), c.integers_constant({0})});
  const ValueId list = grows ? resized(c, begun, behind, true) : begun;
  const int rank = c.rank_of(list);
  if (c.rank_of(item) != rank) c.refuse("an element with another number of axes than the list's have");
  if (c.type_of(item) != c.type_of(list)) c.refuse("an element of another type than the list's");
  for (int axis = 1; axis < rank; ++axis) {
    const bool one = c.size_of(item, axis) == Size(1), one_before = c.size_of(list, axis) == Size(1);
    if (one != one_before && (one || !unset)) c.refuse("elements that differ in size");
  }
  if (!grows && c.size_of(list, 0).as_constant() == 1) return c.give(item);
  c.give(c.add("Where", {c.add("Equal", {numbers(c, list, rank), index}), item, list}));
}

void set_item(Conversion& c) {
  set_element(c, "input_handle", "item", c.flag("resize_if_index_out_of_bounds"));
}

/// Of an array of TensorFlow 1, whose maker says whether it grows.
void write(Conversion& c) {
  const auto* handle = std::get_if<frontend::Reference>(&c.argument("handle").is);
  bool grows = true;  // inside of a function nobody knows
  for (const frontend::ForeignNode& node : c.foreign().nodes) {
    if (!handle || node.op != "TensorArrayV3" || node.outputs.empty() || node.outputs[0] != handle->value) continue;
    const auto found = node.attributes.find("dynamic_size");
    const auto* flag = found == node.attributes.end() ? nullptr : std::get_if<bool>(&found->second.is);
    grows = flag && *flag;
  }
  set_element(c, "flow_in", "value", grows);
}

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
      {"EmptyTensorList(shape_type element_shape, int32:0 max_num_elements, *, element_dtype)", reserve_none},
      {"TensorListPushBack(variant input_handle, element_dtype tensor)", push_back},
      {"TensorListResize(variant input_handle, int32:0 size)", resize},
      {"TensorListSetItem(variant input_handle, int32:0 index, element_dtype item, *, "
       "resize_if_index_out_of_bounds=False)", set_item},
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
