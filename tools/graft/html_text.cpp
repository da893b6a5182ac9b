// SPDX-License-Identifier: Apache-2.0
#include "html_text.h"

#include "base/printable.h"

namespace graft {

using nlohmann::json;

std::string safe(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += c;
    }
  }
  return result;
}

std::string shortened(std::string_view text, size_t characters) {
  std::string kept;
  for (std::string_view rest = text; !rest.empty();) {
    if (characters-- == 1) {
      const size_t last = first_character(rest).bytes;
      return kept + (last == rest.size() ? std::string(rest) : "…");
    }
    const size_t bytes = first_character(rest).bytes;
    kept += rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }
  return kept;
}

std::string text_at(const json& object, const char* key) { return object.at(key).get<std::string>(); }

double number_at(const json& object, const char* key) {
  return object.at(key).is_number() ? object.at(key).get<double>() : -1;
}

std::string joined(const json& texts, const char* separator) {
  std::string result;
  for (const json& text : texts) result += (result.empty() ? "" : separator) + text.get<std::string>();
  return result;
}

}  // namespace graft
