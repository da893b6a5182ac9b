// SPDX-License-Identifier: Apache-2.0
// Elements taken from, and put at, positions that are data.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

Indices slice_of(const Indices& i, size_t begin, size_t end) {
  return {i.begin() + static_cast<std::ptrdiff_t>(begin), i.begin() + static_cast<std::ptrdiff_t>(end)};
}

void define_gather(Definition& d) {
  const Tensor data = d.in(0), indices = d.in(1);
  const int axis = d.axis(d.integer("axis"), data.rank());
  Shape shape = without_axis(data.shape(), axis);
  shape.insert(shape.begin() + axis, indices.shape().begin(), indices.shape().end());
  d.out(0, d.compute("gathered", data.type(), shape, [&](const Indices& i) {
    const size_t inner = axis + indices.shape().size();
    Indices at = slice_of(i, 0, axis);
    at.push_back(wrapped_index(indices(slice_of(i, axis, inner)), data.size(axis)));
    for (size_t k = inner; k < i.size(); ++k) at.push_back(i[k]);
    return data(at);
  }));
}

void define_gather_elements(Definition& d) {
  const Tensor data = d.in(0), indices = d.in(1);
  if (data.rank() != indices.rank()) d.reject("its inputs differ in rank");
  const int axis = d.axis(d.integer("axis"), data.rank());
  for (int k = 0; k < data.rank(); ++k) {
    if (k != axis) d.require_at_least(data.size(k), indices.size(k), "its data is smaller than its indices");
  }
  d.out(0, d.compute("gathered", data.type(), Shape(indices.shape()), [&](const Indices& i) {
    Indices at = i;
    at[axis] = wrapped_index(indices(i), data.size(axis));
    return data(at);
  }));
}

/// The length of the last axis of the indices of GatherND and ScatterND, which decides ranks.
int tuple_length(Definition& d, const Tensor& indices, int most) {
  if (indices.rank() < 1) d.reject("its indices should have at least one axis");
  const auto length = indices.size(-1).as_constant();
  if (!length) d.unsupported("the last size of its indices, which decides ranks, is not known");
  if (*length < 0 || *length > most) d.reject("its indices are longer than its data has axes");
  return static_cast<int>(*length);
}

/// The index tuple at `position` as indices into the axes of `data` from `first` on.
Indices tuple_at(const Tensor& indices, const Indices& position, int length, const Tensor& data, int first) {
  Indices tuple;
  for (int k = 0; k < length; ++k) {
    Indices at = position;
    at.push_back(make_index(k));
    tuple.push_back(wrapped_index(indices(at), data.size(first + k)));
  }
  return tuple;
}

void define_gather_nd(Definition& d) {
  const Tensor data = d.in(0), indices = d.in(1);
  const int batch = static_cast<int>(d.integer("batch_dims"));
  if (batch < 0 || batch >= data.rank() || batch >= indices.rank()) d.reject("its batch_dims is outside its axes");
  const int length = tuple_length(d, indices, data.rank() - batch);
  for (int k = 0; k < batch; ++k) d.require_equal(data.size(k), indices.size(k), "its batch axes differ");
  const size_t outer = indices.shape().size() - 1;
  Shape shape(indices.shape().begin(), indices.shape().end() - 1);
  shape.insert(shape.end(), data.shape().begin() + batch + length, data.shape().end());
  d.out(0, d.compute("gathered", data.type(), shape, [&](const Indices& i) {
    Indices at = slice_of(i, 0, batch);
    for (const Expr& index : tuple_at(indices, slice_of(i, 0, outer), length, data, batch)) at.push_back(index);
    for (size_t k = outer; k < i.size(); ++k) at.push_back(i[k]);
    return data(at);
  }));
}

ScatterMode scatter_mode(Definition& d) {
  const std::string reduction = d.text("reduction");
  if (reduction == "none") return ScatterMode::kSet;
  if (reduction == "add") return ScatterMode::kAdd;
  if (reduction == "mul") return ScatterMode::kMul;
  if (reduction == "min") return ScatterMode::kMin;
  if (reduction == "max") return ScatterMode::kMax;
  d.reject("its attribute 'reduction' is " + reduction);
}

