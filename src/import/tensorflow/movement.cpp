// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

/// TensorFlow's shapes are i32 as often as i64.
ValueId wide(Conversion& c, std::string_view name) { return c.cast(c.tensor(name), DType::kInt64); }

DType index_type(Conversion& c) { return c.has("out_type") ? c.type("out_type") : DType::kInt32; }

void reshape(Conversion& c) {
  c.give(c.add("Reshape", {c.tensor("tensor"), wide(c, "shape")}, {{"allowzero", int64_t{1}}}));
}

/// The named axes, or all of size 1.
void squeeze(Conversion& c) {
  const ValueId input = c.tensor("input");
  const Shape shape = c.shape_of(input);
  std::vector<int64_t> axes = c.integers("squeeze_dims");
  if (axes.empty()) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (!shape[axis].is_constant()) c.refuse("which of its axes have size 1 is known only while running");
      if (shape[axis].is(1)) axes.push_back(static_cast<int64_t>(axis));
    }
  }
  c.give(axes.empty() ? input : c.add("Squeeze", {input, c.integers_constant(axes)}));
}

void expand(Conversion& c) {
  c.give(c.add("Unsqueeze", {c.tensor("input"), c.integers_constant({c.integer("dim")})}));
}

void transpose(Conversion& c) {
  const ValueId x = c.tensor("x");
  std::vector<int64_t> order = c.integers("perm");
  for (int64_t& axis : order) axis = c.axis(axis, c.rank_of(x));
  c.give(c.add("Transpose", {x}, {{"perm", order}}));
}

void concat(Conversion& c, std::string_view axis) {
  c.give(c.add("Concat", c.tensors("values"), {{"axis", c.integer(axis)}}));
}

/// [begin, end] of each axis, as all begins and then all ends.
ValueId pads_of(Conversion& c) {
  const ValueId given = c.tensor("paddings");
  if (!c.given(given).constant) {
    const ValueId turned = c.add("Transpose", {c.cast(given, DType::kInt64)}, {{"perm", std::vector<int64_t>{1, 0}}});
    return c.add("Reshape", {turned, c.integers_constant({2 * int64_t{c.rank_of(c.tensor("input"))}})});
  }
  const std::vector<int64_t> pairs = c.integers("paddings");
  std::vector<int64_t> pads;
  for (size_t end = 0; end < 2; ++end) {
    for (size_t i = end; i < pairs.size(); i += 2) pads.push_back(pairs[i]);
  }
  return c.integers_constant(pads);
}

void pad(Conversion& c) { c.give(c.add("Pad", {c.tensor("input"), pads_of(c)})); }
void pad_with(Conversion& c) { c.give(c.add("Pad", {c.tensor("input"), pads_of(c), c.tensor("constant_values")})); }
void pad_mirrored(Conversion& c) {
  if (c.text("mode") != "REFLECT") c.refuse("padding that repeats the element at the border");
  c.give(c.add("Pad", {c.tensor("input"), pads_of(c)}, {{"mode", std::string("reflect")}}));
}

/// Values of one shape along a new axis.
void pack(Conversion& c) {
  std::vector<ValueId> parts;
  const int64_t axis = c.integer("axis");
  for (const ValueId value : c.tensors("values")) {
    parts.push_back(c.add("Unsqueeze", {value, c.integers_constant({axis})}));
  }
  c.give(c.add("Concat", std::move(parts), {{"axis", axis}}));
}

std::vector<ValueId> parts_of(Conversion& c, ValueId value, int64_t axis, int64_t count) {
  if (count == 1) return {value};
  if (count < 1 || count > std::numeric_limits<int>::max()) c.refuse(fmt::format("{} parts", count));
  return c.add_several("Split", {value}, {{"axis", axis}, {"num_outputs", count}}, static_cast<int>(count));
}

void unpack(Conversion& c) {
  const ValueId value = c.tensor("value");
  const int64_t axis = c.axis(c.integer("axis"), c.rank_of(value));
  std::vector<ValueId> results;
  for (const ValueId part : parts_of(c, value, axis, c.integer("num"))) {
    results.push_back(c.add("Squeeze", {part, c.integers_constant({axis})}));
  }
  c.give(std::move(results));
}

void split(Conversion& c) {
  const ValueId value = c.tensor("value");
  const int64_t axis = c.axis(c.integer("split_dim"), c.rank_of(value)), count = c.integer("num_split");
  const auto size = c.size_of(value, axis).as_constant();
  if (!size || count < 1 || *size % count != 0) {
    c.refuse("whether its parts are of one size is known only while running");
  }
  c.give(parts_of(c, value, axis, count));
}

