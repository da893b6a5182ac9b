// SPDX-License-Identifier: Apache-2.0
// WebP through libwebp; not animations.
#include <webp/decode.h>

#include "kernels/image/image.h"

namespace graft::image {

std::optional<Image> decode_webp(Bytes file) {
  int width = 0, height = 0;
  if (!WebPGetInfo(file.data(), file.size(), &width, &height) || !is_size(height, width)) return std::nullopt;
  Image image = make_image(height, width);
  if (!WebPDecodeRGBInto(file.data(), file.size(), image.pixels.data(), image.pixels.size(), width * 3)) {
    return std::nullopt;
  }
  return image;
}

}  // namespace graft::image
