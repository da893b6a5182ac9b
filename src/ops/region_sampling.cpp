// SPDX-License-Identifier: Apache-2.0
// RoiAlign and DeformConv: images read between their elements, at positions that are data.
#include "ops/compose.h"
#include "ops/samples.h"
#include "ops/window.h"

namespace graft {
namespace {

using namespace samples;

/// The two elements around a position along one axis of `size` elements, and the share of the second.
struct Neighbours {
  Expr first, second, share;
};

/// Around a position that is moved inside: beyond the ends the last element counts alone.
Neighbours inside_neighbours(const Expr& position, const Size& size) {
  const auto c = [&](double v) { return make_constant(position->type, v); };
  const Expr last = make_cast(position->type, make_size(size - Size(1)));
  const Expr at = min(max(position, c(0)), last), low = floor(at);
  const Expr first = make_cast(DType::kInt64, low);
  return {first, min(first + make_index(1), make_size(size - Size(1))), at - low};
}

void define_roi_align(Definition& d) {
  const Tensor x = d.in(0), rois = d.in(1), batches = d.in(2);
  if (x.rank() != 4 || rois.rank() != 2) d.reject("its input should have four axes and its regions two");
  d.require_equal(rois.size(1), 4, "its regions should be four numbers each");
  d.require_shape(batches, {rois.size(0)}, "there is not one batch index for each region");
  for (const int axis : {2, 3}) d.require_at_least(x.size(axis), 1, "its images are empty");
  const std::string mode = d.text("mode"), coordinates = d.text("coordinate_transformation_mode");
  if (mode != "avg" && mode != "max") d.reject("its mode is " + mode);
  const bool half_pixel = coordinates == "half_pixel";
  if (!half_pixel && coordinates != "output_half_pixel") d.reject("its coordinate mode is " + coordinates);
  const int64_t samples = d.integer("sampling_ratio"), rows = d.integer("output_height"),
                columns = d.integer("output_width");
  if (samples < 1) d.unsupported("a number of samples that depends on the regions (sampling_ratio 0)");
  if (rows < 1 || columns < 1) d.reject("its output sizes should be positive");
  const DType type = compute_type(x.type());
  const auto c = [&](double v) { return make_constant(type, v); };
  const Shape shape = {rois.size(0), x.size(1), rows, columns}, grid = {samples, samples};

  const auto position = [&](const Expr& region, bool vertical, const Expr& bin, const Expr& sample) {
    const Expr scale = c(d.real("spatial_scale")), offset = c(half_pixel ? 0.5 : 0);
    const Expr start = rois.wide({region, make_index(vertical ? 1 : 0)}) * scale - offset;
    const Expr end = rois.wide({region, make_index(vertical ? 3 : 2)}) * scale - offset;
    const Expr extent = half_pixel ? end - start : max(end - start, c(1));
    const Expr size = extent / c(static_cast<double>(vertical ? rows : columns));
    return start + make_cast(type, bin) * size +
           (make_cast(type, sample) + c(0.5)) * size / c(static_cast<double>(samples));
  };
  const auto lift = [&](const Indices& i, const Indices& k) {
    const Expr y = position(i[0], true, i[2], k[0]), z = position(i[0], false, i[3], k[1]);
    const auto outside = [&](const Expr& p, const Size& size) { return lt(p, c(-1)) || gt(p, number(type, size)); };
    const Expr batch = wrapped_index(make_cast(DType::kInt64, batches({i[0]})), x.size(0));
    const Neighbours v = inside_neighbours(y, x.size(2)), h = inside_neighbours(z, x.size(3));
    const auto corner = [&](bool below, bool right) {
      const Expr weight = (below ? v.share : c(1) - v.share) * (right ? h.share : c(1) - h.share);
      return weight * x.wide({batch, i[1], below ? v.second : v.first, right ? h.second : h.first});
    };
    const Expr a = corner(false, false), b = corner(false, true), e = corner(true, false), f = corner(true, true);
    const Expr value = mode == "avg" ? a + b + e + f : max(max(a, b), max(e, f));
    return select(outside(y, x.size(2)) || outside(z, x.size(3)), c(0), value);
  };
  const Tensor folded = d.reduce("folded", mode == "avg" ? Intrinsic::kAdd : Intrinsic::kMax, shape, grid, lift);
  const double count = static_cast<double>(samples * samples);
  d.out(0, map(d, "y", folded, x.type(), [&](const Expr& v) { return mode == "avg" ? v / c(count) : v; }));
}

/// A convolution whose kernel positions are moved by data; what lies outside counts as zero.
class DeformConv {
 public:
  explicit DeformConv(Definition& d) : d_(d), x_(d.in(0)), w_(d.in(1)), offset_(d.in(2)) {
    spatial_ = x_.rank() - 2;
    if (spatial_ < 1 || w_.rank() != x_.rank() || offset_.rank() != x_.rank()) d.reject("its inputs differ in rank");
    type_ = compute_type(x_.type());
    kernel_.assign(w_.shape().begin() + 2, w_.shape().end());
    positions_.assign(offset_.shape().begin() + 2, offset_.shape().end());
    strides_ = per_axis(d, "strides", spatial_), dilations_ = per_axis(d, "dilations", spatial_);
    pads_.assign(2 * spatial_, 0);
    if (d.has("pads")) pads_ = d.integers("pads");
    if (static_cast<int>(pads_.size()) != 2 * spatial_) d.reject("its pads should be two per spatial axis");
    group_ = d.integer("group"), offset_group_ = d.integer("offset_group");
    if (group_ < 1 || offset_group_ < 1) d.reject("its groups should be positive");
    d.require_equal(w_.size(1) * Size(group_), x_.size(1), "the weights do not fit the input's channels");
    d.require_equal(element_count(kernel_) * Size(offset_group_ * spatial_), offset_.size(1),
                    "the offsets do not fit the kernel");
    channels_ = floor_div(x_.size(1), Size(offset_group_));
    d.require_equal(channels_ * Size(offset_group_), x_.size(1), "offset_group does not divide the channels");
    d.require_equal(mod(w_.size(0), Size(group_)), 0, "group does not divide the output channels");
    d.require_equal(offset_.size(0), x_.size(0), "input and offsets differ in their batch");
    if (d.has_input(3)) d.require_shape(d.in(3), {w_.size(0)}, "its bias is not one per output channel");
    if (!d.has_input(4)) return;
    Shape mask = {x_.size(0), element_count(kernel_) * Size(offset_group_)};
    mask.insert(mask.end(), positions_.begin(), positions_.end());
    d.require_shape(d.in(4), mask, "the mask does not fit the offsets");
  }

