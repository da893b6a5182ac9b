// SPDX-License-Identifier: Apache-2.0
// Fourier transforms as contractions with a basis, and the mel filter bank.
#include <numbers>

#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// One transform: `length` points, `given` of which are read (the rest counts as zeros).
struct Transform {
  DType type = DType::kFloat64;  ///< sums over a whole signal cancel, so f32 would leave noise where zeros belong
  Size length, given, outputs;
  Size parts = 1;  ///< 1: real input, 2: real and imaginary
  bool inverse = false;
  bool one_sided = false;  ///< of a real signal only the first half is stated (or, inverse, read)

  bool to_real() const { return inverse && one_sided; }
};

/// basis[k, c, n, p]: what part p of input n gives to part c of output k.
Tensor basis_of(Definition& d, const Transform& t) {
  const int made = t.to_real() ? 1 : 2;
  return d.compute("basis", t.type, {t.outputs, Size(made), t.given, t.parts}, [&](const Indices& i) {
    const Expr length = make_size(t.length), zero = make_index(0);
    // The angle is reduced in integers, where a product of large indices loses nothing.
    const Expr turn = make_cast(t.type, mod(i[0] * i[2], length)) / make_cast(t.type, length);
    const Expr angle = turn * make_constant(t.type, 2 * std::numbers::pi);
    const Expr c = cos(angle), s = t.inverse ? sin(angle) : -sin(angle);
    Expr value = select(eq(i[1], zero), select(eq(i[3], zero), c, -s), select(eq(i[3], zero), s, c));
    if (!t.inverse) return value;
    if (t.one_sided) {
      // Frequencies that the half leaves out are the conjugates of those it has; zero and the middle have none.
      const Expr alone = eq(i[2], zero) || eq(i[2] * make_index(2), length);
      value = select(alone, value, value * make_constant(t.type, 2));
    }
    return value / make_cast(t.type, length);
  });
}

/// The last axis of a signal: one real part, or a real and an imaginary one.
Size parts_of(Definition& d, const Size& last) {
  d.require_at_least(last, 1, "the last axis of its input should have size 1 or 2");
  d.require_at_least(Size(2) - last, 0, "the last axis of its input should have size 1 or 2");
  return last;
}

void define_dft(Definition& d) {
  const Tensor x = d.in(0);
  const int rank = x.rank();
  if (rank < 2) d.reject("its input should have at least two axes");
  Transform t{.length = {}, .given = {}, .outputs = {}};
  t.parts = parts_of(d, x.size(-1));
  t.inverse = d.integer("inverse") != 0, t.one_sided = d.integer("onesided") != 0;
  if (t.to_real()) d.require_equal(t.parts, 2, "an inverse of one side takes a complex input");
  // The axis may be known only when running: then each axis is it by a factor of 0 or 1.
  const Size given = d.has_input(2) ? d.size_of(2) : Size(d.has("axis") ? d.integer("axis") : -2);
  AxisSet is_axis;
  Size size = 0;
  for (int a = 0; a < rank; ++a) {
    is_axis.push_back(a == rank - 1 ? Size(0) : names_axis(d, given, a, rank));
    size = size + is_axis[a] * x.size(a);
  }
  t.length = d.has_input(1) ? d.size_of(1) : t.to_real() ? (size - Size(1)) * Size(2) : size;
  d.require_at_least(t.length, 1, "its length should be positive");
  t.outputs = t.one_sided && !t.inverse ? floor_div(t.length, 2) + Size(1) : t.length;
  const Size read = t.to_real() ? floor_div(t.length, 2) + Size(1) : t.length;
  t.given = read == size ? size : min(read, size);
  const Tensor basis = basis_of(d, t);
  Shape shape = x.shape();
  for (int a = 0; a < rank - 1; ++a) shape[a] = is_axis[a] * t.outputs + (Size(1) - is_axis[a]) * x.size(a);
  shape.back() = t.to_real() ? 1 : 2;
  const Tensor sum =
      d.reduce("sum", Intrinsic::kAdd, shape, {t.given, t.parts}, [&](const Indices& i, const Indices& n) {
        Indices at = i;
        Expr frequency = make_index(0);
        for (int a = 0; a < rank - 1; ++a) {
          if (is_axis[a].is(0)) continue;
          frequency = is_axis[a].is(1) ? i[a] : frequency + i[a] * make_size(is_axis[a]);
          at[a] = is_axis[a].is(1) ? n[0] : select(eq(make_size(is_axis[a]), make_index(0)), i[a], n[0]);
        }
        at.back() = n[1];
        return make_cast(t.type, x(at)) * basis({frequency, i.back(), n[0], n[1]});
      });
  d.out(0, stored_as(d, "y", sum, x.type()));
}

