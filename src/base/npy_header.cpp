// SPDX-License-Identifier: Apache-2.0
// numpy.lib.format.
#include "base/npy_header.h"

#include <algorithm>
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
  int width;
  bool raw = false;
};
constexpr TypeCode kTypeCodes[] = {
    {"f4", DType::kFloat32, 4},
    {"f8", DType::kFloat64, 8},
    {"f2", DType::kFloat16, 2},
    {"b1", DType::kBool, 1},
    {"i1", DType::kInt8, 1},
    {"i2", DType::kInt16, 2},
    {"i4", DType::kInt32, 4},
    {"i8", DType::kInt64, 8},
    {"u1", DType::kUint8, 1},
    {"u2", DType::kUint16, 2},
    {"u4", DType::kUint32, 4},
    {"u8", DType::kUint64, 8},
    {"c8", DType::kComplex64, 8},
    {"c16", DType::kComplex128, 16},
    {"b2", DType::kBFloat16, 2},    // as MXNet 2 saves it
    {"f1", DType::kFloat8E5M2, 1},  // as ml_dtypes saves it; numpy alone cannot read it
    {"V1", DType::kUint8, 1, true},
    {"V2", DType::kUint16, 2, true},
    {"V4", DType::kUint32, 4, true},
    {"V8", DType::kUint64, 8, true},
};

[[noreturn]] void reject(const std::string& where, const std::string& what) {
  throw Error(ErrorKind::kInvalidArgument, what + "; numpy.save writes what can be read here", where);
}

/// The value text of `'key':` in the header, up to the comma or brace that ends it (outside brackets).
std::string_view header_value(std::string_view header, std::string_view key, const std::string& where) {
  const size_t at = header.find(fmt::format("'{}'", key));
  const size_t colon = at == header.npos ? at : header.find(':', at);
  if (colon == header.npos) reject(where, fmt::format("the .npy header has no '{}'", key));
  size_t begin = colon + 1, depth = 0, end = begin;
  for (; end < header.size(); ++end) {
    if (header[end] == '(' || header[end] == '[') ++depth;
    if ((header[end] == ')' || header[end] == ']') && depth > 0) --depth;
    if (depth == 0 && (header[end] == ',' || header[end] == '}')) break;
  }
  std::string_view value = header.substr(begin, end - begin);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  while (!value.empty() && value.back() == ' ') value.remove_suffix(1);
  return value;
}

/// A structure of one field is that field: [('bfloat16', '<u2')] -> '<u2', which is bits then.
std::optional<std::string_view> only_field(std::string_view text) {
  if (!text.starts_with("[('") || !text.ends_with("')]")) return std::nullopt;
  text = text.substr(3, text.size() - 5);
  const size_t name_end = text.find("', '");
  if (name_end == text.npos) return std::nullopt;
  text.remove_prefix(name_end + 3);
  return std::count(text.begin(), text.end(), '\'') == 2 ? std::optional(text) : std::nullopt;
}

void parse_type(std::string_view text, NpyHeader& header, const std::string& where) {
  const std::optional<std::string_view> field = only_field(text);
  const std::string_view plain = field.value_or(text);
  if (plain.size() >= 4 && plain.front() == '\'' && plain.back() == '\'') {
    const std::string_view code = plain.substr(2, plain.size() - 3);
    for (const TypeCode& row : kTypeCodes) {
      if (row.code != code || std::string_view("<|=>").find(plain[1]) == std::string_view::npos) continue;
      header.type = row.type;
      header.width = row.width;
      header.raw = row.raw || (field && is_unsigned(row.type));
      header.swapped = plain[1] == '>';
      return;
    }
  }
  reject(where, fmt::format("the element type {} is not one of float, integer, bool, complex or void of 1 to 8 bytes",
                            text));
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

/// Where numpy has no name for a type there are bits in whole bytes.
bool numpy_lacks(DType type) {
  return type == DType::kBFloat16 || bit_width(type) < 8 || (is_float(type) && bit_width(type) == 8);
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 10) reject(where, "this is no .npy data");
  const int version = text[6];
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  if (version < 1 || version > 3) reject(where, fmt::format("version {} of .npy is unknown", version));
  const size_t start = version == 1 ? 10 : 12;
  if (text.size() < start) reject(where, "the .npy header is cut off");
  const size_t length = version == 1 ? byte(8) | byte(9) << 8
                                     : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > kMaxNpyHeader - 12) reject(where, fmt::format("the .npy header has {} bytes, at most 65535", length));
  if (length > text.size() - start) reject(where, "the .npy header is cut off");
  const std::string_view words = text.substr(start, length);
  NpyHeader header;
  parse_type(header_value(words, "descr", where), header, where);
  header.shape = parse_shape(header_value(words, "shape", where), where);
  const std::string_view order = header_value(words, "fortran_order", where);
  if (order != "True" && order != "False") reject(where, "the header's fortran_order is neither True nor False");
  header.column_major = order == "True";
  header.length = start + length;
  checked_element_count(header.type, header.shape, where);
  return header;
}

DType element_type(const NpyHeader& header, std::optional<DType> wanted, const std::string& where) {
  if (!wanted || *wanted == header.type) return header.type;
  const bool same_width = std::max(bit_width(*wanted), 8) == 8 * header.width && *wanted != DType::kString;
  if (header.raw && !same_width) {
    reject(where, fmt::format("its elements are {} bytes without a type, and {} has {} bits", header.width,
                              name_of(*wanted), bit_width(*wanted)));
  }
  const bool bits = is_unsigned(header.type) || (is_integer(*wanted) && kind_of(*wanted) == kind_of(header.type));
  return same_width && (header.raw || (numpy_lacks(*wanted) && bits)) ? *wanted : header.type;
}

std::string print_npy_header(const TensorData& tensor, const std::string& where) {
  GRAFT_USER_CHECK(tensor.type() != DType::kString, kUnsupported,
                   "strings cannot be stored in .npy files; leave this output out with --outputs", where);
  const int width = std::max(bit_width(tensor.type()), 8) / 8;
  std::string code = fmt::format("V{}", width), shape;
  for (const TypeCode& row : kTypeCodes) {
    if (row.type == tensor.type() && !row.raw && !numpy_lacks(row.type)) code = row.code;
  }
  for (const int64_t size : tensor.shape()) shape += fmt::format("{},", size);
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   width == 1 ? '|' : '<', code, shape);
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  GRAFT_CHECK(header.size() < 65536, "an .npy header of version 1 is short");
  std::string text(kMagic);
  text += '\1';
  text += '\0';
  text += static_cast<char>(header.size() & 0xFF);
  text += static_cast<char>(header.size() >> 8);
  return text + header;
}

}  // namespace graft
