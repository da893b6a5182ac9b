// SPDX-License-Identifier: Apache-2.0
// Normalizations: two-pass statistics (the mean first, then the squares of differences), then one map.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

Indices prefix(const Indices& i, size_t count) { return {i.begin(), i.begin() + static_cast<std::ptrdiff_t>(count)}; }

Indices joined(Indices a, const Indices& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A tensor split at an axis: rows over `outer`, each of `inner`.
struct Rows {
  Tensor x;
  Shape outer, inner;
  Size count;
  DType wide;
};

Rows rows_from(const Tensor& x, int axis) {
  const auto cut = x.shape().begin() + axis;
  const Shape inner(cut, x.shape().end());
  return {x, Shape(x.shape().begin(), cut), inner, element_count(inner), compute_type(x.type())};
}

Tensor row_mean(Definition& d, const Rows& r) {
  const Tensor sum = d.reduce("sum", Intrinsic::kAdd, r.outer, r.inner,
                              [&](const Indices& i, const Indices& k) { return r.x.wide(joined(i, k)); });
  return map(d, "mean", sum, r.wide, [&](const Expr& s) { return s / number(r.wide, r.count); });
}

/// 1 / sqrt(mean of squared differences from `mean` + epsilon); a null mean stands for zero.
Tensor inverse_deviation(Definition& d, const Rows& r, const Tensor& mean, double epsilon) {
  const Tensor squares = d.reduce("squares", Intrinsic::kAdd, r.outer, r.inner, [&](const Indices& i,
      const Indices& k) {
    const Expr x = r.x.wide(joined(i, k));
    const Expr difference = mean ? x - mean(i) : x;
    return difference * difference;
  });
  return map(d, "inverse", squares, r.wide, [&](const Expr& s) {
    const Expr variance = s / number(r.wide, r.count);
    return literal(r.wide, 1) / sqrt(variance + literal(r.wide, epsilon));
  });
}

void define_layer_normalization(Definition& d) {
  const Tensor x = d.in(0), scale = d.in(1);
  const int axis = d.axis(d.integer("axis"), x.rank());
  const Rows r = rows_from(x, axis);
  const Tensor mean = row_mean(d, r);
  const Tensor inverse = inverse_deviation(d, r, mean, d.real("epsilon"));
  const bool biased = d.has_input(2);
  d.require_fits(scale, x.shape(), "its scale does not fit its input");
  if (biased) d.require_fits(d.in(2), x.shape(), "its bias does not fit its input");
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    const Indices row = prefix(i, r.outer.size());
    const Expr y = (x.wide(i) - mean(row)) * inverse(row) * make_cast(r.wide, d.at(scale, i));
    return biased ? y + make_cast(r.wide, d.at(d.in(2), i)) : y;
  }));
  Shape kept = r.outer;
  kept.resize(x.rank(), Size(1));
  for (int k = 1; k < 3; ++k) {
    if (d.wants_output(k)) d.out(k, reshape(d, k == 1 ? "kept_mean" : "kept_inverse", k == 1 ? mean : inverse, kept));
  }
}

void define_rms_normalization(Definition& d) {
  const Tensor x = d.in(0), scale = d.in(1);
  const Rows r = rows_from(x, d.axis(d.integer("axis"), x.rank()));
  d.require_fits(scale, x.shape(), "its scale does not fit its input");
  const Tensor inverse = inverse_deviation(d, r, Tensor(), d.real("epsilon"));
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    return x.wide(i) * inverse(prefix(i, r.outer.size())) * make_cast(r.wide, d.at(scale, i));
  }));
}

void define_instance_normalization(Definition& d) {
  const Tensor x = d.in(0), scale = d.in(1), bias = d.in(2);
  if (x.rank() < 3) d.reject("its input should have at least three axes");
  for (const Tensor& t : {scale, bias}) d.require_shape(t, {x.size(1)}, "its scale or bias is not one per channel");
  const Rows r = rows_from(x, 2);
  const Tensor mean = row_mean(d, r);
  const Tensor inverse = inverse_deviation(d, r, mean, d.real("epsilon"));
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    const Indices row = prefix(i, 2);
    return (x.wide(i) - mean(row)) * inverse(row) * scale.wide({i[1]}) + bias.wide({i[1]});
  }));
}

