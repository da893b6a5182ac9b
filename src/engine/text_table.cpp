// SPDX-License-Identifier: Apache-2.0
#include "engine/text_table.h"

#include <zstd.h>

#include "base/error.h"

namespace graft {
namespace {

constexpr int kLevel = 9;
constexpr uint64_t kMostTextBytes = uint64_t{256} << 20;

}  // namespace

uint32_t TextTable::add(const std::string& text) {
  const auto [it, fresh] = numbers_.emplace(text, static_cast<uint32_t>(lengths_.size()));
  if (fresh) {
    lengths_.push_back(static_cast<uint32_t>(text.size()));
    all_ += text;
    GRAFT_USER_CHECK(all_.size() <= kMostTextBytes, kUnsupported, "its kernels' texts exceed 256 MB", "plan");
  }
  return it->second;
}

std::vector<std::byte> TextTable::compress() const {
  std::vector<std::byte> frame(ZSTD_compressBound(all_.size()));
  const size_t bytes = ZSTD_compress(frame.data(), frame.size(), all_.data(), all_.size(), kLevel);
  GRAFT_CHECK(!ZSTD_isError(bytes), ZSTD_getErrorName(bytes));
  frame.resize(bytes);
  return frame;
}

std::optional<std::vector<std::string>> decompress_texts(std::span<const std::byte> frame,
                                                         std::span<const uint32_t> lengths) {
  uint64_t total = 0;
  for (const uint32_t length : lengths) total += length;
  if (total > kMostTextBytes || ZSTD_getFrameContentSize(frame.data(), frame.size()) != total) return std::nullopt;
  std::string all(total, '\0');
  const size_t bytes = ZSTD_decompress(all.data(), all.size(), frame.data(), frame.size());
  if (ZSTD_isError(bytes) || bytes != total) return std::nullopt;
  std::vector<std::string> texts;
  size_t at = 0;
  for (const uint32_t length : lengths) {
    texts.push_back(all.substr(at, length));
    at += length;
  }
  return texts;
}

}  // namespace graft
