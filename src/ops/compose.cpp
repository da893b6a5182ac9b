// SPDX-License-Identifier: Apache-2.0
#include "ops/compose.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace graft {

Tensor map(Definition& d, std::string_view name, const Tensor& x, DType type, const Map& f) {
  return d.compute(name, type, Shape(x.shape()), [&](const Indices& i) { return f(x.wide(i)); });
}

Tensor zip(Definition& d, std::string_view name, const Tensor& a, const Tensor& b, DType type, const Zip& f) {
  const Shape shape = d.broadcast(a.shape(), b.shape());
  return d.compute(name, type, shape, [&](const Indices& i) { return f(d.at(a, i), d.at(b, i)); });
}

void define_map(Definition& d, const Map& f) {
  const Tensor x = d.in(0);
  d.out(0, map(d, "y", x, x.type(), f));
}

Tensor copy_of(Definition& d, std::string_view name, const Tensor& x) {
  return d.compute(name, x.type(), Shape(x.shape()), [&](const Indices& i) { return x(i); });
}

Tensor stored_as(Definition& d, std::string_view name, const Tensor& x, DType type) {
  if (x.type() == type) return x;
  return d.compute(name, type, Shape(x.shape()), [&](const Indices& i) { return x(i); });
}

Indices without_axis(Indices indices, int axis) {
  indices.erase(indices.begin() + axis);
  return indices;
}
Indices with_axis(Indices indices, int axis, const Expr& index) {
  indices.insert(indices.begin() + axis, index);
  return indices;
}
Shape without_axis(Shape shape, int axis) {
  shape.erase(shape.begin() + axis);
  return shape;
}
Shape with_axis(Shape shape, int axis, const Size& size) {
  shape.insert(shape.begin() + axis, size);
  return shape;
}

Expr flat_index(const Shape& shape, const Indices& indices) {
  Expr position = make_index(0);
  Size stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (!shape[i].is(1)) position = indices[i] * make_size(stride) + position;
    stride = stride * shape[i];
  }
  return position;
}

Indices unflatten(const Shape& shape, const Expr& position) {
  Indices indices(shape.size(), make_index(0));
  Expr rest = position;
  size_t first = 0;
  while (first < shape.size() && shape[first].is(1)) ++first;
  for (size_t i = shape.size(); i-- > first;) {
    if (shape[i].is(1)) continue;
    const Expr size = make_size(shape[i]);
    indices[i] = i == first ? rest : mod(rest, size);
    if (i != first) rest = floor_div(rest, size);
  }
  return indices;
}

