// SPDX-License-Identifier: Apache-2.0
// The page of `graft inspect --html`: everything is drawn here; the only script sorts tables.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "console.h"
#include "inspection.h"

namespace graft {
namespace {

using nlohmann::json;

constexpr const char* kStyle = R"css(
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em; color: #1c2430; }
h1 { font-size: 1.5em } h2 { font-size: 1.2em; margin-top: 2em }
table { border-collapse: collapse; width: 100% } td, th { padding: .2em .6em; text-align: left; vertical-align: top }
th { border-bottom: 2px solid #8795a8; cursor: pointer; white-space: nowrap; position: sticky; top: 0 }
th { background: #fff }
th:hover { color: #1665b3 } td { border-bottom: 1px solid #e2e7ee; overflow-wrap: anywhere }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.bar { display: block; height: 3px; background: #1665b3 } svg { max-width: 100%; height: auto; background: #fafbfc }
svg text { font: 12px system-ui, sans-serif; fill: #1c2430 } .scroll { overflow: auto; max-height: 80vh }
)css";

constexpr const char* kScript = R"js(
for (const heading of document.querySelectorAll("th")) {
  heading.addEventListener("click", () => {
    const table = heading.closest("table"), body = table.tBodies[0];
    const column = [...heading.parentNode.children].indexOf(heading);
    const down = heading.dataset.order !== "down";
    for (const other of heading.parentNode.children) delete other.dataset.order;
    heading.dataset.order = down ? "down" : "up";
    const key = row => { const cell = row.cells[column]; return cell.dataset.value ?? cell.textContent; };
    const compare = (a, b) => {
      const x = key(a), y = key(b), numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
      return numbers ? Number(x) - Number(y) : x.localeCompare(y);
    };
    body.append(...[...body.rows].sort((a, b) => down ? compare(b, a) : compare(a, b)));
  });
}
)js";

/// A text as HTML has it; names come from files.
std::string safe(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += c;
    }
  }
  return result;
}

std::string text_at(const json& object, const char* key) { return object.at(key).get<std::string>(); }

/// A number, or -1 where it is not known.
double number_at(const json& object, const char* key) {
  return object.at(key).is_number() ? object.at(key).get<double>() : -1;
}

std::string joined(const json& names, const char* separator) {
  std::string text;
  for (const json& name : names) text += (text.empty() ? "" : separator) + name.get<std::string>();
  return text;
}

std::string number_cell(double value, const std::string& shown) {
  return value < 0 ? "<td class=\"number\" data-value=\"\"></td>"
                   : fmt::format("<td class=\"number\" data-value=\"{:.9g}\">{}</td>", value, shown);
}

std::string way_of(const json& step) {
  const std::string library = text_at(step, "library");
  return library.empty() ? text_at(step, "kind") : library;
}

std::string steps_table(const json& report) {
  const double total = number_at(report, "total_ms");
  std::string html =
      "<h2>Steps</h2>\n<div class=\"scroll\"><table id=\"steps\"><thead><tr><th>step</th><th>ms</th><th>%</th>"
      "<th>GFLOP/s</th><th>GB/s</th><th>runs as</th><th>node</th><th>fused</th></tr></thead>\n<tbody>\n";
  for (const json& step : report.at("steps")) {
    const double time = number_at(step, "milliseconds"), operations = number_at(step, "operations");
    const double bytes = number_at(step, "bytes");
    const double share = time >= 0 && total > 0 ? 100 * time / total : -1;
    const double gflops = time > 0 && operations >= 0 ? operations / time * 1e-6 : -1;
    const double bandwidth = time > 0 && bytes >= 0 ? bytes / time * 1e-6 : -1;
    html += fmt::format("<tr>{}{}{}{}{}<td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        number_cell(number_at(step, "step"), step.at("step").dump()),
                        number_cell(time, fmt::format("{:.4f}", time)),
                        number_cell(share, fmt::format("{0:.1f}<span class=\"bar\" style=\"width:{0:.1f}px\"></span>",
                                                       share)),
                        number_cell(gflops, fmt::format("{:.1f}", gflops)),
                        number_cell(bandwidth, fmt::format("{:.1f}", bandwidth)), safe(way_of(step)),
                        safe(text_at(step, "node")), safe(joined(step.at("operators"), " + ")));
  }
  return html + "</tbody></table></div>\n";
}

/// The steps in layers: each below those whose results it reads.
std::string graph_picture(const json& report) {
  constexpr int kWidth = 180, kHeight = 34, kGap = 26;
  const json& steps = report.at("steps");
  std::map<std::string, size_t> producer;
  std::vector<int> level(steps.size(), 0), column(steps.size(), 0);
  std::map<int, int> used;
  std::string boxes, lines;
  const auto x = [&](size_t s) { return 10 + column[s] * (kWidth + kGap); };
  const auto y = [&](size_t s) { return 10 + level[s] * (kHeight + kGap); };
  int right = 0, bottom = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    std::vector<size_t> before;
    for (const json& name : steps[s].at("reads")) {
      const auto found = producer.find(name.get<std::string>());
      if (found != producer.end() && found->second != s) before.push_back(found->second);
    }
    for (const size_t other : before) level[s] = std::max(level[s], level[other] + 1);
    column[s] = used[level[s]]++;
    for (const size_t other : before) {
      lines += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#8795a8\"/>\n",
                           x(other) + kWidth / 2, y(other) + kHeight, x(s) + kWidth / 2, y(s));
    }
    for (const json& name : steps[s].at("writes")) producer[name.get<std::string>()] = s;
    const std::string operators = joined(steps[s].at("operators"), " + ");
    const std::string label = fmt::format("{} {}", s, operators.empty() ? text_at(steps[s], "node") : operators);
    const bool slow = text_at(steps[s], "kind") == "interpreter";
    boxes += fmt::format("<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{}\" "
                         "stroke=\"#1665b3\"/><text x=\"{}\" y=\"{}\">{}</text></g>\n",
                         safe(joined(steps[s].at("nodes"), ", ")), x(s), y(s), kWidth, kHeight,
                         slow ? "#fbe3d6" : "#e8f1fb", x(s) + 6, y(s) + 21,
                         safe(label.size() > 26 ? label.substr(0, 24) + ".." : label));
    right = std::max(right, x(s) + kWidth + 10), bottom = std::max(bottom, y(s) + kHeight + 10);
  }
  return fmt::format("<h2>Graph of steps</h2>\n<div class=\"scroll\"><svg id=\"graph\" width=\"{0}\" height=\"{1}\" "
                     "style=\"max-width:none\" viewBox=\"0 0 {0} {1}\">\n{2}{3}</svg></div>\n",
                     right, bottom, lines, boxes);
}

