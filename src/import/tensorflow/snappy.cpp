// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/snappy.h"

#include "import/tensorflow/byte_reader.h"

namespace graft::tensorflow {
namespace {

enum Kind : uint32_t { kLiteral, kCopy1, kCopy2, kCopy4 };  // the low bits of a tag

/// Bytes that have been written before, `distance` back; they may be those that are being written.
bool copy(std::string& made, size_t distance, size_t length) {
  if (distance == 0 || distance > made.size()) return false;
  for (size_t i = 0; i < length; ++i) made += made[made.size() - distance];
  return true;
}

bool literal(std::string& made, ByteReader& reader, uint32_t code) {
  size_t length = code + 1;
  if (code >= 60) {  // so many bytes of length follow
    const auto stated = reader.number(code - 59);
    if (!stated) return false;
    length = size_t{*stated} + 1;
  }
  const auto bytes = reader.take(length);
  if (bytes) made.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return bytes.has_value();
}

/// One element of the stream.
bool element(std::string& made, ByteReader& reader) {
  const auto tag = reader.number(1);
  if (!tag) return false;
  const uint32_t kind = *tag & 3, code = *tag >> 2;
  if (kind == kLiteral) return literal(made, reader, code);
  const auto low = reader.number(kind == kCopy1 ? 1 : kind == kCopy2 ? 2 : 4);
  if (!low) return false;
  if (kind == kCopy1) return copy(made, ((*tag >> 5) << 8) | *low, 4 + (code & 7));
  return copy(made, *low, code + 1);
}

}  // namespace

std::optional<std::string> expand_snappy(std::span<const std::byte> compressed, size_t most) {
  ByteReader reader(compressed);
  const auto size = reader.varint();
  if (!size || *size > most) return std::nullopt;
  std::string made;
  while (reader.left() > 0) {
    if (!element(made, reader) || made.size() > *size) return std::nullopt;
  }
  if (made.size() != *size) return std::nullopt;
  return made;
}

}  // namespace graft::tensorflow
