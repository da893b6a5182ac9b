// SPDX-License-Identifier: Apache-2.0
#include "html_page.h"

#include <fmt/format.h>

#include "html_text.h"

namespace graft {
namespace {

constexpr const char* kStyle = R"css(
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1240px; padding: 0 1em; color: #1c2430 }
h1 { font-size: 1.6em; margin: 0 0 .2em; overflow-wrap: anywhere } h2 { font-size: 1.2em; margin: 2em 0 .4em }
p { margin: .2em 0 .6em } .minor, .hint { color: #5a6779 } summary { cursor: pointer; color: #5a6779 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15em 1.2em; margin: 1em 0 }
dt { color: #5a6779 } dd { margin: 0; overflow-wrap: anywhere } code { font-size: .92em; overflow-wrap: anywhere }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 0 2em }
table { border-collapse: collapse; width: 100% } td, th { padding: .25em .7em; text-align: left; vertical-align: top }
th { border-bottom: 2px solid #8795a8; cursor: pointer; white-space: nowrap; position: sticky; top: 0 }
th { background: #fff } th.number { text-align: right } th:hover, th:focus { color: #1665b3 }
th::after { content: "\2195"; color: #b9c2ce; padding-left: .35em; font-weight: normal }
th[aria-sort]::after { color: #1665b3 } th[aria-sort=ascending]::after { content: "\2191" }
th[aria-sort=descending]::after { content: "\2193" }
td { border-bottom: 1px solid #e2e7ee; min-width: 11em; overflow-wrap: anywhere }
td.number, td.word { white-space: nowrap; min-width: 0; width: 1% } tbody tr:hover { background: #f3f7fc }
td.number { text-align: right; font-variant-numeric: tabular-nums }
.share { display: inline-block; width: 70px; height: .7em; margin-left: .6em; background: #eef2f7 }
.bar { display: block; height: 100%; background: #1665b3 } .slow td { background: #fdf1ea }
.scroll { overflow: auto; max-height: 75vh } .pictures svg { width: 100%; height: auto }
svg text { font: 13px system-ui, sans-serif; fill: #1c2430 } svg .minor, svg .name { font-size: 12px; fill: #5a6779 }
svg .label { font-weight: 600 } svg .limit { fill: #b3461c } svg .axis { stroke: #8795a8 } svg .grid { stroke: #e6ebf1 }
svg .roof { fill: none; stroke: #b3461c; stroke-width: 1.5 } svg .bytes { fill: #1665b3 }
svg circle { fill: #1665b3; fill-opacity: .5; stroke: #1665b3 }
svg circle.chosen { fill: #b3461c; stroke: #b3461c }
#graph rect { stroke: #1665b3; stroke-opacity: .6 }
#graph .minor { fill: #36424f }
#graph rect.slow { stroke: #b3461c; stroke-opacity: 1; stroke-width: 2 } #graph .edges { fill: none; stroke: #94a2b4 }
)css";

constexpr const char* kScript = R"js(
const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;
const sort = heading => {
  const table = heading.closest("table"), column = heading.cellIndex, numbers = heading.classList.contains("number");
  const before = heading.getAttribute("aria-sort");
  const down = before ? before === "ascending" : numbers;  // the largest first, names by the alphabet
  for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const compare = (a, b) => {
    const x = value(a, column), y = value(b, column);
    if (x === "" || y === "") return (x === "") - (y === "");  // what is not known comes last
    return (numbers ? x - y : x.localeCompare(y)) * (down ? -1 : 1);
  };
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
};
for (const heading of document.querySelectorAll("th")) {
  heading.tabIndex = 0;
  heading.addEventListener("click", () => sort(heading));
  heading.addEventListener("keydown", event => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    sort(heading);
  });
}
)js";

}  // namespace

std::string number_cell(double value, const std::string& shown) {
  return value < 0 ? "<td class=\"number\" data-value=\"\"></td>"
                   : fmt::format("<td class=\"number\" data-value=\"{:.9g}\">{}</td>", value, shown);
}

std::string html_table(const char* id, std::initializer_list<std::string> headings, const std::string& rows) {
  std::string html = fmt::format("<div class=\"scroll\"><table id=\"{}\"><thead><tr>", id);
  bool first = true;  // which the rows are in the order of, where it is their number
  for (const std::string& heading : headings) {
    const bool number = heading[0] == '#';
    html += fmt::format("<th{}{}>{}</th>", number ? " class=\"number\"" : "",
                        number && first ? " aria-sort=\"ascending\"" : "", heading.substr(number));
    first = false;
  }
  return html + "</tr></thead>\n<tbody>\n" + rows + "</tbody></table></div>\n";
}

std::string html_section(const char* title, const std::string& hint, const std::string& inside) {
  if (inside.empty()) return "";
  return fmt::format("<section><h2>{}</h2>\n<p class=\"hint\">{}</p>\n{}</section>\n", title, hint, inside);
}

std::string html_page(const std::string& title, const std::string& body, const char* script) {
  return fmt::format("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                     "<meta name=\"viewport\" content=\"width=device-width\"><title>{}</title>\n<style>{}</style>"
                     "</head>\n<body>\n{}<script>{}{}</script>\n</body></html>\n",
                     safe(title), kStyle, body, kScript, script);
}

}  // namespace graft
