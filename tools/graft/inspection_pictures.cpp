// SPDX-License-Identifier: Apache-2.0
#include "inspection_pictures.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "console.h"
#include "html_text.h"
#include "svg_plot.h"

namespace graft {
namespace {

using nlohmann::json;
using namespace svg;

/// A step where it was measured and does arithmetic.
struct Point {
  double intensity = 0, gflops = 0, share = 0;
  std::string number, node;
  double milliseconds = 0;
};

std::vector<Point> points_of(const json& report) {
  std::vector<Point> points;
  for (const json& step : report.at("steps")) {
    const double time = number_at(step, "milliseconds"), operations = number_at(step, "operations");
    const double bytes = number_at(step, "bytes"), total = number_at(report, "total_ms");
    if (time <= 0 || operations <= 0 || bytes <= 0) continue;
    points.push_back({operations / bytes, operations / time * 1e-6, total > 0 ? time / total : 0,
                      step.at("step").dump(), text_at(step, "name"), time});
  }
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.share > b.share; });
  return points;
}

/// Circles, the largest first so that the others stay visible; numbers beside those that take the longest and are not
/// beside another.
std::string circles(const std::vector<Point>& points, const Powers& across, const Powers& up) {
  constexpr size_t kLabels = 6;
  constexpr double kApart = 18;
  std::string shapes, labels;
  std::vector<std::pair<double, double>> labelled;
  for (const Point& point : points) {
    const double x = across.at(point.intensity), y = up.at(point.gflops), radius = 3 + 14 * std::sqrt(point.share);
    shapes += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"><title>step {}, {}: {:.4f} ms, {:.1f} "
                          "GFLOP/s</title></circle>\n",
                          x, y, radius, point.number, safe(point.node), point.milliseconds, point.gflops);
    const bool covered = std::any_of(labelled.begin(), labelled.end(), [&](const auto& other) {
      return std::abs(other.first - x) < 2 * kApart && std::abs(other.second - y) < kApart;
    });
    if (covered || labelled.size() >= kLabels) continue;
    labelled.push_back({x, y});
    labels += x > kRight - 40 ? text(x - radius - 3, y + 4, "end", point.number, "label")
                              : text(x + radius + 3, y + 4, "start", point.number, "label");
  }
  return shapes + labels;
}

}  // namespace

std::string roofline_picture(const json& report) {
  if (report.at("peak").is_null()) return "";
  const std::vector<Point> points = points_of(report);
  const json& peak = report.at("peak");
  const double fp32 = std::max(number_at(peak, "gflops"), 1e-3), half = number_at(peak, "half_gflops");
  const double memory = std::max(number_at(peak, "gigabytes_per_s"), 1e-3), most = std::max(fp32, half);
  double least = most / 100, high = most, narrow = fp32 / memory / 10, wide = most / memory * 10;
  for (const Point& point : points) {
    least = std::min(least, point.gflops), high = std::max(high, point.gflops);
    narrow = std::min(narrow, point.intensity), wide = std::max(wide, point.intensity);
  }
  constexpr double kMostPowers = 8;  // beyond them a point lies on the border
  const auto up_to = [](double value) { return static_cast<int>(std::ceil(std::log10(value) - 1e-9)); };
  const auto down_to = [](double value) { return static_cast<int>(std::floor(std::log10(value) + 1e-9)); };
  Powers across{.low = down_to(narrow), .high = up_to(wide), .from = kLeft, .to = kRight};
  Powers up{.low = down_to(least), .high = up_to(high), .from = kBottom, .to = kTop};
  across.low = std::max(across.low, across.high - static_cast<int>(kMostPowers));
  up.low = std::max(up.low, up.high - static_cast<int>(kMostPowers));
  std::string shapes = grid(across, true) + grid(up, false);
  const auto roof = [&](double gflops, const char* name) {
    const double start = std::max(std::pow(10, across.low), std::pow(10, up.low) / memory), ridge = gflops / memory;
    shapes += fmt::format("<polyline class=\"roof\" points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\"/>\n",
                          across.at(start), up.at(start * memory), across.at(ridge), up.at(gflops), kRight,
                          up.at(gflops));
    const double above = up.at(gflops) - 6, below = up.at(gflops) + 15;
    shapes += text(kRight - 4, above > kTop + 9 ? above : below, "end", fmt::format("{} {:.0f} GFLOP/s", name, gflops),
                   "limit");
  };
  roof(fp32, "fp32");
  if (half > 0) roof(half, "16 bits");
  const double middle = std::sqrt(std::max(std::pow(10, across.low), std::pow(10, up.low) / memory) * fp32 / memory);
  shapes += text(across.at(middle) - 8, up.at(middle * memory) - 6, "end", fmt::format("{:.0f} GB/s", memory), "limit");
  return with_axes("roofline", shapes + circles(points, across, up), "operations per byte", "GFLOP/s");
}

std::string memory_picture(const json& report) {
  std::vector<double> live(report.at("steps").size(), 0);
  for (const json& tensor : report.at("memory").at("tensors")) {
    const auto first = tensor.at("first_step").get<size_t>(), last = tensor.at("last_step").get<size_t>();
    for (size_t s = first; s <= last && s < live.size(); ++s) live[s] += std::max(number_at(tensor, "bytes"), 0.0);
  }
  const double most = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
  if (most <= 0) return "";
  constexpr int kLines = 4;
  std::string shapes;
  for (int each = 0; each <= kLines; ++each) {
    const double y = kBottom - (kBottom - kTop) * each / kLines;
    shapes += line(kLeft, y, kRight, y, "grid") + text(kLeft - 8, y + 4, "end", bytes_text(most * each / kLines));
  }
  const double each = (kRight - kLeft) / static_cast<double>(live.size());
  const size_t every = std::max<size_t>(1, (live.size() + 11) / 12);  // steps between two that have their number
  for (size_t s = 0; s < live.size(); ++s) {
    const double left = kLeft + static_cast<double>(s) * each, height = live[s] / most * (kBottom - kTop);
    shapes += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" class=\"bytes\">"
                          "<title>step {}: {}</title></rect>\n", left, kBottom - height, std::max(each * 0.9, 0.5),
                          height, s, bytes_text(live[s]));
    if (s % every == 0) shapes += text(left + each * 0.45, kBottom + 18, "middle", std::to_string(s));
  }
  return with_axes("memory", shapes, "step", "bytes in use");
}

}  // namespace graft
