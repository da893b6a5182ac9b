// SPDX-License-Identifier: Apache-2.0
#include "losses_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "console.h"
#include "output.h"
#include "target/target.h"

namespace graft {
namespace {

struct Sums {
  double seconds = 0, least = 0;
};

Sums sums_of(const std::vector<RegionLoss>& regions) {
  Sums sums;
  for (const RegionLoss& region : regions) {
    sums.seconds += static_cast<double>(region.steps.size()) * region.seconds;
    sums.least += static_cast<double>(region.steps.size()) * region.least_seconds;
  }
  return sums;
}

std::string way_of(const EngineStep& step) {
  if (!step.library.empty()) return step.schedule;
  return step.schedule.empty() ? std::string(name_of(step.kind)) : step.schedule;
}

}  // namespace

void print_losses(const Engine& engine, const std::vector<RegionLoss>& regions) {
  constexpr size_t kMost = 20;
  const Sums sums = sums_of(regions);
  const bool measured = !regions.empty() && regions[0].measured;
  print_to(stdout, "{} on {}: {:.4f} ms as {}, {:.4f} ms at best; {} regions\n", engine.name,
           parse_target(engine.target).name, 1e3 * sums.seconds, measured ? "measured" : "the cost model expects",
           1e3 * sums.least, regions.size());
  Table table("rrrrrlll");
  table.add({"lost ms", "ms of each", "of the best", "of the work", "steps", "runs as", "node", "fused"});
  for (size_t r = 0; r < std::min(kMost, regions.size()); ++r) {
    const RegionLoss& region = regions[r];
    const EngineStep& step = engine.steps[region.steps[0]];
    table.add({fmt::format("{:.4f}", 1e3 * region.lost_seconds()), fmt::format("{:.4f}", 1e3 * region.seconds),
               fmt::format("{:.1f} %", 100 * region.ratio()), fmt::format("{:.1f} %", 100 * region.share),
               std::to_string(region.steps.size()), way_of(step), step.name,
               fmt::format("{}", fmt::join(step.operators, " + "))});
  }
  print_to(stdout, "\n{}\n", table);
  for (size_t r = 0; r < std::min(kMost, regions.size()); ++r) {
    if (regions[r].refused.empty()) continue;
    print_to(stdout, "{}\n", engine.steps[regions[r].steps[0]].name);
    for (const std::string& reason : regions[r].refused) print_to(stdout, "  not {}\n", reason);
  }
}

void write_losses(const std::string& path, const std::string& model, const Engine& engine,
                  const std::vector<RegionLoss>& regions) {
  const Sums sums = sums_of(regions);
  nlohmann::json rows = nlohmann::json::array();
  for (const RegionLoss& region : regions) {
    const EngineStep& step = engine.steps[region.steps[0]];
    rows.push_back({{"name", step.name},
                    {"operators", step.operators},
                    {"way", name_of(step.kind)},
                    {"library", step.library},
                    {"schedule", step.schedule},
                    {"steps", region.steps.size()},
                    {"lost_ms", 1e3 * region.lost_seconds()},
                    {"ms", 1e3 * region.seconds},
                    {"least_ms", 1e3 * region.least_seconds},
                    {"measured", region.measured},
                    {"ratio", region.ratio()},
                    {"share", region.share},
                    {"operations_of_products", region.least.products},
                    {"other_operations", region.least.elements},
                    {"other_operations_done", region.spelled.elements},
                    {"bytes", region.least.bytes},
                    {"refused", region.refused}});
  }
  const nlohmann::json report = {{"model", model},
                                 {"target", parse_target(engine.target).name},
                                 {"ms", 1e3 * sums.seconds},
                                 {"least_ms", 1e3 * sums.least},
                                 {"regions", rows}};
  write_output(path, report.dump(1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace graft
