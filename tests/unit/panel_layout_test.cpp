// SPDX-License-Identifier: Apache-2.0
// Which layouts are of a tensor: records of choices come from files.
#include "tile/panel_layout.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"

namespace graft::tile {
namespace {

TEST(PanelLayout, fits_when_each_dimension_has_one_place) {
  const PanelLayout good{.dim = 2, .lanes = 16, .keep = 1, .rest = {1}};
  EXPECT_TRUE(fits(good, 3));
  EXPECT_FALSE(fits(good, 2)) << "it names a dimension that is not there";
  EXPECT_FALSE(fits(good, 4)) << "one has no place";
  EXPECT_FALSE(fits({.dim = 5, .lanes = 16, .keep = 1, .rest = {1}}, 3));
  EXPECT_FALSE(fits({.dim = -1, .lanes = 16, .keep = 1, .rest = {1}}, 3));
  EXPECT_FALSE(fits({.dim = 1, .lanes = 16, .keep = 1, .rest = {1}}, 3)) << "one has two places";
  EXPECT_FALSE(fits({.dim = 2, .lanes = 0, .keep = 1, .rest = {1}}, 3));
  EXPECT_FALSE(fits({.dim = 2, .lanes = 16, .keep = -1, .rest = {1}}, 3));
}

std::string error_of(const std::string& text) {
  try {
    parse_panel_layout(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  }
  return "none";
}

TEST(PanelLayout, reads_back_as_printed_up_to_its_limits) {
  for (const char* text : {"panels dim=0 lanes=1 keep=0 rest=", "panels dim=4096 lanes=4096 keep=4096 rest=4096",
                           "panels dim=2 lanes=16 keep=1 rest=3,0,1",
                           "panels dim=1 lanes=32 keep=0 rest=0 pack=4 step=64",
                           "panels dim=1 lanes=32 keep=0 rest=2,0 pack=2 step=32 parts=3"}) {
    EXPECT_EQ(print(parse_panel_layout(text)), text);
  }
}

TEST(PanelLayout, names_the_field_that_is_wrong) {
  const std::vector<std::pair<const char*, const char*>> table = {
      {"", "'panels dim=' is expected"},
      {"panel dim=2 lanes=16 keep=1 rest=1", "'panels dim=' is expected"},
      {"panels dim=4097 lanes=16 keep=1 rest=1", "'panels dim=' is expected, with a number up to 4096"},
      {"panels dim=-1 lanes=16 keep=1 rest=1", "'panels dim=' is expected"},
      {"panels dim= lanes=16 keep=1 rest=1", "'panels dim=' is expected"},
      {"panels dim=99999999999999999999 lanes=16 keep=1 rest=1", "'panels dim=' is expected"},
      {"panels dim=2 lanes=4097 keep=1 rest=1", "' lanes=' is expected"},
      {"panels dim=2 lanes=-1 keep=1 rest=1", "' lanes=' is expected"},
      {"panels dim=2 lanes=0 keep=1 rest=1", "lanes is 0"},
      {"panels dim=2 lanes=16 keep=4097 rest=1", "' keep=' is expected"},
      {"panels dim=2 lanes=16", "' keep=' is expected"},
      {"panels dim=2 lanes=16 keep=1 rest=4097", "' rest=' is expected"},
      {"panels dim=2 lanes=16 keep=1 rest=1,4097", "',' is expected"},
      {"panels dim=2 lanes=16 keep=1 rest=1,", "',' is expected"},
      {"panels dim=2 lanes=16 keep=1 rest=1 ", "',' is expected"},
      {"panels dim=2 lanes=16 keep=1 rest=1 pack=4", "' step=' is expected"},
      {"panels dim=2 lanes=16 keep=1 rest=1 pack=1 step=4", "pack is 1"},
      {"panels dim=2 lanes=16 keep=1 rest=1 pack=4 step=6", "step is no multiple of pack"},
      {"panels dim=2 lanes=16 keep=1 rest= pack=4 step=8", "' rest=' is expected"},
      {"panels dim=2 lanes=16 keep=1 pack=4 step=8", "there is no rest"},
      {"panels dim=2 lanes=16 keep=1 rest=1 pack=4 step=8 ", "nothing is expected behind step"},
      {"panels dim=2 lanes=16 keep=1 rest=1 pack=2 step=32 parts=2", "parts are 3"},
      {"panels dim=2 lanes=16 keep=1 rest=1 pack=4 step=64 parts=3", "parts are 3, of pack=2 step=32"},
      {"panels dim=2 lanes=16 keep=1 rest=1 pack=2 step=32 parts=3 ", "nothing is expected behind step and parts"}};
  for (const auto& [text, message] : table) {
    const std::string found = error_of(text);
    EXPECT_NE(found.find(message), std::string::npos) << "'" << text << "': " << found;
  }
}

TEST(PanelLayout, unpacks_what_it_packed_with_what_fills_up_the_last_panel) {
  TensorData row_major = TensorData::zeros(DType::kInt32, {2, 3, 5});
  for (int64_t i = 0; i < row_major.element_count(); ++i) row_major.write_integer(i, i + 1);
  const PanelLayout layout{.dim = 2, .lanes = 4, .keep = 1, .rest = {1}};
  const TensorData packed = pack(layout, row_major, row_major.shape());
  EXPECT_EQ(packed.shape(), (std::vector<int64_t>{2, 2, 3, 4}));
  // Image 1, panel 1, row 2: the fifth column, and three that are none.
  const int64_t at = ((1 * 2 + 1) * 3 + 2) * 4;
  EXPECT_EQ(packed.read_integer(at), 30);
  for (int64_t lane = 1; lane < 4; ++lane) EXPECT_EQ(packed.read_integer(at + lane), 0);
  EXPECT_EQ(unpack(layout, packed, row_major.shape()), row_major);
}

TEST(PanelLayout, unpacks_parts_into_what_they_are_of) {
  TensorData row_major = TensorData::zeros(DType::kFloat32, {2, 37, 5});
  for (int64_t i = 0; i < row_major.element_count(); ++i) {
    row_major.write_double(i, std::ldexp(1 + static_cast<double>(i) / 512, static_cast<int>(i) % 270 - 145));
  }
  const PanelLayout layout{.dim = 2, .lanes = 4, .keep = 1, .rest = {1}, .pack = 2, .step = 32, .parts = 3};
  const TensorData packed = pack(layout, row_major, row_major.shape());
  EXPECT_EQ(packed.shape(), (std::vector<int64_t>{2, 2, 32, 3, 4}));
  EXPECT_EQ(unpack(layout, packed, row_major.shape()), row_major);
}

}  // namespace
}  // namespace graft::tile
