// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;

/// Axes start_dim .. end_dim become one.
void flatten(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int rank = c.rank_of(self);
  if (rank == 0) return c.give(c.add("Reshape", {self, c.integers_constant({1})}));
  const int64_t start = c.axis(c.integer("start_dim"), rank), end = c.axis(c.integer("end_dim"), rank);
  if (start > end) c.refuse("its start_dim is behind its end_dim");
  std::vector<int64_t> shape(static_cast<size_t>(rank - (end - start)), 0);  // 0: as it is
  shape[static_cast<size_t>(start)] = -1;
  for (int64_t axis = end + 1; axis < rank; ++axis) {  // behind the merged axis a place is no longer the input's
    const auto size = c.size_of(self, axis).as_constant();
    if (!size && start != end) c.refuse("axes behind those that it flattens have sizes known only while running");
    shape[static_cast<size_t>(axis - (end - start))] = size.value_or(0);
  }
  c.give(c.add("Reshape", {self, c.integers_constant(shape)}));
}

std::function<void(Conversion&)> reshape(std::string_view size) {
  return [size](Conversion& c) {
    c.give(c.add("Reshape", {c.tensor("self"), c.shape_tensor(size)}, {{"allowzero", int64_t{1}}}));
  };
}

void permute(Conversion& c) {
  const ValueId self = c.tensor("self");
  std::vector<int64_t> order = c.integers("dims");
  for (int64_t& axis : order) axis = c.axis(axis, c.rank_of(self));
  c.give(c.add("Transpose", {self}, {{"perm", order}}));
}

void swap_axes(Conversion& c, int64_t first, int64_t second) {
  const ValueId self = c.tensor("self");
  const int rank = c.rank_of(self);
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  const auto a = static_cast<size_t>(c.axis(first, rank)), b = static_cast<size_t>(c.axis(second, rank));
  if (rank > 0) std::swap(order[a], order[b]);
  c.give(c.add("Transpose", {self}, {{"perm", order}}));
}

void cat(Conversion& c) {
  c.give(c.add("Concat", c.tensors("tensors"), {{"axis", c.integer("dim")}}));
}

void unsqueeze(Conversion& c) {
  c.give(c.add("Unsqueeze", {c.tensor("self"), c.integers_constant({c.integer("dim")})}));
}

/// An axis of another size than 1 stays.
void squeeze(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int64_t axis = c.axis(c.integer("dim"), c.rank_of(self));
  const auto& size = c.size_of(self, axis);
  if (!size.is_constant()) c.refuse("whether its axis has size 1 is known only while running");
  c.give(size.is(1) ? c.add("Squeeze", {self, c.integers_constant({axis})}) : self);
}

/// A size as a number of rank 0.
void size_of_axis(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int64_t axis = c.axis(c.integer("dim"), c.rank_of(self));
  const ValueId row = c.add("Shape", {self}, {{"start", axis}, {"end", axis + 1}});
  c.give(c.add("Squeeze", {row, c.integers_constant({0})}));
}

}  // namespace

std::vector<frontend::Row> movement_rows() {
  return {
      {"aten::flatten.using_ints(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor", flatten},
      {"aten::reshape(Tensor self, SymInt[] shape) -> Tensor", reshape("shape")},
      {"aten::view(Tensor self, SymInt[] size) -> Tensor", reshape("size")},
      {"aten::permute(Tensor self, int[] dims) -> Tensor", permute},
      {"aten::transpose.int(Tensor self, int dim0, int dim1) -> Tensor",
       [](Conversion& c) { swap_axes(c, c.integer("dim0"), c.integer("dim1")); }},
      {"aten::t(Tensor self) -> Tensor", [](Conversion& c) { swap_axes(c, 0, -1); }},
      {"aten::cat(Tensor[] tensors, int dim=0) -> Tensor", cat},
      {"aten::unsqueeze(Tensor self, int dim) -> Tensor", unsqueeze},
      {"aten::squeeze.dim(Tensor self, int dim) -> Tensor", squeeze},
      {"aten::size.int(Tensor self, int dim) -> int", size_of_axis},
      {"aten::sym_size.int(Tensor self, int dim) -> SymInt", size_of_axis},
  };
}

}  // namespace graft::aten
