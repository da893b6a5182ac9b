// SPDX-License-Identifier: Apache-2.0
#include "graph/text_form.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/printable.h"

namespace graft {
namespace {

/// The shortest digits that give `value` back; f32 and narrower types need those of a float only.
std::string shortest(double value, bool single) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return single ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
}

std::string float_text(const TensorData& tensor, int64_t index) {
  const double value = tensor.read_double(index);
  const DType type = tensor.type();
  TensorData again = TensorData::zeros(type, {1});
  again.write_double(0, value);
  const uint64_t bits = element_bits(tensor, index);
  if (element_bits(again, 0) != bits) return fmt::format("bits 0x{:x}", bits);
  return shortest(value, bit_width(type) <= 32);
}

std::string complex_text(const TensorData& tensor, int64_t index) {
  if (tensor.type() == DType::kComplex64) {
    const auto parts = tensor.as<float>();
    return fmt::format("({}, {})", shortest(parts[2 * index], true), shortest(parts[2 * index + 1], true));
  }
  const auto parts = tensor.as<double>();
  return fmt::format("({}, {})", shortest(parts[2 * index], false), shortest(parts[2 * index + 1], false));
}

}  // namespace

std::string quote(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const CodePoint character = first_character(text);
    const std::string_view bytes = text.substr(0, character.bytes);
    text.remove_prefix(character.bytes);
    if (bytes == "\"" || bytes == "\\") {
      result += '\\';
      result += bytes;
    } else if (bytes == "\n") {
      result += "\\n";
    } else if (character.valid && is_shown(character.value)) {
      result += bytes;
    } else {
      for (const char byte : bytes) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
  }
  return result + '"';
}

std::string bare_or_quoted(std::string_view name) {
  const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), is_bare_character);
  // A lone underscore stands for a value that is left out.
  return bare && name != "_" ? std::string(name) : quote(name);
}

std::string real_text(double value) {
  std::string text = shortest(value, false);
  if (text.find_first_of(".ein") == text.npos) text += ".0";
  return text;
}

std::string element_text(const TensorData& tensor, int64_t index) {
  switch (kind_of(tensor.type())) {
    case DTypeKind::kFloat:
      return float_text(tensor, index);
    case DTypeKind::kComplex:
      return complex_text(tensor, index);
    case DTypeKind::kOpaque:
      return quote(tensor.strings()[index]);
    default:
      break;
  }
  const int64_t value = tensor.read_integer(index);
  if (tensor.type() == DType::kUint64) return fmt::format("{}", static_cast<uint64_t>(value));
  return fmt::format("{}", value);
}

bool is_uniform(const TensorData& tensor) {
  const int width = bit_width(tensor.type());
  const auto bytes = tensor.bytes();
  if (tensor.type() == DType::kString || width < 8 || bytes.empty()) return false;
  const size_t step = static_cast<size_t>(width / 8);
  return std::memcmp(bytes.data(), bytes.data() + step, bytes.size() - step) == 0;
}

Hash128 content_hash(const TensorData& tensor) {
  Hasher hasher;
  hasher.add(static_cast<int64_t>(onnx_code(tensor.type())));
  hasher.add(static_cast<int64_t>(tensor.rank()));
  for (const int64_t extent : tensor.shape()) hasher.add(extent);
  if (tensor.type() == DType::kString) {
    for (const std::string& text : tensor.strings()) hasher.add(text);
  } else {
    hasher.add(tensor.bytes());
  }
  return hasher.finish();
}

uint64_t element_bits(const TensorData& tensor, int64_t index) {
  const int64_t width = bit_width(tensor.type());
  const auto bytes = tensor.bytes();
  uint64_t bits = 0;
  if (width < 8) {
    const int64_t at = index * width;
    return (std::to_integer<uint64_t>(bytes[at / 8]) >> (at % 8)) & ((uint64_t{1} << width) - 1);
  }
  std::memcpy(&bits, bytes.data() + index * (width / 8), static_cast<size_t>(width / 8));
  return bits;
}

void set_element_bits(TensorData& tensor, int64_t index, uint64_t bits) {
  const int64_t width = bit_width(tensor.type());
  const auto bytes = tensor.mutable_bytes();
  if (width < 8) {
    const int64_t at = index * width;
    const uint64_t mask = ((uint64_t{1} << width) - 1) << (at % 8);
    const uint64_t kept = std::to_integer<uint64_t>(bytes[at / 8]) & ~mask;
    bytes[at / 8] = static_cast<std::byte>(kept | ((bits << (at % 8)) & mask));
    return;
  }
  std::memcpy(bytes.data() + index * (width / 8), &bits, static_cast<size_t>(width / 8));
}

}  // namespace graft
