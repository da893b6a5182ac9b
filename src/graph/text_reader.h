// SPDX-License-Identifier: Apache-2.0
// The lexical part of reading the graph's text form: tokens out of bytes that nobody vouches for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/size.h"

namespace graft {

/// Walks over the text. Every failure is an invalid_model error that names the line.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  /// The next character after white space and `// comments`; 0 at the end.
  char peek();
  bool at_end() { return peek() == 0; }
  /// Takes `symbol` when it comes next.
  bool accept(std::string_view symbol);
  void expect(std::string_view symbol);
  /// Takes `word` when it comes next and no bare character follows.
  bool accept_word(std::string_view word);
  /// A run of bare characters; empty when none comes.
  std::string_view word();
  /// A bare name or a quoted text.
  std::string name(std::string_view what);
  std::string quoted(std::string_view what);
  int64_t integer(std::string_view what);
  /// The characters of a number, up to a delimiter.
  std::string_view number();
  /// The text of one size of a list: up to the comma or bracket behind it.
  std::string_view size_text();
  /// `[a, 2*b]`
  Shape sizes();
  [[noreturn]] void fail(const std::string& message) const;

 private:
  Size size(std::string_view text) const;
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace graft
