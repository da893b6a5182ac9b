// SPDX-License-Identifier: Apache-2.0
#include "kernels/cast_strings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/printable.h"
#include "kernels/host_kernel.h"

namespace graft {
namespace {

using Inputs = std::span<const DynamicValue>;
using Values = std::vector<DynamicValue>;

[[noreturn]] void refuse_text(std::string_view text, DType type) {
  refuse_input(fmt::format("\"{}\" is no {}", printable(std::string(text.substr(0, 40))), name_of(type)));
}

/// Without white space at both ends, in lower case.
std::string plain(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  text.remove_prefix(begin);
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

double parse_real(std::string_view text, DType type) {
  std::string number = plain(text);
  if (number == "nan" || number == "+nan" || number == "-nan") return std::numeric_limits<double>::quiet_NaN();
  if (number.starts_with('+')) number.erase(0, 1);
  const bool negative = number.starts_with('-');
  const std::string_view magnitude = std::string_view(number).substr(negative ? 1 : 0);
  if (magnitude == "inf" || magnitude == "infinity") {
    return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  double value = 0;
  const char* end = number.data() + number.size();
  const auto [stopped, code] = std::from_chars(number.data(), end, value);
  if (code == std::errc::result_out_of_range) {
    // Too large or too small: what the exponent's sign says.
    const size_t exponent = number.find('e');
    const bool tiny = exponent != number.npos && exponent + 1 < number.size() && number[exponent + 1] == '-';
    value = tiny ? 0 : std::numeric_limits<double>::infinity();
    return negative ? -value : value;
  }
  if (code != std::errc() || stopped != end || number.empty()) refuse_text(text, type);
  return value;
}

template <class T>
T parse_whole(std::string_view text, DType type) {
  std::string number = plain(text);
  if (number.starts_with('+')) number.erase(0, 1);
  T value = 0;
  const char* end = number.data() + number.size();
  const auto [stopped, code] = std::from_chars(number.data(), end, value);
  if (code != std::errc() || stopped != end || number.empty()) refuse_text(text, type);
  return value;
}

void parse_element(std::string_view text, TensorData& to, int64_t at) {
  const DType type = to.type();
  if (type == DType::kBool) {
    const std::string word = plain(text);
    if (word != "true" && word != "false" && word != "1" && word != "0") refuse_text(text, type);
    to.write_integer(at, word == "true" || word == "1");
  } else if (is_float(type)) {
    to.write_double(at, parse_real(text, type));
  } else if (type == DType::kUint64) {
    to.write_integer(at, static_cast<int64_t>(parse_whole<uint64_t>(text, type)));
  } else {
    const auto value = parse_whole<int64_t>(text, type);
    const int bits = bit_width(type) - (is_unsigned(type) ? 0 : 1);
    const int64_t high = bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
    const int64_t low = is_unsigned(type) ? 0 : -high - 1;
    if (value < low || value > high) refuse_text(text, type);
    to.write_integer(at, value);
  }
}

std::string spell_element(const TensorData& from, int64_t at) {
  const DType type = from.type();
  if (type == DType::kUint64) return std::to_string(static_cast<uint64_t>(from.read_integer(at)));
  if (!is_float(type)) return std::to_string(from.read_integer(at));
  const double value = from.read_double(at);
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-INF" : "INF";
  return type == DType::kFloat64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}

}  // namespace

TensorData cast_strings(const TensorData& from, DType type) {
  TensorData to = TensorData::zeros(type, from.shape());
  if (type == from.type()) return from;
  if (type != DType::kString && from.type() != DType::kString) refuse_input("neither of its types is str");
  TextMeter meter;
  for (int64_t i = 0; i < from.element_count(); ++i) {
    meter.take(0);
    if (type == DType::kString) {
      to.mutable_strings()[static_cast<size_t>(i)] = spell_element(from, i);
    } else {
      parse_element(from.strings()[static_cast<size_t>(i)], to, i);
    }
  }
  return to;
}

HostKernel make_cast_kernel(const Node& node) {
  const auto type = dtype_from_onnx(static_cast<int>(KernelAttributes(node).integer("to", 0)));
  if (!type) refuse_input("its attribute 'to' is no element type");
  return [type](Inputs inputs) { return Values{cast_strings(tensor_input(inputs, 0), *type)}; };
}

HostKernel make_cast_like_kernel(const Node&) {
  return [](Inputs inputs) { return Values{cast_strings(tensor_input(inputs, 0), tensor_input(inputs, 1).type())}; };
}

}  // namespace graft
