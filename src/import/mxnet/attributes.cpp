// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/attributes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace graft::mxnet {
namespace {

using frontend::Argument;
using frontend::Arguments;
using frontend::Conversion;

constexpr std::array<std::pair<std::string_view, DType>, 13> kTypes = {{{"float32", DType::kFloat32},
                                                                        {"float64", DType::kFloat64},
                                                                        {"float16", DType::kFloat16},
                                                                        {"bfloat16", DType::kBFloat16},
                                                                        {"uint8", DType::kUint8},
                                                                        {"int8", DType::kInt8},
                                                                        {"int32", DType::kInt32},
                                                                        {"int64", DType::kInt64},
                                                                        {"int16", DType::kInt16},
                                                                        {"uint16", DType::kUint16},
                                                                        {"uint32", DType::kUint32},
                                                                        {"uint64", DType::kUint64},
                                                                        {"bool", DType::kBool}}};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value = {};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// `3, 3`, without its brackets; a comma may end it.
Arguments parse_tuple(std::string_view text, int depth) {
  Arguments elements;
  while (!trimmed(text).empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    elements.push_back(parse_attribute(text.substr(0, comma), depth + 1));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return elements;
}

[[noreturn]] void refuse(const Conversion& c, std::string_view name, std::string_view kind) {
  const auto* text = std::get_if<std::string>(&c.argument(name).is);
  c.refuse(fmt::format("its attribute '{}'{} is no {}", name, text ? " (" + *text + ")" : "", kind));
}

/// As given, or the signature's default.
Argument attribute(const Conversion& c, std::string_view name) {
  const Argument& argument = c.argument(name);
  const auto* text = std::get_if<std::string>(&argument.is);
  return text ? parse_attribute(*text) : argument;
}

std::optional<int64_t> as_integer(const Argument& argument) {
  if (const auto* integer = std::get_if<int64_t>(&argument.is)) return *integer;
  if (const auto* flag = std::get_if<bool>(&argument.is)) return *flag;
  return std::nullopt;
}

std::optional<double> as_real(const Argument& argument) {
  if (const auto* real = std::get_if<double>(&argument.is)) return *real;
  const auto integer = as_integer(argument);
  return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
}

}  // namespace

Argument parse_attribute(std::string_view text, int depth) {
  text = trimmed(text);
  if (text == "None") return {};
  if (text == "True" || text == "False") return text == "True";
  constexpr int kDeepest = 16;
  const bool bracketed = text.size() >= 2 && ((text.front() == '(' && text.back() == ')') ||
                                              (text.front() == '[' && text.back() == ']'));
  if (bracketed && depth < kDeepest) return parse_tuple(text.substr(1, text.size() - 2), depth);
  if (const auto integer = number<int64_t>(text)) return *integer;
  if (const auto real = number<double>(text)) return *real;
  return std::string(text);
}

bool given(const Conversion& c, std::string_view name) {
  const Argument argument = attribute(c, name);
  const auto* list = std::get_if<Arguments>(&argument.is);
  return !argument.is_none() && !(list && list->empty());
}

int64_t integer(const Conversion& c, std::string_view name) {
  const auto value = as_integer(attribute(c, name));
  if (!value) refuse(c, name, "integer");
  return *value;
}

double real(const Conversion& c, std::string_view name) {
  const auto value = as_real(attribute(c, name));
  if (!value) refuse(c, name, "number");
  return *value;
}

bool flag(const Conversion& c, std::string_view name) {
  const Argument argument = attribute(c, name);
  if (argument.is_none()) return false;
  const auto value = as_integer(argument);
  if (!value) refuse(c, name, "truth value");
  return *value != 0;
}

std::string word(const Conversion& c, std::string_view name) {
  const Argument argument = attribute(c, name);
  if (argument.is_none()) return "";
  const auto* text = std::get_if<std::string>(&argument.is);
  if (!text) refuse(c, name, "word");
  return *text;
}

DType type(const Conversion& c, std::string_view name) {
  const std::string text = word(c, name);
  const auto found = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& row) { return row.first == text; });
  if (found == kTypes.end()) refuse(c, name, "element type");
  return found->second;
}

std::vector<double> reals(const Conversion& c, std::string_view name) {
  const Argument argument = attribute(c, name);
  const auto* list = std::get_if<Arguments>(&argument.is);
  std::vector<double> elements;
  for (const Argument& each : list ? *list : Arguments{argument}) {
    const auto value = as_real(each);
    if (!value) refuse(c, name, "tuple of numbers");
    elements.push_back(*value);
  }
  return elements;
}

std::vector<std::optional<int64_t>> some_integers(const Conversion& c, std::string_view name) {
  const Argument argument = attribute(c, name);
  if (argument.is_none()) return {};
  std::vector<std::optional<int64_t>> elements;
  if (const auto* list = std::get_if<Arguments>(&argument.is)) {
    for (const Argument& each : *list) {
      elements.push_back(as_integer(each));
      if (!elements.back() && !each.is_none()) refuse(c, name, "tuple of integers");
    }
    return elements;
  }
  const auto single = as_integer(argument);
  if (!single) refuse(c, name, "tuple of integers");
  return {single};
}

std::vector<int64_t> integers(const Conversion& c, std::string_view name) {
  std::vector<int64_t> elements;
  for (const auto& element : some_integers(c, name)) {
    if (!element) refuse(c, name, "tuple of integers");
    elements.push_back(*element);
  }
  return elements;
}

std::vector<int64_t> per_axis(const Conversion& c, std::string_view name, size_t count, int64_t otherwise) {
  std::vector<int64_t> elements = integers(c, name);
  if (elements.empty()) elements.assign(count, otherwise);
  if (elements.size() != count) {
    c.refuse(fmt::format("its attribute '{}' has {} elements for {} axes", name, elements.size(), count));
  }
  return elements;
}

void check_layout(const Conversion& c) {
  const std::string layout = word(c, "layout");
  if (!layout.empty() && !layout.starts_with("NC")) c.refuse(fmt::format("the layout {}", layout));
}

}  // namespace graft::mxnet