void define_group_normalization(Definition& d) {
  const Tensor x = d.in(0), scale = d.in(1), bias = d.in(2);
  if (x.rank() < 2) d.reject("its input should have at least two axes");
  const int64_t groups = d.integer("num_groups");
  if (groups < 1) d.reject("its attribute 'num_groups' should be positive");
  d.require_equal(mod(x.size(1), groups), 0, "num_groups does not divide the channels");
  for (const Tensor& t : {scale, bias}) d.require_shape(t, {x.size(1)}, "its scale or bias is not one per channel");
  const Size channels = floor_div(x.size(1), groups);
  Shape shape = x.shape();
  shape[1] = channels;
  shape.insert(shape.begin() + 1, Size(groups));
  const Tensor grouped = reshape(d, "grouped", x, shape);
  const Rows r = rows_from(grouped, 2);
  const Tensor mean = row_mean(d, r);
  const Tensor inverse = inverse_deviation(d, r, mean, d.real("epsilon"));
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    const Indices row = {i[0], floor_div(i[1], make_size(channels))};
    return (x.wide(i) - mean(row)) * inverse(row) * scale.wide({i[1]}) + bias.wide({i[1]});
  }));
}

/// Mean and variance of x over a set of axes, which stay with size 1.
struct Moments {
  Tensor mean, variance;
};

/// `i` with 0 at the members of the set: where the moments of element i stand.
Indices kept(Indices i, const AxisSet& set) {
  for (size_t axis = 0; axis < i.size(); ++axis) {
    if (set[axis].is(1)) i[axis] = make_index(0);
  }
  return i;
}

Moments moments(Definition& d, const Tensor& x, const AxisSet& set) {
  const DType wide = compute_type(x.type());
  const Size count = folded_count(x.shape(), set);
  const auto mean_of = [&](std::string_view name, const RegionBuilder::Body& lift) {
    const Tensor sum = fold_axes(d, name, x.shape(), set, {Intrinsic::kAdd, lift});
    return map(d, std::string(name) + "_mean", sum, wide, [&](const Expr& s) { return s / number(wide, count); });
  };
  Moments result;
  result.mean = mean_of("x", [&](const Indices& i) { return x.wide(i); });
  result.variance = mean_of("squares", [&](const Indices& i) {
    const Expr difference = x.wide(i) - result.mean(kept(i, set));
    return difference * difference;
  });
  return result;
}

void define_batch_normalization(Definition& d) {
  const Tensor x = d.in(0), scale = d.in(1), bias = d.in(2);
  if (x.rank() < 2) d.reject("its input should have at least two axes");
  Tensor mean = d.in(3), variance = d.in(4);
  for (const Tensor& t : {scale, bias, mean, variance}) {
    d.require_shape(t, {x.size(1)}, "its scale, bias, mean or variance is not one per channel");
  }
  const double epsilon = d.real("epsilon"), momentum = d.real("momentum");
  if (d.integer("training_mode") != 0) {
    AxisSet all_but_channels(x.rank(), Size(1));
    all_but_channels[1] = 0;
    const Moments batch = moments(d, x, all_but_channels);
    mean = reshape(d, "batch_mean", batch.mean, {x.size(1)});
    variance = reshape(d, "batch_variance", batch.variance, {x.size(1)});
    const auto running = [&](int input, const Tensor& batch) {
      return zip(d, "running", d.in(input), batch, d.input_type(input), [&](const Expr& old, const Expr& now) {
        return old * make_constant(old->type, momentum) + make_cast(old->type, now) *
               make_constant(old->type, 1 - momentum);
      });
    };
    if (d.wants_output(1)) d.out(1, running(3, mean));
    if (d.wants_output(2)) d.out(2, running(4, variance));
  }
  const DType wide = compute_type(x.type());
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    const auto per_channel = [&](const Tensor& t) { return make_cast(wide, t({i[1]})); };
    const Expr factor = per_channel(scale) / sqrt(per_channel(variance) + make_constant(wide, epsilon));
    return (x.wide(i) - per_channel(mean)) * factor + per_channel(bias);
  }));
}

void define_mean_variance_normalization(Definition& d) {
  const Tensor x = d.in(0);
  const AxisSet set = axis_set(d, d.integers("axes"), x.rank());
  const Moments m = moments(d, x, set);
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    return (x.wide(i) - m.mean(kept(i, set))) / (sqrt(m.variance(kept(i, set))) + literal(x.type(), 1e-9));
  }));
}

