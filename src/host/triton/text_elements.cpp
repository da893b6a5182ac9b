// SPDX-License-Identifier: Apache-2.0
#include "text_elements.h"

#include <cstring>
#include <string>

#include "graft/graft.h"

namespace graft::triton {

void read_texts(std::span<const std::byte> bytes, uint64_t count, std::vector<graft_text>& texts) {
  texts.clear();
  while (!bytes.empty()) {
    uint32_t length = 0;
    if (bytes.size() < sizeof length) break;
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes = bytes.subspan(sizeof length);
    if (length > bytes.size()) break;
    if (texts.size() == count) throw Error(ErrorKind::kInvalidArgument, "it has more strings than its shape says");
    texts.push_back({reinterpret_cast<const char*>(bytes.data()), length});
    bytes = bytes.subspan(length);
  }
  if (bytes.empty() && texts.size() == count) return;
  throw Error(ErrorKind::kInvalidArgument, "its bytes are not " + std::to_string(count) +
                                               " strings, each behind its length");
}

uint64_t bytes_of_texts(std::span<const graft_text> texts) {
  uint64_t bytes = 0;
  for (const graft_text& text : texts) {
    if (text.bytes > UINT32_MAX) throw Error(ErrorKind::kUnsupported, "a string has more bytes than Triton counts");
    bytes += sizeof(uint32_t) + text.bytes;
  }
  return bytes;
}

void write_texts(std::span<const graft_text> texts, std::byte* bytes) {
  for (const graft_text& text : texts) {
    const auto length = static_cast<uint32_t>(text.bytes);
    std::memcpy(bytes, &length, sizeof length);
    if (length > 0) std::memcpy(bytes + sizeof length, text.data, length);
    bytes += sizeof length + length;
  }
}

}  // namespace graft::triton
