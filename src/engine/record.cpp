// SPDX-License-Identifier: Apache-2.0
#include "engine/record.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/printable.h"

namespace graft {
namespace {

/// Reads lines one after the other and says where it is when one is wrong.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {}

  bool next() {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    return true;
  }

  bool accept(std::string_view prefix) {
    if (!line_.starts_with(prefix)) return false;
    line_.remove_prefix(prefix.size());
    return true;
  }

  /// What comes before `separator`, or to the end of the line without one.
  std::string until(std::string_view separator) {
    const size_t at = separator.empty() ? line_.size() : line_.find(separator);
    if (at == line_.npos) fail(fmt::format("'{}' is expected", separator));
    std::string text(line_.substr(0, at));
    line_.remove_prefix(at + separator.size());
    return text;
  }

  double milliseconds() {
    const std::string text = until(" ms: ");
    double value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0) {
      fail(fmt::format("'{}' is not a time", text));
    }
    return value;
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorKind::kInvalidArgument, problem, fmt::format("record, line {}", number_));
  }

 private:
  std::string_view rest_, line_;
  int number_ = 0;
};

}  // namespace

std::string print(const Record& record) {
  std::string text = fmt::format("record {}\n", printable(record.target));
  for (const auto& [key, choice] : record.regions) {
    text += fmt::format("region {} {}\n", key, printable(choice.step));
    text += fmt::format("  use {} ms: {}\n", choice.milliseconds, printable(choice.way));
    for (const Candidate& lost : choice.lost) {
      text += fmt::format("  not {} ms: {}: {}\n", lost.milliseconds, printable(lost.name), printable(lost.reason));
    }
  }
  return text;
}

Record parse_record(std::string_view text) {
  LineReader reader(text);
  Record record;
  if (!reader.next() || !reader.accept("record ")) reader.fail("a record starts with 'record TARGET'");
  record.target = reader.until("");
  RegionChoice* choice = nullptr;
  while (reader.next()) {
    if (reader.accept("region ")) {
      const auto [it, fresh] = record.regions.try_emplace(reader.until(" "));
      if (!fresh) reader.fail(fmt::format("region {} is there twice", it->first));
      choice = &it->second;
      choice->step = reader.until("");
    } else if (choice && reader.accept("  use ")) {
      choice->milliseconds = reader.milliseconds();
      choice->way = reader.until("");
    } else if (choice && reader.accept("  not ")) {
      Candidate lost;
      lost.milliseconds = reader.milliseconds();
      lost.name = reader.until(": ");
      lost.reason = reader.until("");
      choice->lost.push_back(std::move(lost));
    } else {
      reader.fail("'region KEY STEP', '  use MS ms: WAY' or '  not MS ms: WAY: REASON' is expected");
    }
  }
  return record;
}

}  // namespace graft
