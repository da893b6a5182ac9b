// SPDX-License-Identifier: Apache-2.0
// What the parts of the page of `graft inspect --html` are written with.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace graft {

/// A text as HTML has it; names come from files.
std::string safe(std::string_view text);

/// A text in so many characters at the most, the last one an ellipsis where it was longer.
std::string shortened(std::string_view text, size_t characters);

/// Members of the report.
std::string text_at(const nlohmann::json& object, const char* key);
/// A number, or -1 where it is not known.
double number_at(const nlohmann::json& object, const char* key);
/// Texts with a separator between them.
std::string joined(const nlohmann::json& texts, const char* separator);

}  // namespace graft
