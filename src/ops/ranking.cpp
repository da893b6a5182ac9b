// SPDX-License-Identifier: Apache-2.0
// Order and running totals along an axis: ArgMax, ArgMin, TopK, CumSum, CumProd, ReverseSequence.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// The better of two (value, position) pairs; among equal values the first, or the last when `last`.
Monoid best_with_position(DType type, bool largest, bool last) {
  Monoid m;
  m.identity = {make_monoid(largest ? Intrinsic::kMax : Intrinsic::kMin, type).identity[0],
                make_index(last ? -1 : INT64_MAX)};
  m.left = {make_variable(type), make_variable()};
  m.right = {make_variable(type), make_variable()};
  const Expr &a = m.left[0], &b = m.right[0];
  const Expr better = largest ? gt(b, a) : lt(b, a);
  const Expr later = last ? gt(m.right[1], m.left[1]) : lt(m.right[1], m.left[1]);
  Expr right = better || (eq(a, b) && later);
  // NaN is better than every number, the first of several NaN.
  if (is_float(type)) right = select(is_nan(a), is_nan(b) && later, is_nan(b) || right);
  m.combine = {select(right, b, a), select(right, m.right[1], m.left[1])};
  return m;
}

template <bool kLargest>
void define_arg(Definition& d) {
  const Tensor x = d.in(0);
  const int axis = d.axis(d.integer("axis"), x.rank());
  const Shape rows = without_axis(x.shape(), axis);
  const Monoid best = best_with_position(compute_type(x.type()), kLargest, d.integer("select_last_index") != 0);
  const Tensor position = d.reduce("best", best, rows, {x.size(axis)}, [&](const Indices& i, const Indices& k) {
    return std::vector<Expr>{x.wide(with_axis(i, axis, k[0])), k[0]};
  })[1];
  if (d.integer("keepdims") == 0) return d.out(0, position);
  d.out(0, reshape(d, "kept", position, with_axis(rows, axis, 1)));
}

void define_top_k(Definition& d) {
  const Tensor x = d.in(0);
  const int axis = d.axis(d.integer("axis"), x.rank());
  const Size count = d.size_of(1);
  d.require_at_least(count, 0, "k is negative");
  d.require_at_least(x.size(axis), count, "k is larger than the axis");
  const Shape rows = without_axis(x.shape(), axis);
  const std::vector<Tensor> sorted =
      d.sort("sorted", rows, x.size(axis), count, d.integer("largest") != 0,
             [&](const Indices& i, const Expr& t) { return x(with_axis(i, axis, t)); });
  // The ranks are the last axis of a sort; the node wants them where the axis was.
  const auto placed = [&](std::string_view name, const Tensor& t) {
    return d.compute(name, t.type(), with_axis(rows, axis, count),
                     [&](const Indices& i) { return t(with_axis(without_axis(i, axis), x.rank() - 1, i[axis])); });
  };
  d.out(0, placed("values", sorted[0]));
  d.out(1, placed("indices", sorted[1]));
}

/// Along an axis that only the run knows: each result is a fold over the part of its row that counts.
void define_running_of_the_run(Definition& d, Intrinsic combine, int64_t identity, const Size& stated) {
  const Tensor x = d.in(0);
  const DType wide = compute_type(x.type());
  const AxisSet set = axis_set(d, std::vector<Size>{stated}, x.rank());
  Size length = 0;
  for (int axis = 0; axis < x.rank(); ++axis) length = length + set[axis] * x.size(axis);
  const bool exclusive = d.integer("exclusive") != 0, reverse = d.integer("reverse") != 0;
  const Tensor total = d.reduce("total", combine, Shape(x.shape()), {length}, [&](const Indices& i, const Indices& k) {
    Indices at;
    Expr own = make_index(0);
    for (int axis = 0; axis < x.rank(); ++axis) {
      const Expr chosen = make_size(set[axis]);
      own = own + chosen * i[axis];
      at.push_back(i[axis] + chosen * (k[0] - i[axis]));
    }
    const Expr counts = reverse ? (exclusive ? gt(k[0], own) : ge(k[0], own))
        : (exclusive ? lt(k[0], own) : le(k[0], own));
    return select(counts, x.wide(at), make_integer(wide, identity));
  });
  d.out(0, stored_as(d, "y", total, x.type()));
}

/// A running fold along an axis, over what comes before each element and (unless exclusive) itself.
void define_running(Definition& d, Intrinsic combine, int64_t identity) {
  const Tensor x = d.in(0);
  const Size stated = x.rank() == 1 && !d.knows(1) ? Size(0) : d.size_of(1);
  if (!stated.is_constant()) return define_running_of_the_run(d, combine, identity, stated);
  const int axis = d.axis(stated.constant(), x.rank());
  const DType wide = compute_type(x.type());
  const Shape rows = without_axis(x.shape(), axis);
  const Tensor totals = d.scan("totals", rows, x.size(axis), [&](Scan& s, const Indices& i, const Expr& t) {
    s.state = {make_variable(wide)};
    s.initial = {make_integer(wide, identity)};
    s.step = {make_call(combine, {s.state[0], x.wide(with_axis(i, axis, t))})};
    s.emit = {s.state[0]};
    s.exclusive = d.integer("exclusive") != 0;
    s.reverse = d.integer("reverse") != 0;
  })[0];
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    return totals(with_axis(without_axis(i, axis), x.rank() - 1, i[axis]));
  }));
}
void define_cum_sum(Definition& d) { define_running(d, Intrinsic::kAdd, 0); }
void define_cum_prod(Definition& d) { define_running(d, Intrinsic::kMul, 1); }

