// SPDX-License-Identifier: Apache-2.0
#include "quantization_page.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "html_page.h"
#include "html_text.h"
#include "svg_plot.h"

namespace graft {
namespace {

using nlohmann::json;
using namespace svg;

constexpr int kLines = 4;  // of a grid, beside its axis

/// A number of three digits with its unit.
std::string percent(double share) { return fmt::format("{:.3g} %", 100 * share); }

/// The largest of a member of points; 0 where none is known.
double most(const json& points, const char* key) {
  double most = 0;
  for (const json& point : points) most = std::max(most, number_at(point, key));
  return most;
}

/// Where a value lies on an axis from zero to `most`.
double across(double value, double most) { return kLeft + (kRight - kLeft) * value / most; }
double up(double value, double most) { return kBottom - (kBottom - kTop) * value / most; }

std::string lines_of(double time, double error) {
  std::string shapes;
  for (int each = 0; each <= kLines; ++each) {
    const double part = static_cast<double>(each) / kLines;
    const double x = across(part, 1), y = up(part, 1);
    shapes += line(x, kTop, x, kBottom, "grid") + text(x, kBottom + 18, "middle", fmt::format("{:.3g}", part * time));
    shapes += line(kLeft, y, kRight, y, "grid") + text(kLeft - 8, y + 4, "end", percent(part * error));
  }
  return shapes;
}

std::string what_is(const json& point) {
  const std::string floats = text_at(point, "floats");
  return fmt::format("{} layers{}", point.at("layers").dump(), floats == "fp32" ? "" : ", others " + floats);
}

/// Error against time, a circle for each network; the one that was taken is filled in red.
std::string curve_picture(const json& report) {
  const json& curve = report.at("curve");
  constexpr double kAbove = 1.1;
  const double bound = number_at(report, "max_error");
  const double time = kAbove * most(curve, "milliseconds");
  const double error = kAbove * std::max(most(curve, "error"), bound);
  if (time <= 0 || error <= 0) return "";
  std::string shapes = lines_of(time, error);
  if (bound > 0) {
    shapes += line(kLeft, up(bound, error), kRight, up(bound, error), "roof");
    shapes += text(kRight - 4, up(bound, error) - 6, "end", "bound " + percent(bound), "limit");
  }
  for (const json& point : curve) {
    if (number_at(point, "error") < 0) continue;
    const double x = across(number_at(point, "milliseconds"), time), y = up(number_at(point, "error"), error);
    const bool is_chosen = point.at("chosen").get<bool>();
    shapes += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"{}><title>{}: {:.4g} ms, error {}</title>"
                          "</circle>\n", x, y, is_chosen ? 7 : 4, is_chosen ? " class=\"chosen\"" : "", what_is(point),
                          number_at(point, "milliseconds"), percent(number_at(point, "error")));
    if (!is_chosen) continue;
    const bool is_at_the_end = x > (kLeft + kRight) / 2;
    shapes += text(is_at_the_end ? x - 11 : x + 11, y + 4, is_at_the_end ? "end" : "start", what_is(point), "label");
  }
  return with_axes("curve", shapes, "milliseconds of a run", "error");
}

/// The precisions that were tried, where the fastest one was asked for.
std::string tried_table(const json& report) {
  std::string rows;
  for (const json& row : report.at("tried")) {
    const double error = number_at(row, "error"), time = number_at(row, "milliseconds");
    const bool is_chosen = row.at("chosen").get<bool>();
    const std::string note = text_at(row, "note");
    const std::string verdict = is_chosen                                             ? "chosen"
                                : time >= 0 && !row.at("within_bound").get<bool>() ? "breaks the bound"
                                                                                      : "";
    rows += fmt::format("<tr{}><td class=\"word\">{}</td>{}{}<td class=\"word\">{}</td><td>{}</td></tr>\n",
                        is_chosen ? " class=\"slow\"" : "", safe(text_at(row, "precision")),
                        number_cell(time, fmt::format("{:.4g}", time)), number_cell(error, percent(error)), verdict,
                        safe(note));
  }
  return rows.empty() ? "" : html_table("tried", {"precision", "#ms", "#error", "", ""}, rows);
}

std::string networks_table(const json& report) {
  std::string rows;
  for (const json& point : report.at("curve")) {
    const double error = number_at(point, "error"), time = number_at(point, "milliseconds");
    const bool is_chosen = point.at("chosen").get<bool>();
    rows += fmt::format("<tr{}>{}<td class=\"word\">{}</td>{}{}{}<td class=\"word\">{}</td></tr>\n",
                        is_chosen ? " class=\"slow\"" : "",
                        number_cell(number_at(point, "layers"), point.at("layers").dump()),
                        safe(text_at(point, "floats")), number_cell(time, fmt::format("{:.4g}", time)),
                        number_cell(error, percent(error)),
                        point.at("metric").is_number()
                            ? fmt::format("<td class=\"number\" data-value=\"{0:.9g}\">{0:.6g}</td>",
                                          point.at("metric").get<double>())
                            : std::string("<td class=\"number\" data-value=\"\"></td>"),
                        is_chosen ? "chosen" : point.at("within_bound").get<bool>() ? "" : "breaks the bound");
  }
  return rows.empty() ? "" : html_table("networks", {"#layers", "others", "#ms", "#error", "#metric", ""}, rows);
}

/// A number with a bar of its share of the largest.
std::string bar_cell(double value, double largest, const std::string& shown) {
  const double share = largest > 0 ? std::clamp(100 * value / largest, 0.0, 100.0) : 0;
  return number_cell(value, fmt::format("{}<span class=\"share\"><span class=\"bar\" style=\"width:{:.1f}%\"></span>"
                                        "</span>", shown, share));
}

/// What a layer wins, which may be less than nothing.
std::string won_cell(const json& layer, double largest) {
  const double floats = number_at(layer, "milliseconds_fp32"), codes = number_at(layer, "milliseconds_quantized");
  if (floats < 0 || codes < 0) return number_cell(-1, "");
  const double won = floats - codes, share = largest > 0 ? std::clamp(100 * won / largest, 0.0, 100.0) : 0;
  return fmt::format("<td class=\"number\" data-value=\"{:.9g}\">{:.3g}<span class=\"share\"><span class=\"bar\" "
                     "style=\"width:{:.1f}%\"></span></span></td>", won, won, share);
}

std::string layers_table(const json& report) {
  const json& layers = report.at("layers");
  if (layers.empty()) return "";
  const double error = most(layers, "error");
  double won = 0;
  for (const json& layer : layers) {
    won = std::max(won, number_at(layer, "milliseconds_fp32") - number_at(layer, "milliseconds_quantized"));
  }
  std::string rows;
  for (size_t n = 0; n < layers.size(); ++n) {
    const json& layer = layers[n];
    const auto plain = [&](const char* key, const char* unit) {
      const double value = number_at(layer, key);
      return number_cell(value, fmt::format("{:.3g}{}", value, unit));
    };
    rows += fmt::format("<tr>{}<td>{}</td><td class=\"word\">{}</td><td class=\"word\">{}</td>{}{}{}{}{}<td>{}</td>"
                        "</tr>\n", number_cell(static_cast<double>(n), std::to_string(n)), safe(text_at(layer, "node")),
                        safe(text_at(layer, "operator")), safe(text_at(layer, "precision")),
                        bar_cell(number_at(layer, "error"), error, percent(number_at(layer, "error"))),
                        plain("noise_db", " dB"), plain("milliseconds_fp32", ""), plain("milliseconds_quantized", ""),
                        won_cell(layer, won), safe(text_at(layer, "reason")));
  }
  const std::string codes = text_at(report, "weights");
  return html_table("layers", {"#layer", "node", "operator", "type", "#error alone", "#operands", "#ms fp32",
                               "#ms " + codes, "#ms won", "why not quantised"}, rows);
}

std::string heading(const std::string& name, const json& report) {
  size_t quantised = 0;
  for (const json& layer : report.at("layers")) quantised += layer.at("precision") == report.at("weights") ? 1 : 0;
  const std::string precision = text_at(report, "precision");
  std::string html = fmt::format("<h1>{}</h1>\n<p>{}{}</p>\n<dl>\n", safe(name),
                                 report.at("layers").empty()
                                     ? "" : fmt::format("{} of {} layers are ", quantised, report.at("layers").size()),
                                 safe(precision));
  const auto fact = [&](std::string_view what, const std::string& shown) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", what, safe(shown));
  };
  if (!report.at("layers").empty()) {
    fact("activations", text_at(report, "activations"));
    fact("others", text_at(report, "floats"));
  }
  if (report.at("error").is_number()) {
    fact("error", fmt::format("{} of an output's range at most, on {} {}", percent(number_at(report, "error")),
                              report.at("samples").dump(),
                              report.at("random_inputs").get<bool>() ? "random inputs" : "samples"));
  }
  if (number_at(report, "max_error") > 0) fact("bound", percent(number_at(report, "max_error")));
  for (const json& point : report.at("curve")) {
    if (!point.at("chosen").get<bool>()) continue;
    fact("time", fmt::format("{:.4g} ms, in fp32 {:.4g} ms", number_at(point, "milliseconds"),
                             number_at(report.at("curve")[0], "milliseconds")));
  }
  return html + "</dl>\n";
}

}  // namespace

std::string quantization_page(const std::string& name, const json& report) {
  const std::string pictures = html_section(
      "Error against time", "A circle is a network that was measured. The red one was taken: the fastest within the "
      "bound.", curve_picture(report));
  const std::string networks = html_section(
      "Measured networks", "The first one is the model in fp32. With a bound, the fastest quantised network within it "
      "is the result.", networks_table(report));
  const std::string layers = html_section(
      "Layers", "The error alone is that of the outputs if this layer alone is quantised, as a share of an output's "
      "range; operands: signal to noise of its rounded input and weights.", layers_table(report));
  const std::string both = pictures.empty() ? networks
                                            : "<div class=\"pictures\">\n" + pictures + networks + "</div>\n";
  const std::string tried = html_section("Precisions", "The fastest one within the bound is taken.",
                                         tried_table(report));
  return html_page(name, heading(name, report) + tried + both + layers);
}

}  // namespace graft
