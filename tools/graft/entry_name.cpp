// SPDX-License-Identifier: Apache-2.0
#include "entry_name.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "base/printable.h"

namespace graft {
namespace {

std::string escaped(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
  return text;
}

/// One part of a path, whose slashes are not in it.
std::string safe_part(std::string_view part) {
  if (part == "." || part == "..") return escaped(part);
  std::string text;
  while (!part.empty()) {
    const CodePoint character = first_character(part);
    const std::string_view bytes = part.substr(0, character.bytes);
    part.remove_prefix(character.bytes);
    const bool safe = character.valid && is_shown(character.value) && bytes != "%" && bytes != "\\";
    text += safe ? std::string(bytes) : escaped(bytes);
  }
  return text;
}

/// `C:` starts a path on a drive of its own.
bool starts_with_drive(std::string_view text) {
  return text.size() >= 2 && std::isalpha(static_cast<unsigned char>(text[0])) && text[1] == ':';
}

}  // namespace

std::string entry_name(std::string_view name) {
  std::string text;
  for (size_t begin = 0;;) {
    const size_t end = std::min(name.find('/', begin), name.size());
    text += safe_part(name.substr(begin, end - begin));
    if (end == name.size()) break;
    // A slash separates two parts that are there; any other is a character like the rest.
    const bool separates = end > begin && end + 1 < name.size() && name[end + 1] != '/';
    text += separates ? "/" : escaped("/");
    begin = end + 1;
  }
  return starts_with_drive(text) ? text.substr(0, 1) + escaped(":") + text.substr(2) : text;
}

std::string name_of_entry(std::string_view entry) {
  std::string name;
  for (size_t at = 0; at < entry.size();) {
    unsigned value = 0;
    const char* digits = entry.data() + at + 1;
    const bool code = entry[at] == '%' && at + 2 < entry.size() &&
                      std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2;
    name += code ? static_cast<char>(value) : entry[at];
    at += code ? 3 : 1;
  }
  return entry_name(name) == entry ? name : std::string(entry);
}

}  // namespace graft
