// SPDX-License-Identifier: Apache-2.0
#include "base/words.h"

#include <algorithm>

namespace graft {

std::vector<std::string> words_of(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (comma > 0) words.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return words;
}

}  // namespace graft
