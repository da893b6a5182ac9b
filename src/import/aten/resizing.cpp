// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "import/aten/axes.h"
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

/// torch names the last axis first, both its ends side by side; negative padding cuts off.
ValueId padded(Conversion& c, ValueId x, const std::vector<int64_t>& pad, const std::string& mode, ValueId fill) {
  const int rank = c.rank_of(x);
  if (pad.size() % 2 != 0 || static_cast<int>(pad.size() / 2) > rank)
    c.refuse("padding of axes that there are none of");
  std::vector<int64_t> both(static_cast<size_t>(2 * rank), 0);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t axis = static_cast<size_t>(rank) - 1 - i;
    both[axis] = pad[2 * i];
    both[axis + static_cast<size_t>(rank)] = pad[2 * i + 1];
  }
  if (std::all_of(both.begin(), both.end(), [](int64_t amount) { return amount == 0; })) return x;
  return c.add("Pad", {x, c.integers_constant(both), fill}, {{"mode", mode}});
}

void pad_with(Conversion& c, std::string_view amounts, std::string_view value) {
  const ValueId self = c.tensor("self");
  const ValueId fill = c.has(value) ? as_type(c, value, c.type_of(self)) : number(c, 0, self);
  c.give(padded(c, self, c.integers(amounts), "constant", fill));
}

Build pad_by(const std::string& mode) {
  return [mode](Conversion& c) { c.give(padded(c, c.tensor("self"), c.integers("padding"), mode, kNoValue)); };
}

void pad(Conversion& c) {
  const std::string mode = c.text("mode");
  if (mode == "constant") return pad_with(c, "pad", "value");
  const std::string ours = mode == "reflect"     ? "reflect"
                           : mode == "replicate" ? "edge"
                           : mode == "circular"  ? "wrap"
                                                 : "";
  if (ours.empty()) c.refuse("padding of the mode '" + mode + "'");
  c.give(padded(c, c.tensor("self"), c.integers("pad"), ours, kNoValue));
}

// ---- Other resolutions ----

/// How torch samples, in the terms of Resize.
struct Sampling {
  std::string mode;
  std::string nearest_mode = "floor";
  std::string coordinates = "half_pixel";
  bool aligns = false;  ///< whether it has align_corners
  bool antialias = false;
};

/// Sizes by factors, as torch rounds them: what its corners are aligned to.
ValueId multiplied(Conversion& c, ValueId input, const std::vector<double>& factors) {
  std::vector<int64_t> wanted;
  for (size_t i = 2; i < factors.size(); ++i) {
    const auto size = c.size_of(input, static_cast<int64_t>(i)).as_constant();
    if (!size) c.refuse("corners that are aligned to a fractional factor of a size that varies");
    wanted.push_back(static_cast<int64_t>(static_cast<double>(*size) * factors[i]));
  }
  return joined(c, {sizes(c, input, 0, 2), c.integers_constant(wanted)});
}

/// What a size becomes by a factor, which Resize has as an f32: sizes of torch's own rounding where the two differ
/// (0.7 of 10), else none. Refuses where only a run could tell.
ValueId rounded_sizes(Conversion& c, ValueId input, const std::vector<double>& factors) {
  bool differs = false;
  for (size_t i = 2; i < factors.size(); ++i) {
    const double narrow = static_cast<double>(static_cast<float>(factors[i]));
    const auto size = c.size_of(input, static_cast<int64_t>(i)).as_constant();
    if (narrow == factors[i]) continue;
    if (c.type_of(input) == DType::kFloat64) c.refuse("a factor that is no float, of f64: give a size");
    if (!size) c.refuse("a factor that is no float, of a size that varies: give a size");
    differs |= std::floor(static_cast<double>(*size) * factors[i]) != std::floor(static_cast<double>(*size) * narrow);
  }
  return differs ? multiplied(c, input, factors) : kNoValue;
}

