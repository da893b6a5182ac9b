// SPDX-License-Identifier: Apache-2.0
// Rows that threads keep between passes: normalisations whose rows a warp or a block has, on emulated GPUs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/gpu_run.h"

namespace graft {
namespace {

struct KeptCase {
  std::string name, body;  ///< inputs and nodes of a graph; TYPE stands for the type of elements
  Bindings sizes = {};
};

void PrintTo(const KeptCase& c, std::ostream* stream) { *stream << c.name; }

std::string normalised(const std::string& shape, int length) {
  return fmt::format(R"(  input %x: TYPE[{}]
  input %scale: TYPE[{}]
  input %bias: TYPE[{}]
  %y: ? = LayerNormalization "normalise" (%x, %scale, %bias))",
                     shape, length, length);
}

std::string normalised_groups(const std::string& shape, int groups, int channels) {
  return fmt::format(R"(  input %x: TYPE[{}]
  input %scale: TYPE[{}]
  input %bias: TYPE[{}]
  %y: ? = GroupNormalization "normalise" (%x, %scale, %bias) {{num_groups = {}}})",
                     shape, channels, channels, groups);
}

std::vector<KeptCase> kept_cases() {
  return {
      {"row_of_a_warp", normalised("21, 768", 768)},
      {"row_of_a_warp_in_part", normalised("9, 1023", 1023)},
      {"row_of_a_block", normalised("5, 8192", 8192)},
      {"row_of_a_block_in_part", normalised("3, 6152", 6152)},
      {"rows_of_a_block_open", normalised("n, 4112", 4112), {{"n", 7}}},
      {"groups_of_a_block", normalised_groups("2, 16, 56, 56", 2, 16)},
      {"groups_of_a_block_in_part", normalised_groups("1, 24, 30, 34", 3, 24)},
      {"groups_of_odd_planes", normalised_groups("1, 12, 41, 33", 2, 12)},
  };
}

class KeptRows : public testing::TestWithParam<std::tuple<KeptCase, std::string>> {};

TEST_P(KeptRows, give_what_the_interpreter_gives) {
  const auto& [c, type] = GetParam();
  std::string body = c.body;
  for (size_t at; (at = body.find("TYPE")) != body.npos;) body.replace(at, 4, type);
  const GpuCase on_gpu(fmt::format("graph \"main\" {{\n  opset \"\" 21\n{}\n  output %y\n}}", body), c.sizes);
  EXPECT_LE(on_gpu.difference(on_gpu.run("sm_90a", "", "")), tolerance_on_gpu(type));
}

INSTANTIATE_TEST_SUITE_P(all, KeptRows,
                         testing::Combine(testing::ValuesIn(kept_cases()), testing::Values("f32", "f16", "bf16")),
                         [](const testing::TestParamInfo<KeptRows::ParamType>& row) {
                           return std::get<0>(row.param).name + "_" + std::get<1>(row.param);
                         });

}  // namespace
}  // namespace graft
