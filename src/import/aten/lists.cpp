// SPDX-License-Identifier: Apache-2.0
// Lists of tensors: what loops and branches put into them is a run, of which only a run of the engine knows the length.
#include <algorithm>
#include <numeric>
#include <utility>

#include "import/aten/axes.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Argument;
using frontend::Conversion;
using frontend::List;
using frontend::ListPart;
using frontend::Row;

bool has_run(const List& list) { return std::ranges::any_of(list.parts, &ListPart::run); }

void construct(Conversion& c) {
  List made;
  for (const Argument& each : c.node().arguments) made.parts.push_back({c.value_of(each, "elements")});
  c.give_list(0, std::move(made));
}

/// Gives the list as it is then, which the host takes for what it was.
void append(Conversion& c) {
  List list = c.list("self");
  const ValueId element = c.tensor("el");
  if (element == kNoValue) c.refuse("a list with None in it");
  list.parts.push_back({element});
  c.give_list(0, std::move(list));
}

void add(Conversion& c) {
  List list = c.list("a");
  const List more = c.list("b");
  if (more.begun >= 0) c.refuse("it reads a list that a loop or a branch adds to");
  list.parts.insert(list.parts.end(), more.parts.begin(), more.parts.end());
  c.give_list(0, std::move(list));
}

/// A list as a tensor, its elements along an axis of their own.
ValueId stacked(Conversion& c, const List& list, int64_t axis) {
  const ValueId run = c.joined(list);
  std::vector<int64_t> order(static_cast<size_t>(c.rank_of(run)) - 1);
  std::iota(order.begin(), order.end(), 1);
  order.insert(order.begin() + c.axis(axis, c.rank_of(run)), 0);
  return transposed(c, run, std::move(order));
}

/// Parts may have types that differ, and an old habit leaves in empty ones of one axis.
void cat(Conversion& c) {
  const List list = c.list("tensors");
  if (has_run(list)) {
    const int rank = c.rank_of(list.parts[0].value) - (list.parts[0].run ? 1 : 0);
    const int64_t axis = c.axis(c.integer("dim"), rank);
    const ValueId all = stacked(c, list, axis);
    const ValueId shape = joined(c, {sizes(c, all, 0, axis), c.integers_constant({-1}), sizes(c, all, axis + 2)});
    return c.give(c.add("Reshape", {all, shape}));
  }
  std::vector<ValueId> parts;
  for (const ValueId part : c.elements(list)) {
    if (c.rank_of(part) != 1 || !c.size_of(part, 0).is(0)) parts.push_back(part);
  }
  if (parts.empty()) c.refuse("it joins nothing");
  for (const ValueId part : parts) {
    if (c.type_of(part) != c.type_of(parts[0])) c.refuse("tensors of different types");
  }
  const int64_t axis = c.axis(c.integer("dim"), c.rank_of(parts[0]));
  c.give(parts.size() == 1 ? parts[0] : c.add("Concat", std::move(parts), {{"axis", axis}}));
}

void stack(Conversion& c) {
  const List list = c.list("tensors");
  if (has_run(list)) return c.give(stacked(c, list, c.integer("dim")));
  std::vector<ValueId> parts;
  const std::vector<ValueId> given = c.elements(list);
  if (given.empty()) c.refuse("it joins nothing");
  const int64_t axis = c.axis(c.integer("dim"), c.rank_of(given[0]) + 1);
  for (const ValueId part : given) parts.push_back(c.add("Unsqueeze", {part, c.integers_constant({axis})}));
  c.give(c.add("Concat", std::move(parts), {{"axis", axis}}));
}

/// An element of a list: of tensors, or of sizes.
void item(Conversion& c) {
  const TensorData at = c.given(c.tensor("idx")).constant;
  if (at && c.is_list("list") && !has_run(c.list("list"))) {
    const std::vector<ValueId> elements = c.tensors("list");
    if (elements.empty()) c.refuse("an element of a list without elements");
    return c.give(elements[static_cast<size_t>(c.axis(at.read_integer(0), static_cast<int>(elements.size())))]);
  }
  const ValueId whole = c.is_list("list") ? c.joined(c.list("list")) : c.tensor("list");
  if (whole == kNoValue) c.refuse("an element of a list without elements");
  c.give(c.add("Gather", {whole, c.cast(c.tensor("idx"), DType::kInt64)}, {{"axis", int64_t{0}}}));
}

/// The elements of a list, each on its own.
void unpack(Conversion& c) {
  if (c.is_list("list")) return c.give(c.tensors("list"));
  const ValueId sizes = c.tensor("list");
  const auto count = c.size_of(sizes, 0).as_constant();
  if (!count || *count != std::ssize(c.node().outputs)) c.refuse("a list of another length");
  std::vector<ValueId> elements;
  for (int64_t i = 0; i < *count; ++i) {
    const ValueId index = c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {i}));
    elements.push_back(c.add("Gather", {sizes, index}, {{"axis", int64_t{0}}}));
  }
  c.give(std::move(elements));
}

void length(Conversion& c) {
  const bool list = c.is_list("a");
  if (list && has_run(c.list("a"))) {
    const ValueId count = sizes(c, c.joined(c.list("a")), 0, 1);
    return c.give(c.add("Squeeze", {count, c.integers_constant({0})}));
  }
  const int64_t count = list ? std::ssize(c.tensors("a")) : c.size_of(c.tensor("a"), 0).constant();
  c.give(c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {count})));
}

}  // namespace

std::vector<Row> list_rows() {
  return {
      {"prim::ListConstruct(t elements)", construct},
      {"aten::append.t(t[] self, t el) -> t[]", append},
      {"aten::add.t(t[] a, t[] b) -> t[]", add},
      {"aten::cat concat concatenate(Tensor[] tensors, int dim=0) -> Tensor", cat},
      {"aten::stack(Tensor[] tensors, int dim=0) -> Tensor", stack},
      {"aten::len.t(t[] a) -> int", length},
      {"aten::__getitem__.t(t[] list, int idx) -> t", item},
      {"prim::ListUnpack(t[] list) -> t", unpack},
  };
}

}  // namespace graft::aten
