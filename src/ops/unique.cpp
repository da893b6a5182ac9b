// SPDX-License-Identifier: Apache-2.0
// Unique: equal elements, or equal slices along an axis, found side by side in sorted order.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// The first that is not 0 of the comparisons of two slices, element by element.
Monoid first_difference() {
  Monoid m;
  m.identity = {make_integer(DType::kInt32, 0)};
  m.left = {make_variable(DType::kInt32)};
  m.right = {make_variable(DType::kInt32)};
  m.combine = {select(eq(m.left[0], make_integer(DType::kInt32, 0)), m.right[0], m.left[0])};
  return m;
}

/// The slices in order: which one has rank r, and whether it differs from the one before.
struct Order {
  Tensor slice, starts;
};

Order order_elements(Definition& d, const Tensor& x, const Size& length) {
  const auto element = [&](const Expr& t) { return x(unflatten(x.shape(), t)); };
  const std::vector<Tensor> sorted =
      d.sort("sorted", {}, length, length, false, [&](const Indices&, const Expr& t) { return element(t); });
  const Tensor value = sorted[0];
  const Tensor starts = d.compute("starts", DType::kBool, {length}, [&](const Indices& i) {
    const Expr first = eq(i[0], make_index(0));
    return first || ne(value.wide(i), value.wide({max(i[0] - make_index(1), make_index(0))}));
  });
  return {sorted[1], starts};
}

/// Slices are ranked by counting those before them, which takes no order of slices as such.
Order order_slices(Definition& d, const Tensor& x, int axis) {
  const Size length = x.size(axis);
  const DType sign = DType::kInt32;
  const Shape rest = without_axis(x.shape(), axis);
  const Tensor comparison =
      d.reduce("comparison", first_difference(), {length, length}, rest, [&](const Indices& i, const Indices& k) {
        const Expr a = x.wide(with_axis(k, axis, i[0])), b = x.wide(with_axis(k, axis, i[1]));
        const Expr larger = select(gt(a, b), make_integer(sign, 1), make_integer(sign, 0));
        return std::vector<Expr>{select(lt(a, b), make_integer(sign, -1), larger)};
      })[0];
  const Tensor rank = d.reduce("rank", Intrinsic::kAdd, {length}, {length}, [&](const Indices& i, const Indices& j) {
    const Expr compared = comparison({j[0], i[0]}), zero = make_integer(sign, 0);
    const Expr before = lt(compared, zero) || (eq(compared, zero) && lt(j[0], i[0]));
    return select(before, make_index(1), make_index(0));
  });
  const Tensor zeros = d.compute("zeros", DType::kInt64, {length}, [](const Indices&) { return make_index(0); });
  const Tensor slice = d.scatter("slice", zeros, ScatterMode::kSet, {length}, [&](Scatter& s, const Indices& i) {
    s.indices = {check_index(rank(i), make_size(length))};
    s.value = i[0];
  });
  const Tensor starts = d.compute("starts", DType::kBool, {length}, [&](const Indices& i) {
    const Expr before = slice({max(i[0] - make_index(1), make_index(0))});
    const auto checked = [&](const Expr& e) { return check_index(e, make_size(length)); };
    return eq(i[0], make_index(0)) || ne(comparison({checked(before), checked(slice(i))}), make_integer(sign, 0));
  });
  return {slice, starts};
}

class Unique {
 public:
  explicit Unique(Definition& d) : d_(d), x_(d.in(0)) {
    flat_ = !d.has("axis");
    axis_ = flat_ ? 0 : d.axis(d.integer("axis"), x_.rank());
    length_ = flat_ ? element_count(x_.shape()) : x_.size(axis_);
    order_ = flat_ || x_.rank() == 1 ? order_elements(d, x_, length_) : order_slices(d, x_, axis_);
  }

  void define() {
    // Per rank: the group's first slice in the input, its number, and where the next group starts.
    const Tensor first = running(
        "first", [&](const Expr& t, const Expr& state) { return select(order_.starts({t}), order_.slice({t}), state); },
        0, false);
    const Tensor group = running(
        "group",
        [&](const Expr& t, const Expr& state) {
          return state + select(order_.starts({t}), make_index(1), make_index(0));
        },
        -1, false);
    const Tensor next = running(
        "next", [&](const Expr& t, const Expr& state) { return select(order_.starts({t}), t, state); }, length_, true);
    const auto size = [&](const Indices& r) { return next(r) - r[0]; };
    if (d_.integer("sorted") != 0) {
      output_groups([&](const Indices& r) { return order_.starts(r); }, [&](const Indices& r) { return first(r); },
                    size);
      return output_inverse([&](const Indices& r) { return group(r); });
    }
    // In the order of the input a group stands at its first slice.
    const Tensor zeros = d_.compute("none", DType::kInt64, {length_}, [](const Indices&) { return make_index(0); });
    const Tensor sizes = d_.scatter("sizes", zeros, ScatterMode::kSet, {length_}, [&](Scatter& s, const Indices& r) {
      s.indices = {check_index(order_.slice(r), make_size(length_))};
      s.value = size(r);
      s.condition = order_.starts(r);
    });
    const auto leads = [&](const Indices& i) { return gt(sizes(i), make_index(0)); };
    const Tensor number = running(
        "number",
        [&](const Expr& t, const Expr& state) { return state + select(leads({t}), make_index(1), make_index(0)); }, -1,
        false);
    output_groups(
        leads, [](const Indices& i) { return i[0]; }, [&](const Indices& i) { return sizes(i); });
    output_inverse([&](const Indices& r) { return number({check_index(first(r), make_size(length_))}); });
  }