  void define() {
    Shape all = {x_.size(0), x_.size(1)};
    all.insert(all.end(), kernel_.begin(), kernel_.end());
    all.insert(all.end(), positions_.begin(), positions_.end());
    const Tensor columns = d_.compute("columns", type_, all, [&](const Indices& i) { return column(i); });
    Shape shape = {x_.size(0), w_.size(0)}, reduced = {w_.size(1)};
    shape.insert(shape.end(), positions_.begin(), positions_.end());
    reduced.insert(reduced.end(), kernel_.begin(), kernel_.end());
    const Size outputs = floor_div(w_.size(0), Size(group_));
    const Tensor sum = d_.reduce("sum", Intrinsic::kAdd, shape, reduced, [&](const Indices& i, const Indices& k) {
      Indices weight = {i[1]}, at = {i[0], k[0]};
      weight.insert(weight.end(), k.begin(), k.end());
      if (group_ > 1) at[1] = floor_div(i[1], make_size(outputs)) * make_size(w_.size(1)) + k[0];
      at.insert(at.end(), k.begin() + 1, k.end());
      at.insert(at.end(), i.begin() + 2, i.end());
      return columns(at) * w_.wide(weight);
    });
    d_.out(0, d_.compute("y", x_.type(), shape,
                         [&](const Indices& i) { return d_.has_input(3) ? sum(i) + d_.in(3).wide({i[1]}) : sum(i); }));
  }

 private:
  /// The input under kernel position k for output o, where i = (batch, channel, k..., o...).
  Expr column(const Indices& i) {
    const Indices k(i.begin() + 2, i.begin() + 2 + spatial_), o(i.begin() + 2 + spatial_, i.end());
    const Expr group = offset_group_ == 1 ? make_index(0) : floor_div(i[1], make_size(channels_));
    const Expr tap = group * make_size(element_count(kernel_)) + flat_index(kernel_, k);
    std::vector<Expr> low, share;
    for (int s = 0; s < spatial_; ++s) {
      Indices at = {i[0], tap * make_index(spatial_) + make_index(s)};
      at.insert(at.end(), o.begin(), o.end());
      const Expr base = o[s] * make_index(strides_[s]) + k[s] * make_index(dilations_[s]) - make_index(pads_[s]);
      const Expr position = make_cast(type_, base) + offset_.wide(at);
      low.push_back(floor(position));
      share.push_back(position - low.back());
    }
    Expr sum;
    for (int corner = 0; corner < 1 << spatial_; ++corner) {
      const Expr value = at_corner(corner, i, low, share);
      sum = sum ? sum + value : value;
    }
    if (!d_.has_input(4)) return sum;
    Indices at = {i[0], tap};
    at.insert(at.end(), o.begin(), o.end());
    return sum * d_.in(4).wide(at);
  }

