// SPDX-License-Identifier: Apache-2.0
// Rows that begin at any element: joined, cut out, padded, looked up and computed with, on emulated GPUs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/gpu_run.h"

namespace graft {
namespace {

struct RowCase {
  std::string name, body;  ///< inputs and nodes of a graph; TYPE stands for the type of elements
  Bindings sizes = {};
};

void PrintTo(const RowCase& c, std::ostream* stream) { *stream << c.name; }

std::vector<RowCase> row_cases() {
  return {
      {"joined", R"(  input %a: TYPE[11, 300]
  input %b: TYPE[11, 33]
  input %c: TYPE[11, 65]
  %y: ? = Concat "join" (%a, %b, %c) {axis = 1})"},
      {"joined_open", R"(  input %a: TYPE[n, 101]
  input %b: TYPE[n, 50]
  %y: ? = Concat "join" (%a, %b) {axis = -1})",
       {{"n", 37}}},
      {"cut_out", R"(  input %x: TYPE[7, 1031]
  constant %from: i64[2] = {1, 3}
  constant %to: i64[2] = {7, 1030}
  %y: ? = Slice "cut" (%x, %from, %to))"},
      {"cut_out_with_steps", R"(  input %x: TYPE[9, 2, 131]
  constant %from: i64[3] = {8, 0, 2}
  constant %to: i64[3] = {0, 2, 130}
  constant %axes: i64[3] = {0, 1, 2}
  constant %steps: i64[3] = {-2, 1, 1}
  %y: ? = Slice "cut" (%x, %from, %to, %axes, %steps))"},
      {"padded", R"(  input %x: TYPE[2, 3, 28, 56]
  constant %pads: i64[8] = {0, 0, 1, 1, 0, 0, 1, 1}
  %y: ? = Pad "pad" (%x, %pads))"},
      {"padded_unevenly", R"(  input %x: TYPE[3, 5, 29, 31]
  constant %pads: i64[8] = {0, 1, 2, 3, 0, 0, 0, 5}
  %y: ? = Pad "pad" (%x, %pads))"},
      {"looked_up", R"(  input %x: TYPE[50, 77]
  constant %rows: i64[3, 5] = {0, 49, -1, 7, 7, 3, 2, 1, 0, -50, 10, 20, 30, 40, 41}
  %y: ? = Gather "look_up" (%x, %rows))"},
      {"looked_up_long", R"(  input %x: TYPE[20, 613]
  constant %rows: i64[7] = {0, 19, -1, 7, 7, 3, -20}
  %y: ? = Gather "look_up" (%x, %rows))"},
      {"joined_open_long", R"(  input %a: TYPE[5, n]
  input %b: TYPE[5, 1001]
  %y: ? = Concat "join" (%a, %b) {axis = -1})",
       {{"n", 1507}}},
      {"joined_channels", R"(  input %a: TYPE[2, 5, 8, 16]
  input %b: TYPE[2, 2, 8, 16]
  input %c: TYPE[2, 1, 8, 16]
  %y: ? = Concat "join" (%a, %b, %c) {axis = 1})"},
      {"padded_small_images", R"(  input %x: TYPE[9, 5, 7, 7]
  constant %pads: i64[8] = {0, 0, 1, 1, 0, 0, 1, 1}
  %y: ? = Pad "pad" (%x, %pads))"},
      {"joined_short", R"(  input %a: TYPE[40, 6, 11]
  input %b: TYPE[40, 6, 2]
  %y: ? = Concat "join" (%a, %b) {axis = 2})"},
      {"cut_out_and_computed_with", R"(  input %x: TYPE[6, 30, 31]
  input %s: TYPE[29]
  constant %from: i64[2] = {1, 1}
  constant %to: i64[2] = {29, 30}
  constant %axes: i64[2] = {1, 2}
  %m: ? = Slice "cut" (%x, %from, %to, %axes)
  %y: ? = Mul "scale" (%m, %s))"},
      {"activated", R"(  input %x: TYPE[37, 2048]
  input %b: TYPE[2048]
  %m: ? = Add "bias" (%x, %b)
  %r: ? = Relu "clamp" (%m)
  %y: ? = Mul "square" (%r, %m))"},
      {"turned_over_long", R"(  input %x: TYPE[1033, 67]
  %y: ? = Transpose "turn" (%x) {perm = [1, 0]})"},
      {"turned", R"(  input %x: TYPE[5, 4, 63]
  %y: ? = Transpose "turn" (%x) {perm = [1, 0, 2]})"},
      {"turned_over", R"(  input %x: TYPE[133, 201]
  %y: ? = Transpose "turn" (%x) {perm = [1, 0]})"},
      {"turned_over_open", R"(  input %x: TYPE[2, n, 77]
  %y: ? = Transpose "turn" (%x) {perm = [0, 2, 1]})",
       {{"n", 141}}},
      {"resized", R"(  input %x: TYPE[1, 2, 29, 31]
  constant %roi: TYPE[0] = {}
  constant %scales: f32[4] = {1, 1, 2, 2}
  %y: ? = Resize "resize" (%x, %roi, %scales) {mode = "linear"})"},
      {"upper", R"(  input %x: TYPE[3, 45, 67]
  %y: ? = Trilu "upper" (%x) {upper = 1})"},
      {"computed_with", R"(  input %x: TYPE[6, 19, 45]
  input %s: TYPE[19, 1]
  %m: ? = Mul "scale" (%x, %s)
  %y: ? = Relu "clamp" (%m))"},
  };
}

class Rows : public testing::TestWithParam<std::tuple<RowCase, std::string, std::string>> {};

TEST_P(Rows, give_what_the_interpreter_gives) {
  const auto& [c, type, target] = GetParam();
  std::string body = c.body;
  for (size_t at; (at = body.find("TYPE")) != body.npos;) body.replace(at, 4, type);
  const GpuCase on_gpu(fmt::format("graph \"main\" {{\n  opset \"\" 21\n{}\n  output %y\n}}", body), c.sizes);
  EXPECT_LE(on_gpu.difference(on_gpu.run(target, "", "")), tolerance_on_gpu(type == "f32" ? "f32" : "f16"));
}

INSTANTIATE_TEST_SUITE_P(all, Rows,
                         testing::Combine(testing::ValuesIn(row_cases()), testing::Values("f32", "f16", "f64"),
                                          testing::Values("sm_90a")),
                         [](const testing::TestParamInfo<Rows::ParamType>& row) {
                           return std::get<0>(row.param).name + "_" + std::get<1>(row.param);
                         });

}  // namespace
}  // namespace graft
