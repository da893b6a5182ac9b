// SPDX-License-Identifier: Apache-2.0
// Schedules: records of how a region becomes a kernel. They print, parse and hash; they are what is tuned, cached and
// stored in plans. lower() checks every one, whatever its source.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "target/units.h"

namespace graft::tile {

struct Strategy;

/// A named value of a strategy's schedules.
struct Field {
  std::string_view name;
  int64_t low = 0, high = 0;
  int64_t otherwise = 0;  ///< of a schedule that does not state it; it never changes: plans and caches keep schedules
  bool is_quiet = false;  ///< printed where it differs from `otherwise` only
};

/// A field as a member of the strategy's own record.
template <class Record>
struct Member {
  std::string_view name;
  int64_t Record::*slot;
  int64_t low, high;
  bool is_quiet = false;
};

/// Fields of a record, with what a new record has in them.
template <class Record>
constexpr auto fields_of() {
  std::array<Field, std::size(Record::kMembers)> fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    const Member<Record>& member = Record::kMembers[i];
    fields[i] = {member.name, member.low, member.high, Record{}.*member.slot, member.is_quiet};
  }
  return fields;
}

/// A strategy, the unit that it multiplies with where it names one, and the values of the strategy's fields in order.
/// Only the strategy's own files know what they mean: they read them as a record, which has `kMembers` and
/// `strategy()`.
struct Schedule {
  static constexpr size_t kMostFields = 16;

  const Strategy* strategy = nullptr;
  const ContractUnit* unit = nullptr;
  std::array<int64_t, kMostFields> values{};

  Schedule() = default;
  template <class Record>
  requires requires { Record::kMembers; }
  Schedule(const Record& record) : strategy(&Record::strategy()) {
    static_assert(std::size(Record::kMembers) <= kMostFields);
    for (size_t i = 0; i < std::size(Record::kMembers); ++i) values[i] = record.*Record::kMembers[i].slot;
    if constexpr (requires { record.unit; }) unit = record.unit;
  }

  template <class Record>
  bool is() const {
    return strategy == &Record::strategy();
  }
  /// The schedule as the record of its strategy; nothing where it is of another one.
  template <class Record>
  std::optional<Record> as() const {
    if (!is<Record>()) return std::nullopt;
    Record record;
    for (size_t i = 0; i < std::size(Record::kMembers); ++i) record.*Record::kMembers[i].slot = values[i];
    if constexpr (requires { record.unit; }) record.unit = unit;
    return record;
  }
  bool operator==(const Schedule&) const = default;
};

/// `contract m=56 n=64 k=0 m_chunk=0 panel=32 columns_outer=1`, with ` unit=amx_u8s8` where there is one;
/// parse_schedule reads it back and throws invalid_argument naming an unknown or out-of-range field.
std::string print(const Schedule& schedule);
Schedule parse_schedule(std::string_view text);

}  // namespace graft::tile
