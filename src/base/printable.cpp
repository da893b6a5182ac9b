// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace graft {
namespace {

struct Interval {
  char32_t first, last;
};

/// Characters of Unicode 15 that do not show as themselves.
constexpr Interval kHidden[] = {
    {0x00, 0x1F},       // C0: line breaks, the escape that starts sequences of terminals
    {0x7F, 0x9F},       // DEL and C1, which some terminals take for such sequences too
    {0x061C, 0x061C},   // Arabic letter mark
    {0x200B, 0x200F},   // without width; marks of direction
    {0x2028, 0x202E},   // separators of lines and paragraphs; embeddings and overrides of direction
    {0x2060, 0x206F},   // without width; isolates of direction
    {0xFEFF, 0xFEFF},   // byte order mark
    {0xFFF9, 0xFFFB},   // annotations between the lines
    {0xE0000, 0xE007F}  // tags
};

/// Length that the first byte of a UTF-8 sequence announces; 0 when no sequence starts so.
size_t announced_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

std::string escape(std::string_view sequence, const CodePoint& character) {
  if (!character.valid) return fmt::format("\\x{:02x}", static_cast<unsigned char>(sequence[0]));
  if (character.value == '\n') return "\\n";
  if (character.value == '\t') return "\\t";
  if (character.value < 0x80) return fmt::format("\\x{:02x}", static_cast<unsigned>(character.value));
  const auto number = static_cast<unsigned>(character.value);
  return number > 0xFFFF ? fmt::format("\\U{:08x}", number) : fmt::format("\\u{:04x}", number);
}

std::string escape_hidden(std::string_view text, bool keep_line_breaks) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const CodePoint character = first_character(text);
    const bool kept = character.valid && (is_shown(character.value) || (keep_line_breaks && character.value == '\n'));
    const std::string_view sequence = text.substr(0, character.bytes);
    shown += kept ? std::string(sequence) : escape(sequence, character);
    text.remove_prefix(character.bytes);
  }
  return shown;
}

}  // namespace

CodePoint first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = announced_length(byte(0));
  if (length == 0 || length > text.size()) return {.value = byte(0)};
  if (length == 1) return {.value = byte(0), .bytes = 1, .valid = true};
  char32_t value = byte(0) & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {.value = byte(0)};
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[length] || value > 0x10FFFF || surrogate) return {.value = byte(0)};
  return {.value = value, .bytes = length, .valid = true};
}

bool is_shown(char32_t character) {
  return std::none_of(std::begin(kHidden), std::end(kHidden), [&](const Interval& hidden) {
    return hidden.first <= character && character <= hidden.last;
  });
}

std::string printable(std::string_view text) { return escape_hidden(text, false); }
std::string printable_lines(std::string_view text) { return escape_hidden(text, true); }

}  // namespace graft
