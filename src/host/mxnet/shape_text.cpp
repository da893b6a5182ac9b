// SPDX-License-Identifier: Apache-2.0
#include "shape_text.h"

#include <algorithm>
#include <charconv>

namespace graft::extension {

Sizes read_sizes(const std::string& text) {
  Sizes numbers;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    int64_t number = 0;
    const auto [stop, fault] = std::from_chars(at, end, number);
    if (fault == std::errc()) numbers.push_back(number);
    at = fault == std::errc() ? stop : at + 1;
  }
  return numbers;
}

std::vector<std::optional<Sizes>> read_shapes(const std::string& text) {
  std::vector<std::optional<Sizes>> shapes;
  for (size_t at = 1; at < text.size(); ++at) {
    if (text[at] == 'N') {  // None
      shapes.emplace_back();
    } else if (text[at] == '[') {
      const size_t end = std::min(text.find(']', at), text.size());
      const Sizes sizes = read_sizes(text.substr(at, end - at));
      const bool known = std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 0; });
      shapes.push_back(known ? std::optional(sizes) : std::nullopt);
      at = end;
    }
  }
  return shapes;
}

}  // namespace graft::extension