 private:
  using Body = std::function<Expr(const Indices&)>;

  /// A recurrence over the ranks; a reverse one gives the state before each step.
  Tensor running(std::string_view name, const std::function<Expr(const Expr& t, const Expr& state)>& step,
                 const Size& initial, bool reverse) {
    return d_.scan(name, {}, length_, [&](Scan& s, const Indices&, const Expr& t) {
      s.state = {make_variable()};
      s.initial = {make_size(initial)};
      s.step = {step(t, s.state[0])};
      s.emit = {s.state[0]};
      s.exclusive = s.reverse = reverse;
    })[0];
  }

  /// The outputs with one entry per group: those of the points where `leads` holds, in order.
  void output_groups(const Body& leads, const Body& slice, const Body& size) {
    const std::string count = d_.fresh_symbol("count");
    const std::vector<Tensor> kept = d_.compact("groups", {length_}, count, [&](Compact& c, const Indices& i) {
      c.condition = leads(i);
      c.values = {slice(i), size(i)};
    });
    const Size groups = Size::symbol(count);
    const Shape shape = flat_ ? Shape{groups} : with_axis(without_axis(x_.shape(), axis_), axis_, groups);
    d_.out(0, d_.compute("y", x_.type(), shape, [&](const Indices& i) {
      const Expr from = check_index(kept[0]({i[axis_]}), make_size(length_));
      return flat_ ? x_(unflatten(x_.shape(), from)) : x_(with_axis(without_axis(i, axis_), axis_, from));
    }));
    if (d_.wants_output(1)) d_.out(1, kept[0]);
    if (d_.wants_output(3)) d_.out(3, kept[1]);
  }

  /// For each slice of the input the number of its group.
  void output_inverse(const Body& number) {
    if (!d_.wants_output(2)) return;
    const Tensor zeros = d_.compute("nowhere", DType::kInt64, {length_}, [](const Indices&) { return make_index(0); });
    d_.out(2, d_.scatter("inverse", zeros, ScatterMode::kSet, {length_}, [&](Scatter& s, const Indices& r) {
      s.indices = {check_index(order_.slice(r), make_size(length_))};
      s.value = number(r);
    }));
  }

  Definition& d_;
  Tensor x_;
  bool flat_ = true;
  int axis_ = 0;
  Size length_;
  Order order_;
};

void define_unique(Definition& d) { Unique(d).define(); }

std::vector<Sample> unique_samples() {
  const SampleInput list = values(DType::kFloat32, {7}, {2, 1, 1, 3, 4, 3, 1});
  const SampleInput rows = values(DType::kFloat32, {4, 3}, {1, 0, 0, 0, 5, 2, 1, 0, 0, 0, 5, 1});
  return {{.name = "in_order", .inputs = {list}, .outputs = 4},
          {.name = "as_they_come", .inputs = {list}, .attributes = {{"sorted", int64_t{0}}}, .outputs = 4},
          {.name = "integers_of_all_axes", .inputs = {of(DType::kInt64, {3, 5}, -3, 3)}, .outputs = 4},
          {.name = "rows", .inputs = {rows}, .attributes = {{"axis", int64_t{0}}}, .outputs = 4},
          {.name = "rows_alone", .inputs = {rows}, .attributes = {{"axis", int64_t{0}}}},
          {.name = "list_alone", .inputs = {list}},
          {.name = "rows_and_first_places", .inputs = {rows}, .attributes = {{"axis", int64_t{0}}}, .outputs = 2},
          {.name = "last_axis_as_they_come",
           .inputs = {rows},
           .attributes = {{"axis", int64_t{-1}}, {"sorted", int64_t{0}}},
           .outputs = 4}};
}

}  // namespace

std::vector<OpDef> unique_ops() {
  return {{.domain = "",
           .name = "Unique",
           .since = 11,
           .inputs = {"x"},
           .outputs = {"y", "indices?", "inverse_indices?", "counts?"},
           .attributes = {{"axis", {}, true}, {"sorted", int64_t{1}}},
           .define = define_unique,
           .samples = unique_samples,
           .doc = "The different elements or slices, where they are, and how often."}};
}

}  // namespace graft
