// SPDX-License-Identifier: Apache-2.0
// Reductions over a set of axes, which may be known only when running.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// What a Reduce operator folds and over which axes.
struct Reduction {
  Tensor x;
  AxisSet set;
  bool keep = true;
  int members = 0;  ///< how many axes are in the set
  Size count;       ///< how many elements go into one
};

Reduction read_reduction(Definition& d) {
  Reduction r{.x = d.in(0), .set = {}, .keep = d.integer("keepdims") != 0, .members = 0, .count = 1};
  const int rank = r.x.rank();
  const std::vector<Size> axes = d.has_input(1) ? d.sizes_of(1) : std::vector<Size>();
  r.set = axis_set(d, axes, rank);
  r.members = static_cast<int>(axes.size());
  if (axes.empty() && d.integer("noop_with_empty_axes") == 0) {
    r.set = AxisSet(rank, Size(1));
    r.members = rank;
  }
  r.count = folded_count(r.x.shape(), r.set);
  return r;
}

/// The type sums, logarithms and roots are computed in: integers leave i64 only where roots ask for it.
DType real_type(DType type) { return is_float(type) ? compute_type(type) : DType::kFloat64; }

Tensor folded(Definition& d, const Reduction& r, std::string_view name, Intrinsic combine, DType type,
    const Map& lift) {
  return fold_axes(d, name, r.x.shape(), r.set,
                   {combine, [&](const Indices& i) { return lift(make_cast(type, r.x(i))); }});
}

/// States output 0: `finish` of each folded value, in the input's type and the shape that keepdims asks for.
void finish(Definition& d, const Reduction& r, const Tensor& total, const Map& last = {}) {
  const Shape shape = without(r.x.shape(), r.set, r.keep, r.members);
  const DType type = r.x.type();
  if (!last && total.type() == type && total.shape() == shape) return d.out(0, total);
  d.out(0, d.compute("reduced", type, shape, [&](const Indices& i) {
    const Expr value = total(reshaped_indices(total.shape(), shape, i));
    return last ? last(value) : value;
  }));
}

Expr itself(const Expr& x) { return x; }
Expr squared(const Expr& x) { return x * x; }
Expr logarithm(const Expr& x) { return log(x); }
Expr root(const Expr& x) { return sqrt(x); }

void define_sum(Definition& d) {
  const Reduction r = read_reduction(d);
  finish(d, r, folded(d, r, "sum", Intrinsic::kAdd, compute_type(r.x.type()), itself));
}
void define_prod(Definition& d) {
  const Reduction r = read_reduction(d);
  finish(d, r, folded(d, r, "product", Intrinsic::kMul, compute_type(r.x.type()), itself));
}
void define_sum_square(Definition& d) {
  const Reduction r = read_reduction(d);
  finish(d, r, folded(d, r, "sum", Intrinsic::kAdd, compute_type(r.x.type()), squared));
}
void define_l1(Definition& d) {
  const Reduction r = read_reduction(d);
  finish(d, r, folded(d, r, "sum", Intrinsic::kAdd, compute_type(r.x.type()),
                      [](const Expr& x) { return is_unsigned(x->type) ? x : abs(x); }));
}
void define_l2(Definition& d) {
  const Reduction r = read_reduction(d);
  finish(d, r, folded(d, r, "sum", Intrinsic::kAdd, real_type(r.x.type()), squared), root);
}
void define_log_sum(Definition& d) {
  const Reduction r = read_reduction(d);
  finish(d, r, folded(d, r, "sum", Intrinsic::kAdd, real_type(r.x.type()), itself), logarithm);
}
void define_mean(Definition& d) {
  const Reduction r = read_reduction(d);
  const Tensor sum = folded(d, r, "sum", Intrinsic::kAdd, compute_type(r.x.type()), itself);
  finish(d, r, sum, [&](const Expr& x) { return x / make_cast(x->type, make_size(r.count)); });
}

/// Of booleans the largest is whether any holds, the smallest whether all do.
template <bool kLargest>
void define_extreme(Definition& d) {
  const Reduction r = read_reduction(d);
  const bool boolean = r.x.type() == DType::kBool;
  const Intrinsic combine = kLargest ? (boolean ? Intrinsic::kOr : Intrinsic::kMax)
                                     : (boolean ? Intrinsic::kAnd : Intrinsic::kMin);
  finish(d, r, folded(d, r, "extreme", combine, compute_type(r.x.type()), itself));
}

