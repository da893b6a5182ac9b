// SPDX-License-Identifier: Apache-2.0
// Messages as their bytes: fields found and copied without reading what they hold.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft::tensorflow {

/// A field of a message, in the order of the bytes.
struct WireField {
  int number = 0;
  bool has_payload = false;            ///< whether it is a text, bytes or a message: `payload` is what it holds
  std::span<const std::byte> whole;    ///< with its tag
  std::span<const std::byte> payload;  ///< without tag and length
};

/// The fields of a message; nothing where the bytes are none, or were cut short.
std::optional<std::vector<WireField>> wire_fields(std::span<const std::byte> message);

/// Appends bytes as they are.
void append(std::string& target, std::span<const std::byte> bytes);
/// Appends a field that holds a text, bytes or a message.
void append_field(std::string& target, int number, std::string_view payload);
/// Appends what stands before the payload of such a field; whoever calls it appends so many bytes behind.
void append_field_head(std::string& target, int number, size_t payload_bytes);

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace graft::tensorflow
