// SPDX-License-Identifier: Apache-2.0
// TIFF through libtiff: the first image of the file.
#include <algorithm>
#include <cstdio>
#include <memory>

#include <tiffio.h>

#include "kernels/image/image.h"

namespace graft::image {
namespace {

/// What libtiff may take for one piece of memory.
constexpr tmsize_t kMostPieceBytes = tmsize_t{1} << 30;

/// A file in memory, as libtiff reads it.
struct Source {
  Bytes file;
  toff_t at = 0;
};

tmsize_t read_file(thandle_t handle, void* to, tmsize_t count) {
  auto& source = *static_cast<Source*>(handle);
  const auto size = static_cast<toff_t>(source.file.size());
  const toff_t left = source.at < size ? size - source.at : 0;
  const auto taken = static_cast<size_t>(std::min<toff_t>(left, count < 0 ? 0 : static_cast<toff_t>(count)));
  std::copy_n(source.file.begin() + static_cast<std::ptrdiff_t>(std::min(source.at, size)), taken,
              static_cast<uint8_t*>(to));
  source.at += taken;
  return static_cast<tmsize_t>(taken);
}

toff_t seek_file(thandle_t handle, toff_t offset, int whence) {
  auto& source = *static_cast<Source*>(handle);
  const toff_t from = whence == SEEK_CUR ? source.at : whence == SEEK_END ? source.file.size() : 0;
  return source.at = from + offset;
}

tmsize_t write_nothing(thandle_t, void*, tmsize_t) { return 0; }
int close_nothing(thandle_t) { return 0; }
toff_t size_of_file(thandle_t handle) { return static_cast<Source*>(handle)->file.size(); }
int say_nothing(TIFF*, void*, const char*, const char*, va_list) { return 1; }

}  // namespace

std::optional<Image> decode_tiff(Bytes file) {
  Source source{file};
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMostPieceBytes);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), say_nothing, nullptr);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), say_nothing, nullptr);
  const std::unique_ptr<TIFF, void (*)(TIFF*)> tiff(
      TIFFClientOpenExt("image", "rm", &source, read_file, write_nothing, seek_file, close_nothing, size_of_file,
                        nullptr, nullptr, options.get()),
      TIFFClose);
  uint32_t width = 0, height = 0;
  if (!tiff || !TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width) ||
      !TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height) || !is_size(height, width)) {
    return std::nullopt;
  }
  std::vector<uint32_t> raster(size_t{width} * height);
  if (!TIFFReadRGBAImageOriented(tiff.get(), width, height, raster.data(), ORIENTATION_TOPLEFT, 1)) return std::nullopt;
  Image image = make_image(height, width);
  for (size_t i = 0; i < raster.size(); ++i) {
    image.pixels[i * 3] = static_cast<uint8_t>(TIFFGetR(raster[i]));
    image.pixels[i * 3 + 1] = static_cast<uint8_t>(TIFFGetG(raster[i]));
    image.pixels[i * 3 + 2] = static_cast<uint8_t>(TIFFGetB(raster[i]));
  }
  return image;
}

}  // namespace graft::image
