// SPDX-License-Identifier: Apache-2.0
// PNG through libpng.
#include <algorithm>
#include <csetjmp>
#include <cstring>

#include <png.h>

#include "kernels/image/image.h"

namespace graft::image {
namespace {

constexpr png_uint_32 kLongestSide = 1 << 20;
constexpr png_alloc_size_t kMostChunkBytes = png_alloc_size_t{64} << 20;

struct Source {
  Bytes left;
};

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto& source = *static_cast<Source*>(png_get_io_ptr(png));
  if (count > source.left.size()) png_error(png, "the file ends");
  std::copy_n(source.left.begin(), count, to);
  source.left = source.left.subspan(count);
}

void fail(png_structp png, png_const_charp) { png_longjmp(png, 1); }
void ignore(png_structp, png_const_charp) {}

/// Reads the rows; false where the file ends or lies. Nothing here has a destructor that a jump would skip.
bool read_rows(png_structp png, png_infop info, Image& image, std::vector<png_bytep>& rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_user_limits(png, kLongestSide, kLongestSide);
  png_set_chunk_malloc_max(png, kMostChunkBytes);
  png_read_info(png, info);
  const int64_t height = png_get_image_height(png, info), width = png_get_image_width(png, info);
  if (!is_size(height, width)) return false;
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != static_cast<size_t>(width) * 3) return false;
  image = make_image(height, width);
  rows.resize(static_cast<size_t>(height));
  for (int64_t y = 0; y < height; ++y) rows[static_cast<size_t>(y)] = image.pixels.data() + y * width * 3;
  png_read_image(png, rows.data());
  return true;
}

}  // namespace

std::optional<Image> decode_png(Bytes file) {
  Source source{file};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, fail, ignore);
  if (!png) return std::nullopt;
  png_infop info = png_create_info_struct(png);
  Image image;
  std::vector<png_bytep> rows;
  bool good = false;
  if (info) {
    png_set_read_fn(png, &source, read_bytes);
    good = read_rows(png, info, image, rows);
  }
  png_destroy_read_struct(&png, &info, nullptr);
  return good ? std::optional(std::move(image)) : std::nullopt;
}

}  // namespace graft::image
