// SPDX-License-Identifier: Apache-2.0
// TIFF through libtiff: the first image of the file. The library is the system's, opened at the first such file, since
// what it stands on (JBIG-KIT) may not travel in a wheel of another licence.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include <tiffio.h>

#include "base/error.h"
#include "base/set_function.h"
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

constexpr const char* kLibrary = "libtiff.so.6";  // of 4.5 and newer, which have options of opening

/// The functions of libtiff that are called.
struct Library {
  decltype(&TIFFOpenOptionsAlloc) allocate_options = nullptr;
  decltype(&TIFFOpenOptionsFree) free_options = nullptr;
  decltype(&TIFFOpenOptionsSetMaxSingleMemAlloc) set_most_bytes = nullptr;
  decltype(&TIFFOpenOptionsSetErrorHandlerExtR) on_error = nullptr;
  decltype(&TIFFOpenOptionsSetWarningHandlerExtR) on_warning = nullptr;
  decltype(&TIFFClientOpenExt) open = nullptr;
  decltype(&TIFFClose) close = nullptr;
  decltype(&TIFFGetField) get_field = nullptr;
  decltype(&TIFFReadRGBAImageOriented) read = nullptr;
};

/// Opens the library; it stays open. Throws unsupported where there is none, or one that lacks a function.
Library open_library() {
  void* const handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  GRAFT_USER_CHECK(handle, kUnsupported,
                   std::string("the image is a TIFF, and there is no ") + kLibrary +
                       " here; install libtiff 4.5 or newer (libtiff6), or give images of another format", "");
  const auto find = [&](auto& function, const char* name) {
    GRAFT_USER_CHECK(set_function(function, dlsym(handle, name)), kUnsupported,
                     std::string(kLibrary) + " has no " + name + "; install libtiff 4.5 or newer", "");
  };
  Library library;
  find(library.allocate_options, "TIFFOpenOptionsAlloc");
  find(library.free_options, "TIFFOpenOptionsFree");
  find(library.set_most_bytes, "TIFFOpenOptionsSetMaxSingleMemAlloc");
  find(library.on_error, "TIFFOpenOptionsSetErrorHandlerExtR");
  find(library.on_warning, "TIFFOpenOptionsSetWarningHandlerExtR");
  find(library.open, "TIFFClientOpenExt");
  find(library.close, "TIFFClose");
  find(library.get_field, "TIFFGetField");
  find(library.read, "TIFFReadRGBAImageOriented");
  return library;
}

}  // namespace

std::optional<Image> decode_tiff(Bytes file) {
  static const Library library = open_library();  // tried again after an error
  Source source{file};
  const std::unique_ptr<TIFFOpenOptions, decltype(library.free_options)> options(library.allocate_options(),
                                                                                 library.free_options);
  library.set_most_bytes(options.get(), kMostPieceBytes);
  library.on_error(options.get(), say_nothing, nullptr);
  library.on_warning(options.get(), say_nothing, nullptr);
  const std::unique_ptr<TIFF, decltype(library.close)> tiff(
      library.open("image", "rm", &source, read_file, write_nothing, seek_file, close_nothing, size_of_file, nullptr,
                   nullptr, options.get()),
      library.close);
  uint32_t width = 0, height = 0;
  if (!tiff || !library.get_field(tiff.get(), TIFFTAG_IMAGEWIDTH, &width) ||
      !library.get_field(tiff.get(), TIFFTAG_IMAGELENGTH, &height) || !is_size(height, width)) {
    return std::nullopt;
  }
  std::vector<uint32_t> raster(size_t{width} * height);
  if (!library.read(tiff.get(), width, height, raster.data(), ORIENTATION_TOPLEFT, 1)) return std::nullopt;
  Image image = make_image(height, width);
  for (size_t i = 0; i < raster.size(); ++i) {
    image.pixels[i * 3] = static_cast<uint8_t>(TIFFGetR(raster[i]));
    image.pixels[i * 3 + 1] = static_cast<uint8_t>(TIFFGetG(raster[i]));
    image.pixels[i * 3 + 2] = static_cast<uint8_t>(TIFFGetB(raster[i]));
  }
  return image;
}

}  // namespace graft::image