/// Operations per byte against operations per second, both in powers of ten, under what the machine can do.
std::string roofline(const json& report) {
  constexpr double kWidth = 760, kHeight = 360, kLow = -3, kHigh = 4, kSlow = -3;
  if (report.at("peak").is_null()) return "";
  const json& peak = report.at("peak");
  const double most = std::max(number_at(peak, "gflops"), number_at(peak, "half_gflops"));
  const double memory = number_at(peak, "gigabytes_per_s"), fast = std::ceil(std::log10(std::max(most, 1.0)));
  const auto x = [&](double intensity) { return (std::log10(intensity) - kLow) / (kHigh - kLow) * kWidth; };
  const auto y = [&](double gflops) { return kHeight - (std::log10(gflops) - kSlow) / (fast - kSlow) * kHeight; };
  std::string shapes;
  const auto roof = [&](double gflops, const char* label) {
    const double ridge = std::clamp(gflops / std::max(memory, 1e-9), std::pow(10, kLow), std::pow(10, kHigh));
    shapes += fmt::format("<polyline fill=\"none\" stroke=\"#b3461c\" points=\"{:.1f},{:.1f} {:.1f},{:.1f} "
                          "{:.1f},{:.1f}\"/>\n<text x=\"{:.1f}\" y=\"{:.1f}\">{} {:.0f} GFLOP/s</text>\n",
                          0.0, y(std::pow(10, kLow) * memory), x(ridge), y(gflops), kWidth, y(gflops), kWidth - 200,
                          y(gflops) - 6, label, gflops);
  };
  roof(number_at(peak, "gflops"), "fp32");
  if (number_at(peak, "half_gflops") > 0) roof(number_at(peak, "half_gflops"), "16 bits");
  shapes += fmt::format("<text x=\"10\" y=\"{:.1f}\">{:.1f} GB/s</text>\n", kHeight - 12, memory);
  for (const json& step : report.at("steps")) {
    const double time = number_at(step, "milliseconds"), operations = number_at(step, "operations");
    const double bytes = number_at(step, "bytes");
    if (time <= 0 || operations <= 0 || bytes <= 0) continue;
    const double share = number_at(report, "total_ms") > 0 ? time / number_at(report, "total_ms") : 0;
    shapes += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"#1665b3\" fill-opacity=\".5\">"
                          "<title>step {}, {}: {:.4f} ms</title></circle>\n",
                          std::clamp(x(operations / bytes), 0.0, kWidth),
                          std::clamp(y(operations / time * 1e-6), 0.0, kHeight), 3 + 12 * std::sqrt(share),
                          step.at("step").dump(), safe(text_at(step, "node")), time);
  }
  return fmt::format("<h2>Roofline</h2>\n<p>Right: operations per byte, 10<sup>-3</sup> to 10<sup>4</sup>. Up: "
                     "GFLOP/s. The area of a circle is its share of the time.</p>\n<svg id=\"roofline\" width=\"{0}\" "
                     "height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n{2}</svg>\n",
                     kWidth, kHeight, shapes);
}

