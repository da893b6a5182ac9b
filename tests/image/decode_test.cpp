// SPDX-License-Identifier: Apache-2.0
// Images by hand: what the formats without a library give, and what is cut off or lies gives nothing.
#include <gtest/gtest.h>

#include <string>

#include "kernels/image/image.h"

namespace graft::image {
namespace {

std::optional<Image> decode_text(const std::string& file) {
  return decode({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
}

std::string number(uint32_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

/// A bitmap of `bits` whose rows begin behind the header and `palette`.
std::string bitmap(int32_t width, int32_t height, uint32_t bits, const std::string& palette, const std::string& rows) {
  const auto at = static_cast<uint32_t>(54 + palette.size());
  return "BM" + number(at + static_cast<uint32_t>(rows.size()), 4) + number(0, 4) + number(at, 4) + number(40, 4) +
         number(static_cast<uint32_t>(width), 4) + number(static_cast<uint32_t>(height), 4) + number(1, 2) +
         number(bits, 2) + std::string(24, '\0') + palette + rows;
}

using Pixels = std::vector<uint8_t>;

TEST(Images, of_bitmaps_have_their_last_row_first) {
  const std::string rows = std::string("\3\2\1\6\5\4\0\0", 8) + std::string("\x9\x8\x7\xc\xb\xa\0\0", 8);
  const auto image = decode_text(bitmap(2, 2, 24, "", rows));
  ASSERT_TRUE(image);
  EXPECT_EQ(image->pixels, (Pixels{7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(decode_text(bitmap(2, -2, 24, "", rows))->pixels, (Pixels{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
}

TEST(Images, of_bitmaps_have_palettes_of_any_width) {
  const std::string palette = std::string("\0\0\0\0", 4) + std::string("\3\2\1\0", 4);
  EXPECT_EQ(decode_text(bitmap(3, 1, 1, palette, std::string("\xA0\0\0\0", 4)))->pixels,
            (Pixels{1, 2, 3, 0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(decode_text(bitmap(2, 1, 4, palette, std::string("\x10\0\0\0", 4)))->pixels, (Pixels{1, 2, 3, 0, 0, 0}));
  EXPECT_FALSE(decode_text(bitmap(1, 1, 8, "", std::string("\xff\0\0\0", 4))));  // beyond the file
}

TEST(Images, of_portable_maps_are_numbers_or_bytes) {
  EXPECT_EQ(decode_text("P2 # a comment\n2 1 10 5 10 ")->pixels, (Pixels{128, 128, 128, 255, 255, 255}));
  EXPECT_EQ(decode_text("P5 2 1 255 ab")->pixels, (Pixels{'a', 'a', 'a', 'b', 'b', 'b'}));
  EXPECT_EQ(decode_text("P6 1 1 255 abc")->pixels, (Pixels{'a', 'b', 'c'}));
  EXPECT_EQ(decode_text("P1 2 1 01")->pixels, (Pixels{255, 255, 255, 0, 0, 0}));
  EXPECT_EQ(decode_text("P4 2 1 \x40")->pixels, (Pixels{255, 255, 255, 0, 0, 0}));
}

TEST(Images, that_are_cut_off_or_of_no_format_give_nothing) {
  for (const std::string& file :
       {std::string(), std::string("P6 1 1 255 ab"), std::string("P5 99999999 99999999 255 "), std::string("BM"),
        std::string("\x89PNG\r\n\x1A\n"), std::string("\xFF\xD8\xFF\xE0"), std::string("RIFF\0\0\0\0WEBPVP8 ", 16),
        std::string("II\x2A\0\xff\xff\xff\xff", 8), std::string("\xFF\x4F\xFF\x51\0\0", 6), std::string("GIF89a"),
        bitmap(1 << 30, 1 << 30, 24, "", "")}) {
    EXPECT_FALSE(decode_text(file)) << file;
  }
}

}  // namespace
}  // namespace graft::image
