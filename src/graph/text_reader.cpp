// SPDX-License-Identifier: Apache-2.0
#include "graph/text_reader.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "expr/text.h"
#include "graph/text_form.h"

namespace graft {
namespace {

constexpr size_t kMostSizes = 1024;  // elements of a shape or of known contents

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void TextReader::fail(const std::string& message) const {
  const auto line = std::count(text_.begin(), text_.begin() + static_cast<int64_t>(at_), '\n') + 1;
  throw Error(ErrorKind::kInvalidModel, message, fmt::format("graph text, line {}", line));
}

char TextReader::peek() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return c;
    }
  }
  return 0;
}

bool TextReader::accept(std::string_view symbol) {
  peek();
  if (text_.substr(at_, symbol.size()) != symbol) return false;
  at_ += symbol.size();
  return true;
}

void TextReader::expect(std::string_view symbol) {
  if (accept(symbol)) return;
  const std::string_view found = text_.substr(std::min(at_, text_.size()), 12);
  fail(fmt::format("'{}' is expected before {}", symbol, quote(found)));
}

bool TextReader::accept_word(std::string_view wanted) {
  const size_t before = at_;
  if (word() == wanted) return true;
  at_ = before;
  return false;
}

std::string_view TextReader::word() {
  peek();
  const size_t begin = at_;
  while (at_ < text_.size() && is_bare_character(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string TextReader::name(std::string_view what) {
  if (peek() == '"') return quoted(what);
  const std::string_view bare = word();
  if (bare.empty()) fail(fmt::format("{} is expected", what));
  return std::string(bare);
}

std::string TextReader::quoted(std::string_view what) {
  if (!accept("\"")) fail(fmt::format("{} in quotes is expected", what));
  std::string result;
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c == '\\') {
      c = at_ < text_.size() ? text_[at_++] : '\0';
      if (c == 'n') {
        c = '\n';
      } else if (c == 'x') {
        const int high = at_ < text_.size() ? hex_digit(text_[at_++]) : -1;
        const int low = at_ < text_.size() ? hex_digit(text_[at_++]) : -1;
        if (high < 0 || low < 0) fail("'\\x' is followed by two hexadecimal digits");
        c = static_cast<char>(high * 16 + low);
      } else if (c != '"' && c != '\\') {
        fail("after a backslash comes one of n, x, a quote or a backslash");
      }
    }
    result += c;
  }
  if (at_ == text_.size()) fail("a quoted text has no end");
  ++at_;
  return result;
}

int64_t TextReader::integer(std::string_view what) {
  const std::string_view digits = number();
  int64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size()) {
    fail(fmt::format("{} is expected as an integer, got {}", what, quote(digits.substr(0, 40))));
  }
  return value;
}

std::string_view TextReader::number() {
  peek();
  const size_t begin = at_;
  while (at_ < text_.size() && (is_bare_character(text_[at_]) || text_[at_] == '+')) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string_view TextReader::size_text() {
  peek();
  const size_t begin = at_;
  int open = 0;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (open == 0 && (c == ',' || c == ']')) break;
    open += c == '(' ? 1 : c == ')' ? -1 : 0;
  }
  return text_.substr(begin, at_ - begin);
}

Size TextReader::size(std::string_view text) const {
  if (text.size() > kLongestSizeText) fail("a size is too long");
  // The canonical form is a sum of products: parentheses only follow the name of a function. Products of sums would
  // let a short text grow without bound.
  char before = ' ';
  for (const char c : text) {
    if (c == '(' && !is_bare_character(before)) fail("a size is written as a sum of products");
    before = c;
  }
  try {
    return parse_size(text);
  } catch (const Error& error) {
    fail(error.message());
  }
}

Shape TextReader::sizes() {
  expect("[");
  const size_t close = text_.find(']', at_);
  if (close == text_.npos) fail("a list of sizes has no end");
  const std::string_view list = text_.substr(at_, close - at_);
  Shape shape;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '(') ++depth;
    if (i < list.size() && list[i] == ')') --depth;
    if (i < list.size() && (list[i] != ',' || depth != 0)) continue;
    const std::string_view item = list.substr(begin, i - begin);
    begin = i + 1;
    if (item.find_first_not_of(' ') == item.npos && shape.empty() && i == list.size()) break;
    shape.push_back(size(item));
    if (shape.size() > kMostSizes) fail("a list of sizes is too long");
  }
  at_ = close + 1;
  return shape;
}

}  // namespace graft
