// SPDX-License-Identifier: Apache-2.0
// The page of `graft inspect --html`: everything is drawn here; the only script sorts tables.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "console.h"
#include "html_page.h"
#include "html_text.h"
#include "inspection.h"
#include "inspection_pictures.h"

namespace graft {
namespace {

using nlohmann::json;

constexpr const char* kScript = R"js(
const graph = document.getElementById("graph"), frame = document.getElementById("graph-frame");
const size = [graph.width.baseVal.value, graph.height.baseVal.value];
const zoom = scale => {
  graph.setAttribute("width", size[0] * scale);
  graph.setAttribute("height", size[1] * scale);
};
const scale = () => graph.width.baseVal.value / size[0];
const fitting = () => Math.min(1, frame.clientWidth / size[0]);
document.getElementById("smaller").addEventListener("click", () => zoom(scale() / 1.25));
document.getElementById("larger").addEventListener("click", () => zoom(scale() * 1.25));
document.getElementById("fit").addEventListener("click", () => zoom(fitting()));
zoom(Math.max(0.5, fitting()));  // below half of its size nothing is read
)js";

std::string way_of(const json& step) {
  const std::string library = text_at(step, "library");
  return library.empty() ? text_at(step, "way") : library;
}

/// Times in the unit that fits the whole run.
struct TimeUnit {
  const char* name;
  double per_millisecond;
};

TimeUnit unit_of(const json& report) {
  const double total = number_at(report, "total_ms");
  return total >= 0 && total < 1 ? TimeUnit{"µs", 1000} : TimeUnit{"ms", 1};
}

std::string time_cell(double milliseconds, const TimeUnit& unit) {
  return number_cell(milliseconds, fmt::format("{:.3f}", milliseconds * unit.per_millisecond));
}

std::string steps_table(const json& report) {
  const double total = number_at(report, "total_ms");
  const TimeUnit unit = unit_of(report);
  std::string rows;
  double longest = 0;
  for (const json& step : report.at("steps")) longest = std::max(longest, number_at(step, "milliseconds"));
  for (const json& step : report.at("steps")) {
    const double time = number_at(step, "milliseconds"), operations = number_at(step, "operations");
    const double bytes = number_at(step, "bytes");
    const double share = time >= 0 && total > 0 ? 100 * time / total : -1;
    const double gflops = time > 0 && operations >= 0 ? operations / time * 1e-6 : -1;
    const double bandwidth = time > 0 && bytes >= 0 ? bytes / time * 1e-6 : -1;
    const std::string bar = fmt::format("{:.1f}<span class=\"share\"><span class=\"bar\" style=\"width:{:.1f}%\">"
                                        "</span></span>", share, longest > 0 ? 100 * time / longest : 0);
    rows += fmt::format("<tr{}>{}{}{}{}{}<td class=\"word\">{}</td><td>{}</td><td>{}</td></tr>\n",
                        text_at(step, "way") == "interpreter" ? " class=\"slow\"" : "",
                        number_cell(number_at(step, "step"), step.at("step").dump()), time_cell(time, unit),
                        number_cell(share, bar), number_cell(gflops, fmt::format("{:.1f}", gflops)),
                        number_cell(bandwidth, fmt::format("{:.1f}", bandwidth)), safe(way_of(step)),
                        safe(text_at(step, "name")), safe(joined(step.at("operators"), " + ")));
  }
  return "<h2>Steps</h2>\n" +
         html_table("steps", {"#step", std::string("#") + unit.name, "#%", "#GFLOP/s", "#GB/s", "runs as", "node",
                              "fused"}, rows);
}

std::string graph_section(const json& report) {
  return "<h2>Graph of steps</h2>\n<p class=\"hint\">Each box is a region that runs as one step; the darker, the "
         "larger its part of the time. A red border: the interpreter runs it. "
         "<button id=\"smaller\">&minus;</button> <button id=\"larger\">+</button> "
         "<button id=\"fit\">fit</button></p>\n<div class=\"scroll\" id=\"graph-frame\">" +
         graph_picture(report) + "</div>\n";
}

/// Rows of the steps inside of loops and branches: `3.0` is the first one of step 3.
std::string body_rows(const json& step, const std::string& number) {
  std::string rows;
  const json& bodies = step.at("bodies");
  for (size_t b = 0; b < bodies.size(); ++b) {
    for (size_t s = 0; s < bodies[b].size(); ++s) {
      const json& inner = bodies[b][s];
      const std::string own =
          bodies.size() > 1 ? fmt::format("{}.{}.{}", number, b, s) : fmt::format("{}.{}", number, s);
      rows += fmt::format("<tr><td class=\"word\">{}</td><td class=\"word\">{}</td><td>{}</td><td>{}</td><td>{}</td>"
                          "</tr>\n", own, safe(way_of(inner)), safe(text_at(inner, "name")),
                          safe(joined(inner.at("operators"), " + ")), safe(text_at(inner, "schedule")));
      rows += body_rows(inner, own);
    }
  }
  return rows;
}

std::string bodies_section(const json& report) {
  std::string rows;
  for (const json& step : report.at("steps")) rows += body_rows(step, step.at("step").dump());
  if (rows.empty()) return "";
  return "<h2>Inside of loops and branches</h2>\n<p class=\"hint\">What a step of control flow runs; its time is in "
         "that of the step.</p>\n" + html_table("bodies", {"step", "runs as", "node", "fused", "schedule"}, rows);
}

std::string pictures(const json& report) {
  const std::string rates = html_section(
      "Roofline", "A circle is a step: its area is its part of the time, its number that of the step.",
      roofline_picture(report));
  const std::string bytes = html_section(
      "Memory over time", "Bytes of the intermediate results that are in use at each step.", memory_picture(report));
  return rates.empty() && bytes.empty() ? "" : "<div class=\"pictures\">\n" + rates + bytes + "</div>\n";
}

std::string tensors_table(const json& report) {
  std::string rows;
  for (const json& tensor : report.at("memory").at("tensors")) {
    const double bytes = number_at(tensor, "bytes");
    const double first = number_at(tensor, "first_step"), last = number_at(tensor, "last_step");
    rows += fmt::format("<tr><td>{}</td>{}{}{}</tr>\n", safe(text_at(tensor, "name")),
                        number_cell(bytes, bytes_text(std::max(bytes, 0.0))),
                        number_cell(first, fmt::format("{:.0f}", first)),
                        number_cell(last, fmt::format("{:.0f}", last)));
  }
  return "<h2>Intermediate results</h2>\n" +
         html_table("tensors", {"name", "#bytes", "#first step", "#last step"}, rows);
}

/// Steps by what they run and what lost, each with the later ones that are equal to it.
std::map<size_t, std::vector<size_t>> equal_steps(const json& report) {
  std::map<std::string, size_t> known;
  std::map<size_t, std::vector<size_t>> groups;
  const json& steps = report.at("steps");
  for (size_t s = 0; s < steps.size(); ++s) {
    const std::string lost = steps[s].at("candidates").dump(-1, ' ', true, json::error_handler_t::replace);
    const std::string key = text_at(steps[s], "kernel") + text_at(steps[s], "schedule") + lost;
    const auto [first, fresh] = known.emplace(key, s);
    groups[first->second];
    if (!fresh) groups[first->second].push_back(s);
  }
  return groups;
}

std::string candidates_table(const json& report) {
  const TimeUnit unit = unit_of(report);
  std::string rows;
  for (const auto& [first, others] : equal_steps(report)) {
    const json& step = report.at("steps")[first];
    std::string number = step.at("step").dump();
    for (const size_t other : others) number += ", " + std::to_string(other);
    for (const json& lost : step.at("candidates")) {
      rows += fmt::format("<tr>{}<td>{}</td>{}<td>{}</td></tr>\n", number_cell(static_cast<double>(first), number),
                          safe(text_at(lost, "name")), time_cell(number_at(lost, "milliseconds"), unit),
                          safe(text_at(lost, "reason")));
    }
  }
  if (rows.empty()) return "<h2>Rejected candidates</h2>\n<p class=\"hint\">none</p>\n";
  return "<h2>Rejected candidates</h2>\n" +
         html_table("candidates", {"#steps", "candidate", std::string("#") + unit.name, "because"}, rows);
}

/// What an engine was compiled with, and when and how this page was made.
std::string origin(const json& report) {
  std::map<std::string, std::string> options;
  for (const json& option : report.at("options")) options[text_at(option, "key")] = text_at(option, "value");
  std::string html;
  for (const char* key : {"precision", "tune"}) {
    if (options.contains(key)) html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", key, safe(options.at(key)));
  }
  html += fmt::format("<dt>version</dt><dd>{}, compiled by {}</dd>\n", safe(text_at(report, "version")),
                      safe(options.contains("version") ? options.at("version") : "another"));
  return html + fmt::format("<dt>date</dt><dd>{}</dd>\n<dt>command</dt><dd><code>{}</code></dd>\n",
                            safe(text_at(report, "date")), safe(text_at(report, "command")));
}

/// What the engine was planned for.
std::string machine(const json& report) {
  const json& target = report.at("machine");
  std::string facts = fmt::format("{}, {} threads", safe(text_at(target, "architecture")),
                                  target.at("threads").dump());
  if (text_at(target, "kind") == "cpu") {
    facts += fmt::format(", vectors of {} bits, caches {}, {}, {}", target.at("vector_bits").dump(),
                         bytes_text(number_at(target, "l1_bytes")), bytes_text(number_at(target, "l2_bytes")),
                         bytes_text(number_at(target, "l3_bytes")));
  } else {
    facts += fmt::format(", {} multiprocessors", target.at("multiprocessors").dump());
  }
  return fmt::format("<dt>machine</dt><dd>{} ({})<details><summary>features</summary><code>{}</code></details></dd>\n",
                     safe(text_at(target, "name")), facts, safe(joined(target.at("features"), " ")));
}

/// What was measured, in a sentence, and what the engine takes and gives.
std::string heading(const json& report) {
  const std::string name = text_at(report, "name");
  const TimeUnit unit = unit_of(report);
  const double total = number_at(report, "total_ms");
  std::string html = fmt::format("<h1>{}</h1>\n<p>{}{} steps on {}, {} threads</p>\n<dl>\n",
                                 safe(name.empty() ? "engine" : name),
                                 total < 0 ? "" : fmt::format("{:.3f} {} in ", total * unit.per_millisecond, unit.name),
                                 report.at("steps").size(), safe(text_at(report, "device")),
                                 report.at("threads").dump());
  const auto fact = [&](std::string_view what, const std::string& shown) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", what, shown);
  };
  for (const char* what : {"inputs", "outputs"}) {
    for (const json& tensor : report.at(what)) {
      fact(std::string_view(what).substr(0, std::string_view(what).size() - 1),
           fmt::format("{}: {}[{}]", safe(text_at(tensor, "name")), safe(text_at(tensor, "dtype")),
                       safe(joined(tensor.at("shape"), ", "))));
    }
  }
  for (const auto& [symbol, value] : report.at("sizes").items()) {
    fact("size", fmt::format("{} = {}", safe(symbol), value.dump()));
  }
  const json& memory = report.at("memory");
  fact("weights", bytes_text(number_at(report, "constant_bytes")));
  if (!memory.at("arena_bytes").is_null()) {
    fact("intermediate results", bytes_text(number_at(memory, "arena_bytes")));
  }
  return html + machine(report) + origin(report) + "</dl>\n";
}

}  // namespace

std::string inspection_page(const json& report) {
  const std::string name = text_at(report, "name");
  return html_page(name.empty() ? "graft inspect" : name,
                   heading(report) + pictures(report) + steps_table(report) + bodies_section(report) +
                       graph_section(report) + candidates_table(report) + tensors_table(report),
                   kScript);
}

}  // namespace graft
