// SPDX-License-Identifier: Apache-2.0
#include "tile/schedule.h"

#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace graft::tile {
namespace {

// One list of fields per record, from which printing, parsing and the ceilings derive.
template <class Visitor>
void fields(NestSchedule& s, Visitor visit) {
  visit("chunk", s.chunk, 1, 1 << 20);
  visit("lanes", s.lanes, 1, 1 << 12);
}
template <class Visitor>
void fields(ContractSchedule& s, Visitor visit) {
  visit("m", s.m, 1, 1024);
  visit("n", s.n, 1, 4096);
  visit("k", s.k, 0, 1 << 20);
  visit("m_chunk", s.m_chunk, 0, 1 << 20);
  visit("panel", s.panel, 0, 256);
  visit("columns_outer", s.columns_outer, 0, 1);
}
template <class Visitor>
void fields(AttentionSchedule& s, Visitor visit) {
  visit("queries", s.queries, 1, 512);
  visit("keys", s.keys, 1, 1024);
}
template <class Visitor>
void fields(BlockSchedule& s, Visitor visit) {
  visit("z", s.z, 0, 1 << 12);
  visit("y", s.y, 0, 1 << 16);
  visit("x", s.x, 0, 1 << 20);
  visit("warps", s.warps, 1, 32);
}
template <class Visitor>
void fields(ProductSchedule& s, Visitor visit) {
  visit("m", s.m, 16, 512);
  visit("n", s.n, 16, 512);
  visit("k", s.k, 8, 1024);
  visit("threads", s.threads, 32, 1024);
  visit("stages", s.stages, 2, 16);
  visit("panel", s.panel, 0, 256);
  visit("producers", s.producers, 0, 128);
  visit("teams", s.teams, 1, 4);
  visit("group", s.group, 1, 64);
  visit("split", s.split, 1, 8);
  visit("early", s.early, 0, 1);
}

template <class Visitor>
void fields(WindowSchedule& s, Visitor visit) {
  visit("rows", s.rows, 1, 1 << 10);
  visit("columns", s.columns, 1, 1 << 10);
  visit("lanes", s.lanes, 1, 1 << 10);
  visit("points", s.points, 1, 16);
}

template <class Visitor>
void fields(DecodeSchedule& s, Visitor visit) {
  visit("rows", s.rows, 1, 16);
  visit("m", s.m, 1, 1024);
  visit("n", s.n, 1, 4096);
  visit("k", s.k, 1, 1 << 20);
  visit("m_chunk", s.m_chunk, 1, 1 << 14);
}

constexpr std::string_view kNames[] = {"nest", "contract", "attention", "block", "product", "window", "decode"};

Schedule make_default(std::string_view name) {
  if (name == kNames[0]) return NestSchedule{};
  if (name == kNames[1]) return ContractSchedule{};
  if (name == kNames[2]) return AttentionSchedule{};
  if (name == kNames[3]) return BlockSchedule{};
  if (name == kNames[4]) return ProductSchedule{};
  if (name == kNames[5]) return WindowSchedule{};
  if (name == kNames[6]) return DecodeSchedule{};
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("unknown schedule '{}'; expected one of {}", name, fmt::join(kNames, ", ")), "schedule");
}

std::string_view next_word(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

template <class Record>
constexpr bool kHasUnit = requires(Record record) { record.unit; };

template <class Record>
void set_field(Record& record, std::string_view word) {
  const size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  const std::string_view text = word.substr(std::min(equals + 1, word.size()));
  if constexpr (kHasUnit<Record>) {
    if (name == "unit") {
      record.unit = find_unit(text);
      GRAFT_USER_CHECK(record.unit, kInvalidArgument, fmt::format("there is no unit '{}'", text), "schedule");
      return;
    }
    if (name == "window") {
      GRAFT_USER_CHECK(text == "0" || text == "1", kInvalidArgument, fmt::format("'{}' is not in 0..1", word),
                       "schedule");
      record.window = text == "1" ? 1 : 0;
      return;
    }
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool parsed = error == std::errc() && end == text.data() + text.size();
  bool found = false;
  fields(record, [&](std::string_view field, auto& slot, int64_t low, int64_t high) {
    if (field != name) return;
    found = parsed && value >= low && value <= high;
    GRAFT_USER_CHECK(found, kInvalidArgument, fmt::format("'{}' is not in {}..{}", word, low, high), "schedule");
    slot = static_cast<std::remove_reference_t<decltype(slot)>>(value);
  });
  GRAFT_USER_CHECK(found, kInvalidArgument, fmt::format("unknown field '{}'", word), "schedule");
}

}  // namespace

std::string print(const Schedule& schedule) {
  std::string text(kNames[schedule.index()]);
  std::visit(
      [&](auto record) {
        fields(record, [&](std::string_view field, auto& slot, int64_t, int64_t) {
          text += fmt::format(" {}={}", field, static_cast<int64_t>(slot));
        });
        if constexpr (kHasUnit<decltype(record)>) {
          if (record.unit) text += fmt::format(" unit={}", record.unit->name);
          if (record.window) text += " window=1";
        }
      },
      schedule);
  return text;
}

Schedule parse_schedule(std::string_view text) {
  Schedule schedule = make_default(next_word(text));
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    std::visit([&](auto& record) { set_field(record, word); }, schedule);
  }
  return schedule;
}

}  // namespace graft::tile
