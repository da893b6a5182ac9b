// SPDX-License-Identifier: Apache-2.0
// The one place that parses JSON of others.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace graft {

/// How deep lists and objects nest: what copies, prints and reads a document calls itself for each level.
inline constexpr int kDeepestJson = 256;

/// Whether lists and objects nest deeper than `most`, in linear time.
inline bool is_nested_deeper(std::string_view text, int most) {
  int depth = 0;
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c == '\\') ++at;
      quoted = c != '"';
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    } else {
      quoted = c == '"';
    }
  }
  return false;
}

/// The document; throws Error{kind} naming `where` for text that is no JSON, or is nested too deep.
template <class Document = nlohmann::json>
Document parse_json(std::string_view text, ErrorKind kind, const std::string& where) {
  if (is_nested_deeper(text, kDeepestJson)) {
    throw Error(kind, "its JSON is nested more than " + std::to_string(kDeepestJson) + " deep", where);
  }
  try {
    return Document::parse(text);
  } catch (const nlohmann::json::exception& fault) {
    throw Error(kind, std::string("it is no JSON: ") + fault.what(), where);
  }
}

}  // namespace graft