void define_reverse_sequence(Definition& d) {
  const Tensor x = d.in(0), lengths = d.in(1);
  const int batch = d.axis(d.integer("batch_axis"), x.rank()), time = d.axis(d.integer("time_axis"), x.rank());
  if (batch == time) d.reject("its batch and time axes are the same");
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    const Expr length = make_cast(DType::kInt64, lengths({i[batch]}));
    Indices at = i;
    at[time] = check_index(select(lt(i[time], length), length - make_index(1) - i[time], i[time]),
                           make_size(x.size(time)));
    return x(at);
  }));
}

Attributes one(std::string_view name, int64_t value) { return {{std::string(name), Attribute(value)}}; }

std::vector<Sample> arg_samples() {
  const SampleInput ties = of(DType::kInt32, {4, 9}, -2, 2);
  return {{.name = "first_axis", .inputs = {f32({5, 7})}},
          {.name = "last_axis_removed", .inputs = {f32({3, 7})},
           .attributes = {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}}},
          {.name = "ties_take_the_first", .inputs = {ties}, .attributes = one("axis", 1)},
          {.name = "ties_take_the_last", .inputs = {ties},
           .attributes = {{"axis", int64_t{1}}, {"select_last_index", int64_t{1}}}},
          {.name = "half_precision", .inputs = {f16({2, 5, 3})}, .attributes = one("axis", 1)}};
}
std::vector<Sample> top_k_samples() {
  return {{.name = "largest", .inputs = {f32({3, 9}), list({4})}, .outputs = 2},
          {.name = "smallest_on_the_first_axis", .inputs = {f32({7, 3}), list({3})},
           .attributes = {{"axis", int64_t{0}}, {"largest", int64_t{0}}}, .outputs = 2},
          {.name = "ties_keep_their_order", .inputs = {of(DType::kInt64, {2, 9}, -2, 2), list({9})}, .outputs = 2},
          {.name = "only_the_best", .inputs = {f32({3, 9}), list({1})}, .outputs = 2},
          {.name = "rows_of_one", .inputs = {f32({3, 1}), list({1})}, .outputs = 2},
          {.name = "count_of_the_run", .inputs = {f32({2, 3, 5}), run_list({2})}, .outputs = 2}};
}
std::vector<Sample> running_samples() {
  const SampleInput last = scalar(DType::kInt64, -1);
  return {{.name = "last_axis", .inputs = {f32({3, 7}), last}},
          {.name = "first_axis", .inputs = {f32({5, 3}), scalar(DType::kInt32, 0)}},
          {.name = "exclusive", .inputs = {f32({3, 7}), last}, .attributes = one("exclusive", 1)},
          {.name = "reverse", .inputs = {f32({3, 7}), last}, .attributes = one("reverse", 1)},
          {.name = "axis_of_size_one", .inputs = {f32({3, 1}), last}},
          {.name = "axis_of_the_run", .inputs = {f32({3, 4, 5}), values(DType::kInt64, {}, {-2})}},
          {.name = "exclusive_and_reverse_on_an_axis_of_the_run",
           .inputs = {f32({3, 5}), values(DType::kInt64, {}, {0})},
           .attributes = {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}}},
          {.name = "exclusive_and_reverse", .inputs = {i64({2, 5, 3}, -5, 5), scalar(DType::kInt64, 1)},
           .attributes = {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}}}};
}
std::vector<Sample> reverse_samples() {
  return {{.name = "time_first", .inputs = {f32({5, 3}), values(DType::kInt64, {3}, {5, 1, 3})}},
          {.name = "batch_first", .inputs = {f32({3, 5, 2}), values(DType::kInt64, {3}, {2, 4, 1})},
           .attributes = {{"batch_axis", int64_t{0}}, {"time_axis", int64_t{1}}}}};
}

OpDef arg(std::string_view name, void (*define)(Definition&), std::string_view doc) {
  return {.domain = "", .name = name, .since = 13, .inputs = {"data"}, .outputs = {"reduced"},
          .attributes = {{"axis", int64_t{0}}, {"keepdims", int64_t{1}}, {"select_last_index", int64_t{0}}},
          .define = define, .samples = arg_samples, .doc = doc};
}
OpDef running(std::string_view name, int since, void (*define)(Definition&), std::string_view doc) {
  return {.domain = "", .name = name, .since = since, .inputs = {"x", "axis"}, .outputs = {"y"},
          .attributes = {{"exclusive", int64_t{0}}, {"reverse", int64_t{0}}}, .define = define,
          .samples = running_samples, .doc = doc};
}

}  // namespace

std::vector<OpDef> ranking_ops() {
  return {
      arg("ArgMax", define_arg<true>, "The position of the largest element along an axis."),
      arg("ArgMin", define_arg<false>, "The position of the smallest element along an axis."),
      {.domain = "", .name = "TopK", .since = 24, .inputs = {"x", "k"}, .outputs = {"values", "indices"},
       .attributes = {{"axis", int64_t{-1}}, {"largest", int64_t{1}}, {"sorted", int64_t{1}}},
       .define = define_top_k, .samples = top_k_samples,
        .doc = "The k largest or smallest elements along an axis, in order."},
      running("CumSum", 14, define_cum_sum, "The running sum along an axis."),
      running("CumProd", 26, define_cum_prod, "The running product along an axis."),
      {.domain = "", .name = "ReverseSequence", .since = 10, .inputs = {"input", "sequence_lens"}, .outputs = {"y"},
       .attributes = {{"batch_axis", int64_t{1}}, {"time_axis", int64_t{0}}}, .define = define_reverse_sequence,
       .samples = reverse_samples, .doc = "The first elements of each sequence in reverse order."},
  };
}

}  // namespace graft
