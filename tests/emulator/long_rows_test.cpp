// SPDX-License-Identifier: Apache-2.0
// What one block does alone on emulated GPUs, over more elements than it looks at together: sorting and compaction.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/gpu_run.h"

namespace graft {
namespace {

struct Body {
  std::string name, text;
  Bindings sizes = {};
};

void PrintTo(const Body& body, std::ostream* stream) { *stream << body.name; }

class LongRows : public testing::TestWithParam<Body> {};

TEST_P(LongRows, give_what_the_interpreter_gives) {
  const Body& body = GetParam();
  const GpuCase on_gpu(fmt::format("graph \"main\" {{\n  opset \"\" 21\n{}}}", body.text), body.sizes);
  EXPECT_EQ(on_gpu.difference(on_gpu.run("sm_90a", "", "")), 0);
}

/// TopK of all elements of rows, whose keys `make` computes.
std::string sorted(const std::string& shape, int64_t length, const std::string& make, bool largest) {
  return fmt::format(R"(  input %x: f32[{}]
  constant %k: i64[1] = {{{}}}
  constant %edge: f32[] = {{0.5}}
  constant %nan: f32[] = {{nan}}
  constant %four: f32[] = {{4}}
{}
  %y: ?, %at: ? = TopK "sort" (%key, %k) {{axis = -1, largest = {}, sorted = 1}}
  output %at
)",
                     shape, length, make, largest ? 1 : 0);
}

constexpr const char* kAsTheyAre = R"(  %key: ? = Identity "key" (%x))";
constexpr const char* kMostlyEqual = R"(  %scaled: ? = Mul "scaled" (%x, %four)
  %key: ? = Round "key" (%scaled))";
constexpr const char* kSomeNan = R"(  %keeps: ? = Greater "keeps" (%x, %edge)
  %key: ? = Where "key" (%keeps, %x, %nan))";

const std::string kNonZero = R"(  constant %edge: f32[] = {EDGE}
  %large: ? = Greater "large" (%x, %edge)
  %at: ? = NonZero "places" (%large)
  output %at
)";

std::string places(const std::string& input, const std::string& edge) {
  std::string text = "  input %x: f32[" + input + "]\n" + kNonZero;
  return text.replace(text.find("EDGE"), 4, edge);
}

INSTANTIATE_TEST_SUITE_P(
    all, LongRows,
    testing::Values(Body{"sort_of_two_chunks", sorted("2, 4096", 4096, kAsTheyAre, true)},
                    Body{"sort_of_an_odd_length", sorted("5003", 5003, kAsTheyAre, false)},
                    Body{"sort_of_one_more_than_chunks", sorted("8193", 8193, kAsTheyAre, true)},
                    Body{"sort_of_equal_keys", sorted("6001", 6001, kMostlyEqual, true)},
                    Body{"sort_of_some_nan", sorted("4500", 4500, kSomeNan, false)},
                    Body{"sort_of_short_rows", sorted("3, 301", 301, kAsTheyAre, true)},
                    Body{"places_of_many", places("3, 9001", "-1")}, Body{"places_of_few", places("20011", "2.5")},
                    Body{"places_of_none", places("9000", "100")}, Body{"places_of_all", places("16384", "-100")},
                    Body{"places_of_few_elements", places("5, 7", "0")},
                    Body{"places_in_open_sizes", places("n, 77", "0.3"), {{"n", 211}}}),
    [](const testing::TestParamInfo<Body>& row) { return row.param.name; });

}  // namespace
}  // namespace graft
