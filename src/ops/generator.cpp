// SPDX-License-Identifier: Apache-2.0
// Tensors made from positions alone (EyeLike, the window functions), and CenterCropPad.
#include <numbers>

#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

void define_eye_like(Definition& d) {
  const Shape& shape = d.input_shape(0);
  if (shape.size() != 2) d.reject("its input should be a matrix");
  const DType type = d.has("dtype") ? d.type("dtype") : d.input_type(0), wide = compute_type(type);
  const Expr offset = make_index(d.integer("k"));
  d.out(0, d.compute("eye", type, Shape(shape), [&](const Indices& i) {
    return select(eq(i[1] - i[0], offset), make_integer(wide, 1), make_integer(wide, 0));
  }));
}

/// a - b cos(2 pi n / N) + c cos(4 pi n / N), with N one less when the window is symmetric.
void define_window(Definition& d, double a, double b, double c) {
  const Size size = d.size_of(0);
  d.require_at_least(size, 0, "its size is negative");
  const Size period = d.integer("periodic") != 0 ? size : size - Size(1);
  d.out(0, d.compute("window", d.type("output_datatype"), {size}, [&](const Indices& i) {
    const auto real = [](double value) { return make_constant(DType::kFloat64, value); };
    const Expr angle = make_cast(DType::kFloat64, i[0]) * real(2 * std::numbers::pi) /
                       make_cast(DType::kFloat64, make_size(period));
    const Expr value = real(a) - real(b) * cos(angle);
    return c == 0 ? value : value + real(c) * cos(angle * real(2.0));
  }));
}
void define_hann(Definition& d) { define_window(d, 0.5, 0.5, 0); }
void define_hamming(Definition& d) { define_window(d, 25.0 / 46, 21.0 / 46, 0); }
void define_blackman(Definition& d) { define_window(d, 0.42, 0.5, 0.08); }

void define_center_crop_pad(Definition& d) {
  const Tensor x = d.in(0);
  const std::vector<Size> target = d.sizes_of(1);
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  if (d.has("axes")) axes = d.integers("axes");
  if (target.size() != axes.size()) d.reject("its shape does not fit its axes");
  Shape shape = x.shape();
  std::vector<Size> cut(x.rank(), Size(0)), pad(x.rank(), Size(0));
  for (size_t k = 0; k < axes.size(); ++k) {
    const int axis = d.axis(axes[k], x.rank());
    cut[axis] = floor_div(max(0, x.size(axis) - target[k]), 2);
    pad[axis] = floor_div(max(0, target[k] - x.size(axis)), 2);
    shape[axis] = target[k];
    d.require_at_least(target[k], 0, "an entry of its shape is negative");
  }
  d.out(0, d.compute("centre", x.type(), shape, [&](const Indices& i) {
    Indices at = i;
    Expr inside = make_integer(DType::kBool, 1);
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (shape[axis] == x.size(axis)) continue;
      at[axis] = i[axis] + make_size(cut[axis] - pad[axis]);
      inside = inside && ge(at[axis], make_index(0)) && lt(at[axis], make_size(x.size(axis)));
    }
    return select(inside, x(at), make_cast(x.type(), make_integer(compute_type(x.type()), 0)));
  }));
}

std::vector<Sample> eye_samples() {
  return {{.name = "type_of_the_input", .inputs = {f32({4, 5})}},
          {.name = "above_the_diagonal_as_integers", .inputs = {f32({4, 4})},
           .attributes = {{"k", int64_t{1}}, {"dtype", int64_t{7}}}},
          {.name = "below_the_diagonal", .inputs = {of(DType::kInt32, {5, 3}, 0, 9)},
           .attributes = {{"k", int64_t{-2}}}}};
}
std::vector<Sample> window_samples() {
  return {{.name = "periodic", .inputs = {scalar(DType::kInt64, 10)}},
          {.name = "symmetric", .inputs = {scalar(DType::kInt64, 11)}, .attributes = {{"periodic", int64_t{0}}}},
          {.name = "size_of_the_run", .inputs = {values(DType::kInt64, {}, {7})}}};
}
std::vector<Sample> crop_samples() {
  return {{.name = "crops_and_pads", .inputs = {f32({7, 4, 5}), list({4, 7, 5})}},
          {.name = "some_axes", .inputs = {f32({2, 9, 3}), list({4, 6})},
           .attributes = {{"axes", std::vector<int64_t>{1, -1}}}},
          {.name = "shape_of_the_run", .inputs = {f32({6, 5}), run_list({9, 2})}}};
}

OpDef window(std::string_view name, void (*define)(Definition&), std::string_view doc) {
  return {.domain = "", .name = name, .since = 17, .inputs = {"size"}, .outputs = {"output"},
          .attributes = {{"output_datatype", int64_t{1}}, {"periodic", int64_t{1}}}, .define = define,
          .samples = window_samples, .doc = doc};
}

}  // namespace

std::vector<OpDef> generator_ops() {
  return {
      {.domain = "", .name = "EyeLike", .since = 22, .inputs = {"input"}, .outputs = {"output"},
       .attributes = {{"dtype", {}, true}, {"k", int64_t{0}}}, .define = define_eye_like, .samples = eye_samples,
       .doc = "Ones on a diagonal, zeros elsewhere, in the input's shape."},
      window("HannWindow", define_hann, "The Hann window."),
      window("HammingWindow", define_hamming, "The Hamming window."),
      window("BlackmanWindow", define_blackman, "The Blackman window."),
      {.domain = "", .name = "CenterCropPad", .since = 18, .inputs = {"input_data", "shape"},
       .outputs = {"output_data"},
       .attributes = {{"axes", {}, true}}, .define = define_center_crop_pad, .samples = crop_samples,
       .doc = "The middle of each axis cut out, or zeros put around it."},
  };
}

}  // namespace graft
