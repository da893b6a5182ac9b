// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "driver/stages.h"

namespace graft {

Environment with_disabled(const CompileOptions& options) {
  check_disabled(environment().disabled, "GRAFT_DISABLE");
  Environment merged = environment();
  merged.disabled.insert(merged.disabled.end(), options.disabled.begin(), options.disabled.end());
  return merged;
}

std::vector<std::pair<std::string, std::string>> recorded_options(const CompileOptions& options) {
  constexpr std::string_view kTuningNames[] = {"off", "fast", "full"};
  std::vector<std::pair<std::string, std::string>> rows = {
      {"version", GRAFT_VERSION},
      {"target", options.targets.empty() ? "native" : fmt::format("{}", fmt::join(options.targets, ";"))},
      {"threads", std::to_string(options.threads)},
      {"tune", std::string(kTuningNames[static_cast<int>(options.tuning)])},
      {"precision", std::string(name_of(options.precision))},
      {"mode", options.interpret ? "interpret" : "generated"}};
  if (!options.splits_operands) rows.emplace_back("fp32-units", "fma");
  for (const auto& [name, range] : options.dims) {
    const bool fixed = range.min == range.max;
    std::string optima = std::to_string(range.opt);
    for (const int64_t other : range.others) optima += fmt::format(",{}", other);
    rows.emplace_back("dim", fixed ? fmt::format("{}={}", name, range.min)
                                   : fmt::format("{}={}:{}:{}", name, range.min, optima, range.max));
  }
  const std::pair<const char*, const InputShapes&> shapes[] = {{"shape", options.shapes},
                                                               {"min-shape", options.min_shapes},
                                                               {"opt-shape", options.opt_shapes},
                                                               {"max-shape", options.max_shapes}};
  for (const auto& [key, chosen] : shapes) {
    for (const auto& [name, sizes] : chosen) rows.emplace_back(key, fmt::format("{}:{}", name, fmt::join(sizes, "x")));
  }
  const Environment merged = with_disabled(options);
  if (!merged.disabled.empty()) rows.emplace_back("disable", fmt::format("{}", fmt::join(merged.disabled, ",")));
  return rows;
}

}  // namespace graft
