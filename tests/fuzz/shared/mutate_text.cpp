// SPDX-License-Identifier: Apache-2.0
#include "shared/mutate_text.h"

#include <cctype>
#include <charconv>
#include <iterator>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace graft::fuzz {
namespace {

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

template <class Container>
size_t draw_index(const Container& items, Random& random) {
  return static_cast<size_t>(random.integer(0, static_cast<int64_t>(items.size()) - 1));
}

/// A word of that kind in the text, or "".
std::string draw_word(const std::string& text, WordKind kind, Random& random) {
  std::vector<Word> fitting;
  for (const Word& word : words_of(text)) {
    if (word.kind == kind) fitting.push_back(word);
  }
  if (fitting.empty()) return "";
  const Word word = fitting[draw_index(fitting, random)];
  return text.substr(word.begin, word.length);
}

/// A line is removed, doubled, moved, or comes from the donor.
std::string mutate_lines(const std::string& text, const std::string& donor, Random& random) {
  std::vector<std::string> lines = lines_of(text);
  if (lines.empty()) return donor;
  const auto at = lines.begin() + static_cast<std::ptrdiff_t>(draw_index(lines, random));
  const auto other = lines.begin() + static_cast<std::ptrdiff_t>(draw_index(lines, random));
  const int64_t kind = random.integer(0, 3);
  if (kind == 0) {
    lines.erase(at);
  } else if (kind == 1) {
    const std::string line = *at;
    lines.insert(other, line);
  } else if (kind == 2) {
    std::swap(*at, *other);
  } else {
    const std::vector<std::string> given = lines_of(donor);
    if (!given.empty()) lines.insert(at, given[draw_index(given, random)]);
  }
  std::string changed;
  for (const std::string& line : lines) changed += line;
  return changed;
}

/// A few bytes are changed as libFuzzer does.
std::string mutate_bytes(std::string text, Random& random) {
  const size_t begin = text.empty() ? 0 : draw_index(text, random);
  const size_t length = std::min<size_t>(text.size() - begin, 16);
  std::string part = text.substr(begin, length);
  part.resize(length + 16);
  part.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(part.data()), length, part.size()));
  return text.replace(begin, length, part);
}

}  // namespace

std::vector<Word> words_of(std::string_view text) {
  std::vector<Word> words;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    size_t end = at + 1;
    WordKind kind = WordKind::kMark;
    const bool number = is_digit(c) || (c == '-' && end < text.size() && is_digit(text[end]));
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++at;
      continue;
    }
    if (c == '"') {
      kind = WordKind::kString;
      while (end < text.size() && text[end] != '"' && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (number) {
      kind = WordKind::kNumber;
      while (end < text.size() && (is_letter(text[end]) || text[end] == '.')) ++end;
    } else if (c == '%' || is_letter(c)) {
      kind = c == '%' ? WordKind::kName : WordKind::kWord;
      while (end < text.size() && is_letter(text[end])) ++end;
    }
    words.push_back({kind, at, end - at});
    at = end;
  }
  return words;
}

std::string odd_number(std::string_view number, Random& random) {
  constexpr int64_t kOdd[] = {0,         1,         -1,        2,         3,         4,         7,          8,
                              16,        63,        64,        65,        255,       4096,      1 << 20,    INT32_MAX,
                              INT32_MIN, 1ll << 31, 1ll << 32, 1ll << 40, 1ll << 53, 1ll << 62, INT64_MAX, INT64_MIN};
  int64_t value = 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  const auto near = static_cast<uint64_t>(value);
  switch (random.integer(0, 5)) {
    case 0:
      return std::to_string(static_cast<int64_t>(near + 1));
    case 1:
      return std::to_string(static_cast<int64_t>(near - 1));
    case 2:
      return std::to_string(static_cast<int64_t>(near * 2));
    case 3:
      return std::to_string(random.integer(0, 12));
    default:
      return std::to_string(kOdd[random.integer(0, std::size(kOdd) - 1)]);
  }
}

std::string mutate_text(std::string text, const std::string& donor, Random& random) {
  const int64_t kind = random.integer(0, 11);
  const std::vector<Word> words = words_of(text);
  if (kind == 0) return mutate_bytes(std::move(text), random);
  if (kind <= 3 || words.empty()) return mutate_lines(text, donor, random);
  const Word word = words[draw_index(words, random)];
  const std::string_view old = std::string_view(text).substr(word.begin, word.length);
  std::string fresh;
  if (kind == 4) {
    fresh = "";
  } else if (kind == 5) {
    fresh = std::string(old) + " " + draw_word(donor, static_cast<WordKind>(random.integer(0, 4)), random);
  } else if (word.kind == WordKind::kNumber && random.chance(0.7)) {
    fresh = odd_number(old, random);
  } else {
    fresh = draw_word(random.chance(0.6) ? text : donor, word.kind, random);
  }
  return text.replace(word.begin, word.length, fresh);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const size_t length = end == text.npos ? text.size() : end + 1;
    lines.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

}  // namespace graft::fuzz
