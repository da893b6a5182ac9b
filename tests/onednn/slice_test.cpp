// SPDX-License-Identifier: Apache-2.0
// Slices of a call: every element of the result belongs to one of them, and each reads what it needs.
#include "library/slice.h"

#include <gtest/gtest.h>

#include <set>

namespace graft {
namespace {

LibraryCall product_of(int64_t rows, int64_t columns, int64_t panel) {
  LibraryCall call{.rows = rows, .columns = columns, .depth = 8};
  call.source = {.argument = 0, .strides = {8, 1}};
  call.weights = {.argument = 1, .strides = {columns, 1}};
  if (panel > 0) call.weights = {.argument = 1, .panel = panel};
  call.result = {.argument = 2, .strides = {columns, 1}};
  return call;
}

/// The offsets in the result that the slices write.
std::multiset<int64_t> written(const std::vector<LibraryCall>& slices) {
  std::multiset<int64_t> offsets;
  for (const LibraryCall& call : slices) {
    const std::vector<Size> extents = extents_of(call, CallRole::kResult);
    for (int64_t i = 0; i < element_count(extents).constant(); ++i) {
      int64_t offset = call.result.offset.constant(), rest = i;
      for (size_t d = extents.size(); d-- > 0;) {
        offset += rest % extents[d].constant() * call.result.strides[d].constant();
        rest /= extents[d].constant();
      }
      offsets.insert(offset);
    }
  }
  return offsets;
}

void expect_covered(const LibraryCall& call, LibraryCut cut, int64_t pieces) {
  const auto slices = slice(call, cut, pieces);
  const auto offsets = written(slices);
  EXPECT_EQ(offsets, written({call}));
  EXPECT_LE(slices.size(), static_cast<size_t>(2 * pieces));
  for (const LibraryCall& part : slices) {
    EXPECT_LE(reach_of(part, part.source, CallRole::kSource), reach_of(call, call.source, CallRole::kSource));
    EXPECT_LE(reach_of(part, part.weights, CallRole::kWeights), reach_of(call, call.weights, CallRole::kWeights));
  }
}

TEST(Slices, cover_a_product_once) {
  for (const int64_t rows : {1, 5, 16}) {
    for (const int64_t columns : {1, 17, 100}) {
      for (const int64_t pieces : {1, 2, 4, 7}) {
        expect_covered(product_of(rows, columns, 0), LibraryCut::kRows, pieces);
        expect_covered(product_of(rows, columns, 0), LibraryCut::kColumns, pieces);
        expect_covered(product_of(rows, columns, 32), LibraryCut::kColumns, pieces);
      }
    }
  }
}

TEST(Slices, of_columns_begin_with_panels) {
  for (const LibraryCall& part : slice(product_of(16, 100, 32), LibraryCut::kColumns, 3)) {
    EXPECT_EQ(part.weights.offset.constant() % (32 * 8), 0);
    EXPECT_EQ(part.weights.offset.constant() / (32 * 8) * 32, part.result.offset.constant());
  }
}

LibraryCall convolution_of(int64_t images, int64_t size, int64_t kernel, int64_t stride, int64_t before,
                           int64_t output) {
  LibraryCall call{.rows = images, .columns = 4, .depth = 2};
  call.windows = {
      {.input = size, .output = output, .kernel = kernel, .stride = stride, .dilation = 1, .before = before}};
  call.source = {.argument = 0, .strides = {size * 2, 1, 2}};
  call.weights = {.argument = 1, .strides = {kernel, 2 * kernel, 1}};
  call.result = {.argument = 2, .strides = {output * 4, 1, 4}};
  return call;
}

TEST(Slices, cover_a_convolution_once) {
  for (const int64_t images : {1, 3, 8}) {
    for (const int64_t pieces : {1, 2, 4, 5}) {
      expect_covered(convolution_of(images, 14, 3, 1, 1, 14), LibraryCut::kRows, pieces);
      expect_covered(convolution_of(images, 15, 3, 2, 1, 8), LibraryCut::kRows, pieces);
      expect_covered(convolution_of(images, 9, 1, 2, 0, 5), LibraryCut::kRows, pieces);
    }
  }
}

TEST(Slices, of_a_convolution_read_their_part_of_the_input) {
  const auto slices = slice(convolution_of(1, 14, 3, 1, 1, 14), LibraryCut::kRows, 2);
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(print(slices[1]),
            "product f32 batch [], rows 1, columns 4, depth 2\n"
            "window input 8, output 7, kernel 3, stride 1, dilation 1, before 0\n"
            "source 0 offset 12, strides [28, 1, 2]\n"
            "weights 1 offset 0, strides [3, 6, 1]\n"
            "result 2 offset 28, strides [56, 1, 4]\n");
}

TEST(Slices, of_a_window_that_is_mostly_padding_stay_together) {
  EXPECT_EQ(slice(convolution_of(1, 1, 1, 1, 4, 9), LibraryCut::kRows, 4).size(), 1u);
}

TEST(Slices, of_nothing_are_none) { EXPECT_TRUE(slice(product_of(0, 5, 0), LibraryCut::kRows, 4).empty()); }

}  // namespace
}  // namespace graft
