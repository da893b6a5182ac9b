// SPDX-License-Identifier: Apache-2.0
#include "library/schedule.h"

#include <fmt/format.h>

#include "base/error.h"
#include "expr/text.h"

namespace graft {
namespace {

constexpr int64_t kMostPieces = 64;

int64_t read_field(Lexer& lexer, std::string_view name, int64_t low, int64_t high) {
  lexer.expect(name);
  lexer.expect("=");
  const int64_t value = lexer.integer(name);
  if (value < low || value > high) lexer.fail(fmt::format("{}={} is not in {}..{}", name, value, low, high));
  return value;
}

}  // namespace

std::string print(const LibrarySchedule& schedule) {
  return fmt::format("{} cut={} pieces={} panel={}", schedule.library,
                     schedule.cut == LibraryCut::kRows ? "rows" : "columns", schedule.pieces, schedule.panel);
}

LibrarySchedule parse_library_schedule(std::string_view text) {
  Lexer lexer(text, "library schedule");
  LibrarySchedule schedule;
  schedule.library = lexer.name("a library");
  lexer.expect("cut");
  lexer.expect("=");
  if (!lexer.accept("rows")) {
    lexer.expect("columns");
    schedule.cut = LibraryCut::kColumns;
  }
  schedule.pieces = read_field(lexer, "pieces", 1, kMostPieces);
  schedule.panel = read_field(lexer, "panel", 0, 64);
  if (schedule.panel % 8 != 0) lexer.fail(fmt::format("panel={} is no multiple of 8", schedule.panel));
  if (!lexer.at_end()) lexer.fail("unknown field");
  return schedule;
}

}  // namespace graft
