// SPDX-License-Identifier: Apache-2.0
#include "graph/symbols.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace graft {
namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Characters that the text of sizes has no place for become `$` and two hexadecimal digits: different names stay so.
std::string escaped(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (is_word_character(c) || c == '.' || c == '/') {
      text += c;
    } else {
      text += fmt::format("${:02x}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

}  // namespace

std::string number_symbol(std::string_view value, int64_t element) {
  return fmt::format("${}:{}", escaped(value), element);
}

std::string count_symbol(std::string_view node, std::string_view what) {
  return fmt::format(":{}:{}", escaped(node), what);
}

bool is_reserved_symbol(std::string_view name) { return name.find_first_of("$:") != name.npos; }

bool is_named(const Size& size) {
  const auto symbol = size.as_symbol();
  return size.is_constant() || (symbol && !is_reserved_symbol(*symbol));
}

std::string reserved_symbol_of(const Shape& shape) {
  std::set<std::string, std::less<>> symbols;
  for (const Size& size : shape) size.collect_symbols(symbols);
  const auto it = std::find_if(symbols.begin(), symbols.end(), is_reserved_symbol);
  return it == symbols.end() ? "" : *it;
}

std::string dimension_symbol(std::string_view name) {
  std::string text;
  for (const char c : name) text += is_word_character(c) ? c : '_';
  const bool function = text == "floor_div" || text == "mod" || text == "min" || text == "max";
  if (text.empty() || (text[0] >= '0' && text[0] <= '9') || function) text.insert(text.begin(), '_');
  return text;
}

}  // namespace graft
