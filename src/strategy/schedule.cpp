// SPDX-License-Identifier: Apache-2.0
#include "strategy/schedule.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "strategy/strategy.h"

namespace graft::tile {
namespace {

std::string_view next_word(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

/// A schedule of the strategy of this name with what its fields have otherwise.
Schedule make_default(std::string_view name) {
  Schedule schedule;
  schedule.strategy = find_strategy(name);
  if (!schedule.strategy) {
    std::vector<std::string_view> names;
    for (const Strategy* strategy : strategies()) names.push_back(strategy->name);
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("unknown schedule '{}'; expected one of {}", name, fmt::join(names, ", ")), "schedule");
  }
  const auto& fields = schedule.strategy->fields;
  for (size_t i = 0; i < fields.size(); ++i) schedule.values[i] = fields[i].otherwise;
  return schedule;
}

/// Sets what `name=value` says.
void set_field(Schedule& schedule, std::string_view word) {
  const size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  const std::string_view text = word.substr(std::min(equals + 1, word.size()));
  if (name == "unit" && schedule.strategy->names_unit) {
    schedule.unit = find_unit(text);
    GRAFT_USER_CHECK(schedule.unit, kInvalidArgument, fmt::format("there is no unit '{}'", text), "schedule");
    return;
  }
  const auto& fields = schedule.strategy->fields;
  const auto field = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
  GRAFT_USER_CHECK(field != fields.end(), kInvalidArgument, fmt::format("unknown field '{}'", word), "schedule");
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool parsed = error == std::errc() && end == text.data() + text.size();
  GRAFT_USER_CHECK(parsed && value >= field->low && value <= field->high, kInvalidArgument,
                   fmt::format("'{}' is not in {}..{}", word, field->low, field->high), "schedule");
  schedule.values[static_cast<size_t>(field - fields.begin())] = value;
}

}  // namespace

std::string print(const Schedule& schedule) {
  std::string text(schedule.strategy->name), quiet;
  const auto& fields = schedule.strategy->fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string word = fmt::format(" {}={}", fields[i].name, schedule.values[i]);
    if (!fields[i].is_quiet) text += word;
    if (fields[i].is_quiet && schedule.values[i] != fields[i].otherwise) quiet += word;
  }
  if (schedule.unit) text += fmt::format(" unit={}", schedule.unit->name);
  return text + quiet;
}

Schedule parse_schedule(std::string_view text) {
  Schedule schedule = make_default(next_word(text));
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) set_field(schedule, word);
  return schedule;
}

}  // namespace graft::tile
