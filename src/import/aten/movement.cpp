// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "import/aten/axes.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

constexpr int64_t kMostParts = 1024;  // of a split

// ---- Shapes ----

/// Axes start_dim .. end_dim become one.
void flatten(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int rank = c.rank_of(self);
  if (rank == 0) return c.give(c.add("Reshape", {self, c.integers_constant({1})}));
  const int64_t start = c.axis(c.integer("start_dim"), rank), end = c.axis(c.integer("end_dim"), rank);
  if (start > end) c.refuse("its start_dim is behind its end_dim");
  if (start == end) return c.give(self);
  std::vector<int64_t> shape(static_cast<size_t>(rank - (end - start)), 0);  // 0: as it is
  shape[static_cast<size_t>(start)] = -1;
  for (int64_t axis = end + 1; axis < rank; ++axis) {  // behind the merged axis a place is no longer the input's
    const auto size = c.size_of(self, axis).as_constant();
    if (!size) c.refuse("axes behind those that it flattens have sizes known only while running");
    shape[static_cast<size_t>(axis - (end - start))] = *size;
  }
  c.give(c.add("Reshape", {self, c.integers_constant(shape)}));
}

Build reshape(std::string_view size) {
  return [size](Conversion& c) {
    c.give(c.add("Reshape", {c.tensor("self"), c.shape_tensor(size)}, {{"allowzero", int64_t{1}}}));
  };
}

void reshape_as(Conversion& c) {
  c.give(c.add("Reshape", {c.tensor("self"), c.add("Shape", {c.tensor("other")})}, {{"allowzero", int64_t{1}}}));
}

/// One axis becomes several.
void unflatten(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int rank = c.rank_of(self);
  const int64_t axis = c.axis(c.integer("dim"), rank);
  std::vector<ValueId> parts;
  const auto take = [&](int64_t begin, int64_t end) {
    if (begin < end) parts.push_back(c.add("Shape", {self}, {{"start", begin}, {"end", end}}));
  };
  take(0, axis);
  parts.push_back(c.shape_tensor("sizes"));
  take(axis + 1, rank);
  c.give(c.add("Reshape", {self, joined(c, std::move(parts))}, {{"allowzero", int64_t{1}}}));
}

/// -1 keeps a size; so does 1 for Expand.
void expand(Conversion& c) {
  const ValueId self = c.tensor("self");
  const auto* list = std::get_if<frontend::Arguments>(&c.argument("size").is);
  const bool fixed = list && std::all_of(list->begin(), list->end(), [](const frontend::Argument& each) {
    return std::holds_alternative<int64_t>(each.is);
  });
  if (fixed) {
    std::vector<int64_t> sizes = c.integers("size");
    for (int64_t& size : sizes) size = size == -1 ? 1 : size;
    return c.give(c.add("Expand", {self, c.integers_constant(sizes)}));
  }
  const ValueId sizes = c.shape_tensor("size");
  c.give(c.add("Expand", {self, c.add("Abs", {sizes})}));
}

void expand_as(Conversion& c) { c.give(c.add("Expand", {c.tensor("self"), c.add("Shape", {c.tensor("other")})})); }

void unsqueeze(Conversion& c) {
  c.give(c.add("Unsqueeze", {c.tensor("self"), c.integers_constant({c.integer("dim")})}));
}

/// Axes of another size than 1 stay.
void squeeze_axes(Conversion& c, std::vector<int64_t> axes) {
  const ValueId self = c.tensor("self");
  std::vector<int64_t> gone;
  for (const int64_t given : axes) {
    const int64_t axis = wrapped_axis(c, given, c.rank_of(self));
    if (c.rank_of(self) == 0) continue;
    const auto& size = c.size_of(self, axis);
    if (!size.is_constant()) c.refuse("whether its axis has size 1 is known only while running");
    if (size.is(1)) gone.push_back(axis);
  }
  c.give(gone.empty() ? self : c.add("Squeeze", {self, c.integers_constant(gone)}));
}

void squeeze_all(Conversion& c) {
  std::vector<int64_t> axes(static_cast<size_t>(c.rank_of(c.tensor("self"))));
  std::iota(axes.begin(), axes.end(), 0);
  squeeze_axes(c, axes);
}

// ---- Order ----

void permute(Conversion& c) { c.give(transposed(c, c.tensor("self"), c.integers("dims"))); }