void define_scatter_elements(Definition& d) {
  const Tensor data = d.in(0), indices = d.in(1), updates = d.in(2);
  if (data.rank() != indices.rank() || updates.rank() != data.rank()) d.reject("its inputs differ in rank");
  const int axis = d.axis(d.integer("axis"), data.rank());
  for (int k = 0; k < data.rank(); ++k) {
    d.require_equal(indices.size(k), updates.size(k), "its updates do not fit");
    if (k != axis) d.require_at_least(data.size(k), indices.size(k), "its data is smaller than its indices");
  }
  d.out(0, d.scatter("scattered", data, scatter_mode(d), Shape(indices.shape()), [&](Scatter& s, const Indices& i) {
    s.indices = i;
    s.indices[axis] = wrapped_index(indices(i), data.size(axis));
    s.value = updates(i);
  }));
}

void define_scatter_nd(Definition& d) {
  const Tensor data = d.in(0), indices = d.in(1), updates = d.in(2);
  const int length = tuple_length(d, indices, data.rank());
  const size_t outer = indices.shape().size() - 1;
  Shape domain(indices.shape().begin(), indices.shape().end() - 1);
  domain.insert(domain.end(), data.shape().begin() + length, data.shape().end());
  if (domain.size() != updates.shape().size()) d.reject("its updates have the wrong rank");
  for (size_t k = 0; k < domain.size(); ++k) d.require_equal(domain[k], updates.shape()[k], "its updates do not fit");
  d.out(0, d.scatter("scattered", data, scatter_mode(d), domain, [&](Scatter& s, const Indices& i) {
    s.indices = tuple_at(indices, slice_of(i, 0, outer), length, data, 0);
    for (size_t k = outer; k < i.size(); ++k) s.indices.push_back(i[k]);
    s.value = updates(i);
  }));
}

/// Row `indices` of batch `b` of TensorScatter: the positions along an axis where new elements go.
void define_tensor_scatter(Definition& d) {
  const Tensor past = d.in(0), update = d.in(1);
  const int axis = d.axis(d.integer("axis"), past.rank());
  const std::string mode = d.text("mode");
  if (mode != "linear" && mode != "circular") d.reject("its mode is " + mode);
  if (axis == 0 || update.rank() != past.rank()) d.reject("its axis or its update does not fit");
  Shape updated = past.shape();
  updated[axis] = update.size(axis);
  d.require_shape(update, updated, "its update does not fit");
  if (d.has_input(2)) d.require_shape(d.in(2), {past.size(0)}, "there is not one position for each of the batch");
  d.out(0, d.scatter("present", past, ScatterMode::kSet, Shape(update.shape()), [&](Scatter& s, const Indices& i) {
    const Expr extent = make_size(past.size(axis));
    const Expr start = d.has_input(2) ? make_cast(DType::kInt64, d.in(2)({i[0]})) : make_index(0);
    const Expr position = start + i[axis];
    s.indices = i;
    s.indices[axis] = mode == "circular" ? mod(position, extent) : check_index(position, extent);
    s.value = update(i);
  }));
}

void define_one_hot(Definition& d) {
  const Tensor indices = d.in(0), values = d.in(2);
  const int axis = d.axis(d.integer("axis"), indices.rank() + 1);
  const Size depth = d.size_of(1);
  d.require_shape(values, {Size(2)}, "its values should be two, for off and on");
  d.out(0, d.compute("one_hot", values.type(), with_axis(indices.shape(), axis, depth), [&](const Indices& i) {
    const Expr given = make_cast(DType::kInt64, indices(without_axis(i, axis)));
    const Expr hot = select(lt(given, make_index(0)), given + make_size(depth), given);
    return select(eq(i[axis], hot), values({make_index(1)}), values({make_index(0)}));
  }));
}

void define_non_zero(Definition& d) {
  const Tensor x = d.in(0);
  const Size rank = x.rank();
  const std::string count = d.fresh_symbol("count");
  const std::vector<Tensor> found = d.compact("found", x.shape(), count, [&](Compact& c, const Indices& i) {
    const Expr value = x.wide(i);
    c.condition = value->type == DType::kBool ? value : ne(value, make_integer(value->type, 0));
    c.values = i;
    if (i.empty()) c.values = {make_index(0)};
  });
  d.out(0, d.compute("positions", DType::kInt64, {rank, Size::symbol(count)}, [&](const Indices& i) {
    Expr value = found.back()({i[1]});
    for (int k = x.rank() - 1; k-- > 0;) value = select(eq(i[0], make_index(k)), found[k]({i[1]}), value);
    return value;
  }));
}

