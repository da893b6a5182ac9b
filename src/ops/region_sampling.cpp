// SPDX-License-Identifier: Apache-2.0
// RoiAlign and DeformConv: images read between their elements, at positions that are data.
#include <algorithm>
#include <limits>

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

/// The element behind one, or the last.
Expr next_inside(const Expr& first, const Size& size) {
  return min(first + make_index(1), make_size(size - Size(1)));
}

/// Around a position that is moved inside: beyond the ends the last element counts alone.
Neighbours inside_neighbours(const Expr& position, const Size& size) {
  const auto c = [&](double v) { return make_constant(position->type, v); };
  const Expr last = make_cast(position->type, make_size(size - Size(1)));
  const Expr at = min(max(position, c(0)), last), low = floor(at);
  const Expr first = make_cast(DType::kInt64, low);
  return {first, next_inside(first, size), at - low};
}

/// The mean or the largest of the samples of each bin of each region. All channels read the same elements: the corners
/// of the samples, which are made once. Bins are numbered through, so that channels differ in nothing else.
class RoiAlign {
 public:
  explicit RoiAlign(Definition& d) : d_(d), x_(d.in(0)), regions_(d.in(1)), images_(d.in(2)) {
    if (x_.rank() != 4 || regions_.rank() != 2) d.reject("its input should have four axes and its regions two");
    d.require_equal(regions_.size(1), 4, "its regions should be four numbers each");
    d.require_shape(images_, {regions_.size(0)}, "there is not one batch index for each region");
    for (const int axis : {2, 3}) {
      d.require_at_least(x_.size(axis), 1, "its images are empty");
      d.require_at_least(std::numeric_limits<int32_t>::max(), x_.size(axis), "its images are too large");
    }
    const std::string mode = d.text("mode"), coordinates = d.text("coordinate_transformation_mode");
    if (mode != "avg" && mode != "max") d.reject("its mode is " + mode);
    mean_ = mode == "avg", half_pixel_ = coordinates == "half_pixel";
    if (!half_pixel_ && coordinates != "output_half_pixel") d.reject("its coordinate mode is " + coordinates);
    samples_ = d.integer("sampling_ratio"), rows_ = d.integer("output_height"), columns_ = d.integer("output_width");
    if (samples_ < 1) d.unsupported("a number of samples that depends on the regions (sampling_ratio 0)");
    if (rows_ < 1 || columns_ < 1) d.reject("its output sizes should be positive");
    if (std::max({samples_, rows_, columns_}) > kMost) d.unsupported("so many samples or bins");
    type_ = compute_type(x_.type());
  }

  void define() {
    const Shape all = {regions_.size(0), 4 * samples_ * samples_, rows_ * columns_};
    const Tensor row = d_.compute("row", DType::kInt32, all, [&](const Indices& i) { return row_of(i); });
    const Tensor column = d_.compute("column", DType::kInt32, all, [&](const Indices& i) {
      return make_cast(DType::kInt32, element_of(corner(i, false)));
    });
    const Tensor weight = d_.compute("weight", type_, all, [&](const Indices& i) {
      return share_of(corner(i, true)) * share_of(corner(i, false));
    });
    const auto lift = [&](const Indices& i, const Indices& k) {
      const Expr image = wrapped_index(make_cast(DType::kInt64, images_({i[0]})), x_.size(0));
      const Indices at = {i[0], k[0], i[2]};
      const Expr y = make_cast(DType::kInt64, row(at)), z = make_cast(DType::kInt64, column(at));
      return select(lt(y, make_index(0)), number(0), weight(at) * x_.wide({image, i[1], y, z}));
    };
    const Tensor folded = d_.reduce("folded", mean_ ? Intrinsic::kAdd : Intrinsic::kMax,
                                    {regions_.size(0), x_.size(1), all[2]}, {all[1]}, lift);
    const Shape shape = {regions_.size(0), x_.size(1), rows_, columns_};
    d_.out(0, d_.compute("y", x_.type(), shape, [&](const Indices& i) {
      const Expr value = folded({i[0], i[1], i[2] * make_index(columns_) + i[3]});
      return mean_ ? value / number(static_cast<double>(samples_ * samples_)) : value;
    }));
  }

 private:
  static constexpr int64_t kMost = 1 << 15;

  /// One axis of one of the four elements around a sample.
  struct Corner {
    Expr position;
    Neighbours beside;
    Expr behind;  ///< whether it is the second of them
  };

  Expr number(double value) const { return make_constant(type_, value); }

  /// i: region, corner of a sample, bin.
  Corner corner(const Indices& i, bool vertical) const {
    const auto part = [](const Expr& e, int64_t below, int64_t count) {
      return mod(floor_div(e, make_index(below)), make_index(count));
    };
    const Expr bin = vertical ? part(i[2], columns_, rows_) : part(i[2], 1, columns_);
    const Expr sample = vertical ? part(i[1], 4 * samples_, samples_) : part(i[1], 4, samples_);
    const Expr at = position(vertical, i[0], bin, sample);
    return {at, inside_neighbours(at, x_.size(vertical ? 2 : 3)),
            ne(part(i[1], vertical ? 2 : 1, 2), make_index(0))};
  }

  Expr position(bool vertical, const Expr& region, const Expr& bin, const Expr& sample) const {
    const Expr scale = number(d_.real("spatial_scale")), offset = number(half_pixel_ ? 0.5 : 0);
    const Expr start = regions_.wide({region, make_index(vertical ? 1 : 0)}) * scale - offset;
    const Expr end = regions_.wide({region, make_index(vertical ? 3 : 2)}) * scale - offset;
    const Expr extent = half_pixel_ ? end - start : max(end - start, number(1));
    const Expr size = extent / number(static_cast<double>(vertical ? rows_ : columns_));
    return start + make_cast(type_, bin) * size +
           (make_cast(type_, sample) + number(0.5)) * size / number(static_cast<double>(samples_));
  }

  static Expr element_of(const Corner& c) { return select(c.behind, c.beside.second, c.beside.first); }
  Expr share_of(const Corner& c) const { return select(c.behind, c.beside.share, number(1) - c.beside.share); }

  /// The element's row; -1 where the sample lies outside of the image, and counts as zero.
  Expr row_of(const Indices& i) const {
    const Corner v = corner(i, true), h = corner(i, false);
    const auto outside = [&](const Expr& p, const Size& size) {
      return lt(p, number(-1)) || gt(p, graft::number(type_, size));
    };
    const Expr counts_not = outside(v.position, x_.size(2)) || outside(h.position, x_.size(3));
    return make_cast(DType::kInt32, select(counts_not, make_index(-1), element_of(v)));
  }

  Definition& d_;
  Tensor x_, regions_, images_;
  bool mean_ = true, half_pixel_ = true;
  int64_t samples_ = 0, rows_ = 0, columns_ = 0;
  DType type_ = DType::kFloat32;
};

void define_roi_align(Definition& d) { RoiAlign(d).define(); }

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