void split_by_sizes(Conversion& c) {
  const ValueId value = c.tensor("value");
  const int64_t axis = c.axis(c.integer("split_dim"), c.rank_of(value));
  std::vector<int64_t> sizes = c.integers("size_splits");
  const auto open = std::find(sizes.begin(), sizes.end(), -1);
  if (open != sizes.end()) {
    const auto whole = c.size_of(value, axis).as_constant();
    if (!whole) c.refuse("the size of one of its parts is known only while running");
    *open = std::accumulate(sizes.begin(), sizes.end(), *whole, [&](int64_t left, int64_t size) {
      if (size < -1) c.refuse("a part of it has a negative size");
      return size == -1 ? left : c.sum(left, -size);
    });
  }
  if (sizes.size() == 1) return c.give(value);
  c.give(c.add_several("Split", {value, c.integers_constant(sizes)}, {{"axis", axis}},
                       static_cast<int>(sizes.size())));
}

void shape(Conversion& c) { c.give(c.cast(c.add("Shape", {c.tensor("input")}), index_type(c))); }
void size(Conversion& c) { c.give(c.cast(c.add("Size", {c.tensor("input")}), index_type(c))); }
void rank(Conversion& c) {
  const int64_t axes = c.rank_of(c.tensor("input"));
  c.give(c.constant(TensorData::from_values<int64_t>(DType::kInt32, {}, {axes})));
}

/// Sizes, or pairs of paddings, in the order of another layout; of the spatial ones alone where there are two.
void permute_layout(Conversion& c) {
  const ValueId x = c.tensor("x");
  std::string source = c.text("src_format"), target = c.text("dst_format");
  const auto size = c.size_of(x, 0).as_constant();
  if (size == 2 && source.size() == 4) {
    std::erase_if(source, [](char axis) { return axis == 'N' || axis == 'C'; });
    std::erase_if(target, [](char axis) { return axis == 'N' || axis == 'C'; });
  }
  if (size != static_cast<int64_t>(source.size())) c.refuse("it has not as many elements as its layout has axes");
  std::vector<int64_t> places;
  for (const char axis : target) {
    const size_t place = source.find(axis);
    if (place == std::string::npos) c.refuse("its layouts have not the same axes");
    places.push_back(static_cast<int64_t>(place));
  }
  c.give(c.add("Gather", {x, c.integers_constant(places)}));
}

void tile(Conversion& c) { c.give(c.add("Tile", {c.tensor("input"), wide(c, "multiples")})); }
void fill(Conversion& c) { c.give(c.add("Expand", {c.tensor("value"), wide(c, "dims")})); }
void broadcast_to(Conversion& c) { c.give(c.add("Expand", {c.tensor("input"), wide(c, "shape")})); }
void range(Conversion& c) { c.give(c.add("Range", {c.tensor("start"), c.tensor("limit"), c.tensor("delta")})); }

}  // namespace

std::vector<frontend::Row> movement_rows() {
  return {
      {"Reshape(T tensor, Tshape shape)", reshape},
      {"Squeeze(T input, *, squeeze_dims=[])", squeeze},
      {"ExpandDims(T input, Tdim dim)", expand},
      {"Transpose(T x, Tperm perm)", transpose},
      {"ConcatV2(N*T values, Tidx axis)", [](Conversion& c) { concat(c, "axis"); }},
      {"Concat(int32 concat_dim, N*T values)", [](Conversion& c) { concat(c, "concat_dim"); }},
      {"Pad(T input, Tpaddings:2 paddings)", pad},
      {"PadV2(T input, Tpaddings:2 paddings, T constant_values)", pad_with},
      {"MirrorPad(T input, Tpaddings:2 paddings, *, mode)", pad_mirrored},
      {"DataFormatVecPermute(T x, *, src_format=\"NHWC\", dst_format=\"NCHW\")", permute_layout},
      {"Pack(N*T values, *, axis=0)", pack},
      {"Unpack(T value, *, num, axis=0)", unpack},
      {"Split(int32 split_dim, T value, *, num_split)", split},
      {"SplitV(T value, Tlen size_splits, int32 split_dim)", split_by_sizes},
      {"Shape(T input, *, out_type=None)", shape},
      {"Size(T input, *, out_type=None)", size},
      {"Rank(T input)", rank},
      {"Tile(T input, Tmultiples multiples)", tile},
      {"Fill(index_type dims, T value)", fill},
      {"BroadcastTo(T input, Tidx shape)", broadcast_to},
      {"Range(Tidx start, Tidx limit, Tidx delta)", range},
  };
}

}  // namespace graft::tensorflow