void define_stft(Definition& d) {
  const Tensor x = d.in(0);
  if (x.rank() != 3 && x.rank() != 2) d.reject("its signal should have two or three axes");
  const Size step = d.size_of(1);
  d.require_at_least(step, 1, "its frame_step should be positive");
  if (!d.has_input(2) && !d.has_input(3)) d.reject("it needs a window or a frame_length");
  if (d.has_input(2) && d.in(2).rank() != 1) d.reject("its window should have one axis");
  Transform t{.length = d.has_input(3) ? d.size_of(3) : d.in(2).size(0),
              .given = {},
              .outputs = {},
              .parts = x.rank() == 2 ? Size(1) : parts_of(d, x.size(2)),
              .inverse = false,
              .one_sided = d.integer("onesided") != 0};
  d.require_at_least(t.length, 1, "its frame_length should be positive");
  if (d.has_input(2)) d.require_shape(d.in(2), {t.length}, "the window has another length than the frames");
  d.require_at_least(x.size(1), t.length, "its signal is shorter than a frame");
  t.given = t.length;
  t.outputs = t.one_sided ? floor_div(t.length, 2) + Size(1) : t.length;
  const Tensor basis = basis_of(d, t);
  const Size frames = floor_div(x.size(1) - t.length, step) + Size(1);
  const Tensor weighted = d.compute("frames", t.type, {x.size(0), frames, t.length, t.parts}, [&](const Indices& i) {
    const Expr at = i[1] * make_size(step) + i[2];
    const Expr value = make_cast(t.type, x.rank() == 2 ? x({i[0], at}) : x({i[0], at, i[3]}));
    return d.has_input(2) ? value * make_cast(t.type, d.in(2)({i[2]})) : value;
  });
  const Tensor sum = d.reduce("sum", Intrinsic::kAdd, {x.size(0), frames, t.outputs, Size(2)}, {t.length, t.parts},
                              [&](const Indices& i, const Indices& n) {
                                return weighted({i[0], i[1], n[0], n[1]}) * basis({i[2], i[3], n[0], n[1]});
                              });
  d.out(0, stored_as(d, "y", sum, x.type()));
}

/// Triangles over the frequencies, spaced evenly on the mel scale; in f64, since the corners are rounded down.
void define_mel_weights(Definition& d) {
  const Size bins = d.size_of(0), length = d.size_of(1), rate = d.size_of(2);
  const DType type = d.type("output_datatype"), wide = DType::kFloat64;
  const auto c = [&](double v) { return make_constant(wide, v); };
  const auto mel = [&](int input) {
    return c(2595) * log1p(make_cast(wide, d.in(input)(Indices(d.in(input).rank(), make_index(0)))) / c(700)) /
           c(std::numbers::ln10);
  };
  const Tensor corners = d.compute("corners", DType::kInt64, {bins + Size(2)}, [&](const Indices& i) {
    const Expr low = mel(3), step = (mel(4) - low) / make_cast(wide, make_size(bins + Size(2)));
    const Expr hertz = c(700) * expm1((make_cast(wide, i[0]) * step + low) / c(2595) * c(std::numbers::ln10));
    return floor(make_cast(wide, make_size(length + Size(1))) * hertz / make_cast(wide, make_size(rate)));
  });
  d.out(0, d.compute("weights", type, {floor_div(length, 2) + Size(1), bins}, [&](const Indices& i) {
    const Expr low = corners({i[1]}), centre = corners({i[1] + make_index(1)}), high = corners({i[1] + make_index(2)});
    const auto ratio = [&](const Expr& a, const Expr& b) { return make_cast(wide, a) / make_cast(wide, b); };
    const Expr rising = select(eq(low, centre), select(eq(i[0], centre), c(1), c(0)),
                               select(ge(i[0], low) && le(i[0], centre), ratio(i[0] - low, centre - low), c(0)));
    return select(ge(i[0], centre) && lt(i[0], high), ratio(high - i[0], high - centre), rising);
  }));
}