namespace {

/// Where the product of a shape's first axes stands after each axis.
std::vector<Size> prefix_products(const Shape& shape) {
  std::vector<Size> products{Size(1)};
  for (const Size& size : shape) products.push_back(products.back() * size);
  return products;
}

template <class T>
std::vector<T> part(const std::vector<T>& whole, size_t begin, size_t end) {
  return {whole.begin() + static_cast<std::ptrdiff_t>(begin), whole.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace

Indices reshaped_indices(const Shape& from, const Shape& to, const Indices& indices) {
  const std::vector<Size> before = prefix_products(from), after = prefix_products(to);
  Indices result;
  size_t i = 0, o = 0;
  // Each round takes the shortest runs of axes with equal products; the last one takes all that is left.
  while (i < from.size() || o < to.size()) {
    size_t next_i = from.size(), next_o = to.size();
    bool found = false;
    for (size_t p = i + 1; p <= from.size() && !found; ++p) {
      for (size_t q = o + 1; q <= to.size() && !found; ++q) {
        if (!(before[p] == after[q])) continue;
        next_i = p, next_o = q, found = true;
      }
    }
    const Shape run = part(to, o, next_o);
    const Expr position = flat_index(run, part(indices, o, next_o));
    for (const Expr& index : unflatten(part(from, i, next_i), position)) result.push_back(index);
    i = next_i, o = next_o;
  }
  return result;
}

Tensor reshape(Definition& d, std::string_view name, const Tensor& x, const Shape& shape) {
  return d.compute(name, x.type(), shape,
                   [&](const Indices& i) { return x(reshaped_indices(x.shape(), shape, i)); });
}

Tensor transpose(Definition& d, std::string_view name, const Tensor& x, const std::vector<int>& permutation) {
  Shape shape;
  for (const int axis : permutation) shape.push_back(x.size(axis));
  return d.compute(name, x.type(), shape, [&](const Indices& i) {
    Indices own(i.size());
    for (size_t k = 0; k < i.size(); ++k) own[permutation[k]] = i[k];
    return x(own);
  });
}

Expr wrapped_index(const Expr& index, const Size& size) {
  const Expr wide = make_cast(DType::kInt64, index);
  const Expr extent = make_size(size);
  return check_index(select(lt(wide, make_index(0)), wide + extent, wide), extent);
}

Size is_equal(const Size& a, const Size& b) { return Size(1) - min(Size(1), max(a - b, b - a)); }

Size is_negative(const Size& a) {
  return a.is_constant() ? Size(a.constant() < 0) : Size(0) - max(Size(-1), min(Size(0), a));
}

Size at_least_zero(const Size& a) { return a.is_non_negative() ? a : max(Size(0), a); }

Size signed_ceil_div(const Size& a, const Size& b) { return Size(0) - floor_div(Size(0) - a, b); }

Size names_axis(Definition& d, const Size& axis, int number, int rank) {
  if (axis.is_constant()) return d.axis(axis.constant(), rank) == number;
  return Size(1) - min(1, mod(axis - Size(number), rank));
}

AxisSet axis_set(Definition& d, const std::vector<Size>& axes, int rank) {
  AxisSet set(rank, Size(0));
  for (const Size& axis : axes) {
    if (!axis.is_constant()) {
      d.require_at_least(axis, -rank, "an axis is outside the axes of the input");
      d.require_at_least(Size(rank - 1), axis, "an axis is outside the axes of the input");
    }
    for (int j = 0; j < rank; ++j) {
      const Size hit = names_axis(d, axis, j, rank);
      if (hit.is(0) || set[j].is(1)) continue;
      // The complement of a union is the smaller complement: one atom, however many axes there are.
      set[j] = set[j].is(0) ? hit : Size(1) - min(Size(1) - set[j], Size(1) - hit);
    }
  }
  // How many axes a result has follows from the length of the list, so none may be in it twice.
  if (std::none_of(axes.begin(), axes.end(), [](const Size& axis) { return !axis.is_constant(); })) return set;
  if (std::ssize(axes) > rank) d.reject("it names more axes than its input has");
  if (axes.size() > 1) {
    const Size members = std::accumulate(set.begin(), set.end(), Size(0));
    d.require_equal(members, static_cast<int64_t>(axes.size()), "an axis is given twice");
  }
  return set;
}

AxisSet axis_set(const Definition& d, const std::vector<int64_t>& axes, int rank) {
  AxisSet set(rank, Size(0));
  for (const int64_t axis : axes) set[d.axis(axis, rank)] = 1;
  return set;
}

Shape without(const Shape& shape, const AxisSet& set, bool keep, int count) {
  Shape kept;
  bool known = true;
  for (size_t i = 0; i < shape.size(); ++i) {
    known &= set[i].is_constant();
    const Size size = set[i].is(0) ? shape[i] : set[i].is(1) ? Size(1) : set[i] + (Size(1) - set[i]) * shape[i];
    if (keep || !set[i].is(1)) kept.push_back(size);
  }
  if (keep || known) return kept;
  // Axis p of the result is the p-th axis outside the set: a sum over all axes of which one term is not 0.
  Shape result(shape.size() - count, Size(0));
  Size place = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    for (size_t p = 0; p < result.size() && p <= i; ++p) {
      result[p] = result[p] + (Size(1) - set[i]) * is_equal(place, static_cast<int64_t>(p)) * shape[i];
    }
    place = place + Size(1) - set[i];
  }
  return result;
}

Tensor fold_axes(Definition& d, std::string_view name, const Shape& shape, const AxisSet& set, const Fold& fold) {
  Shape kept, folded;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Size& in = set[i];
    kept.push_back(in.is(0) ? shape[i] : in.is(1) ? Size(1) : in + (Size(1) - in) * shape[i]);
    if (!in.is(0)) folded.push_back(in.is(1) ? shape[i] : Size(1) - in + in * shape[i]);
  }
  return d.reduce(name, fold.combine, kept, folded, [&](const Indices& i, const Indices& k) {
    Indices indices;
    size_t next = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const Size& in = set[axis];
      if (in.is(0)) {
        indices.push_back(i[axis]);
      } else {
        // Of an axis that a run decides on, one of the two indices is always 0.
        indices.push_back(in.is(1) ? k[next] : i[axis] + k[next]);
        ++next;
      }
    }
    return fold.lift(indices);
  });
}

Size folded_count(const Shape& shape, const AxisSet& set) {
  Size count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (set[i].is(0)) continue;
    count = count * (set[i].is(1) ? shape[i] : Size(1) - set[i] + set[i] * shape[i]);
  }
  return count;
}

OpDef row(std::string_view name, int since, std::vector<std::string_view> inputs, std::vector<AttributeSpec> attributes,
          void (*define)(Definition&), std::vector<Sample> (*samples)(), std::string_view doc) {
  return {.domain = "",
          .name = name,
          .since = since,
          .inputs = std::move(inputs),
          .outputs = {"output"},
          .attributes = std::move(attributes),
          .define = define,
          .samples = samples,
          .doc = doc};
}

}  // namespace graft
