// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <climits>

namespace graft::tensorflow {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

std::optional<std::vector<WireField>> wire_fields(std::span<const std::byte> message) {
  if (message.size() > INT_MAX) return std::nullopt;
  CodedInputStream input(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size()));
  std::vector<WireField> fields;
  while (true) {
    const auto begin = static_cast<size_t>(input.CurrentPosition());
    const uint32_t tag = input.ReadTag();
    if (tag == 0) break;
    WireField field{.number = WireFormatLite::GetTagFieldNumber(tag)};
    if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      uint32_t length = 0;
      if (!input.ReadVarint32(&length) || length > INT_MAX) return std::nullopt;
      const auto at = static_cast<size_t>(input.CurrentPosition());
      if (length > message.size() - at || !input.Skip(static_cast<int>(length))) return std::nullopt;
      field.has_payload = true;
      field.payload = message.subspan(at, length);
    } else if (!WireFormatLite::SkipField(&input, tag)) {
      return std::nullopt;
    }
    field.whole = message.subspan(begin, static_cast<size_t>(input.CurrentPosition()) - begin);
    fields.push_back(field);
  }
  if (static_cast<size_t>(input.CurrentPosition()) != message.size()) return std::nullopt;
  return fields;
}

void append(std::string& target, std::span<const std::byte> bytes) { target += text_of(bytes); }

void append_field(std::string& target, int number, std::string_view payload) {
  append_field_head(target, number, payload.size());
  target += payload;
}

void append_field_head(std::string& target, int number, size_t payload_bytes) {
  const auto append_number = [&](uint64_t value) {
    for (; value >= 0x80; value >>= 7) target += static_cast<char>(0x80 | (value & 0x7f));
    target += static_cast<char>(value);
  };
  append_number(static_cast<uint64_t>(number) << 3 | WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  append_number(payload_bytes);
}

}  // namespace graft::tensorflow
