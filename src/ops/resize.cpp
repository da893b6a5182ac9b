// SPDX-License-Identifier: Apache-2.0
// Resize: each axis in turn by weighted taps, with coordinates in f64 so that every device picks the same elements.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

Expr real(double value) { return make_constant(DType::kFloat64, value); }
Expr real(const Size& size) { return make_cast(DType::kFloat64, make_size(size)); }

/// Of sizes that are known it is a number, so that places which it gives exactly become whole numbers.
Expr ratio(const Size& a, const Size& b) {
  const auto above = a.as_constant(), below = b.as_constant();
  if (!above || !below || *below == 0) return real(a) / real(b);
  return real(static_cast<double>(*above) / static_cast<double>(*below));
}

/// One resized axis. `scale` is what the model gives, or output over input; `run_scale` what only a run knows of it.
struct ResizedAxis {
  int axis = 0;
  Size input, output;
  std::optional<double> scale;
  Expr run_scale;
  Expr start, end;  ///< the part of the axis that tf_crop_and_resize takes
};

/// The attributes that every axis shares.
struct ResizeMode {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

Expr scale_of(const ResizedAxis& a) {
  return a.run_scale ? a.run_scale : a.scale ? real(*a.scale) : ratio(a.output, a.input);
}

/// A place of the output in the measure of the input. Of sizes alone it is one quotient of whole numbers, or of halves,
/// so that the places that are whole come out whole.
Expr unscaled(const ResizedAxis& a, const Expr& place) {
  if (a.scale || a.run_scale) return place / scale_of(a);
  const auto in = a.input.as_constant(), out = a.output.as_constant();
  if (in && out && *in > 0 && *out % *in == 0) return place / real(static_cast<double>(*out / *in));
  if (in && out && *out > 0 && *in % *out == 0) return place * real(static_cast<double>(*in / *out));
  return place * real(a.input) / real(a.output);
}

/// Where output position `o` lies on the input axis.
Expr source_position(const Definition& d, const ResizeMode& m, const ResizedAxis& a, const Expr& o) {
  const Expr at = make_cast(DType::kFloat64, o), in = real(a.input), out = real(a.output), half = real(0.5);
  const Expr single = le(make_size(a.output), make_index(1));
  const Expr centre = unscaled(a, at + half) - half;
  if (m.coordinates == "half_pixel") return centre;
  if (m.coordinates == "half_pixel_symmetric") {
    return in / real(2.0) * (real(1.0) - out / (scale_of(a) * in)) + centre;
  }
  if (m.coordinates == "pytorch_half_pixel") return select(single, real(0.0), centre);
  if (m.coordinates == "tf_half_pixel_for_nn") return unscaled(a, at + half);  // of opsets 11 and 12
  if (m.coordinates == "asymmetric") return unscaled(a, at);
  const Expr steps = max(out - real(1.0), real(1.0)), last = in - real(1.0);
  if (m.coordinates == "align_corners") {
    if (!a.scale && !a.run_scale) return select(single, real(0.0), at * last / steps);
    // A scale that is given says how long the output is before its size is rounded down: where 2.4 elements end, the
    // second of two is not the last one.
    const Expr length = scale_of(a) * in;
    return select(single, real(0.0), at * last / (length - real(1.0)));
  }
  if (m.coordinates != "tf_crop_and_resize") d.reject("its coordinate_transformation_mode is " + m.coordinates);
  return select(single, half * (a.start + a.end) * last, a.start * last + at * (a.end - a.start) * last / steps);
}

/// The cubic kernel of parameter `a` at distance `x`.
Expr cubic_weight(const Expr& x, double a) {
  const Expr t = abs(x);
  const Expr near = (real(a + 2) * t - real(a + 3)) * t * t + real(1.0);
  const Expr far = ((real(a) * t - real(5 * a)) * t + real(8 * a)) * t - real(4 * a);
  return select(le(t, real(1.0)), near, select(lt(t, real(2.0)), far, real(0.0)));
}

/// One element that takes part, and how much.
struct Tap {
  Expr index, weight;
};

/// How much of antialiasing's kernel an element covers where the sizes are known and the axis does not shrink so much
/// that its taps are too many to be written out; 1 without antialiasing.
std::optional<double> known_shrink(const ResizeMode& m, const ResizedAxis& a) {
  if (!m.antialias) return 1;
  const auto in = a.input.as_constant(), out = a.output.as_constant();
  if (a.run_scale || (!a.scale && (!in || !out))) return std::nullopt;
  const double shrink = std::min(1.0, a.scale ? *a.scale : static_cast<double>(*out) / static_cast<double>(*in));
  return shrink > 1.0 / 64 ? std::optional(shrink) : std::nullopt;
}

/// The element `position` as it takes part in what lies around `x`, its weight not yet a share of all.
Tap tap_at(const ResizeMode& m, const ResizedAxis& a, const Expr& position, const Expr& x, const Expr& shrink) {
  const Expr distance = (position - x) * shrink, last = make_size(a.input - Size(1)), zero = make_index(0);
  Expr weight = m.mode == "cubic" ? cubic_weight(distance, m.cubic) : max(real(0.0), real(1.0) - abs(distance));
  const Expr index = make_cast(DType::kInt64, position);
  if (m.exclude_outside) weight = select(ge(index, zero) && le(index, last), weight, real(0.0));
  return {min(max(index, zero), last), weight};
}

/// The taps of linear and cubic interpolation around `x`; antialiasing widens the kernel when the axis shrinks.
std::vector<Tap> taps_at(const ResizeMode& m, const ResizedAxis& a, const Expr& x, double shrink) {
  const int reach = static_cast<int>(std::ceil((m.mode == "cubic" ? 2 : 1) / shrink));
  const Expr base = floor(x);
  std::vector<Tap> taps;
  Expr total = real(0.0);
  for (int k = 1 - reach; k <= reach; ++k) {
    taps.push_back(tap_at(m, a, base + real(static_cast<double>(k)), x, real(shrink)));
    total = total + taps.back().weight;
  }
  if (m.antialias || m.exclude_outside) {
    for (Tap& tap : taps) tap.weight = tap.weight / total;
  }
  return taps;
}

/// The type in which an axis is interpolated.
DType interpolated_type(const Tensor& x) { return is_float(x.type()) ? compute_type(x.type()) : DType::kFloat32; }

/// x with one axis resized by antialiased taps whose number only a run knows, or that are many: a sum over them, with
/// the weights of each position made once.
Tensor antialias_axis(Definition& d, const ResizeMode& m, const ResizedAxis& a, const Tensor& x) {
  Size reach = ceil_div(a.input, max(a.output, 1));
  if (a.run_scale || a.scale) reach = reach + Size(1);  // sizes are rounded, so that the scale may be less than theirs
  if (m.mode == "cubic") reach = reach * Size(2);
  const Expr shrink = min(real(1.0), scale_of(a));
  const auto tap = [&](const Expr& o, const Expr& k) {
    const Expr at = source_position(d, m, a, o);
    return tap_at(m, a, floor(at) + make_cast(DType::kFloat64, k - make_size(reach - Size(1))), at, shrink);
  };
  const Size taps = reach * Size(2);
  const Tensor total = d.reduce("all_weights", Intrinsic::kAdd, {a.output}, {taps}, [&](const Indices& i,
                                                                                         const Indices& k) {
    return tap(i[0], k[0]).weight;
  });
  const DType type = interpolated_type(x);
  const Tensor weights = d.compute("weights", type, {a.output, taps}, [&](const Indices& i) {
    return make_cast(type, tap(i[0], i[1]).weight / total({i[0]}));
  });
  Shape shape = x.shape();
  shape[a.axis] = a.output;
  return d.reduce("axis_" + std::to_string(a.axis), Intrinsic::kAdd, shape, {taps}, [&](const Indices& i,
                                                                                         const Indices& k) {
    Indices at = i;
    at[a.axis] = tap(i[a.axis], k[0]).index;
    return weights({i[a.axis], k[0]}) * make_cast(type, x(at));
  });
}

Expr nearest_index(const Definition& d, const ResizeMode& m, const ResizedAxis& a, const Expr& x) {
  Expr rounded;
  if (m.nearest == "round_prefer_floor") rounded = ceil(x - real(0.5));
  if (m.nearest == "round_prefer_ceil") rounded = floor(x + real(0.5));
  if (m.nearest == "floor") rounded = floor(x);
  if (m.nearest == "ceil") rounded = ceil(x);
  if (!rounded) d.reject("its nearest_mode is " + m.nearest);
  return min(max(make_cast(DType::kInt64, rounded), make_index(0)), make_size(a.input - Size(1)));
}

/// x with one axis resized; interpolated values stay wide.
Tensor resize_axis(Definition& d, const ResizeMode& m, const ResizedAxis& a, const Tensor& x) {
  Shape shape = x.shape();
  shape[a.axis] = a.output;
  const bool nearest = m.mode == "nearest";
  const std::optional<double> shrink = known_shrink(m, a);
  if (!nearest && !shrink) return antialias_axis(d, m, a, x);
  const DType type = nearest ? x.type() : interpolated_type(x);
  return d.compute("axis_" + std::to_string(a.axis), type, shape, [&](const Indices& i) {
    const Expr position = source_position(d, m, a, i[a.axis]);
    Indices at = i;
    if (nearest) {
      at[a.axis] = nearest_index(d, m, a, position);
      return x(at);
    }
    Expr sum;
    for (const Tap& tap : taps_at(m, a, position, *shrink)) {
      at[a.axis] = tap.index;
      const Expr term = make_cast(type, tap.weight) * make_cast(type, x(at));
      sum = sum ? sum + term : term;
    }
    return sum;
  });
}

/// Output sizes that keep the aspect ratio: one scale for all axes, the smallest or the largest. Rounding never changes
/// which of two sizes is the larger, so that of sizes that vary each is the smallest or largest of those by all scales.
void keep_aspect_ratio(std::vector<ResizedAxis>& axes, bool smallest) {
  using std::max, std::min;  // of numbers, beside those of sizes and expressions
  const auto choose = [&](const auto& x, const auto& y) { return smallest ? min(x, y) : max(x, y); };
  const std::vector<ResizedAxis> given = axes;
  const auto is_known = [](const ResizedAxis& a) {
    return a.input.is_constant() && a.output.is_constant() && !a.input.is(0);
  };
  if (std::all_of(given.begin(), given.end(), is_known)) {
    std::optional<double> scale;
    for (const ResizedAxis& a : given) {
      const double own = static_cast<double>(a.output.constant()) / static_cast<double>(a.input.constant());
      scale = scale ? choose(*scale, own) : own;
    }
    for (ResizedAxis& a : axes) {
      a.output = static_cast<int64_t>(std::floor(*scale * static_cast<double>(a.input.constant()) + 0.5));
      a.scale = scale;
    }
    return;
  }
  Expr scale;
  for (const ResizedAxis& a : given) scale = scale ? choose(scale, ratio(a.output, a.input)) : ratio(a.output, a.input);
  for (ResizedAxis& a : axes) {
    std::optional<Size> output;
    for (const ResizedAxis& by : given) {
      const Size below = max(by.input, 1);
      const Size rounded = floor_div(Size(2) * by.output * a.input + below, Size(2) * below);
      output = output ? choose(*output, rounded) : rounded;
    }
    a.output = *output;
    a.run_scale = scale;
  }
}

/// floor(size * scale) in whole numbers: a float is a whole number over a power of two.
Size scaled(Definition& d, const Size& size, double scale) {
  constexpr int kDigits = 24;
  int exponent = 0;
  const double digits = std::ldexp(std::frexp(scale, &exponent), kDigits);
  const int shift = kDigits - exponent;
  if (digits != std::floor(digits) || shift < 0 || shift > 2 * kDigits) {
    d.unsupported(fmt::format("a scale of {}, which is no float between 2^-24 and 2^24", scale));
  }
  return floor_div(size * Size(static_cast<int64_t>(digits)), Size(int64_t{1} << shift));
}

/// The axes with their sizes, from `scales` (input 2) or `sizes` (input 3). Import adds sizes to scales that only a run
/// knows, and these then say where the elements lie.
std::vector<ResizedAxis> read_axes(Definition& d, const Tensor& x) {
  std::vector<int64_t> numbers;
  for (int i = 0; i < x.rank(); ++i) numbers.push_back(i);
  if (d.has("axes")) numbers = d.integers("axes");
  const bool sized = d.has_input(3) && !(d.input_shape(3).size() == 1 && d.input_shape(3)[0].is(0));
  std::vector<Size> sizes;
  if (sized) sizes = d.sizes_of(3);
  const TensorData* scales = sized ? nullptr : d.constant(2);
  if (!sized && !scales) d.unsupported("scales that only the run knows");
  if (sized && d.has_input(2)) d.require_shape(d.in(2), {Size(numbers.size())}, "its scales do not fit its axes");
  const size_t given = sized ? sizes.size() : static_cast<size_t>(scales->element_count());
  if (given != numbers.size()) d.reject("its scales or sizes do not fit its axes");
  std::vector<ResizedAxis> axes;
  for (size_t k = 0; k < numbers.size(); ++k) {
    ResizedAxis a;
    a.axis = d.axis(numbers[k], x.rank());
    a.input = x.size(a.axis);
    for (const ResizedAxis& other : axes) {
      if (other.axis == a.axis) d.reject(fmt::format("axis {} is named twice", a.axis));
    }
    if (sized) {
      a.output = sizes[k];
      if (d.has_input(2)) a.run_scale = make_cast(DType::kFloat64, d.in(2)({make_index(static_cast<int64_t>(k))}));
    } else {
      a.scale = scales->read_double(static_cast<int64_t>(k));
      if (!(*a.scale > 0)) d.reject("a scale is not positive");
      if (*a.scale == 1) {
        a.output = a.input;
      } else if (*a.scale == std::floor(*a.scale)) {
        a.output = a.input * Size(static_cast<int64_t>(*a.scale));
      } else {
        a.output = scaled(d, a.input, *a.scale);
      }
    }
    d.require_at_least(a.output, 0, "a size is negative");
    d.require_at_least(a.output * a.input, a.output, "an empty axis cannot grow");
    axes.push_back(a);
  }
  const std::string policy = d.text("keep_aspect_ratio_policy");
  if (sized && policy != "stretch") keep_aspect_ratio(axes, policy == "not_larger");
  return axes;
}

void define_resize(Definition& d) {
  const Tensor x = d.in(0);
  const ResizeMode m{.mode = d.text("mode"), .coordinates = d.text("coordinate_transformation_mode"),
                     .nearest = d.text("nearest_mode"), .cubic = d.real("cubic_coeff_a"),
                     .extrapolation = d.real("extrapolation_value"),
                     .exclude_outside = d.integer("exclude_outside") != 0, .antialias = d.integer("antialias") != 0};
  if (m.mode != "nearest" && m.mode != "linear" && m.mode != "cubic") d.reject("its mode is " + m.mode);
  std::vector<ResizedAxis> axes = read_axes(d, x);
  const bool crops = m.coordinates == "tf_crop_and_resize";
  if (crops && !d.has_input(1)) d.reject("tf_crop_and_resize needs the input 'roi'");
  const Size bounds = 2 * static_cast<int64_t>(axes.size());
  if (crops) d.require_shape(d.in(1), {bounds}, "its input 'roi' is not a start and an end for each axis");
  Tensor value = x;
  std::vector<ResizedAxis> resized;
  for (size_t k = 0; k < axes.size(); ++k) {
    ResizedAxis& a = axes[k];
    if (!crops && !a.run_scale && a.output == a.input && (!a.scale || *a.scale == 1)) continue;
    if (crops) {
      const auto bound = [&](size_t at) {
        return make_cast(DType::kFloat64, d.in(1)({make_index(static_cast<int64_t>(at))}));
      };
      a.start = bound(k);
      a.end = bound(k + axes.size());
    }
    value = resize_axis(d, m, a, value);
    resized.push_back(a);
  }
  d.out(0, d.compute("y", x.type(), Shape(value.shape()), [&](const Indices& i) {
    Expr result = value(i);
    for (const ResizedAxis& a : resized) {
      if (!crops) break;
      const Expr at = source_position(d, m, a, i[a.axis]);
      const Expr inside = ge(at, real(0.0)) && le(at, real(a.input) - real(1.0));
      result = select(inside, result, make_cast(result->type, real(m.extrapolation)));
    }
    // Of integers interpolation gives the whole part, as ONNX Runtime has it; antialiasing and cubic curves round.
    const bool rounds = m.antialias || m.mode == "cubic";
    return is_float(x.type()) || !is_float(result->type) || !rounds ? result : round(result);
  }));
}

SampleInput scales(const std::vector<double>& s) {
  SampleInput input = values(DType::kFloat32, {static_cast<int64_t>(s.size())}, s);
  input.constant = true;
  return input;
}

std::vector<Sample> resize_samples() {
  const auto attributes = [](const char* mode, const char* coordinates) {
    return Attributes{{"mode", std::string(mode)}, {"coordinate_transformation_mode", std::string(coordinates)}};
  };
  const SampleInput image = f32({1, 2, 4, 5});
  Sample floors{.name = "nearest_floor_asymmetric", .inputs = {image, absent(), scales({1, 1, 1.5, 0.6})},
                .attributes = attributes("nearest", "asymmetric")};
  floors.attributes["nearest_mode"] = std::string("floor");
  const auto keeping = [&](const char* policy, const SampleInput& sizes, const char* name = "") {
    Sample sample{.name = std::string(policy) + name, .inputs = {image, absent(), absent(), sizes},
                  .attributes = attributes("linear", "half_pixel")};
    sample.attributes["axes"] = std::vector<int64_t>{2, 3};
    sample.attributes["keep_aspect_ratio_policy"] = std::string(policy);
    return sample;
  };
  const auto with = [&](const char* name, const char* mode, const std::vector<double>& by, const Attributes& more) {
    Sample sample{.name = name, .inputs = {f32({1, 2, 7, 9}), absent(), scales(by)},
                  .attributes = attributes(mode, "half_pixel")};
    for (const auto& [key, value] : more) sample.attributes[key] = value;
    return sample;
  };
  const auto cropped = [&](const char* name, const char* mode, const std::vector<double>& roi) {
    Sample sample{.name = name,
                  .inputs = {image, values(DType::kFloat32, {8}, roi), absent(), list({1, 2, 6, 7})},
                  .attributes = attributes(mode, "tf_crop_and_resize")};
    sample.attributes["extrapolation_value"] = 1.5;
    return sample;
  };
  return {{.name = "nearest_doubles", .inputs = {image, absent(), scales({1, 1, 2, 3})}},
          floors,
          {.name = "nearest_to_sizes_of_the_run", .inputs = {image, absent(), absent(), run_list({1, 2, 7, 8})}},
          {.name = "linear_up", .inputs = {image, absent(), scales({1, 1, 2, 1.7})},
           .attributes = attributes("linear", "half_pixel")},
          {.name = "linear_down_to_sizes", .inputs = {image, absent(), absent(), list({1, 2, 3, 2})},
           .attributes = attributes("linear", "align_corners")},
          {.name = "linear_pytorch", .inputs = {image, absent(), absent(), list({1, 2, 1, 9})},
           .attributes = attributes("linear", "pytorch_half_pixel")},
          keeping("not_larger", list({7, 8})),
          keeping("not_smaller", list({7, 8})),
          keeping("not_larger", run_list({9, 7}), "_of_the_run"),
          keeping("not_smaller", run_list({3, 4}), "_of_the_run"),
          with("linear_antialiased", "linear", {1, 1, 0.6, 0.3}, {{"antialias", int64_t{1}}}),
          with("cubic_antialiased", "cubic", {1, 1, 0.6, 0.41}, {{"antialias", int64_t{1}}}),
          {.name = "antialiased_to_sizes_of_the_run",
           .inputs = {f32({1, 2, 7, 9}), absent(), absent(), run_list({1, 2, 3, 12})},
           .attributes = {{"mode", std::string("linear")}, {"antialias", int64_t{1}}}},
          {.name = "cubic_antialiased_to_sizes_of_the_run",
           .inputs = {f32({1, 2, 7, 9}), absent(), absent(), run_list({1, 2, 4, 5})},
           .attributes = {{"mode", std::string("cubic")}, {"antialias", int64_t{1}}}},
          {.name = "antialiased_from_many", .inputs = {f32({1, 1, 3, 200}), absent(), absent(), list({1, 1, 3, 2})},
           .attributes = {{"mode", std::string("linear")}, {"antialias", int64_t{1}}}},
          with("antialiased_up", "linear", {1, 1, 2, 0.5}, {{"antialias", int64_t{1}}}),
          with("cubic_without_the_outside", "cubic", {1, 1, 1.5, 0.8}, {{"exclude_outside", int64_t{1}}}),
          with("cubic_of_another_curve", "cubic", {1, 1, 2, 1.3}, {{"cubic_coeff_a", -0.5}}),
          with("symmetric", "linear", {1, 1, 1.3, 1.7},
               {{"coordinate_transformation_mode", std::string("half_pixel_symmetric")}}),
          with("nearest_of_half_pixels", "nearest", {1, 1, 2, 0.5},
               {{"coordinate_transformation_mode", std::string("tf_half_pixel_for_nn")},
                {"nearest_mode", std::string("floor")}}),
          {.name = "linear_of_bytes",
           .inputs = {of(DType::kUint8, {1, 2, 4, 5}, 0, 255), absent(), scales({1, 1, 2, 1.7})},
           .attributes = attributes("linear", "half_pixel")},
          with("nearest_ceil", "nearest", {1, 1, 1.5, 0.6}, {{"nearest_mode", std::string("ceil")}}),
          with("nearest_round_up", "nearest", {1, 1, 2, 0.5}, {{"nearest_mode", std::string("round_prefer_ceil")}}),
          cropped("cropped", "linear", {0, 0, 0.2, 0.1, 1, 1, 0.7, 1.3}),
          cropped("cropped_nearest", "nearest", {0, 0, -0.2, 0.4, 1, 1, 0.9, 0.8}),
          {.name = "cubic_up", .inputs = {image, absent(), scales({1, 1, 2, 2})},
           .attributes = attributes("cubic", "half_pixel")},
          {.name = "half_precision_linear", .inputs = {f16({1, 2, 4, 5}), absent(), scales({1, 1, 2, 2})},
           .attributes = attributes("linear", "half_pixel"), .tolerance = 2e-3}};
}

}  // namespace

std::vector<OpDef> resize_ops() {
  return {{.domain = "", .name = "Resize", .since = 19, .inputs = {"x", "roi?", "scales?", "sizes?"}, .outputs = {"y"},
           .attributes = {{"antialias", int64_t{0}}, {"axes", {}, true},
                          {"coordinate_transformation_mode", std::string("half_pixel")}, {"cubic_coeff_a", -0.75},
                          {"exclude_outside", int64_t{0}}, {"extrapolation_value", 0.0},
                          {"keep_aspect_ratio_policy", std::string("stretch")}, {"mode", std::string("nearest")},
                          {"nearest_mode", std::string("round_prefer_floor")}},
           .define = define_resize, .samples = resize_samples, .doc = "The input sampled at another resolution."}};
}

}  // namespace graft
