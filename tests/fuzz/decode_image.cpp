// SPDX-License-Identifier: Apache-2.0
// Any bytes as an image: pixels, or nothing.
#include "kernels/image/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto image = graft::image::decode({data, size});
  if (!image) return 0;
  if (!graft::image::is_size(image->height, image->width)) __builtin_trap();
  if (image->pixels.size() != static_cast<size_t>(image->height * image->width * 3)) __builtin_trap();
  return 0;
}
