// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "html_text.h"
#include "inspection_pictures.h"

namespace graft {
namespace {

using nlohmann::json;

constexpr int kWidth = 190, kHeight = 42, kAcross = 34, kDown = 26, kBetween = 20, kMargin = 12;
constexpr int kRows = 14;  // levels below each other

/// Where each step stands.
struct Places {
  std::vector<int> level, x, y;
  std::vector<std::vector<size_t>> read;  ///< the steps whose results a step reads
  std::vector<int> start;                 ///< left ends of the columns of levels
  int rows = 1, right = 0, bottom = 0;
};

/// The steps that each step reads from, and its level: below all of them.
Places levels_of(const json& steps) {
  Places places{.level = std::vector<int>(steps.size(), 0), .read = std::vector<std::vector<size_t>>(steps.size())};
  std::map<std::string, size_t> producer;
  for (size_t s = 0; s < steps.size(); ++s) {
    std::vector<size_t>& read = places.read[s];
    for (const json& name : steps[s].at("reads")) {
      const auto found = producer.find(name.get<std::string>());
      if (found != producer.end() && found->second != s) read.push_back(found->second);
    }
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (const size_t other : read) places.level[s] = std::max(places.level[s], places.level[other] + 1);
    for (const json& name : steps[s].at("writes")) producer[name.get<std::string>()] = s;
  }
  return places;
}

Places places_of(const json& steps) {
  Places places = levels_of(steps);
  const int levels = places.level.empty() ? 0 : *std::max_element(places.level.begin(), places.level.end()) + 1;
  const int bands = std::max(1, (levels + kRows - 1) / kRows);
  places.rows = std::max(1, (levels + bands - 1) / bands);
  std::vector<int> used(levels, 0), width(bands, 0);
  std::vector<int> column(steps.size());
  for (size_t s = 0; s < steps.size(); ++s) {
    column[s] = used[places.level[s]]++;
    width[places.level[s] / places.rows] = std::max(width[places.level[s] / places.rows], column[s] + 1);
  }
  int left = kMargin;
  for (const int columns : width) {
    places.start.push_back(left);
    left += columns * (kWidth + kAcross) + kBetween;
  }
  places.right = left - kBetween + kMargin;
  places.bottom = 2 * kMargin + places.rows * (kHeight + kDown) - kDown;
  for (size_t s = 0; s < steps.size(); ++s) {
    places.x.push_back(places.start[places.level[s] / places.rows] + column[s] * (kWidth + kAcross));
    places.y.push_back(kMargin + places.level[s] % places.rows * (kHeight + kDown));
  }
  return places;
}

/// The way of a result from step to step: straight to the next level, else beside the boxes and between them.
std::string path(const Places& places, size_t from, size_t to) {
  const int x1 = places.x[from] + kWidth / 2, y1 = places.y[from] + kHeight;
  const int x2 = places.x[to] + kWidth / 2, y2 = places.y[to];
  const int band = places.level[to] / places.rows;
  if (places.level[from] / places.rows == band) {
    if (places.level[to] == places.level[from] + 1) return fmt::format("M{} {}L{} {}", x1, y1, x2, y2);
    if (x1 == x2) {
      const int side = x1 + kWidth / 2, bulge = side + kAcross - 6;
      return fmt::format("M{} {}C{} {} {} {} {} {}", side, y1 - kHeight / 2, bulge, y1, bulge, y2, side,
                         y2 + kHeight / 2);
    }
  }
  const int aside = band == places.level[from] / places.rows ? places.x[from] + kWidth + kAcross / 2
                                                             : places.start[band] - (kBetween + kAcross) / 2;
  return fmt::format("M{} {}v9H{}V{}H{}V{}", x1, y1, aside, y2 - 9, x2, y2);
}

/// From light to deep blue, by the part of the largest part.
std::string colour(double part) {
  const auto mixed = [&](int light, int deep) { return static_cast<int>(light + (deep - light) * std::sqrt(part)); };
  return fmt::format("rgb({},{},{})", mixed(240, 120), mixed(245, 178), mixed(251, 232));
}

}  // namespace

std::string graph_picture(const json& report) {
  const json& steps = report.at("steps");
  const Places places = places_of(steps);
  double longest = 0;
  for (const json& step : steps) longest = std::max(longest, number_at(step, "milliseconds"));
  std::string boxes, lines;
  for (size_t s = 0; s < steps.size(); ++s) {
    for (const size_t other : places.read[s]) lines += fmt::format("<path d=\"{}\"/>\n", path(places, other, s));
    const double time = number_at(steps[s], "milliseconds"), total = number_at(report, "total_ms");
    const std::string operators = joined(steps[s].at("operators"), " + ");
    const std::string label = fmt::format("{} {}", s, operators.empty() ? text_at(steps[s], "name") : operators);
    const std::string way = text_at(steps[s], "way"), library = text_at(steps[s], "library");
    const std::string share = time >= 0 && total > 0 ? fmt::format(" · {:.1f} %", 100 * time / total) : "";
    boxes += fmt::format(
        "<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\" fill=\"{}\"{}/>"
        "<text x=\"{}\" y=\"{}\">{}</text><text x=\"{}\" y=\"{}\" class=\"minor\">{}{}</text></g>\n",
        safe(joined(steps[s].at("nodes"), ", ")), places.x[s], places.y[s], kWidth, kHeight,
        colour(longest > 0 ? std::max(time, 0.0) / longest : 0), way == "interpreter" ? " class=\"slow\"" : "",
        places.x[s] + 8, places.y[s] + 18, safe(shortened(label, 25)), places.x[s] + 8, places.y[s] + 34,
        safe(library.empty() ? way : library), share);
  }
  return fmt::format("<svg id=\"graph\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n<g class=\"edges\">\n{2}"
                     "</g>\n{3}</svg>\n", places.right, places.bottom, lines, boxes);
}

}  // namespace graft