void define_lp_normalization(Definition& d) {
  const Tensor x = d.in(0);
  const int axis = d.axis(d.integer("axis"), x.rank());
  const int64_t p = d.integer("p");
  if (p != 1 && p != 2) d.reject("its attribute 'p' should be 1 or 2");
  const Tensor sum = d.reduce("sum", Intrinsic::kAdd, without_axis(x.shape(), axis), {x.size(axis)},
                              [&](const Indices& i, const Indices& k) {
                                const Expr value = x.wide(with_axis(i, axis, k[0]));
                                return p == 1 ? abs(value) : value * value;
                              });
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    const Expr total = sum(without_axis(i, axis));
    const Expr norm = p == 1 ? total : sqrt(total), zero = literal(x.type(), 0);
    return select(eq(norm, zero), zero, x.wide(i) / norm);
  }));
}

/// x / (bias + alpha / size sum of squares over `size` neighbouring channels)^beta.
void define_lrn(Definition& d) {
  const Tensor x = d.in(0);
  if (x.rank() < 2) d.reject("its input should have at least two axes");
  const int64_t size = d.integer("size");
  if (size < 1) d.reject("its attribute 'size' should be positive");
  const double alpha = d.real("alpha"), beta = d.real("beta"), bias = d.real("bias");
  const DType wide = compute_type(x.type());
  const Tensor squares = d.reduce("squares", Intrinsic::kAdd, Shape(x.shape()), {Size(size)},
                                  [&](const Indices& i, const Indices& k) {
                                    Indices at = i;
                                    at[1] = i[1] + k[0] - make_index((size - 1) / 2);
                                    const Expr inside = ge(at[1], make_index(0)) && lt(at[1], make_size(x.size(1)));
                                    const Expr value = select(inside, x.wide(at), literal(wide, 0));
                                    return value * value;
                                  });
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    const Expr base = literal(wide, bias) + literal(wide, alpha / static_cast<double>(size)) * squares(i);
    return x.wide(i) / pow(base, literal(wide, beta));
  }));
}

std::vector<Sample> layer_samples() {
  return {{.name = "last_axis_with_bias", .inputs = {f32({3, 37}), f32({37}), f32({37})}},
          {.name = "no_bias", .inputs = {f32({2, 3, 8}), f32({8})}},
          {.name = "two_axes_and_statistics", .inputs = {f32({2, 3, 5}), f32({3, 5}), f32({3, 5})},
           .attributes = {{"axis", int64_t{1}}, {"epsilon", 0.1}}, .outputs = 3},
          {.name = "far_from_zero", .inputs = {f32({4, 64}, 1000, 1001), f32({64}), f32({64})}, .tolerance = 1e-3},
          {.name = "half_precision", .inputs = {f16({3, 33}), f16({33}), f16({33})}, .tolerance = 4e-3}};
}
std::vector<Sample> rms_samples() {
  return {{.name = "last_axis", .inputs = {f32({3, 37}), f32({37})}},
          {.name = "two_axes", .inputs = {f32({2, 3, 5}), f32({3, 5})}, .attributes = {{"axis", int64_t{-2}}}},
          {.name = "half_precision", .inputs = {f16({3, 33}), f16({33})}, .tolerance = 4e-3}};
}
std::vector<Sample> instance_samples() {
  return {{.name = "image", .inputs = {f32({2, 3, 5, 7}), f32({3}), f32({3})}},
          {.name = "one_spatial_axis", .inputs = {f32({1, 4, 9}), f32({4}), f32({4})},
           .attributes = {{"epsilon", 0.1}}}};
}
std::vector<Sample> group_samples() {
  return {{.name = "two_groups", .inputs = {f32({2, 6, 3, 5}), f32({6}), f32({6})},
           .attributes = {{"num_groups", int64_t{2}}}},
          {.name = "a_group_per_channel", .inputs = {f32({1, 3, 7}), f32({3}), f32({3})},
           .attributes = {{"num_groups", int64_t{3}}}}};
}
std::vector<Sample> batch_samples() {
  const auto four = [](int64_t c) { return std::vector<SampleInput>{f32({c}), f32({c}), f32({c}), f32({c}, 0.5, 2)}; };
  const auto inputs = [&](Dims shape) {
    std::vector<SampleInput> all = four(shape[1]);
    all.insert(all.begin(), f32(shape));
    return all;
  };
  return {{.name = "image", .inputs = inputs({2, 3, 5, 7})},
          {.name = "vectors", .inputs = inputs({4, 6}), .attributes = {{"epsilon", 0.1}}},
          {.name = "training_gives_running_statistics", .inputs = inputs({3, 4, 5}),
           .attributes = {{"training_mode", int64_t{1}}, {"momentum", 0.8}}, .outputs = 3}};
}
std::vector<Sample> mean_variance_samples() {
  return {{.name = "default_axes", .inputs = {f32({2, 3, 5, 7})}, .tolerance = 1e-4},
          {.name = "last_axis", .inputs = {f32({3, 17})}, .attributes = {{"axes", std::vector<int64_t>{-1}}},
           .tolerance = 1e-4}};
}
std::vector<Sample> lp_samples() {
  return {{.name = "euclidean", .inputs = {f32({3, 7})}},
          {.name = "sum_of_magnitudes_first_axis", .inputs = {f32({3, 7})},
           .attributes = {{"axis", int64_t{0}}, {"p", int64_t{1}}}},
          {.name = "zero_row", .inputs = {values(DType::kFloat32, {2, 2}, {0, 0, 3, 4})}}};
}
std::vector<Sample> lrn_samples() {
  return {{.name = "odd_size", .inputs = {f32({2, 7, 3, 5})}, .attributes = {{"size", int64_t{3}}}},
          {.name = "even_size_and_parameters", .inputs = {f32({5, 5, 2, 3})},
           .attributes = {{"size", int64_t{4}}, {"alpha", 0.5}, {"beta", 0.5}, {"bias", 2.0}}}};
}

}  // namespace