/// Where torch antialiases, an axis that keeps its size stays as it is, whatever its factor.
void keep_same_sizes(Conversion& c, ValueId input, std::vector<double>& factors) {
  for (size_t i = 2; i < factors.size(); ++i) {
    const auto size = c.size_of(input, static_cast<int64_t>(i)).as_constant();
    if (!size && factors[i] > 1 && factors[i] < 1.5) c.refuse("a factor that may keep a size known only while running");
    if (size && std::floor(static_cast<double>(*size) * factors[i]) == static_cast<double>(*size)) factors[i] = 1;
  }
}

/// Gives the Resize of integers as torch has it, which rounds what it interpolates.
void give_resized(Conversion& c, std::vector<ValueId> inputs, Attributes attributes) {
  const DType type = c.type_of(inputs[0]);
  const bool rounds = is_integer(type) && std::get<std::string>(attributes.at("mode")) == "linear";
  if (rounds) inputs[0] = c.cast(inputs[0], DType::kFloat32);
  const ValueId resized = c.add("Resize", std::move(inputs), std::move(attributes));
  c.give(rounds ? c.cast(c.add("Round", {resized}), type) : resized);
}

/// To a size, or by factors: these then also say where samples lie.
void resize(Conversion& c, const Sampling& sampling, size_t axes, const std::string& factors) {
  const ValueId input = c.tensor(factors == "scale_factors" ? "input" : "self");
  if (c.rank_of(input) != static_cast<int>(axes + 2)) c.refuse("an input of another number of axes");
  std::vector<double> scales = {1, 1};
  if (factors == "scale_factors" && c.has(factors)) {
    const auto* list = std::get_if<frontend::Arguments>(&c.argument(factors).is);
    if (!list || list->size() != axes) c.refuse("factors that are no list of numbers");
    for (const frontend::Argument& each : *list) {
      const auto* real = std::get_if<double>(&each.is);
      const auto* whole = std::get_if<int64_t>(&each.is);
      if (!real && !whole) c.refuse("factors known only while running");
      scales.push_back(real ? *real : static_cast<double>(*whole));
    }
  }
  const bool corners = sampling.aligns && c.flag("align_corners");
  if (sampling.antialias && corners) c.refuse("antialiasing with aligned corners, which torch weighs otherwise");
  if (sampling.antialias && !is_float(c.type_of(input))) c.refuse("antialiased integers, which torch rounds otherwise");
  Attributes attributes = {{"mode", sampling.mode},
                           {"nearest_mode", sampling.nearest_mode},
                           {"coordinate_transformation_mode",
                            corners ? std::string("align_corners") : sampling.coordinates}};
  if (sampling.antialias) {
    keep_same_sizes(c, input, scales);
    // torch leaves out what lies outside of an image, and has a curve of its own.
    attributes["antialias"] = attributes["exclude_outside"] = int64_t{1};
    attributes["cubic_coeff_a"] = -0.5;
  }
  const bool whole = std::all_of(scales.begin(), scales.end(), [](double s) { return s == std::floor(s); });
  if (scales.size() > 2 && corners && !whole) {
    const ValueId size = multiplied(c, input, scales);
    return give_resized(c, {input, kNoValue, kNoValue, size}, std::move(attributes));
  }
  if (scales.size() > 2) {
    const ValueId by = c.constant(TensorData::from_values(DType::kFloat32, {static_cast<int64_t>(axes + 2)}, scales));
    return give_resized(c, {input, kNoValue, by, rounded_sizes(c, input, scales)}, std::move(attributes));
  }
  if (!c.has("output_size")) c.refuse("neither a size nor factors");
  const ValueId size = joined(c, {sizes(c, input, 0, 2), c.shape_tensor("output_size")});
  give_resized(c, {input, kNoValue, kNoValue, size}, std::move(attributes));
}

