// SPDX-License-Identifier: Apache-2.0
// Which layouts are of a tensor: records of choices come from files.
#include "tile/panel_layout.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace graft::tile
