// SPDX-License-Identifier: Apache-2.0
#include "driver/record_use.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace graft {
namespace {

std::string names_of(std::span<const Target> targets) {
  std::vector<std::string> names;
  for (const Target& target : targets) names.push_back(target.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// How many regions of a record a build has done as it says.
size_t count_used(const Record& given, const Record& built) {
  return static_cast<size_t>(std::count_if(given.regions.begin(), given.regions.end(), [&](const auto& region) {
    const auto found = built.regions.find(region.first);
    return found != built.regions.end() && found->second.way == region.second.way;
  }));
}

}  // namespace

Plan read_known_choices(const CompileOptions& options, std::span<const Target> targets) {
  Plan known;
  if (options.record.empty()) return known;
  if (is_plan(options.record)) {
    known.records = open_plan(options.record).records;
  } else {
    known.records = {parse_record(read_text_file(options.record))};
  }
  std::vector<Target> made;
  for (const Record& record : known.records) made.push_back(parse_target(record.target));
  const bool fits = std::any_of(targets.begin(), targets.end(),
                                [&](const Target& target) { return record_for(known.records, target); });
  GRAFT_USER_CHECK(fits, kInvalidArgument,
                   fmt::format("'{}' holds choices for {}, none for {}: give the record of such a machine, or none",
                               options.record, names_of(made), names_of(targets)), "record");
  return known;
}

void check_use(const Plan& known, std::span<const Record> built, const CompileOptions& options) {
  if (options.record.empty()) return;
  size_t used = 0, regions = 0;
  std::vector<std::string> gaps;
  for (const Record& record : built) {
    const std::string name = parse_target(record.target).name;
    const Record* given = record_for(known.records, parse_target(record.target));
    if (!given) {
      gaps.push_back(fmt::format("the record '{}' holds nothing for {}, which was judged anew", options.record, name));
      continue;
    }
    const size_t count = count_used(*given, record);
    used += count;
    regions += given->regions.size();
    if (count == given->regions.size()) continue;
    gaps.push_back(fmt::format("{} of the {} regions that the record '{}' names for {} were used; the others are not "
                               "in this network, or cannot be done so (GRAFT_DEBUG=2 says why)",
                               count, given->regions.size(), options.record, name));
  }
  GRAFT_USER_CHECK(used > 0 || regions == 0, kInvalidArgument,
                   fmt::format("none of the {} regions that '{}' names is in this network and done so: give the record "
                               "of this model, precision and target, or none",
                               regions, options.record), "record");
  for (const std::string& gap : gaps) log(LogLevel::kWarning, "{}", gap);
}

}  // namespace graft
