// SPDX-License-Identifier: Apache-2.0
// What lays windows and samples back onto an image: Col2Im, MaxUnpool, and AffineGrid, which says where to sample.
#include "ops/compose.h"
#include "ops/samples.h"
#include "ops/window.h"

namespace graft {
namespace {

using namespace samples;

/// Pads as written in the node: `spatial` starts, then as many ends; zeros when absent.
std::vector<int64_t> pads_of(const Definition& d, int spatial) {
  std::vector<int64_t> pads(2 * spatial, 0);
  if (d.has("pads")) pads = d.integers("pads");
  if (static_cast<int>(pads.size()) != 2 * spatial) d.reject("its attribute 'pads' should have two entries per axis");
  return pads;
}

/// Each element of the image is the sum of the columns' elements that windows put there.
void define_col2im(Definition& d) {
  const Tensor x = d.in(0);
  if (x.rank() != 3) d.reject("its input should have three axes");
  if (x.type() == DType::kBool) d.reject("it adds elements, which truth values have no sum of: cast them before");
  const std::vector<Size> image = d.sizes_of(1), block = d.sizes_of(2);
  const int spatial = static_cast<int>(image.size());
  if (block.size() != image.size()) d.reject("image_shape and block_shape differ in length");
  const std::vector<int64_t> strides = per_axis(d, "strides", spatial), dilations = per_axis(d, "dilations", spatial);
  const std::vector<int64_t> pads = pads_of(d, spatial);
  const Size elements = element_count(Shape(block.begin(), block.end()));
  Shape windows, shape = {x.size(0), floor_div(x.size(1), elements)};
  for (int s = 0; s < spatial; ++s) {
    d.require_at_least(block[s], 1, "block_shape should be positive");
    d.require_at_least(image[s], 0, "image_shape should not be negative");
    const Size reach = image[s] + Size(pads[s] + pads[s + spatial]) - Size(dilations[s]) * (block[s] - Size(1));
    windows.push_back(floor_div(reach - Size(1), Size(strides[s])) + Size(1));
    shape.push_back(image[s]);
  }
  d.require_equal(shape[1] * elements, x.size(1), "its input is not a whole number of blocks");
  d.require_equal(element_count(windows), x.size(2), "its input has another number of windows than the image");
  const Tensor sum = d.reduce(
      "sum", Intrinsic::kAdd, shape, Shape(block.begin(), block.end()), [&](const Indices& i, const Indices& k) {
        Indices window;
        Expr inside = make_integer(DType::kBool, 1);
        for (int s = 0; s < spatial; ++s) {
          const Expr from = i[s + 2] + make_index(pads[s]) - k[s] * make_index(dilations[s]);
          const Expr stride = make_index(strides[s]);
          window.push_back(floor_div(from, stride));
          inside = inside && ge(from, make_index(0)) && lt(window[s], make_size(windows[s]));
          if (strides[s] != 1) inside = inside && eq(mod(from, stride), make_index(0));
        }
        const Expr row = i[1] * make_size(elements) + flat_index(Shape(block.begin(), block.end()), k);
        return select(inside, x.wide({i[0], row, flat_index(windows, window)}), literal(x.type(), 0));
      });
  d.out(0, stored_as(d, "image", sum, x.type()));
}

/// Each element goes back to the position that the pooling took it from; positions count in the unpadded shape.
void define_max_unpool(Definition& d) {
  const Tensor x = d.in(0), positions = d.in(1);
  const int spatial = x.rank() - 2;
  if (spatial < 1) d.reject("its input should have at least three axes");
  d.require_shape(positions, x.shape(), "its positions do not fit its input");
  const std::vector<Size> kernel = kernel_shape(d, spatial);
  const std::vector<int64_t> strides = per_axis(d, "strides", spatial), pads = pads_of(d, spatial);
  Shape pooled = {x.size(0), x.size(1)};
  for (int s = 0; s < spatial; ++s) {
    pooled.push_back((x.size(s + 2) - Size(1)) * Size(strides[s]) - Size(pads[s] + pads[s + spatial]) + kernel[s]);
  }
  Shape shape = pooled;
  if (d.has_input(2)) {
    const std::vector<Size> stated = d.sizes_of(2);
    if (stated.size() != pooled.size()) d.reject("its output_shape should have an entry per axis");
    shape.assign(stated.begin(), stated.end());
  }
  const Tensor zeros = d.compute("zeros", x.type(), shape, [&](const Indices&) { return literal(x.type(), 0); });
  d.out(0, d.scatter("y", zeros, ScatterMode::kSet, Shape(x.shape()), [&](Scatter& form, const Indices& i) {
    const Expr position = check_index(positions(i), make_size(element_count(pooled)));
    form.indices = unflatten(pooled, position);
    for (int a = 0; a < x.rank(); ++a) {
      if (!(shape[a] == pooled[a])) form.indices[a] = check_index(form.indices[a], make_size(shape[a]));
    }
    form.value = x(i);
  }));
}

/// theta times the homogeneous coordinates of each output element, which run from -1 to 1.
void define_affine_grid(Definition& d) {
  const Tensor theta = d.in(0);
  const std::vector<Size> size = d.sizes_of(1);
  const int spatial = static_cast<int>(size.size()) - 2;
  if (spatial < 1 || theta.rank() != 3)
    d.reject("theta should have three axes and size an entry per axis of the image");
  d.require_equal(theta.size(0), size[0], "theta and size differ in their batch");
  d.require_equal(theta.size(1), Size(spatial), "theta does not fit the number of axes");
  d.require_equal(theta.size(2), Size(spatial + 1), "theta does not fit the number of axes");
  const bool align = d.integer("align_corners") != 0;
  const DType type = compute_type(theta.type());
  const auto constant = [&](double v) { return make_constant(type, v); };
  Shape shape = {size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(spatial);
  d.out(0, d.compute("grid", theta.type(), shape, [&](const Indices& i) {
    Expr sum = theta.wide({i[0], i.back(), make_index(spatial)});
    for (int s = 0; s < spatial; ++s) {
      const Expr at = make_cast(type, i[s + 1]);
      const Size steps = align ? size[s + 2] - Size(1) : size[s + 2];
      const Expr length = max(number(type, steps), constant(1));
      const Expr twice = align ? at * constant(2) : at * constant(2) + constant(1);
      // Coordinates come with the last axis first.
      sum = sum + theta.wide({i[0], i.back(), make_index(spatial - 1 - s)}) * (twice / length - constant(1));
    }
    return sum;
  }));
}

std::vector<int64_t> ints(std::initializer_list<int64_t> list) { return list; }

std::vector<Sample> col2im_samples() {
  return {{.name = "blocks_side_by_side", .inputs = {f32({1, 10, 5}), list({5, 5}), list({1, 5})}},
          {.name = "overlap_with_pads_and_strides",
           .inputs = {f32({2, 18, 12}), list({5, 7}), list({3, 3})},
           .attributes = {{"pads", ints({1, 1, 1, 1})}, {"strides", ints({2, 2})}}},
          {.name = "dilations",
           .inputs = {f32({1, 4, 5}), list({6, 6}), list({2, 2})},
           .attributes = {{"dilations", ints({1, 5})}}},
          {.name = "uneven_pads",
           .inputs = {f32({1, 4, 20}), list({4, 3}), list({2, 2})},
           .attributes = {{"pads", ints({0, 2, 1, 1})}}},
          {.name = "windows_apart",
           .inputs = {f32({1, 6, 6}), list({5, 8}), list({2, 3})},
           .attributes = {{"strides", ints({3, 2})}}},
          {.name = "one_axis", .inputs = {f32({2, 6, 4}), list({6}), list({3})}},
          {.name = "shapes_of_the_run", .inputs = {f32({1, 9, 4}), run_list({4, 4}), run_list({3, 3})}}};
}
std::vector<Sample> max_unpool_samples() {
  const SampleInput positions = values(DType::kInt64, {1, 1, 2, 2}, {5, 7, 13, 15});
  const Attributes windows = {{"kernel_shape", ints({2, 2})}, {"strides", ints({2, 2})}};
  Attributes padded = windows;
  padded["pads"] = ints({1, 0, 0, 1});
  return {{.name = "pooled_shape", .inputs = {f32({1, 1, 2, 2}), positions}, .attributes = windows},
          {.name = "two_channels",
           .inputs = {f32({1, 2, 2, 2}), values(DType::kInt64, {1, 2, 2, 2}, {0, 3, 9, 14, 17, 18, 28, 31})},
           .attributes = windows},
          {.name = "pads", .inputs = {f32({1, 1, 2, 2}), values(DType::kInt64, {1, 1, 2, 2}, {0, 2, 4, 8})},
           .attributes = padded},
          {.name = "one_axis", .inputs = {f32({1, 1, 3}), values(DType::kInt64, {1, 1, 3}, {1, 2, 5})},
           .attributes = {{"kernel_shape", ints({2})}, {"strides", ints({2})}}}};
}
std::vector<Sample> affine_grid_samples() {
  return {{.name = "plane", .inputs = {f32({2, 2, 3}), list({2, 3, 5, 7})}},
          {.name = "corners_aligned",
           .inputs = {f32({2, 2, 3}), list({2, 3, 4, 6})},
           .attributes = {{"align_corners", int64_t{1}}}},
          {.name = "volume", .inputs = {f32({1, 3, 4}), list({1, 2, 3, 4, 5})}},
          {.name = "size_of_the_run", .inputs = {f32({1, 2, 3}), run_list({1, 1, 3, 4})}}};
}

}  // namespace

std::vector<OpDef> unpooling_ops() {
  const AttributeSpec pads{"pads", {}, true}, strides{"strides", {}, true};
  return {
      {.domain = "",
       .name = "Col2Im",
       .since = 18,
       .inputs = {"input", "image_shape", "block_shape"},
       .outputs = {"output"},
       .attributes = {{"dilations", {}, true}, pads, strides},
       .define = define_col2im,
       .samples = col2im_samples,
       .doc = "The image whose windows, added up where they overlap, are the columns."},
      {.domain = "",
       .name = "MaxUnpool",
       .since = 22,
       .inputs = {"x", "i", "output_shape?"},
       .outputs = {"output"},
       .attributes = {{"kernel_shape"}, pads, strides},
       .define = define_max_unpool,
       .samples = max_unpool_samples,
       .doc = "Each element at the position that a MaxPool took it from, zeros elsewhere."},
      {.domain = "",
       .name = "AffineGrid",
       .since = 20,
       .inputs = {"theta", "size"},
       .outputs = {"grid"},
       .attributes = {{"align_corners", int64_t{0}}},
       .define = define_affine_grid,
       .samples = affine_grid_samples,
       .doc = "The sampling positions of an affine map of the image."},
  };
}

}  // namespace graft
