// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "kernels/image/image.h"

namespace graft::image {
namespace {

struct Format {
  std::string_view magic;
  size_t at;
  std::optional<Image> (*decode)(Bytes);
};

using namespace std::string_view_literals;

constexpr Format kFormats[] = {
    {"\xFF\xD8\xFF"sv, 0, decode_jpeg},
    {"\x89PNG\r\n\x1A\n"sv, 0, decode_png},
    {"WEBP"sv, 8, decode_webp},
    {"II\x2A\0"sv, 0, decode_tiff},
    {"MM\0\x2A"sv, 0, decode_tiff},
    {"\0\0\0\x0CjP  \r\n\x87\n"sv, 0, decode_jpeg2000},
    {"\xFF\x4F\xFF\x51"sv, 0, decode_jpeg2000},
    {"BM"sv, 0, decode_bmp},
    {"P1"sv, 0, decode_pnm},
    {"P2"sv, 0, decode_pnm},
    {"P3"sv, 0, decode_pnm},
    {"P4"sv, 0, decode_pnm},
    {"P5"sv, 0, decode_pnm},
    {"P6"sv, 0, decode_pnm},
};

}  // namespace

Image make_image(int64_t height, int64_t width) {
  return {height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * 3))};
}

std::optional<Image> decode(Bytes file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  for (const Format& format : kFormats) {
    if (text.size() < format.at + format.magic.size()) continue;
    if (text.substr(format.at, format.magic.size()) == format.magic) return format.decode(file);
  }
  return std::nullopt;
}

}  // namespace graft::image
