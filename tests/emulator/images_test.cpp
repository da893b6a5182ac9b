// SPDX-License-Identifier: Apache-2.0
// Images that are resized, by whole factors and by others, in pieces and rows that fit threads and that do not, on
// emulated GPUs.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/gpu_run.h"

namespace graft {
namespace {

struct ImageCase {
  std::string name, shape, scales, attributes;
  std::string after = {};  ///< nodes that make %y of the resized %r; empty: %r is the result
  Bindings sizes = {};
};

void PrintTo(const ImageCase& c, std::ostream* stream) { *stream << c.name; }

constexpr const char* kLinear = R"(mode = "linear")";
constexpr const char* kLinearAsymmetric = R"(mode = "linear", coordinate_transformation_mode = "asymmetric")";
constexpr const char* kNearest =
    R"(mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric")";
constexpr const char* kNearestHalfPixel = R"(mode = "nearest", nearest_mode = "round_prefer_ceil")";

std::vector<ImageCase> image_cases() {
  return {
      {"linear_doubles", "[3, 5, 16, 24]", "1, 1, 2, 2", kLinear},
      {"linear_doubles_odd_rows", "[2, 3, 7, 12]", "1, 1, 2, 2", kLinear},
      {"linear_doubles_in_uneven_tiles", "[1, 7, 57, 40]", "1, 1, 2, 2", kLinear},
      {"linear_doubles_many", "[64, 8, 20, 56]", "1, 1, 2, 2", kLinear},
      {"linear_doubles_rows_that_end_in_pieces", "[2, 3, 9, 31]", "1, 1, 2, 2", kLinear},
      {"linear_takes_four", "[2, 3, 6, 8]", "1, 1, 4, 4", kLinear},
      {"linear_takes_eight", "[2, 3, 6, 8]", "1, 1, 8, 8", kLinear},
      {"linear_by_different_factors", "[2, 3, 6, 16]", "1, 1, 4, 2", kLinear},
      {"linear_asymmetric", "[2, 3, 11, 16]", "1, 1, 2, 2", kLinearAsymmetric},
      {"linear_one_axis", "[2, 3, 11, 16]", "1, 1, 1, 2", kLinear},
      {"linear_rows_only", "[2, 3, 11, 16]", "1, 1, 2, 1", kLinear},
      {"linear_thirds", "[2, 3, 6, 8]", "1, 1, 3, 3", kLinear},
      {"linear_fraction_beside_doubles", "[2, 3, 10, 16]", "1, 1, 1.7, 2", kLinear},
      {"linear_doubles_beside_fraction", "[2, 3, 10, 20]", "1, 1, 2, 1.6", kLinear},
      {"linear_by_sixteen_and_eighteen", "[2, 3, 3, 2]", "1, 1, 16, 18", kLinear},
      {"linear_fractions", "[2, 3, 20, 20]", "1, 1, 2.5, 3.2", kLinear},
      {"linear_halves", "[2, 3, 12, 32]", "1, 1, 0.5, 0.5", kLinear},
      {"linear_doubles_and_halves", "[2, 3, 12, 32]", "1, 1, 0.5, 2", kLinear},
      {"linear_volume", "[1, 2, 4, 6, 16]", "1, 1, 2, 2, 2", kLinear},
      {"linear_then_abs", "[2, 3, 10, 16]", "1, 1, 2, 2", kLinear, R"(  %y: ? = Abs "magnitude" (%r))"},
      {"linear_then_added", "[2, 3, 8, 16]", "1, 1, 2, 2", kLinear, R"(  input %s: TYPE[2, 3, 16, 32]
  %y: ? = Add "add" (%r, %s))"},
      {"linear_then_joined", "[2, 3, 8, 16]", "1, 1, 2, 2", kLinear, R"(  input %s: TYPE[2, 5, 16, 32]
  %y: ? = Concat "join" (%r, %s) {axis = 1})"},
      {"linear_then_padded", "[2, 3, 8, 16]", "1, 1, 2, 2", kLinear,
       R"(  constant %pads: i64[8] = {0, 1, 2, 8, 0, 0, 2, 8}
  %y: ? = Pad "pad" (%r, %pads))"},
      {"linear_open", "[n, 3, h, w]", "1, 1, 2, 2", kLinear, "", {{"n", 2}, {"h", 9}, {"w", 12}}},
      {"linear_open_odd", "[n, 3, h, w]", "1, 1, 2, 2", kLinear, "", {{"n", 2}, {"h", 9}, {"w", 13}}},
      {"linear_open_batch", "[n, 3, 10, 16]", "1, 1, 2, 2", kLinear, "", {{"n", 5}}},
      {"linear_open_rows", "[n, 3, h, 32]", "1, 1, 2, 2", kLinear, "", {{"n", 2}, {"h", 21}}},
      {"cubic_doubles", "[2, 3, 6, 16]", "1, 1, 2, 2", R"(mode = "cubic")"},
      {"antialiased", "[2, 3, 12, 32]", "1, 1, 0.5, 0.5", R"(mode = "linear", antialias = 1)"},
      {"nearest_doubles", "[3, 5, 16, 24]", "1, 1, 2, 2", kNearest},
      {"nearest_doubles_in_uneven_tiles", "[1, 7, 57, 40]", "1, 1, 2, 2", kNearest},
      {"nearest_doubles_many", "[64, 8, 20, 56]", "1, 1, 2, 2", kNearest},
      {"nearest_half_pixel", "[2, 3, 7, 16]", "1, 1, 2, 2", kNearestHalfPixel},
      {"nearest_takes_four", "[2, 3, 7, 16]", "1, 1, 4, 4", kNearest},
      {"nearest_by_different_factors", "[2, 3, 7, 16]", "1, 1, 3, 2", kNearest},
      {"nearest_columns_only", "[2, 3, 7, 16]", "1, 1, 1, 2", kNearest},
      {"nearest_odd", "[2, 3, 7, 13]", "1, 1, 2, 2", kNearest},
      {"nearest_then_added", "[2, 3, 8, 16]", "1, 1, 2, 2", kNearest, R"(  input %s: TYPE[2, 3, 16, 32]
  %y: ? = Add "add" (%r, %s))"},
      {"nearest_then_joined", "[2, 3, 8, 16]", "1, 1, 2, 2", kNearest, R"(  input %s: TYPE[2, 5, 16, 32]
  %y: ? = Concat "join" (%r, %s) {axis = 1})"},
      {"nearest_then_turned", "[2, 3, 8, 16]", "1, 1, 2, 2", kNearest,
       R"(  %y: ? = Transpose "turn" (%r) {perm = [0, 2, 3, 1]})"},
      {"nearest_open", "[n, 3, h, w]", "1, 1, 2, 2", kNearest, "", {{"n", 2}, {"h", 9}, {"w", 12}}},
  };
}

class Images : public testing::TestWithParam<std::tuple<ImageCase, std::string>> {};

/// A block's threads make the same bits as maps that are computed one after the other, and what the interpreter makes.
TEST_P(Images, give_what_the_interpreter_gives) {
  const auto& [c, type] = GetParam();
  std::string after = c.after.empty() ? "" : c.after + "\n";
  for (size_t at; (at = after.find("TYPE")) != after.npos;) after.replace(at, 4, type);
  const auto axes = std::count(c.scales.begin(), c.scales.end(), ',') + 1;
  const GpuCase on_gpu(fmt::format(R"(graph "main" {{
  opset "" 21
  input %x: {0}{1}
  constant %roi: f32[0] = {{}}
  constant %scales: f32[{2}] = {{{3}}}
  %r: ? = Resize "resize" (%x, %roi, %scales) {{{4}}}
{5}  output %{6}
}})",
                                   type, c.shape, axes, c.scales, c.attributes, after, c.after.empty() ? "r" : "y"),
                       c.sizes);
  const auto by_blocks = on_gpu.run("sm_90a", "", "");
  EXPECT_LE(on_gpu.difference(by_blocks), tolerance_on_gpu(type == "f32" || type == "u8" ? "f32" : "f16"));
  const auto by_maps = on_gpu.run("sm_90a", "resize", "nest chunk=1024 lanes=16");
  ASSERT_EQ(by_blocks.size(), by_maps.size());
  for (size_t i = 0; i < by_maps.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(by_blocks[i].bytes(), by_maps[i].bytes()));
  }
}

/// A thread has eleven rows of the tile, and the places of its columns but once.
TEST(ImageRows, share_the_places_of_their_columns) {
  for (const char* attributes : {kNearest, kNearestHalfPixel}) {
    const GpuCase on_gpu(fmt::format(R"(graph "main" {{
  opset "" 21
  input %x: f32[2, 3, 11, 12]
  constant %sizes: i64[4] = {{2, 3, 88, 32}}
  %y: ? = Resize "resize" (%x, _, _, %sizes) {{{}}}
  output %y
}})", attributes), {});
    EXPECT_EQ(on_gpu.difference(on_gpu.run("sm_90a", "resize", "block z=1 y=88 x=32 warps=2")), 0) << attributes;
  }
}

INSTANTIATE_TEST_SUITE_P(all, Images,
                         testing::Combine(testing::ValuesIn(image_cases()), testing::Values("f32", "f16", "u8")),
                         [](const testing::TestParamInfo<Images::ParamType>& image) {
                           return std::get<0>(image.param).name + "_" + std::get<1>(image.param);
                         });

}  // namespace
}  // namespace graft
