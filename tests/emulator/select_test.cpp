// SPDX-License-Identifier: Apache-2.0
// The first ranks of rows that begin anywhere, of every order and length, on emulated GPUs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/gpu_run.h"

namespace graft {
namespace {

struct SelectCase {
  std::string name, shape;
  int count, axis;
  bool largest;
  std::string key = "x";  ///< of what the first ranks are taken
  Bindings sizes = {};
};

void PrintTo(const SelectCase& c, std::ostream* stream) { *stream << c.name; }

std::vector<SelectCase> select_cases() {
  return {
      {"few_of_even_rows", "19, 1024", 8, -1, true},
      {"few_least_of_even_rows", "19, 1024", 8, -1, false},
      {"many_of_odd_rows", "11, 3001", 64, -1, true},
      {"many_least_of_odd_rows", "11, 3001", 64, -1, false},
      {"many_of_rows_of_two_more", "5, 2810", 50, -1, true},
      {"one_of_odd_rows", "9, 517", 1, -1, true},
      {"all_of_short_rows", "7, 13", 13, -1, true},
      {"few_of_short_rows", "37, 60", 2, -1, false},
      {"many_of_small_rows", "3, 129", 128, -1, true},
      {"of_long_rows", "3, 5003", 20, -1, true},
      {"of_columns", "300, 21", 5, 0, true},
      {"of_equal_keys", "6, 771", 40, -1, true, "equal"},
      {"of_few_finite_keys", "6, 771", 40, -1, true, "few"},
      {"of_few_finite_keys_least", "6, 35", 20, -1, false, "few"},
      {"of_nan", "6, 1531", 33, -1, true, "nan"},
      {"of_nan_least", "6, 1531", 33, -1, false, "nan"},
      {"open", "n, 1003", 30, -1, true, "x", {{"n", 13}}},
  };
}

/// Nodes that make the keys of the input: all of few values, most infinite, or some NaN.
std::string keys_of(const SelectCase& c) {
  if (c.key == "equal") return R"(  %equal: ? = Round "round" (%x))";
  if (c.key == "x") return "";
  const std::string rest = c.key == "nan" ? "nan" : c.largest ? "-inf" : "inf";
  return fmt::format(R"(  constant %edge: TYPE[] = {{1}}
  constant %rest: TYPE[] = {{{}}}
  %keeps: ? = Greater "keeps" (%x, %edge)
  %{}: ? = Where "mask" (%keeps, %x, %rest))",
                     rest, c.key);
}

class Selections : public testing::TestWithParam<std::tuple<SelectCase, std::string>> {};

TEST_P(Selections, give_what_the_interpreter_gives) {
  const auto& [c, type] = GetParam();
  std::string body = fmt::format(R"(  input %x: TYPE[{}]
  constant %k: i64[1] = {{{}}}
{}
  %y: ?, %at: ? = TopK "select" (%{}, %k) {{axis = {}, largest = {}, sorted = 1}})",
                                 c.shape, c.count, keys_of(c), c.key, c.axis, c.largest ? 1 : 0);
  for (size_t at; (at = body.find("TYPE")) != body.npos;) body.replace(at, 4, type);
  // What is no number has no difference: then the places tell.
  const std::string keys = c.key == "few" || c.key == "nan" ? "" : "  output %y\n";
  const GpuCase on_gpu(fmt::format("graph \"main\" {{\n  opset \"\" 21\n{}\n{}  output %at\n}}", body, keys), c.sizes);
  EXPECT_EQ(on_gpu.difference(on_gpu.run("sm_90a", "", "")), 0);
}

INSTANTIATE_TEST_SUITE_P(all, Selections,
                         testing::Combine(testing::ValuesIn(select_cases()), testing::Values("f32", "f16", "bf16")),
                         [](const testing::TestParamInfo<Selections::ParamType>& row) {
                           return std::get<0>(row.param).name + "_" + std::get<1>(row.param);
                         });

}  // namespace
}  // namespace graft