/// log(sum(e^x)) = log(sum(e^(x - m))) + m with m the largest x, or 0 where that is infinite.
void define_log_sum_exp(Definition& d) {
  const Reduction r = read_reduction(d);
  const DType type = real_type(r.x.type());
  const Tensor largest = folded(d, r, "largest", Intrinsic::kMax, type, itself);
  const Tensor shift = map(d, "shift", largest, type,
                           [](const Expr& m) { return select(is_inf(m), make_integer(m->type, 0), m); });
  const auto kept = [&](const Indices& i) {
    Indices own = i;
    for (size_t axis = 0; axis < own.size(); ++axis) {
      if (r.set[axis].is(1)) own[axis] = make_index(0);
      if (!r.set[axis].is_constant()) own[axis] = own[axis] * make_size(Size(1) - r.set[axis]);
    }
    return own;
  };
  const Tensor sum = fold_axes(d, "sum", r.x.shape(), r.set, {Intrinsic::kAdd, [&](const Indices& i) {
    return exp(make_cast(type, r.x(i)) - shift(kept(i)));
  }});
  finish(d, r, d.compute("result", type, Shape(sum.shape()),
                         [&](const Indices& i) { return log(sum(i)) + shift(i); }));
}

std::vector<Sample> samples_in(double low, double high) {
  const auto with = [](bool keep) { return Attributes{{"keepdims", int64_t{keep}}}; };
  return {
      {.name = "last_axis_kept", .inputs = {f32({3, 7, 5}, low, high), list({-1})}},
      {.name = "two_axes_removed", .inputs = {f32({3, 7, 5}, low, high), list({0, 2})}, .attributes = with(false)},
      {.name = "all_axes", .inputs = {f32({3, 4}, low, high)}, .attributes = with(false)},
      {.name = "axes_of_the_run_kept", .inputs = {f32({3, 4, 5}, low, high), run_list({1})}},
      {.name = "axes_of_the_run_removed", .inputs = {f32({3, 4, 5}, low, high), run_list({-3})},
       .attributes = with(false)},
      {.name = "no_axes_means_no_change", .inputs = {f32({3, 4}, low, high), list({})},
       .attributes = {{"noop_with_empty_axes", int64_t{1}}}},
      {.name = "half_precision", .inputs = {f16({3, 33}, low, high), list({1})}, .tolerance = 2e-3},
      {.name = "scalar", .inputs = {f32({}, low, high)}},
  };
}

std::vector<Sample> number_samples() {
  std::vector<Sample> all = samples_in(-2, 2);
  all.push_back({.name = "integers", .inputs = {i64({4, 5}), list({0})}});
  return all;
}
std::vector<Sample> float_samples() { return samples_in(-2, 2); }
std::vector<Sample> positive_samples() { return samples_in(0.5, 2); }
std::vector<Sample> sum_samples() {
  std::vector<Sample> all = number_samples();
  all.push_back({.name = "no_elements", .inputs = {f32({2, 0, 4}), list({1})}});
  return all;
}
std::vector<Sample> extreme_samples() {
  std::vector<Sample> all = number_samples();
  all.push_back({.name = "booleans", .inputs = {boolean({5, 3}), list({1})}});
  all.push_back({.name = "bytes", .inputs = {of(DType::kUint8, {5, 3}, 0, 255), list({0})}});
  return all;
}

OpDef row(std::string_view name, void (*define)(Definition&), std::vector<Sample> (*samples)(), std::string_view doc) {
  return {.domain = "", .name = name, .since = 18, .inputs = {"data", "axes?"}, .outputs = {"reduced"},
          .attributes = {{"keepdims", int64_t{1}}, {"noop_with_empty_axes", int64_t{0}}},
          .define = define, .samples = samples, .doc = doc};
}

}  // namespace

std::vector<OpDef> reduction_ops() {
  return {
      row("ReduceSum", define_sum, sum_samples, "The sum over axes."),
      row("ReduceMean", define_mean, float_samples, "The mean over axes."),
      row("ReduceMax", define_extreme<true>, extreme_samples, "The largest element over axes."),
      row("ReduceMin", define_extreme<false>, extreme_samples, "The smallest element over axes."),
      row("ReduceProd", define_prod, number_samples, "The product over axes."),
      row("ReduceL1", define_l1, number_samples, "The sum of magnitudes over axes."),
      row("ReduceL2", define_l2, float_samples, "The root of the sum of squares over axes."),
      row("ReduceLogSum", define_log_sum, positive_samples, "The logarithm of the sum over axes."),
      row("ReduceLogSumExp", define_log_sum_exp, number_samples, "The logarithm of the sum of exponentials over axes."),
      row("ReduceSumSquare", define_sum_square, number_samples, "The sum of squares over axes."),
  };
}

}  // namespace graft