std::vector<Sample> dft_samples() {
  const auto flag = [](const char* name) { return Attributes{{name, int64_t{1}}}; };
  const auto back_from_one_side = [](const char* name, const SampleInput& half, const SampleInput& length) {
    return Sample{.name = name, .inputs = {half, length, scalar(DType::kInt64, 1)},
                  .attributes = {{"inverse", int64_t{1}}, {"onesided", int64_t{1}}}};
  };
  return {{.name = "real_signal", .inputs = {f32({2, 7, 1}), absent(), scalar(DType::kInt64, 1)}},
          {.name = "complex_signal_of_the_default_axis", .inputs = {f32({2, 9, 3, 2})}},
          {.name = "one_side",
           .inputs = {f32({2, 8, 1}), absent(), scalar(DType::kInt64, 1)},
           .attributes = flag("onesided")},
          {.name = "inverse",
           .inputs = {f32({2, 6, 2}), absent(), scalar(DType::kInt64, 1)},
           .attributes = flag("inverse")},
          {.name = "one_side_of_an_odd_length",
           .inputs = {f32({2, 7, 1}), absent(), scalar(DType::kInt64, 1)},
           .attributes = flag("onesided")},
          {.name = "inverse_of_a_real_signal",
           .inputs = {f32({2, 5, 1}), absent(), scalar(DType::kInt64, 1)},
           .attributes = flag("inverse")},
          back_from_one_side("inverse_of_one_side", f32({2, 5, 2}), absent()),
          back_from_one_side("inverse_of_one_side_to_an_odd_length", f32({2, 4, 2}), scalar(DType::kInt64, 7)),
          {.name = "zeros_behind_the_signal",
           .inputs = {f32({2, 5, 1}), scalar(DType::kInt64, 8), scalar(DType::kInt64, 1)}},
          {.name = "a_part_of_the_signal",
           .inputs = {f32({2, 9, 2}), scalar(DType::kInt64, 6), scalar(DType::kInt64, 1)}},
          {.name = "double_precision", .inputs = {of(DType::kFloat64, {2, 6, 2}), absent(), scalar(DType::kInt64, -2)}},
          {.name = "axis_of_the_run", .inputs = {f32({3, 5, 2}), absent(), values(DType::kInt64, {}, {0})}}};
}
std::vector<Sample> stft_samples() {
  return {{.name = "window", .inputs = {f32({2, 31, 1}), scalar(DType::kInt64, 5), f32({8}, 0, 1)}},
          {.name = "both_sides",
           .inputs = {f32({1, 25, 1}), scalar(DType::kInt64, 4), f32({7}, 0, 1)},
           .attributes = {{"onesided", int64_t{0}}}},
          {.name = "no_window",
           .inputs = {f32({2, 20, 1}), scalar(DType::kInt64, 3), absent(), scalar(DType::kInt64, 6)}},
          {.name = "window_and_length",
           .inputs = {f32({1, 20, 1}), scalar(DType::kInt64, 6), f32({5}, 0, 1), scalar(DType::kInt64, 5)}},
          {.name = "complex_signal",
           .inputs = {f32({1, 14, 2}), scalar(DType::kInt64, 4), f32({6}, 0, 1)},
           .attributes = {{"onesided", int64_t{0}}}}};
}
std::vector<Sample> mel_samples() {
  const auto number = [](double v) { return scalar(DType::kInt64, v); };
  const auto edge = [](double v) { return scalar(DType::kFloat32, v); };
  return {{.name = "small_bank",
           .inputs = {number(8), number(64), number(8192), scalar(DType::kFloat32, 0), scalar(DType::kFloat32, 4096)}},
          {.name = "part_of_the_spectrum",
           .inputs = {number(5), number(31), number(16000), edge(300), edge(6000)}},
          {.name = "more_bins_than_frequencies",
           .inputs = {number(20), number(16), number(8000), edge(0), edge(4000)}}};
}

}  // namespace

std::vector<OpDef> fourier_ops() {
  return {
      {.domain = "",
       .name = "DFT",
       .since = 20,
       .inputs = {"input", "dft_length?", "axis?"},
       .outputs = {"output"},
       .attributes = {{"axis", {}, true}, {"inverse", int64_t{0}}, {"onesided", int64_t{0}}},
       .define = define_dft,
       .samples = dft_samples,
       .doc = "The discrete Fourier transform along an axis, or its inverse."},
      {.domain = "",
       .name = "STFT",
       .since = 17,
       .inputs = {"signal", "frame_step", "window?", "frame_length?"},
       .outputs = {"output"},
       .attributes = {{"onesided", int64_t{1}}},
       .define = define_stft,
       .samples = stft_samples,
       .doc = "The discrete Fourier transform of each windowed frame of a signal."},
      {.domain = "",
       .name = "MelWeightMatrix",
       .since = 17,
       .inputs = {"num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"},
       .outputs = {"output"},
       .attributes = {{"output_datatype", int64_t{1}}},
       .define = define_mel_weights,
       .samples = mel_samples,
       .doc = "The weights that turn a spectrum into mel bins."},
  };
}

}  // namespace graft