  Expr at_corner(int corner, const Indices& i, const std::vector<Expr>& low, const std::vector<Expr>& share) {
    Indices at = {i[0], i[1]};
    Expr inside = make_integer(DType::kBool, 1), weight = make_constant(type_, 1);
    for (int s = 0; s < spatial_; ++s) {
      const bool upper = (corner >> s) & 1;
      const Expr index = make_cast(DType::kInt64, low[s]) + make_index(upper ? 1 : 0);
      inside = inside && ge(index, make_index(0)) && lt(index, make_size(x_.size(s + 2)));
      const Expr part = upper ? share[s] : make_constant(type_, 1) - share[s];
      weight = s == 0 ? part : weight * part;
      at.push_back(index);
    }
    return select(inside, weight * x_.wide(at), make_constant(type_, 0));
  }

  Definition& d_;
  Tensor x_, w_, offset_;
  int spatial_ = 0;
  DType type_ = DType::kFloat32;
  Shape kernel_, positions_;
  std::vector<int64_t> strides_, dilations_, pads_;
  int64_t group_ = 1, offset_group_ = 1;
  Size channels_;
};

void define_deform_conv(Definition& d) { DeformConv(d).define(); }

std::vector<Sample> roi_align_samples() {
  const SampleInput regions = values(DType::kFloat32, {3, 4}, {0, 0, 6, 5, 1.3, 2.1, 7.9, 6.2, 3, 0.5, 5, 8.7});
  const SampleInput batches = values(DType::kInt64, {3}, {0, 1, 0});
  const auto with = [](const char* mode, const char* coordinates) {
    return Attributes{{"output_height", int64_t{3}},  {"output_width", int64_t{2}},
                      {"sampling_ratio", int64_t{2}}, {"spatial_scale", 0.75},
                      {"mode", std::string(mode)},    {"coordinate_transformation_mode", std::string(coordinates)}};
  };
  const std::vector<SampleInput> inputs = {f32({2, 3, 7, 8}), regions, batches};
  return {{.name = "mean_of_samples", .inputs = inputs, .attributes = with("avg", "half_pixel")},
          {.name = "older_coordinates", .inputs = inputs, .attributes = with("avg", "output_half_pixel")},
          {.name = "largest_sample", .inputs = inputs, .attributes = with("max", "half_pixel")}};
}
std::vector<Sample> deform_conv_samples() {
  const std::vector<int64_t> pads = {1, 0, 1, 1};
  return {
      {.name = "moved_taps", .inputs = {f32({1, 3, 5, 6}), f32({4, 3, 2, 2}), f32({1, 8, 4, 5}, -1, 1)}},
      {.name = "groups_bias_and_mask",
       .inputs = {f32({2, 4, 5, 4}), f32({2, 2, 3, 2}), f32({2, 24, 5, 4}, -1, 1), f32({2}), f32({2, 12, 5, 4}, 0, 1)},
       .attributes = {{"pads", pads}, {"group", int64_t{2}}, {"offset_group", int64_t{2}}}}};
}

}  // namespace

std::vector<OpDef> region_sampling_ops() {
  return {
      {.domain = "",
       .name = "RoiAlign",
       .since = 22,
       .inputs = {"x", "rois", "batch_indices"},
       .outputs = {"y"},
       .attributes = {{"coordinate_transformation_mode", std::string("half_pixel")},
                      {"mode", std::string("avg")},
                      {"output_height", int64_t{1}},
                      {"output_width", int64_t{1}},
                      {"sampling_ratio", int64_t{0}},
                      {"spatial_scale", 1.0}},
       .define = define_roi_align,
       .samples = roi_align_samples,
       .doc = "Regions of an image, each brought to one size."},
      {.domain = "",
       .name = "DeformConv",
       .since = 22,
       .inputs = {"x", "w", "offset", "b?", "mask?"},
       .outputs = {"y"},
       .attributes = {{"dilations", {}, true},
                      {"group", int64_t{1}},
                      {"kernel_shape", {}, true},
                      {"offset_group", int64_t{1}},
                      {"pads", {}, true},
                      {"strides", {}, true}},
       .define = define_deform_conv,
       .samples = deform_conv_samples,
       .doc = "A convolution whose kernel positions are moved by data."},
  };
}

}  // namespace graft