/// With factors beside a size (scales_h) the size alone counts where they agree; else samples lie elsewhere.
void resize_to(Conversion& c, const Sampling& sampling, size_t axes) {
  const ValueId self = c.tensor("self");
  const std::string_view names[] = {"scales_d", "scales_h", "scales_w"};
  for (size_t i = 0; i < axes; ++i) {
    const std::string_view name = axes == 1 ? "scales" : names[3 - axes + i];
    if (!c.has(name)) continue;
    const auto size = c.size_of(self, static_cast<int64_t>(i + 2)).as_constant();
    const std::vector<int64_t> wanted = c.integers("output_size", axes);
    if (!size || c.real(name) * static_cast<double>(*size) != static_cast<double>(wanted[i])) {
      c.refuse("a factor beside a size that it does not give");
    }
  }
  resize(c, sampling, axes, "");
}

void add_resize(std::vector<Row>& rows, const std::string& name, size_t axes, const Sampling& sampling) {
  const std::string aligned = sampling.aligns ? "bool align_corners, " : "";
  rows.push_back({"aten::" + name + ".vec(Tensor input, SymInt[]? output_size, " + aligned +
                      "float[]? scale_factors) -> Tensor",
                  [=](Conversion& c) { resize(c, sampling, axes, "scale_factors"); }});
  const std::string scales = axes == 1 ? "float? scales=None"
                             : axes == 2 ? "float? scales_h=None, float? scales_w=None"
                                         : "float? scales_d=None, float? scales_h=None, float? scales_w=None";
  rows.push_back({"aten::" + name + "(Tensor self, SymInt[" + std::to_string(axes) + "] output_size, " + aligned +
                      scales + ") -> Tensor",
                  [=](Conversion& c) { resize_to(c, sampling, axes); }});
}

/// Modes are numbers in ATen.
void grid_sample(Conversion& c) {
  const int64_t mode = c.integer("interpolation_mode"), padding = c.integer("padding_mode");
  const std::string modes[] = {"linear", "nearest", "cubic"}, paddings[] = {"zeros", "border", "reflection"};
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2) c.refuse("modes that there are none of");
  c.give(c.add("GridSample", {c.tensor("input"), c.tensor("grid")},
               {{"mode", modes[mode]},
                {"padding_mode", paddings[padding]},
                {"align_corners", int64_t{c.flag("align_corners")}}}));
}

void affine_grid(Conversion& c) {
  c.give(c.add("AffineGrid", {c.tensor("theta"), c.shape_tensor("size")},
               {{"align_corners", int64_t{c.flag("align_corners")}}}));
}

}  // namespace

std::vector<Row> resizing_rows() {
  std::vector<Row> rows = {
      {"aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
       [](Conversion& c) { pad_with(c, "pad", "value"); }},
      {"aten::pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", pad},
      {"aten::grid_sampler_2d grid_sampler grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, "
       "int padding_mode, bool align_corners) -> Tensor", grid_sample},
      {"aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor", affine_grid},
  };
  const Sampling nearest{.mode = "nearest", .coordinates = "asymmetric"};
  const Sampling exact{.mode = "nearest", .nearest_mode = "round_prefer_ceil"};
  const Sampling linear{.mode = "linear", .aligns = true}, cubic{.mode = "cubic", .aligns = true};
  const std::string kLinear[] = {"linear", "bilinear", "trilinear"};
  for (size_t axes = 1; axes <= 3; ++axes) {
    const std::string d = std::to_string(axes) + "d";
    rows.push_back({"aten::reflection_pad" + d + "(Tensor self, SymInt[] padding) -> Tensor", pad_by("reflect")});
    rows.push_back({"aten::replication_pad" + d + "(Tensor self, SymInt[] padding) -> Tensor", pad_by("edge")});
    add_resize(rows, "upsample_nearest" + d, axes, nearest);
    add_resize(rows, "_upsample_nearest_exact" + d, axes, exact);
    add_resize(rows, "upsample_" + kLinear[axes - 1] + d, axes, linear);
  }
  add_resize(rows, "upsample_bicubic2d", 2, cubic);
  add_resize(rows, "_upsample_bilinear2d_aa", 2, {.mode = "linear", .aligns = true, .antialias = true});
  add_resize(rows, "_upsample_bicubic2d_aa", 2, {.mode = "cubic", .aligns = true, .antialias = true});
  return rows;
}

}  // namespace graft::aten