void define_compress(Definition& d) {
  const Tensor x = d.in(0), condition = d.in(1);
  if (condition.rank() != 1 || condition.type() != DType::kBool) d.reject("its condition should be a list of booleans");
  const std::string count = d.fresh_symbol("count");
  const Size kept = Size::symbol(count);
  const bool flat = !d.has("axis");
  const int axis = flat ? 0 : d.axis(d.integer("axis"), x.rank());
  const Size extent = flat ? element_count(x.shape()) : x.size(axis);
  const Tensor rows = d.compact("rows", {min(extent, condition.size(0))}, count, [&](Compact& c, const Indices& i) {
    c.condition = condition(i);
    c.values = {i[0]};
  })[0];
  Shape shape = flat ? Shape{kept} : x.shape();
  shape[axis] = kept;
  d.out(0, d.compute("compressed", x.type(), shape, [&](const Indices& i) {
    Indices at = i;
    at[axis] = rows({i[axis]});
    return flat ? x(unflatten(x.shape(), at[0])) : x(at);
  }));
}

Attributes one(std::string_view name, int64_t value) { return {{std::string(name), Attribute(value)}}; }
SampleInput indices(Dims shape, int64_t least, int64_t most) {
  return i64(std::move(shape), static_cast<double>(least), static_cast<double>(most));
}

std::vector<Sample> gather_samples() {
  return {{.name = "rows", .inputs = {f32({7, 5}), indices({3}, 0, 6)}},
          {.name = "matrix_of_indices_on_the_last_axis",
           .inputs = {f32({3, 7}), indices({2, 5}, -7, 6)},
           .attributes = one("axis", -1)},
          {.name = "scalar_index", .inputs = {f32({7, 5}), indices({}, -7, 6)}},
          {.name = "narrow_indices", .inputs = {i64({7}), of(DType::kInt32, {4}, 0, 6)}},
          {.name = "half_precision", .inputs = {f16({2, 7, 3}), indices({4}, 0, 6)}, .attributes = one("axis", 1)},
          {.name = "no_indices", .inputs = {f32({7, 5}), indices({0}, 0, 6)}}};
}
std::vector<Sample> gather_elements_samples() {
  return {{.name = "first_axis", .inputs = {f32({7, 5}), indices({3, 5}, -7, 6)}},
          {.name = "last_axis", .inputs = {f32({3, 7}), indices({3, 9}, 0, 6)}, .attributes = one("axis", -1)},
          {.name = "integers", .inputs = {i64({7}), indices({7}, 0, 6)}}};
}
std::vector<Sample> gather_nd_samples() {
  return {
      {.name = "elements", .inputs = {f32({4, 5}), indices({3, 2}, 0, 3)}},
      {.name = "rows", .inputs = {f32({4, 5, 3}), indices({2, 3, 1}, -4, 3)}},
      {.name = "batches", .inputs = {f32({2, 4, 3}), indices({2, 5, 1}, 0, 3)}, .attributes = one("batch_dims", 1)}};
}
std::vector<Sample> scatter_elements_samples() {
  const auto reduction = [](const char* name) { return Attributes{{"reduction", std::string(name)}}; };
  const SampleInput distinct = list({2, 0, 5});
  return {
      {.name = "distinct_positions", .inputs = {f32({7}), distinct, f32({3})}},
      {.name = "sums_at_equal_positions",
       .inputs = {f32({3, 7}), indices({3, 9}, -7, 6), f32({3, 9})},
       .attributes = {{"axis", int64_t{1}}, {"reduction", std::string("add")}}},
      {.name = "largest", .inputs = {f32({4, 3}), indices({6, 3}, 0, 3), f32({6, 3})}, .attributes = reduction("max")},
      {.name = "products", .inputs = {f32({4}), indices({4}, 0, 3), f32({4})}, .attributes = reduction("mul")},
      {.name = "many_integers",
       .inputs = {of(DType::kInt32, {30, 50}), indices({20, 50}, 0, 29), of(DType::kInt32, {20, 50})},
       .attributes = reduction("add")},
      {.name = "many_halves",
       .inputs = {f16({30, 50}), indices({1, 50}, 0, 29), f16({1, 50})}}};
}
std::vector<Sample> scatter_nd_samples() {
  const auto distinct = values(DType::kInt64, {3, 1}, {2, 0, -1});
  return {{.name = "rows", .inputs = {f32({5, 4}), distinct, f32({3, 4})}},
          {.name = "elements_summed",
           .inputs = {f32({4, 5}), indices({6, 2}, 0, 3), f32({6})},
           .attributes = {{"reduction", std::string("add")}}},
          {.name = "smallest",
           .inputs = {f32({4, 5}), indices({6, 2}, 0, 3), f32({6})},
           .attributes = {{"reduction", std::string("min")}}}};
}
std::vector<Sample> tensor_scatter_samples() {
  return {{.name = "linear", .inputs = {f32({2, 3, 7, 4}), f32({2, 3, 2, 4}), values(DType::kInt64, {2}, {1, 5})}},
          {.name = "circular",
           .inputs = {f32({2, 7, 4}), f32({2, 3, 4}), values(DType::kInt64, {2}, {5, 0})},
           .attributes = {{"mode", std::string("circular")}}}};
}
std::vector<Sample> one_hot_samples() {
  const auto values_of = [] { return values(DType::kFloat32, {2}, {-1, 3}); };
  return {{.name = "last_axis", .inputs = {indices({5}, -4, 3), scalar(DType::kInt64, 4), values_of()}},
          {.name = "first_axis",
           .inputs = {indices({2, 3}, 0, 9), scalar(DType::kInt64, 7), values_of()},
           .attributes = one("axis", 0)},
          {.name = "depth_of_the_run", .inputs = {indices({5}, 0, 3), values(DType::kInt64, {}, {4}), values_of()}},
          {.name = "depth_of_the_run_as_a_float",
           .inputs = {indices({5}, 0, 3), values(DType::kFloat32, {}, {4}), values_of()}}};
}
std::vector<Sample> non_zero_samples() {
  return {{.name = "matrix", .inputs = {of(DType::kInt64, {4, 5}, -1, 1)}},
          {.name = "booleans", .inputs = {boolean({3, 2, 4})}},
          {.name = "nothing_found", .inputs = {values(DType::kFloat32, {3}, {0, 0, 0})}}};
}
std::vector<Sample> compress_samples() {
  return {{.name = "rows", .inputs = {f32({5, 3}), boolean({5})}, .attributes = one("axis", 0)},
          {.name = "condition_is_shorter", .inputs = {f32({3, 5}), boolean({3})}, .attributes = one("axis", -1)},
          {.name = "flat", .inputs = {f32({3, 5}), boolean({11})}}};
}

}  // namespace

