// SPDX-License-Identifier: Apache-2.0
#include "npy.h"

#include <charconv>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace graft {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// numpy's spelling of an element type; the byte order is left out.
struct TypeCode {
  std::string_view code;
  DType type;
};
constexpr TypeCode kTypeCodes[] = {
    {"f4", DType::kFloat32}, {"f8", DType::kFloat64}, {"f2", DType::kFloat16}, {"b1", DType::kBool},
    {"i1", DType::kInt8},    {"i2", DType::kInt16},   {"i4", DType::kInt32},   {"i8", DType::kInt64},
    {"u1", DType::kUint8},   {"u2", DType::kUint16},  {"u4", DType::kUint32},  {"u8", DType::kUint64},
    {"c8", DType::kComplex64}, {"c16", DType::kComplex128},
    {"V1", DType::kUint8},   {"V2", DType::kUint16},  // what numpy makes of foreign types: their bits
};

[[noreturn]] void reject(const std::string& where, const std::string& what) {
  throw Error(ErrorKind::kInvalidArgument, what + "; numpy.save writes what can be read here", where);
}

/// The value text of `'key':` in the header, up to the comma or brace that ends it (outside parentheses).
std::string_view header_value(std::string_view header, std::string_view key, const std::string& where) {
  const size_t at = header.find(fmt::format("'{}'", key));
  const size_t colon = at == header.npos ? at : header.find(':', at);
  if (colon == header.npos) reject(where, fmt::format("the .npy header has no '{}'", key));
  size_t begin = colon + 1, depth = 0, end = begin;
  for (; end < header.size(); ++end) {
    if (header[end] == '(') ++depth;
    if (header[end] == ')' && depth > 0) --depth;
    if (depth == 0 && (header[end] == ',' || header[end] == '}')) break;
  }
  std::string_view value = header.substr(begin, end - begin);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  while (!value.empty() && value.back() == ' ') value.remove_suffix(1);
  return value;
}

DType parse_type(std::string_view text, const std::string& where) {
  if (text.size() >= 4 && text.front() == '\'' && text.back() == '\'') {
    const std::string_view code = text.substr(2, text.size() - 3);
    for (const TypeCode& row : kTypeCodes) {
      if (row.code == code && (text[1] == '<' || text[1] == '|' || text[1] == '=')) return row.type;
    }
  }
  reject(where, fmt::format("the element type {} is not one of little-endian float, integer, bool or complex", text));
}

std::vector<int64_t> parse_shape(std::string_view text, const std::string& where) {
  std::vector<int64_t> shape;
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') reject(where, "the header's shape is malformed");
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    while (!text.empty() && (text.front() == ' ' || text.front() == ',')) text.remove_prefix(1);
    if (text.empty()) break;
    int64_t size = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (fault != std::errc() || size < 0) reject(where, "the shape in the header is malformed");
    shape.push_back(size);
    text.remove_prefix(end - text.data());
  }
  return shape;
}

/// Column-major bytes in row-major order.
TensorData from_column_major(DType type, const std::vector<int64_t>& shape, std::span<const std::byte> bytes) {
  TensorData result = TensorData::zeros(type, shape);
  const size_t width = bit_width(type) / 8;
  std::vector<int64_t> index(shape.size());
  std::byte* to = result.mutable_bytes().data();
  for (int64_t n = 0; n < result.element_count(); ++n) {
    int64_t from = 0;
    for (size_t axis = shape.size(); axis-- > 0;) from = from * shape[axis] + index[axis];
    std::memcpy(to + n * width, bytes.data() + from * width, width);
    for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
  }
  return result;
}

}  // namespace

TensorData parse_npy(std::span<const std::byte> bytes, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 10) reject(where, "this is no .npy data");
  const int version = text[6];
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  if (version < 1 || version > 3) reject(where, fmt::format("version {} of .npy is unknown", version));
  const size_t start = version == 1 ? 10 : 12;
  if (text.size() < start) reject(where, "the .npy header is cut off");
  const size_t length = version == 1 ? byte(8) | byte(9) << 8
                                     : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > text.size() - start) reject(where, "the .npy header is cut off");
  const std::string_view header = text.substr(start, length);
  const DType type = parse_type(header_value(header, "descr", where), where);
  const std::vector<int64_t> shape = parse_shape(header_value(header, "shape", where), where);
  const int64_t count = checked_element_count(type, shape, where);
  const std::span<const std::byte> data = bytes.subspan(start + length);
  const auto expected = static_cast<size_t>(packed_bytes(type, count));
  if (data.size() != expected) {
    reject(where, fmt::format("the data has {} bytes, the shape [{}] of {} takes {}", data.size(),
                              fmt::join(shape, ", "), name_of(type), expected));
  }
  if (header_value(header, "fortran_order", where) == "True") return from_column_major(type, shape, data);
  return TensorData::from_bytes(type, shape, data);
}

std::string print_npy(const TensorData& tensor) {
  std::string_view code;
  for (const TypeCode& row : kTypeCodes) {
    if (row.type == tensor.type() && row.code[0] != 'V') code = row.code;
  }
  std::string shape;
  if (code.empty()) {
    code = "u1";
    shape = fmt::format("{},", tensor.byte_count());
  } else {
    for (const int64_t size : tensor.shape()) shape += fmt::format("{},", size);
  }
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   code.substr(1) == "1" ? '|' : '<', code, shape);
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  GRAFT_CHECK(header.size() < 65536, "an .npy header of version 1 is short");
  std::string text(kMagic);
  text += '\1';
  text += '\0';
  text += static_cast<char>(header.size() & 0xFF);
  text += static_cast<char>(header.size() >> 8);
  text += header;
  text.append(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size());
  return text;
}

}  // namespace graft
