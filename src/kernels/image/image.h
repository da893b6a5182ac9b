// SPDX-License-Identifier: Apache-2.0
// Pixels out of files that nobody vouches for. Every decoder gives nothing for what it cannot read; none takes more
// memory or time than the ceilings here let an image of the largest size take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace graft::image {

using Bytes = std::span<const uint8_t>;

/// Red, green and blue, row by row from the top.
struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;
};

inline constexpr int64_t kMostPixels = int64_t{1} << 28;
/// Whether an image may be so large.
inline bool is_size(int64_t height, int64_t width) {
  return height > 0 && width > 0 && height <= kMostPixels / width;
}
/// An image with room for its pixels.
Image make_image(int64_t height, int64_t width);

std::optional<Image> decode_bmp(Bytes file);
std::optional<Image> decode_pnm(Bytes file);
std::optional<Image> decode_jpeg(Bytes file);
std::optional<Image> decode_png(Bytes file);
std::optional<Image> decode_webp(Bytes file);
std::optional<Image> decode_tiff(Bytes file);
std::optional<Image> decode_jpeg2000(Bytes file);

/// By the first bytes of the file.
std::optional<Image> decode(Bytes file);

}  // namespace graft::image