std::vector<OpDef> gather_ops() {
  const AttributeSpec axis{"axis", int64_t{0}}, reduction{"reduction", std::string("none")};
  return {
      row("Gather", 13, {"data", "indices"}, {axis}, define_gather, gather_samples, "Slices of the data by index."),
      row("GatherElements", 13, {"data", "indices"}, {axis}, define_gather_elements, gather_elements_samples,
          "Elements of the data by an index for each."),
      row("GatherND", 13, {"data", "indices"}, {{"batch_dims", int64_t{0}}}, define_gather_nd, gather_nd_samples,
          "Slices of the data by tuples of indices."),
      row("ScatterElements", 18, {"data", "indices", "updates"}, {axis, reduction}, define_scatter_elements,
          scatter_elements_samples, "The data with elements put at an index for each."),
      row("ScatterND", 18, {"data", "indices", "updates"}, {reduction}, define_scatter_nd, scatter_nd_samples,
          "The data with slices put at tuples of indices."),
      row("TensorScatter", 24, {"past_cache", "update", "write_indices?"},
          {{"axis", int64_t{-2}}, {"mode", std::string("linear")}}, define_tensor_scatter, tensor_scatter_samples,
          "A cache with new elements written from a position on."),
      row("OneHot", 11, {"indices", "depth", "values"}, {{"axis", int64_t{-1}}}, define_one_hot, one_hot_samples,
          "One value where the position is the index, another elsewhere."),
      row("NonZero", 13, {"x"}, {}, define_non_zero, non_zero_samples, "The positions of the elements other than 0."),
      row("Compress", 11, {"input", "condition"}, {{"axis", {}, true}}, define_compress, compress_samples,
          "The slices for which the condition holds."),
  };
}

}  // namespace graft
