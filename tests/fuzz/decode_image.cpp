// SPDX-License-Identifier: Apache-2.0
// Any bytes as an image: pixels, nothing, or the error that says that there is no libtiff.
#include <optional>

#include "base/error.h"
#include "kernels/image/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::optional<graft::image::Image> image;
  try {
    image = graft::image::decode({data, size});
  } catch (const graft::Error& error) {
    if (error.kind() != graft::ErrorKind::kUnsupported) throw;
  }
  if (!image) return 0;
  if (!graft::image::is_size(image->height, image->width)) __builtin_trap();
  if (image->pixels.size() != static_cast<size_t>(image->height * image->width * 3)) __builtin_trap();
  return 0;
}