void swap_axes(Conversion& c, int64_t first, int64_t second) {
  const ValueId self = c.tensor("self");
  const int rank = c.rank_of(self);
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  const auto a = static_cast<size_t>(wrapped_axis(c, first, rank));
  const auto b = static_cast<size_t>(wrapped_axis(c, second, rank));
  if (rank > 0) std::swap(order[a], order[b]);
  c.give(transposed(c, self, order));
}

/// A matrix with its axes exchanged; what has fewer axes stays.
void transpose_matrix(Conversion& c) {
  const ValueId self = c.tensor("self");
  if (c.rank_of(self) < 2) return c.give(self);
  if (c.rank_of(self) > 2) c.refuse("more than two axes");
  swap_axes(c, 0, 1);
}

void move_axes(Conversion& c, const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  const ValueId self = c.tensor("self");
  const int rank = c.rank_of(self);
  if (from.size() != to.size()) c.refuse("sources and destinations of different lengths");
  std::vector<int64_t> order(static_cast<size_t>(rank), -1), rest(static_cast<size_t>(rank));
  std::iota(rest.begin(), rest.end(), 0);
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t source = c.axis(from[i], rank);
    int64_t& place = order[static_cast<size_t>(c.axis(to[i], rank))];
    if (place >= 0 || std::erase(rest, source) == 0) c.refuse("an axis that is moved twice");
    place = source;
  }
  auto next = rest.begin();
  for (int64_t& axis : order) {
    if (axis < 0) axis = *next++;
  }
  c.give(transposed(c, self, order));
}

/// Backwards along axes.
void flip(Conversion& c) {
  const ValueId self = c.tensor("self");
  std::vector<int64_t> axes = c.integers("dims");
  for (int64_t& axis : axes) axis = wrapped_axis(c, axis, c.rank_of(self));
  if (axes.empty() || c.rank_of(self) == 0) return c.give(self);
  const std::vector<int64_t> ones(axes.size(), -1), ends(axes.size(), -kToTheEnd);
  c.give(c.add("Slice", {self, c.integers_constant(ones), c.integers_constant(ends), c.integers_constant(axes),
                         c.integers_constant(ones)}));
}

/// What leaves an axis at its end comes back at its begin.
void roll(Conversion& c) {
  ValueId x = c.tensor("self");
  const ValueId self = x;
  const std::vector<int64_t> shifts = c.integers("shifts");
  std::vector<int64_t> axes = c.integers("dims");
  const bool all = axes.empty();
  if (all) x = c.add("Reshape", {x, c.integers_constant({-1})}), axes = {0};
  if (axes.size() != shifts.size()) c.refuse("shifts and dims of different lengths");
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = c.axis(axes[i], c.rank_of(x));
    int64_t shift = shifts[i];
    if (const auto size = c.size_of(x, axis).as_constant()) shift = *size == 0 ? 0 : ((shift % *size) + *size) % *size;
    if (shift == 0) continue;
    if (!c.size_of(x, axis).is_constant()) c.refuse("its axis has a size known only while running");
    x = c.add("Concat", {sliced(c, x, axis, -shift, kToTheEnd), sliced(c, x, axis, 0, -shift)}, {{"axis", axis}});
  }
  c.give(all ? c.add("Reshape", {x, c.add("Shape", {self})}) : x);
}

// ---- Apart ----

/// Parts of the sizes given along an axis.
void split_into(Conversion& c, int64_t axis, const std::vector<int64_t>& sizes) {
  const ValueId self = c.tensor("self");
  if (sizes.empty() || std::ssize(sizes) > kMostParts) c.refuse(fmt::format("{} parts", sizes.size()));
  if (sizes.size() == 1) return c.give_list({self});
  c.give_list(c.add_several("Split", {self, c.integers_constant(sizes)}, {{"axis", axis}},
                            static_cast<int>(sizes.size())));
}

int64_t known_size(Conversion& c, int64_t axis) {
  const auto size = c.size_of(c.tensor("self"), axis).as_constant();
  if (!size) c.refuse("its axis has a size known only while running");
  return *size;
}

void split_by(Conversion& c, int64_t axis, int64_t size, int64_t total) {
  if (size <= 0) c.refuse(fmt::format("parts of size {}", size));
  if (total / size > kMostParts) c.refuse("too many parts");
  std::vector<int64_t> sizes;
  for (int64_t begin = 0; begin < total; begin += size) sizes.push_back(std::min(size, total - begin));
  split_into(c, axis, sizes);
}

