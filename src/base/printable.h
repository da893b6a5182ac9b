// SPDX-License-Identifier: Apache-2.0
// Text that came from a file or a caller, in the form in which it may be shown. A name may hold anything: sequences
// that drive a terminal, line breaks that forge lines of ours, marks that turn the direction of writing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace graft {

/// The character at the start of a text.
struct CodePoint {
  char32_t value = 0;
  size_t bytes = 1;    ///< of its UTF-8 sequence; 1 when there is none
  bool valid = false;  ///< false: the first byte starts no UTF-8 sequence
};
/// Reads it; the text is not empty.
CodePoint first_character(std::string_view text);

/// Whether a character shows as itself: false for control characters (C0, DEL, C1), separators of lines, marks of
/// direction and characters without width.
bool is_shown(char32_t character);

/// The text in one line: characters that would not show become `\n`, `\t`, `\x1b` or `\u202e`, bytes that are no UTF-8
/// `\xff`. A printable text stays as it is, so a text may pass twice.
std::string printable(std::string_view text);
/// The same, where line breaks are our own and stay.
std::string printable_lines(std::string_view text);

}  // namespace graft