std::vector<OpDef> normalization_ops() {
  return {
      {.domain = "", .name = "LayerNormalization", .since = 17, .inputs = {"x", "scale", "b?"},
       .outputs = {"y", "mean?", "inv_std_dev?"},
       .attributes = {{"axis", int64_t{-1}}, {"epsilon", 1e-5}, {"stash_type", int64_t{1}}},
       .define = define_layer_normalization, .samples = layer_samples,
       .doc = "Each row from an axis on, scaled to mean 0 and variance 1."},
      {.domain = "", .name = "RMSNormalization", .since = 23, .inputs = {"x", "scale"}, .outputs = {"y"},
       .attributes = {{"axis", int64_t{-1}}, {"epsilon", 1e-5}, {"stash_type", int64_t{1}}},
       .define = define_rms_normalization, .samples = rms_samples,
       .doc = "Each row from an axis on, divided by its root mean square."},
      {.domain = "", .name = "InstanceNormalization", .since = 22, .inputs = {"input", "scale", "b"},
       .outputs = {"output"}, .attributes = {{"epsilon", 1e-5}}, .define = define_instance_normalization,
       .samples = instance_samples, .doc = "Each channel of each image, scaled to mean 0 and variance 1."},
      {.domain = "", .name = "GroupNormalization", .since = 21, .inputs = {"x", "scale", "bias"}, .outputs = {"y"},
       .attributes = {{"epsilon", 1e-5}, {"num_groups"}, {"stash_type", int64_t{1}}},
       .define = define_group_normalization, .samples = group_samples,
       .doc = "Each group of channels of each image, scaled to mean 0 and variance 1."},
      {.domain = "", .name = "BatchNormalization", .since = 15,
       .inputs = {"x", "scale", "b", "input_mean", "input_var"},
       .outputs = {"y", "running_mean?", "running_var?"},
       .attributes = {{"epsilon", 1e-5}, {"momentum", 0.9}, {"training_mode", int64_t{0}}},
       .define = define_batch_normalization, .samples = batch_samples,
       .doc = "Each channel scaled by the given or the batch's own mean and variance."},
      {.domain = "", .name = "MeanVarianceNormalization", .since = 13, .inputs = {"x"}, .outputs = {"y"},
       .attributes = {{"axes", std::vector<int64_t>{0, 2, 3}}}, .define = define_mean_variance_normalization,
       .samples = mean_variance_samples, .doc = "x less its mean, divided by its deviation, over axes."},
      {.domain = "", .name = "LpNormalization", .since = 22, .inputs = {"input"}, .outputs = {"output"},
       .attributes = {{"axis", int64_t{-1}}, {"p", int64_t{2}}}, .define = define_lp_normalization,
       .samples = lp_samples, .doc = "x divided by its norm along an axis."},
      {.domain = "", .name = "LRN", .since = 13, .inputs = {"x"}, .outputs = {"y"},
       .attributes = {{"alpha", 1e-4}, {"beta", 0.75}, {"bias", 1.0}, {"size"}}, .define = define_lrn,
       .samples = lrn_samples, .doc = "x divided by a power of the squares of neighbouring channels."},
  };
}

}  // namespace graft
