// SPDX-License-Identifier: Apache-2.0
// Portable bitmaps, graymaps and pixmaps, as numbers and as bytes.
#include <algorithm>

#include "kernels/image/image.h"

namespace graft::image {
namespace {

class PnmReader {
 public:
  explicit PnmReader(Bytes file) : file_(file) {}

  std::optional<Image> run() {
    const int kind = file_[1] - '0';
    const bool is_bitmap = kind == 1 || kind == 4, is_text = kind <= 3;
    at_ = 2;
    const int64_t width = number(), height = number();
    most_ = is_bitmap ? 1 : number();
    if (failed_ || !is_size(height, width) || most_ < 1 || most_ > 65535) return std::nullopt;
    const int64_t channels = kind == 3 || kind == 6 ? 3 : 1;
    const int64_t samples = width * height * channels;
    if (!is_text) ++at_;  // one character of white space, then the bytes
    const int64_t width_bytes = most_ > 255 ? 2 : 1;
    const int64_t needed = is_text ? samples : is_bitmap ? (width + 7) / 8 * height : samples * width_bytes;
    if (at_ > file_.size() || static_cast<int64_t>(file_.size() - at_) < needed) return std::nullopt;
    Image image = make_image(height, width);
    for (int64_t i = 0; i < samples && !failed_; ++i) {
      int64_t value = 0;
      if (is_text) {
        value = is_bitmap ? 1 - digit() : number();
      } else if (is_bitmap) {
        const int64_t row = i / width, x = i % width;
        value = 1 - (file_[at_ + static_cast<size_t>(row * ((width + 7) / 8) + x / 8)] >> (7 - x % 8) & 1);
      } else {
        const size_t place = at_ + static_cast<size_t>(i * width_bytes);
        value = width_bytes == 2 ? file_[place] << 8 | file_[place + 1] : file_[place];
      }
      const auto scaled = static_cast<uint8_t>((std::clamp<int64_t>(value, 0, most_) * 255 + most_ / 2) / most_);
      for (int64_t c = 0; c < 3 / channels; ++c) image.pixels[static_cast<size_t>(i * (3 / channels) + c)] = scaled;
    }
    return failed_ ? std::nullopt : std::optional(std::move(image));
  }

 private:
  static bool is_space(uint8_t c) { return c == ' ' || (c >= 9 && c <= 13); }

  void skip_space() {
    while (at_ < file_.size() && (is_space(file_[at_]) || file_[at_] == '#')) {
      if (file_[at_] == '#') {
        while (at_ < file_.size() && file_[at_] != '\n') ++at_;
      } else {
        ++at_;
      }
    }
  }

  /// One digit of a bitmap, which no white space need follow.
  int64_t digit() {
    skip_space();
    const bool good = at_ < file_.size() && (file_[at_] == '0' || file_[at_] == '1');
    failed_ |= !good;
    return good ? file_[at_++] - '0' : 0;
  }

  int64_t number() {
    skip_space();
    int64_t value = 0;
    const size_t begin = at_;
    for (; at_ < file_.size() && file_[at_] >= '0' && file_[at_] <= '9' && at_ - begin < 10; ++at_) {
      value = value * 10 + (file_[at_] - '0');
    }
    failed_ |= at_ == begin;
    return value;
  }

  Bytes file_;
  size_t at_ = 0;
  int64_t most_ = 1;
  bool failed_ = false;
};

}  // namespace

std::optional<Image> decode_pnm(Bytes file) { return PnmReader(file).run(); }

}  // namespace graft::image
