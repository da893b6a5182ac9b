// SPDX-License-Identifier: Apache-2.0
// Changes to texts that mostly leave them texts of their kind: words in the place of words, numbers of numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace graft::fuzz {

/// What a stretch of text is. Stretches that are neither keep no place of their own.
enum class WordKind : uint8_t { kName, kNumber, kWord, kString, kMark };

/// A stretch of a text: `%x`, `-12.5`, `MatMul`, `"first"`, `,`.
struct Word {
  WordKind kind = WordKind::kMark;
  size_t begin = 0, length = 0;
};
/// The words of a text in their order; spaces and line breaks lie between them.
std::vector<Word> words_of(std::string_view text);

/// A number that programs get wrong, or one near `number`.
std::string odd_number(std::string_view number, Random& random);

/// The text with one change. Words that it did not have come from `donor`, a text of the same kind.
std::string mutate_text(std::string text, const std::string& donor, Random& random);

/// The text with its lines, each with the line break.
std::vector<std::string> lines_of(std::string_view text);

}  // namespace graft::fuzz
