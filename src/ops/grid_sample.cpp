// SPDX-License-Identifier: Apache-2.0
// GridSample: elements interpolated at positions that are data.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// What the attributes say.
struct Sampling {
  std::string mode, padding;
  bool align = false;
  DType wide = DType::kFloat32;

  Expr real(double value) const { return make_constant(wide, value); }
};

/// `x` folded back at the borders low and high, as often as it takes.
Expr reflected(const Sampling& s, const Expr& x, const Expr& low, const Expr& high) {
  const Expr span = high - low, period = span * s.real(2);
  const Expr wave = mod(x - low, max(period, s.real(1e-30)));
  return low + min(wave, period - wave);
}

/// A grid coordinate in [-1, 1] as a position along an axis, brought inside as the padding mode says.
Expr position_of(const Sampling& s, const Expr& coordinate, const Size& size) {
  const Expr length = make_cast(s.wide, make_size(size)), one = s.real(1), half = s.real(0.5), zero = s.real(0);
  const Expr last = length - one;
  const Expr x = s.align ? (coordinate + one) * half * last : ((coordinate + one) * length - one) * half;
  // A cubic kernel is moved inside element by element.
  if (s.padding == "zeros" || (s.padding == "border" && s.mode == "cubic")) return x;
  if (s.padding == "border") return min(max(x, zero), last);
  return s.align ? reflected(s, x, zero, last) : reflected(s, x, -half, length - half);
}

/// The element at whole position `p` of an axis, and whether it is there: outside ones count as 0 or are moved inside.
Expr element_index(const Sampling& s, const Expr& p, const Size& size, Expr& inside) {
  const Expr last = make_size(size - Size(1)), zero = make_index(0);
  if (s.padding == "zeros") {
    const Expr index = make_cast(DType::kInt64, p);
    inside = inside && ge(index, zero) && le(index, last);
    return index;
  }
  Expr x = p;
  if (s.padding == "reflection") {
    const Expr length = make_cast(s.wide, make_size(size));
    x = s.align ? reflected(s, p, s.real(0), length - s.real(1)) : reflected(s, p, s.real(-0.5), length - s.real(0.5));
  }
  return min(max(make_cast(DType::kInt64, x), zero), last);
}

/// Whole positions around `x` with their weights.
std::vector<std::pair<Expr, Expr>> taps_of(const Sampling& s, const Expr& x) {
  if (s.mode == "nearest") return {{round(x), Expr()}};
  const Expr base = floor(x), t = x - base, one = s.real(1);
  if (s.mode == "linear") return {{base, one - t}, {base + one, t}};
  const double a = -0.75;
  const auto near = [&](const Expr& u) { return (s.real(a + 2) * u - s.real(a + 3)) * u * u + one; };
  const auto far = [&](const Expr& u) {
    return ((s.real(a) * u - s.real(5 * a)) * u + s.real(8 * a)) * u - s.real(4 * a);
  };
  return {{base - one, far(t + one)}, {base, near(t)}, {base + one, near(one - t)},
          {base + s.real(2), far(s.real(2) - t)}};
}

/// The sum over the taps of axes `axis` on, with the indices and the weight so far.
Expr sampled(const Sampling& s, const Tensor& x, const std::vector<Expr>& positions, Indices at, const Expr& weight,
             const Expr& inside) {
  const size_t axis = at.size() - 2;
  if (axis == positions.size()) {
    const Expr value = select(inside, make_cast(s.wide, x(at)), s.real(0));
    return weight ? weight * value : value;
  }
  Expr sum;
  for (const auto& [p, own] : taps_of(s, positions[axis])) {
    Expr there = inside;
    Indices next = at;
    next.push_back(element_index(s, p, x.size(static_cast<int>(axis) + 2), there));
    const Expr total = weight ? weight * own : own;  // weights are given on all axes or on none
    const Expr term = sampled(s, x, positions, next, total, there);
    sum = sum ? sum + term : term;
  }
  return sum;
}

void define_grid_sample(Definition& d) {
  const Tensor x = d.in(0), grid = d.in(1);
  const int spatial = x.rank() - 2;
  if (spatial < 1 || grid.rank() != x.rank()) d.reject("its grid does not fit its input's axes");
  d.require_equal(grid.size(-1), spatial, "its grid does not have a coordinate per axis");
  d.require_equal(grid.size(0), x.size(0), "its input and grid differ in their batch");
  for (int axis = 2; axis < x.rank(); ++axis) d.require_at_least(x.size(axis), 1, "its images are empty");
  const Sampling s{.mode = d.text("mode"), .padding = d.text("padding_mode"),
                   .align = d.integer("align_corners") != 0,
                   .wide = is_float(x.type()) ? compute_type(x.type()) : DType::kFloat64};  // of positions, too
  if (s.mode != "nearest" && s.mode != "linear" && s.mode != "cubic") d.reject("its mode is " + s.mode);
  if (s.padding != "zeros" && s.padding != "border" && s.padding != "reflection") {
    d.reject("its padding_mode is " + s.padding);
  }
  Shape shape = {x.size(0), x.size(1)};
  shape.insert(shape.end(), grid.shape().begin() + 1, grid.shape().end() - 1);
  d.out(0, d.compute("sampled", x.type(), shape, [&](const Indices& i) {
    std::vector<Expr> positions;
    for (int axis = 0; axis < spatial; ++axis) {
      Indices at = without_axis(i, 1);
      at.push_back(make_index(spatial - 1 - axis));  // a grid names its last axis first
      positions.push_back(position_of(s, make_cast(s.wide, grid(at)), x.size(axis + 2)));
    }
    return sampled(s, x, positions, {i[0], i[1]}, Expr(), make_integer(DType::kBool, 1));
  }));
}

std::vector<Sample> grid_samples() {
  std::vector<Sample> all;
  for (const char* mode : {"linear", "nearest", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const int64_t align : {0, 1}) {
        all.push_back({.name = std::string(mode) + "_" + padding + (align ? "_aligned" : ""),
                       .inputs = {f32({2, 2, 4, 5}), f32({2, 3, 4, 2}, -1.3, 1.3)},
                       .attributes = {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)},
                                      {"align_corners", align}}, .tolerance = 1e-4});
      }
    }
  }
  return all;
}

}  // namespace

std::vector<OpDef> grid_sample_ops() {
  return {{.domain = "", .name = "GridSample", .since = 22, .inputs = {"x", "grid"}, .outputs = {"y"},
           .attributes = {{"align_corners", int64_t{0}}, {"mode", std::string("linear")},
                          {"padding_mode", std::string("zeros")}},
           .define = define_grid_sample, .samples = grid_samples, .doc = "The input interpolated at given positions."}};
}

}  // namespace graft
