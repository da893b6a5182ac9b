// SPDX-License-Identifier: Apache-2.0
// Windows bitmaps: with palettes of 1, 4 and 8 bits, and of 16, 24 and 32 bits; not run-length encoded.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "kernels/image/image.h"

namespace graft::image {
namespace {

class BmpReader {
 public:
  explicit BmpReader(Bytes file) : file_(file) {}

  std::optional<Image> run() {
    const uint32_t header = number(14, 4);
    const bool is_core = header == 12;
    if (!is_core && (header < 40 || header > 256)) return std::nullopt;
    const int64_t width = is_core ? int64_t{number(18, 2)} : int64_t{static_cast<int32_t>(number(18, 4))};
    const int64_t rows = is_core ? int64_t{number(20, 2)} : int64_t{static_cast<int32_t>(number(22, 4))};
    bits_ = number(is_core ? 24 : 28, 2);
    const uint32_t compression = is_core ? 0 : number(30, 4);
    const bool has_masks = compression == 3 && (bits_ == 16 || bits_ == 32);
    if (!is_size(std::llabs(rows), width) || (compression != 0 && !has_masks)) return std::nullopt;
    masks_ = {0xFF0000, 0xFF00, 0xFF};
    if (bits_ == 16) masks_ = {0x7C00, 0x3E0, 0x1F};
    if (has_masks) masks_ = {number(54, 4), number(58, 4), number(62, 4)};
    palette_ = 14 + header;
    entry_ = is_core ? 3 : 4;
    const uint32_t pixels = number(10, 4);
    const int64_t stride = (width * bits_ + 31) / 32 * 4;
    if (failed_ || (bits_ != 1 && bits_ != 4 && bits_ != 8 && bits_ != 16 && bits_ != 24 && bits_ != 32)) {
      return std::nullopt;
    }
    if (static_cast<int64_t>(file_.size()) - pixels < stride * std::llabs(rows)) return std::nullopt;
    Image image = make_image(std::llabs(rows), width);
    for (int64_t y = 0; y < image.height; ++y) {
      const int64_t row = rows > 0 ? image.height - 1 - y : y;
      const uint8_t* from = file_.data() + pixels + row * stride;
      for (int64_t x = 0; x < width; ++x) put(from, x, image.pixels.data() + (y * width + x) * 3);
    }
    return failed_ ? std::nullopt : std::optional(std::move(image));
  }

 private:
  uint32_t number(size_t at, int bytes) {
    if (at + static_cast<size_t>(bytes) > file_.size()) {
      failed_ = true;
      return 0;
    }
    uint32_t value = 0;
    for (int i = bytes; i-- > 0;) value = value << 8 | file_[at + static_cast<size_t>(i)];
    return value;
  }

  void put(const uint8_t* row, int64_t x, uint8_t* rgb) {
    if (bits_ <= 8) {
      const int64_t bit = x * bits_;
      const uint32_t index = row[bit / 8] >> (8 - bits_ - bit % 8) & ((1u << bits_) - 1);
      const size_t at = palette_ + static_cast<size_t>(index) * entry_;
      for (size_t c = 0; c < 3; ++c) rgb[c] = static_cast<uint8_t>(number(at + 2 - c, 1));
    } else if (bits_ == 24) {
      for (int c = 0; c < 3; ++c) rgb[c] = row[x * 3 + 2 - c];
    } else {
      uint32_t value = 0;
      const int64_t bytes = bits_ / 8;
      for (int64_t i = bytes; i-- > 0;) value = value << 8 | row[x * bytes + i];
      for (size_t c = 0; c < 3; ++c) rgb[c] = scaled(value, masks_[c]);
    }
  }

  /// The bits under a mask as 8 bits.
  static uint8_t scaled(uint32_t value, uint32_t mask) {
    if (mask == 0) return 0;
    while ((mask & 1) == 0) mask >>= 1, value >>= 1;
    return static_cast<uint8_t>((uint64_t{value & mask} * 255 + mask / 2) / mask);
  }

  Bytes file_;
  bool failed_ = false;
  uint32_t bits_ = 0;
  size_t palette_ = 0, entry_ = 4;
  std::array<uint32_t, 3> masks_{};
};

}  // namespace

std::optional<Image> decode_bmp(Bytes file) { return BmpReader(file).run(); }

}  // namespace graft::image