int64_t axis_argument(Conversion& c) { return c.axis(c.integer("dim"), c.rank_of(c.tensor("self"))); }

void split(Conversion& c) {
  const int64_t axis = axis_argument(c);
  split_by(c, axis, c.integer("split_size"), known_size(c, axis));
}

void chunk(Conversion& c) {
  const int64_t axis = axis_argument(c), total = known_size(c, axis), count = c.integer("chunks");
  if (count <= 0) c.refuse(fmt::format("{} chunks", count));
  split_by(c, axis, std::max<int64_t>((total + count - 1) / count, 1), total);
}

Build split_with_sizes(std::string_view sizes) {
  return [sizes](Conversion& c) { split_into(c, axis_argument(c), c.integers(sizes)); };
}

void unbind(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int64_t axis = axis_argument(c), total = known_size(c, axis);
  if (total < 1 || total > kMostParts) c.refuse(fmt::format("{} parts", total));
  std::vector<ValueId> parts = {self};
  if (total > 1) {
    parts = c.add_several("Split", {self}, {{"axis", axis}, {"num_outputs", total}}, static_cast<int>(total));
  }
  for (ValueId& part : parts) part = c.add("Squeeze", {part, c.integers_constant({axis})});
  c.give_list(std::move(parts));
}

// ---- Repetition ----

/// As many as `repeats` has more axes than the tensor, in front.
void repeat(Conversion& c, std::string_view repeats) {
  ValueId self = c.tensor("self");
  ValueId times = c.shape_tensor(repeats);
  const auto count = c.size_of(times, 0).as_constant();
  if (!count) c.refuse("a number of axes known only while running");
  const int64_t missing = c.rank_of(self) - *count;
  if (missing > 0) {
    times = c.add("Concat", {c.integers_constant(std::vector<int64_t>(static_cast<size_t>(missing), 1)), times},
                  {{"axis", int64_t{0}}});
  }
  for (int64_t added = missing; added < 0; ++added) self = c.add("Unsqueeze", {self, c.integers_constant({0})});
  c.give(c.add("Tile", {self, times}));
}

/// Each element so often in a row: an axis behind it is what is repeated.
void repeat_interleave(Conversion& c) {
  ValueId self = c.tensor("self");
  if (!c.has("dim")) self = c.add("Reshape", {self, c.integers_constant({-1})});
  const int rank = c.rank_of(self);
  const int64_t axis = c.has("dim") ? c.axis(c.integer("dim"), rank) : 0;
  std::vector<int64_t> times(static_cast<size_t>(rank + 1), 1);
  times[static_cast<size_t>(axis + 1)] = c.integer("repeats");
  const ValueId tiled = c.add("Tile", {c.add("Unsqueeze", {self, c.integers_constant({axis + 1})}),
                                       c.integers_constant(times)});
  std::vector<ValueId> parts;
  if (axis > 0) parts.push_back(c.add("Shape", {tiled}, {{"start", int64_t{0}}, {"end", axis}}));
  parts.push_back(c.integers_constant({-1}));
  if (axis + 1 < rank) parts.push_back(c.add("Shape", {tiled}, {{"start", axis + 2}}));
  c.give(c.add("Reshape", {tiled, joined(c, std::move(parts))}));
}

Build in_blocks(std::string_view op, std::string_view factor, const Attributes& attributes) {
  return [=](Conversion& c) {
    const ValueId self = c.tensor("self");
    if (c.rank_of(self) != 4) c.refuse("an input that is no batch of maps");
    Attributes all = attributes;
    all["blocksize"] = c.integer(factor);
    c.give(c.add(op, {self}, std::move(all)));
  };
}

/// Pixels of a block become channels, of one channel side by side.
void pixel_unshuffle(Conversion& c) {
  const ValueId self = c.tensor("self");
  if (c.rank_of(self) != 4) c.refuse("an input that is no batch of maps");
  const int64_t r = c.integer("downscale_factor");
  std::vector<int64_t> sizes;
  for (int64_t axis = 1; axis < 4; ++axis) sizes.push_back(known_size(c, axis));
  if (r <= 0) c.refuse(fmt::format("a factor of {}", r));
  const ValueId apart = c.add("Reshape", {self, c.integers_constant({-1, sizes[0], sizes[1] / r, r, sizes[2] / r, r})});
  const ValueId moved = transposed(c, apart, {0, 1, 3, 5, 2, 4});
  c.give(c.add("Reshape",
               {moved, c.integers_constant({-1, c.product(sizes[0], c.product(r, r)), sizes[1] / r, sizes[2] / r})}));
}

