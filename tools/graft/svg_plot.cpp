// SPDX-License-Identifier: Apache-2.0
#include "svg_plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace graft::svg {
namespace {

/// 0.01, 1, 100, 10 k, 1 M
std::string power_text(int exponent) {
  const int thousands = exponent >= 6 ? 6 : exponent >= 3 ? 3 : 0;
  return fmt::format("{}{}", std::pow(10, exponent - thousands), thousands == 6 ? " M" : thousands == 3 ? " k" : "");
}

}  // namespace

std::string text(double x, double y, const char* anchor, const std::string& shown, const char* kind) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", x, y, anchor, kind,
                     shown);
}

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1, x2, y2,
                     kind);
}

std::string with_axes(const char* name, const std::string& inside, const char* across, const char* up) {
  return fmt::format("<svg id=\"{}\" viewBox=\"0 0 {} {}\">\n{}{}{}{}{}</svg>\n", name, kWidth, kHeight, inside,
                     line(kLeft, kBottom, kRight, kBottom, "axis"), line(kLeft, kTop, kLeft, kBottom, "axis"),
                     text((kLeft + kRight) / 2, kHeight - 6, "middle", across, "name"),
                     fmt::format("<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\" "
                                 "class=\"name\">{}</text>\n", (kTop + kBottom) / 2, up));
}

double Powers::at(double value) const {
  const double part = (std::log10(std::max(value, 1e-300)) - low) / (high - low);
  return from + (to - from) * std::clamp(part, 0.0, 1.0);
}

std::string grid(const Powers& powers, bool upright) {
  std::string shapes;
  for (int exponent = powers.low; exponent <= powers.high; ++exponent) {
    const double place = powers.at(std::pow(10, exponent));
    shapes += upright ? line(place, kTop, place, kBottom, "grid") : line(kLeft, place, kRight, place, "grid");
    shapes += upright ? text(place, kBottom + 18, "middle", power_text(exponent))
                      : text(kLeft - 8, place + 4, "end", power_text(exponent));
  }
  return shapes;
}

}  // namespace graft::svg
