// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of the windowed frames of a signal.
#include <cmath>

#include "import/aten/axes.h"
#include "import/aten/fourier.h"
#include "import/aten/promotion.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;

struct Frames {
  int64_t points = 0, step = 0;  ///< of a frame, and from one to the next
  ValueId window = kNoValue;     ///< of as many points
  bool half = true;
};

/// A window shorter than a frame lies in its middle.
ValueId window_of(Conversion& c, int64_t points, DType type) {
  const int64_t length = c.has("win_length") ? c.integer("win_length") : points;
  if (length < 1 || length > points) c.refuse("a window that does not lie inside of a frame");
  ValueId window = kNoValue;
  if (c.has("window")) {
    window = c.cast(c.tensor("window"), type);
    if (c.rank_of(window) != 1 || c.size_of(window, 0) != Size(length)) c.refuse("a window of another length");
  } else if (length < points) {
    window = c.add("Expand", {c.real_constant(1, type), c.integers_constant({length})});
  }
  if (length == points) return window;
  const int64_t left = (points - length) / 2;
  return c.add("Pad", {window, c.integers_constant({left, points - length - left}), c.real_constant(0, type)},
               {{"mode", std::string("constant")}});
}

/// Of a signal [batch, length] the frequencies [batch, frames, frequencies].
Complex of_frames(Conversion& c, ValueId signal, const Frames& f) {
  const auto length = c.size_of(signal, 1).as_constant();
  if (length) {
    if (*length < f.points) c.refuse("a signal shorter than a frame");
    const int64_t count = (*length - f.points) / f.step + 1;
    TensorData at = table(c, DType::kInt64, {count, f.points});
    for (int64_t i = 0; i < count * f.points; ++i) at.write_integer(i, i / f.points * f.step + i % f.points);
    ValueId frames = c.add("Gather", {signal, c.constant(std::move(at))}, {{"axis", int64_t{1}}});
    if (f.window != kNoValue) frames = c.add("Mul", {frames, f.window});
    return transformed(c, {.real = frames}, 2, -1, f.half);
  }
  const auto number = [&](int64_t value) {
    return c.constant(TensorData::from_values<int64_t>(DType::kInt64, {}, {value}));
  };
  const ValueId pairs = c.add("STFT", {signal, number(f.step), f.window, number(f.points)},
                              {{"onesided", int64_t{f.half}}});
  return {.real = c.add("Squeeze", {sliced(c, pairs, 3, 0, 1), c.integers_constant({3})}),
          .imaginary = c.add("Squeeze", {sliced(c, pairs, 3, 1, 2), c.integers_constant({3})})};
}

/// Half a frame before the signal and behind it, so that frames lie around their places.
ValueId centred(Conversion& c, ValueId signal, int64_t points) {
  const std::string mode = c.text("pad_mode");
  const std::string ours = mode == "replicate" ? "edge" : mode == "circular" ? "wrap" : mode;
  if (ours != "reflect" && ours != "edge" && ours != "wrap" && ours != "constant") {
    c.refuse("padding of the mode '" + mode + "'");
  }
  const ValueId pads = c.integers_constant({0, points / 2, 0, points / 2});
  return c.add("Pad", {signal, pads, ours == "constant" ? number(c, 0, signal) : kNoValue}, {{"mode", ours}});
}

void stft(Conversion& c, bool may_centre) {
  ValueId signal = c.tensor("self");
  const DType type = c.type_of(signal);
  if (type != DType::kFloat32 && type != DType::kFloat64) c.refuse("a signal that is neither f32 nor f64");
  const int rank = c.rank_of(signal);
  if (rank != 1 && rank != 2) c.refuse("a signal of another number of axes than one or two");
  if (c.has("align_to_window") && c.flag("align_to_window")) c.refuse("frames that are aligned to their windows");
  Frames frames{.points = c.integer("n_fft")};
  if (frames.points < 1) c.refuse("frames of no points");
  frames.step = c.has("hop_length") ? c.integer("hop_length") : frames.points / 4;
  if (frames.step < 1) c.refuse("frames that do not move on");
  frames.half = !c.has("onesided") || c.flag("onesided");
  frames.window = window_of(c, frames.points, type);
  if (rank == 1) signal = c.add("Unsqueeze", {signal, c.integers_constant({0})});
  if (may_centre && c.flag("center")) signal = centred(c, signal, frames.points);
  Complex made = of_frames(c, signal, frames);
  if (c.flag("normalized")) {
    made = scaled(c, made, c.real_constant(1 / std::sqrt(static_cast<double>(frames.points)), type));
  }
  made = each_part(made, [&](ValueId part) {
    const ValueId turned = transposed(c, part, {0, 2, 1});
    return rank == 1 ? c.add("Squeeze", {turned, c.integers_constant({0})}) : turned;
  });
  if (c.has("return_complex") && c.flag("return_complex")) return c.give_complex(made);
  const ValueId last = c.integers_constant({-1});
  c.give(c.add("Concat", {c.add("Unsqueeze", {made.real, last}), c.add("Unsqueeze", {made.imaginary, last})},
               {{"axis", int64_t{-1}}}));
}

}  // namespace

std::vector<Row> spectrogram_rows() {
  const std::string begin = "(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, "
                            "Tensor? window=None, ";
  const std::string end = "bool normalized=False, bool? onesided=None, bool? return_complex=None, "
                          "bool? align_to_window=None) -> Tensor";
  return {{"aten::stft" + begin + end, [](Conversion& c) { stft(c, false); }},
          {"aten::stft.center" + begin + "bool center=True, str pad_mode=\"reflect\", " + end,
           [](Conversion& c) { stft(c, true); }}};
}

}  // namespace graft::aten
