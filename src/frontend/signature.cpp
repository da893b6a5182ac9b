// SPDX-License-Identifier: Apache-2.0
#include "frontend/signature.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::frontend {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// The texts between commas that stand outside of brackets and quotes.
std::vector<std::string_view> split_outside(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  int depth = 0;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == quote) quote = 0;
      continue;
    }
    if (c == '"' || c == '\'') quote = c;
    depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    if (c != ',' || depth > 0) continue;
    parts.push_back(trimmed(text.substr(start, i - start)));
    start = i + 1;
  }
  if (!trimmed(text.substr(start)).empty()) parts.push_back(trimmed(text.substr(start)));
  return parts;
}

template <class T>
bool parse_number(std::string_view text, T& number) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && end == text.data() + text.size();
}

/// A literal as Python and torch's schemas write it.
Argument parse_literal(std::string_view text) {
  if (text == "None") return {};
  if (text == "True" || text == "False") return text == "True";
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front()) {
    return std::string(text.substr(1, text.size() - 2));
  }
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    Arguments list;
    for (const std::string_view each : split_outside(text.substr(1, text.size() - 2))) {
      list.push_back(parse_literal(each));
    }
    return list;
  }
  int64_t integer = 0;
  if (parse_number(text, integer)) return integer;
  double real = 0;
  if (parse_number(text, real)) return real;
  return std::string(text);  // a name of an enumeration, such as Mean
}

/// `T:4` is the type T, with four axes.
void read_rank(Parameter& parameter) {
  const size_t colon = parameter.type.find(':');
  int rank = 0;
  if (colon == std::string::npos || !parse_number(std::string_view(parameter.type).substr(colon + 1), rank)) return;
  parameter.rank = rank;
  parameter.type.resize(colon);
}

/// The number of results of ` -> (Tensor, Tensor)`, if anything is stated.
std::optional<size_t> count_results(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with("->")) return std::nullopt;
  text = trimmed(text.substr(2));
  if (text.starts_with('(') && text.ends_with(')')) return split_outside(text.substr(1, text.size() - 2)).size();
  return text.empty() ? std::nullopt : std::optional<size_t>(1);
}

}  // namespace

Signature Signature::parse(std::string_view text) {
  const size_t open = text.find('(');
  size_t close = std::string_view::npos;
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    depth += (text[i] == '(') - (text[i] == ')');
    if (depth > 0) continue;
    close = i;
    break;
  }
  GRAFT_CHECK(open != std::string_view::npos && open > 0 && close != std::string_view::npos,
              fmt::format("'{}' is no signature: name(argument, argument=default)", text));
  Signature signature{.op = std::string(trimmed(text.substr(0, open))), .parameters = {}, .results = {}};
  for (std::string_view part : split_outside(text.substr(open + 1, close - open - 1))) {
    if (part == "*") continue;
    Parameter parameter;
    const size_t equals = part.find('=');
    if (equals != std::string_view::npos) {
      parameter.has_default = true;
      parameter.default_value = parse_literal(trimmed(part.substr(equals + 1)));
      part = trimmed(part.substr(0, equals));
    }
    const size_t blank = part.rfind(' ');
    parameter.name = std::string(blank == std::string_view::npos ? part : part.substr(blank + 1));
    if (blank != std::string_view::npos) parameter.type = std::string(trimmed(part.substr(0, blank)));
    read_rank(parameter);
    signature.parameters.push_back(std::move(parameter));
  }
  signature.results = count_results(text.substr(close + 1));
  return signature;
}

}  // namespace graft::frontend
