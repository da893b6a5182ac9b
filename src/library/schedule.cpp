// SPDX-License-Identifier: Apache-2.0
#include "library/schedule.h"

#include <fmt/format.h>

#include "base/error.h"
#include "expr/text.h"
#include "library/libraries.h"

namespace graft {
namespace {

constexpr int64_t kMostPieces = 64, kMostChoices = 255;

bool is_of_gpu(std::string_view library) {
  const LibraryInfo* known = find_library(library);
  return known && known->target == TargetKind::kCuda;
}

int64_t read_field(Lexer& lexer, std::string_view name, int64_t low, int64_t high) {
  lexer.expect(name);
  lexer.expect("=");
  const int64_t value = lexer.integer(name);
  if (value < low || value > high) lexer.fail(fmt::format("{}={} is not in {}..{}", name, value, low, high));
  return value;
}

}  // namespace

std::string print(const LibrarySchedule& schedule) {
  if (is_of_gpu(schedule.library)) {
    return fmt::format("{} choice={} panel={}", schedule.library, schedule.choice, schedule.panel);
  }
  return fmt::format("{} cut={} pieces={} panel={}", schedule.library,
                     schedule.cut == LibraryCut::kRows ? "rows" : "columns", schedule.pieces, schedule.panel);
}

LibrarySchedule parse_library_schedule(std::string_view text) {
  Lexer lexer(text, "library schedule");
  LibrarySchedule schedule;
  schedule.library = lexer.name("a library");
  if (!find_library(schedule.library)) lexer.fail(fmt::format("there is no library '{}'", schedule.library));
  if (is_of_gpu(schedule.library)) {
    schedule.choice = read_field(lexer, "choice", 0, kMostChoices);
    schedule.panel = read_field(lexer, "panel", 0, 1);
  } else {
    lexer.expect("cut");
    lexer.expect("=");
    if (!lexer.accept("rows")) {
      lexer.expect("columns");
      schedule.cut = LibraryCut::kColumns;
    }
    schedule.pieces = read_field(lexer, "pieces", 1, kMostPieces);
    schedule.panel = read_field(lexer, "panel", 0, 64);
    if (schedule.panel % 8 != 0) lexer.fail(fmt::format("panel={} is no multiple of 8", schedule.panel));
  }
  if (!lexer.at_end()) lexer.fail("unknown field");
  return schedule;
}

}  // namespace graft