void channel_shuffle(Conversion& c) {
  const ValueId self = c.tensor("self");
  const int64_t groups = c.integer("groups"), channels = known_size(c, 1);
  if (groups <= 0 || channels % groups != 0) c.refuse("channels that its groups do not divide");
  const ValueId apart =
      c.add("Reshape", {self, joined(c, {c.add("Shape", {self}, {{"start", int64_t{0}}, {"end", int64_t{1}}}),
                                         c.integers_constant({groups, channels / groups, -1})})});
  c.give(c.add("Reshape", {transposed(c, apart, {0, 2, 1, 3}), c.add("Shape", {self})}));
}

}  // namespace

std::vector<Row> movement_rows() {
  return {
      {"aten::flatten.using_ints(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor", flatten},
      {"aten::reshape(Tensor self, SymInt[] shape) -> Tensor", reshape("shape")},
      {"aten::view _unsafe_view view_copy(Tensor self, SymInt[] size) -> Tensor", reshape("size")},
      {"aten::view_as reshape_as(Tensor self, Tensor other) -> Tensor", reshape_as},
      {"aten::unflatten.int(Tensor self, int dim, SymInt[] sizes) -> Tensor", unflatten},
      {"aten::expand expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor", expand},
      {"aten::broadcast_to(Tensor self, SymInt[] size) -> Tensor", expand},
      {"aten::expand_as(Tensor self, Tensor other) -> Tensor", expand_as},
      {"aten::unsqueeze unsqueeze_copy(Tensor self, int dim) -> Tensor", unsqueeze},
      {"aten::squeeze(Tensor self) -> Tensor", squeeze_all},
      {"aten::squeeze.dim squeeze_copy.dim(Tensor self, int dim) -> Tensor",
       [](Conversion& c) { squeeze_axes(c, {c.integer("dim")}); }},
      {"aten::squeeze.dims squeeze_copy.dims(Tensor self, int[] dim) -> Tensor",
       [](Conversion& c) { squeeze_axes(c, c.integers("dim")); }},
      {"aten::permute permute_copy(Tensor self, int[] dims) -> Tensor", permute},
      {"aten::transpose.int swapdims transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor",
       [](Conversion& c) { swap_axes(c, c.integer("dim0"), c.integer("dim1")); }},
      {"aten::swapaxes(Tensor self, int axis0, int axis1) -> Tensor",
       [](Conversion& c) { swap_axes(c, c.integer("axis0"), c.integer("axis1")); }},
      {"aten::t numpy_T t_copy(Tensor self) -> Tensor", transpose_matrix},
      {"aten::mT(Tensor self) -> Tensor", [](Conversion& c) { swap_axes(c, -2, -1); }},
      {"aten::movedim.int moveaxis.int(Tensor self, int source, int destination) -> Tensor",
       [](Conversion& c) { move_axes(c, {c.integer("source")}, {c.integer("destination")}); }},
      {"aten::movedim.intlist moveaxis.intlist(Tensor self, int[] source, int[] destination) -> Tensor",
       [](Conversion& c) { move_axes(c, c.integers("source"), c.integers("destination")); }},
      {"aten::flip(Tensor self, int[] dims) -> Tensor", flip},
      {"aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", roll},
      {"aten::split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]", split},
      {"aten::split_with_sizes split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
       split_with_sizes("split_sizes")},
      {"aten::split.sizes(Tensor self, SymInt[] split_size, int dim=0) -> Tensor[]", split_with_sizes("split_size")},
      {"aten::chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", chunk},
      {"aten::unbind.int(Tensor self, int dim=0) -> Tensor[]", unbind},
      {"aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", [](Conversion& c) { repeat(c, "repeats"); }},
      {"aten::tile(Tensor self, SymInt[] dims) -> Tensor", [](Conversion& c) { repeat(c, "dims"); }},
      {"aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) "
       "-> Tensor", repeat_interleave},
      {"aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
       in_blocks("DepthToSpace", "upscale_factor", {{"mode", std::string("CRD")}})},
      {"aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", pixel_unshuffle},
      {"aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor", channel_shuffle},
  };
}

}  // namespace graft::aten