/// Bytes of the intermediate tensors that live during each step.
std::string memory_picture(const json& report) {
  constexpr double kWidth = 760, kHeight = 200;
  const json& memory = report.at("memory");
  std::string html = fmt::format("<h2>Memory</h2>\n<p>weights {}{}</p>\n",
                                 bytes_text(number_at(memory, "weight_bytes")),
                                 memory.at("arena_bytes").is_null()
                                     ? ""
                                     : ", intermediate results " + bytes_text(number_at(memory, "arena_bytes")));
  std::vector<double> live(report.at("steps").size(), 0);
  std::string rows;
  for (const json& tensor : memory.at("tensors")) {
    const double bytes = number_at(tensor, "bytes");
    const auto first = tensor.at("first_step").get<size_t>(), last = tensor.at("last_step").get<size_t>();
    for (size_t s = first; s <= last && s < live.size(); ++s) live[s] += std::max(bytes, 0.0);
    rows += fmt::format("<tr><td>{}</td>{}{}{}</tr>\n", safe(text_at(tensor, "name")),
                        number_cell(bytes, bytes_text(std::max(bytes, 0.0))),
                        number_cell(static_cast<double>(first), std::to_string(first)),
                        number_cell(static_cast<double>(last), std::to_string(last)));
  }
  const double most = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
  if (most > 0) {
    html += fmt::format("<svg id=\"memory\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n", kWidth, kHeight);
    const double each = kWidth / static_cast<double>(live.size());
    for (size_t s = 0; s < live.size(); ++s) {
      const double height = live[s] / most * (kHeight - 20);
      html += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"#1665b3\">"
                          "<title>step {}: {}</title></rect>\n", static_cast<double>(s) * each, kHeight - height,
                          std::max(each - 0.5, 0.5), height, s, bytes_text(live[s]));
    }
    html += fmt::format("<text x=\"4\" y=\"14\">{} at most, step by step</text></svg>\n", bytes_text(most));
  }
  return html + "<div class=\"scroll\"><table id=\"tensors\"><thead><tr><th>intermediate result</th><th>bytes</th>"
                "<th>first step</th><th>last step</th></tr></thead>\n<tbody>\n" + rows + "</tbody></table></div>\n";
}

std::string candidates_table(const json& report) {
  std::string html = "<h2>Candidates that lost</h2>\n<div class=\"scroll\"><table id=\"candidates\"><thead><tr>"
                     "<th>step</th><th>candidate</th><th>ms</th><th>because</th></tr></thead>\n<tbody>\n";
  for (const json& step : report.at("steps")) {
    for (const json& lost : step.at("candidates")) {
      const double time = number_at(lost, "milliseconds");
      html += fmt::format("<tr>{}<td>{}</td>{}<td>{}</td></tr>\n",
                          number_cell(number_at(step, "step"), step.at("step").dump()), safe(text_at(lost, "name")),
                          number_cell(time, fmt::format("{:.4f}", time)), safe(text_at(lost, "reason")));
    }
  }
  return html + "</tbody></table></div>\n";
}

std::string heading(const json& report) {
  const std::string name = text_at(report, "name");
  std::string html = fmt::format("<h1>{}</h1>\n<p>{} on {}, {} threads", safe(name.empty() ? "engine" : name),
                                 safe(text_at(report, "target")), safe(text_at(report, "device")),
                                 report.at("threads").dump());
  if (!report.at("total_ms").is_null()) html += fmt::format(": {:.3f} ms", number_at(report, "total_ms"));
  html += "</p>\n<ul>\n";
  for (const char* what : {"inputs", "outputs"}) {
    for (const json& tensor : report.at(what)) {
      html += fmt::format("<li>{} {}: {}[{}]</li>\n", std::string(what).substr(0, std::string(what).size() - 1),
                          safe(text_at(tensor, "name")), safe(text_at(tensor, "type")),
                          safe(joined(tensor.at("shape"), ", ")));
    }
  }
  for (const auto& [symbol, value] : report.at("sizes").items()) {
    html += fmt::format("<li>size {} = {}</li>\n", safe(symbol), value.dump());
  }
  return html + "</ul>\n";
}

}  // namespace

std::string inspection_page(const json& report) {
  const std::string name = text_at(report, "name");
  return fmt::format("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\n<style>{}"
                     "</style></head>\n<body>\n{}{}{}{}{}{}<script>{}</script>\n</body></html>\n",
                     safe(name.empty() ? "graft inspect" : name), kStyle, heading(report), steps_table(report),
                     graph_picture(report), roofline(report), memory_picture(report), candidates_table(report),
                     kScript);
}

}  // namespace graft
