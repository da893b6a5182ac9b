// SPDX-License-Identifier: Apache-2.0
// Words that mean something in the text of a tile program, so that no buffer or variable is printed as one.
#pragma once

#include <algorithm>
#include <string_view>

namespace graft::tile {

inline constexpr std::string_view kReservedWords[] = {
    "program", "threads", "sizes",   "global",     "shared",    "fragment", "strides",    "written",    "grid",
    "body",    "bound",   "stages",  "early",      "for",       "if",       "map",        "ordered",    "where",
    "reduce",  "over",    "state",   "accumulate", "lift",      "identity", "combine",    "into",       "contract",
    "m",       "n",       "k",       "sort",       "positions", "length",   "descending", "sequential", "let",
    "size",    "cast",    "bitcast", "true",       "false",     "inf",      "nan"};

/// t0, t1 ...: the names that shared expressions get.
inline bool is_let_name(std::string_view name) {
  return name.size() > 1 && name[0] == 't' &&
         std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace graft::tile
