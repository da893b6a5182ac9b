// SPDX-License-Identifier: Apache-2.0
// MaxRoiPool: the largest element in each bin of each region, first along columns of the image, then along its rows.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// In which corners of regions and borders of bins are computed. Each step is rounded whatever computes it, as by ONNX
/// Runtime and MXNet: the last bin of a seventh of 57 elements ends behind the 58th.
DType place_type(const Tensor& rois) { return rois.type() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

/// Halves away from zero.
Expr rounded(const Expr& x) {
  const auto c = [&](double value) { return make_constant(x->type, value); };
  return make_cast(DType::kInt64, select(lt(x, c(0)), ceil(x - c(0.5)), floor(x + c(0.5))));
}

/// The elements of one axis that a bin takes: from `begin` up to `end`.
struct Bin {
  Expr begin, end;
};

/// Bin `bin` of `bins` of a region from its first to its last element, inside of an axis.
Bin bin_of(DType type, const Expr& first, const Expr& last, const Expr& bin, int64_t bins, const Size& size) {
  const auto real = [](const Expr& whole) { return make_cast(DType::kFloat64, whole); };
  const Expr extent = max(last - first + make_index(1), make_index(1)), next = bin + make_index(1);
  const Expr width = real(make_cast(type, real(extent) / make_constant(DType::kFloat64, static_cast<double>(bins))));
  const auto border = [&](const Expr& number) { return make_cast(type, real(number) * width); };
  const auto inside = [&](const Expr& place) {
    return min(max(make_cast(DType::kInt64, place) + first, make_index(0)), make_size(size));
  };
  return {inside(floor(border(bin))), inside(ceil(border(next)))};
}

void define_max_roi_pool(Definition& d) {
  const Tensor x = d.in(0), rois = d.in(1);
  const std::vector<int64_t> pooled = d.integers("pooled_shape");
  if (x.rank() != 4 || rois.rank() != 2) d.reject("its input should have four axes and its regions two");
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1) d.reject("its pooled_shape should be two positive sizes");
  d.require_equal(rois.size(1), 5, "its regions should be an image and four numbers each");
  const Size regions = rois.size(0), channels = x.size(1);
  const DType places = place_type(rois);
  const Expr scale = make_constant(DType::kFloat64, static_cast<float>(d.real("spatial_scale")));
  const auto place = [&](const Expr& region, int64_t column) {
    return rounded(make_cast(places, make_cast(DType::kFloat64, rois.wide({region, make_index(column)})) * scale));
  };
  const auto bin = [&](const Expr& region, const Expr& index, bool vertical) {
    return bin_of(places, place(region, vertical ? 2 : 1), place(region, vertical ? 4 : 3), index,
                  pooled[vertical ? 0 : 1], x.size(vertical ? 2 : 3));
  };
  const DType type = compute_type(x.type());
  const Expr nothing = make_monoid(Intrinsic::kMax, type).identity[0];
  const auto within = [](const Bin& b, const Expr& at) { return ge(at, b.begin) && lt(at, b.end); };
  const Tensor columns = d.reduce(
      "columns", Intrinsic::kMax, {regions, channels, pooled[0], x.size(3)}, {x.size(2)},
      [&](const Indices& i, const Indices& k) {
        const Expr image = wrapped_index(make_cast(DType::kInt64, rois.wide({i[0], make_index(0)})), x.size(0));
        return select(within(bin(i[0], i[2], true), k[0]), x.wide({image, i[1], k[0], i[3]}), nothing);
      });
  const Shape shape = {regions, channels, pooled[0], pooled[1]};
  const Tensor most = d.reduce("most", Intrinsic::kMax, shape, {x.size(3)}, [&](const Indices& i, const Indices& k) {
    return select(within(bin(i[0], i[3], false), k[0]), columns({i[0], i[1], i[2], k[0]}), nothing);
  });
  d.out(0, d.compute("y", x.type(), shape, [&](const Indices& i) {
    const Bin rows = bin(i[0], i[2], true), across = bin(i[0], i[3], false);
    const Expr empty = le(rows.end, rows.begin) || le(across.end, across.begin);
    return select(empty, make_constant(type, 0), most(i));
  }));
}

std::vector<Sample> max_roi_pool_samples() {
  const SampleInput rois = values(DType::kFloat32, {3, 5}, {0, 1, 1, 6, 5, 1, 0, 2, 3, 7, 0, 5.5, 4.5, 12, 9});
  return {{.name = "bins_of_regions", .inputs = {f32({2, 3, 8, 9}), rois},
           .attributes = {{"pooled_shape", std::vector<int64_t>{2, 3}}}},
          {.name = "scaled", .inputs = {f32({2, 1, 4, 5}), rois},
           .attributes = {{"pooled_shape", std::vector<int64_t>{3, 2}}, {"spatial_scale", 0.5}}},
          {.name = "borders_that_rounding_moves",
           .inputs = {f32({1, 1, 1, 60}), values(DType::kFloat32, {2, 5}, {0, 0, 0, 56, 0, 0, 2, 0, 59, 0})},
           .attributes = {{"pooled_shape", std::vector<int64_t>{1, 7}}}}};
}

}  // namespace

std::vector<OpDef> region_pooling_ops() {
  return {{.domain = "", .name = "MaxRoiPool", .since = 22, .inputs = {"x", "rois"}, .outputs = {"y"},
           .attributes = {{"pooled_shape"}, {"spatial_scale", 1.0}}, .define = define_max_roi_pool,
           .samples = max_roi_pool_samples, .doc = "The largest element in each bin of each region."}};
}

}  // namespace graft
