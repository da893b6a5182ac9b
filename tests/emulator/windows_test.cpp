// SPDX-License-Identifier: Apache-2.0
// Windows over images whose channels lie last, in tiles that do not divide them: rows stream through a thread's points.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/gpu_run.h"

namespace graft {
namespace {

struct WindowCase {
  std::string name, shape;  ///< of the images, channels last
  std::string constants, node, end;  ///< %u -> %v, then %y; TYPE stands for the type of elements
  std::vector<std::string> schedules;
  Bindings sizes = {};
};

void PrintTo(const WindowCase& c, std::ostream* stream) { *stream << c.name; }

std::string tile(int z, int y, int x, int warps) {
  return fmt::format("block z={} y={} x={} warps={}", z, y, x, warps);
}

std::vector<WindowCase> window_cases() {
  const std::string bounds = "  constant %low: TYPE[] = all 0\n  constant %high: TYPE[] = all 0.75\n";
  const auto weights = [&](int channels, int side) {
    return bounds + fmt::format("  input %w: TYPE[{0}, 1, {1}, {1}]\n  input %b: TYPE[{0}]\n", channels, side);
  };
  const std::string clip = "  %c: ? = Clip \"clip\" (%v, %low, %high)\n", given = "  %c: ? = Identity \"same\" (%v)\n";
  const auto pool = [](const std::string& op, const std::string& more) {
    return fmt::format("  %v: ? = {} \"window\" (%u) {{kernel_shape = [3, 3], {}}}\n", op, more);
  };
  const auto convolution = [](int channels, const std::string& more) {
    return fmt::format("  %v: ? = Conv \"window\" (%u, %w, %b) {{group = {}, {}}}\n", channels, more);
  };
  return {
      {"average", "2, 23, 21, 40", "", pool("AveragePool", "pads = [1, 1, 1, 1]"), given,
       {tile(8, 8, 40, 3), tile(14, 6, 40, 2), tile(5, 7, 20, 5), tile(3, 1, 40, 1)}},
      {"average_with_steps", "n, 19, 22, 6", "", pool("AveragePool", "pads = [1, 0, 0, 1], strides = [2, 2]"), given,
       {tile(4, 6, 6, 1), tile(9, 3, 6, 2)}, {{"n", 3}}},
      {"greatest", "2, 17, 29, 7", "", pool("MaxPool", "pads = [1, 1, 1, 1], strides = [2, 2]"), given,
       {tile(8, 8, 7, 1), tile(5, 4, 7, 2)}},
      {"greatest_apart", "1, 20, 18, 8", "", pool("MaxPool", "pads = [2, 2, 2, 2], dilations = [2, 2]"), given,
       {tile(6, 4, 8, 1), tile(10, 9, 8, 3)}},
      {"single_channels", "2, 15, 13, 24", weights(24, 3), convolution(24, "pads = [1, 1, 1, 1]"), clip,
       {tile(8, 8, 24, 3), tile(15, 4, 24, 1), tile(4, 6, 12, 2)}},
      {"single_channels_with_steps", "1, 18, 21, 10", weights(10, 3),
       convolution(10, "pads = [0, 1, 1, 0], strides = [2, 2]"), clip, {tile(9, 4, 10, 1), tile(3, 5, 10, 2)}},
      {"single_channels_wide_windows", "n, 14, 17, 5", weights(5, 5), convolution(5, "pads = [2, 2, 2, 2]"), clip,
       {tile(7, 6, 5, 1), tile(5, 17, 5, 2)}, {{"n", 2}}},
  };
}

class Windows : public testing::TestWithParam<std::tuple<WindowCase, std::string>> {};

TEST_P(Windows, give_what_the_interpreter_gives) {
  const auto& [c, type] = GetParam();
  std::string body = fmt::format(
      "  input %x: TYPE[{}]\n{}  %u: ? = Transpose \"first\" (%x) {{perm = [0, 3, 1, 2]}}\n{}{}"
      "  %y: ? = Transpose \"last\" (%c) {{perm = [0, 2, 3, 1]}}",
      c.shape, c.constants, c.node, c.end);
  for (size_t at; (at = body.find("TYPE")) != body.npos;) body.replace(at, 4, type);
  const GpuCase on_gpu(fmt::format("graph \"main\" {{\n  opset \"\" 21\n{}\n  output %y\n}}", body), c.sizes);
  for (const std::string& schedule : c.schedules) {
    SCOPED_TRACE(schedule);
    EXPECT_LE(on_gpu.difference(on_gpu.run("sm_90a", "window", schedule)), tolerance_on_gpu(type));
  }
  EXPECT_LE(on_gpu.difference(on_gpu.run("sm_90a", "", "")), tolerance_on_gpu(type));
}

INSTANTIATE_TEST_SUITE_P(all, Windows,
                         testing::Combine(testing::ValuesIn(window_cases()), testing::Values("f32", "f16")),
                         [](const testing::TestParamInfo<Windows::ParamType>& each) {
                           return std::get<0>(each.param).name + "_" + std::get<1>(each.param);
                         });

}  // namespace
}  // namespace graft
