// SPDX-License-Identifier: Apache-2.0
#include "comparison_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "console.h"

namespace graft {
namespace {

/// JSON has no infinity and no NaN.
nlohmann::json number(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr); }

std::string error_text(const Judgement& judgement) {
  return judgement.compared && !judgement.exact ? fmt::format("{:.2e}", judgement.found.largest) : "";
}

}  // namespace

bool all_agree(const std::vector<ComparedTensor>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const ComparedTensor& row) { return row.judgement.agrees; });
}

void print_comparison(const std::vector<ComparedTensor>& rows, const std::string& heading, int marked) {
  Table table("llrl");
  table.add({heading, "type", "max error", "against the reference"});
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool first = static_cast<int>(i) == marked;
    table.add({(first ? "-> " : marked >= 0 ? "   " : "") + rows[i].name, rows[i].type, error_text(rows[i].judgement),
               rows[i].judgement.words});
  }
  print_to(stdout, "{}", table);
}

nlohmann::json comparison_json(const std::vector<ComparedTensor>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const ComparedTensor& row : rows) {
    const Judgement& judgement = row.judgement;
    const Comparison& found = judgement.found;
    nlohmann::json entry = {{"name", row.name},
                            {"type", row.type},
                            {"agrees", judgement.agrees},
                            {"words", judgement.words}};
    if (!row.node.empty()) entry["node"] = row.node;
    if (judgement.compared) {
      entry["elements"] = found.elements;
      entry["outside"] = found.outside;
      entry["max_error"] = judgement.exact ? nlohmann::json(nullptr) : number(found.largest);
      entry["allowed_relative"] = judgement.allowed.relative;
      entry["allowed_absolute"] = number(judgement.allowed.absolute);
      entry["reference_low"] = number(found.reference_low);
      entry["reference_high"] = number(found.reference_high);
      entry["nan"] = found.nan;
      entry["reference_nan"] = found.reference_nan;
      entry["infinite"] = found.infinite;
      entry["reference_infinite"] = found.reference_infinite;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace graft
