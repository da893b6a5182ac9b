// SPDX-License-Identifier: Apache-2.0
#include "base/compare.h"

#include <complex>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"

namespace graft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TensorData numbers(std::vector<double> values) {
  return TensorData::from_values(DType::kFloat64, {static_cast<int64_t>(values.size())}, values);
}

TEST(Compare, allows_a_share_of_the_reference_and_an_absolute_part) {
  const Tolerance tolerance{.relative = 0.25, .absolute = 0.5};
  EXPECT_TRUE(compare(numbers({125.5}), numbers({100}), tolerance).agrees());
  EXPECT_FALSE(compare(numbers({125.75}), numbers({100}), tolerance).agrees());
  EXPECT_TRUE(compare(numbers({-0.5}), numbers({0}), tolerance).agrees());
  EXPECT_FALSE(compare(numbers({-0.75}), numbers({0}), tolerance).agrees());
}

TEST(Compare, names_the_first_and_the_worst_element) {
  const Comparison found = compare(numbers({1, 2.5, 1000, 0.5}), numbers({1, 2, 1010, 0.1}), {.relative = 0.1});
  EXPECT_EQ(found.outside, 2);
  EXPECT_EQ(found.first, 1);
  EXPECT_EQ(found.worst, 3);  // 0.4 where 0.01 is allowed, beside 0.5 of 0.2
  EXPECT_DOUBLE_EQ(found.worst_difference, 0.4);
  EXPECT_EQ(found.largest, 10);
}

TEST(Compare, takes_nan_and_infinity_in_the_same_place_for_equal_and_counts_them) {
  const TensorData some = numbers({kNan, kInfinity, -kInfinity, 1});
  const Comparison same = compare(some, some, {});
  EXPECT_TRUE(same.agrees());
  EXPECT_EQ(same.nan, 1);
  EXPECT_EQ(same.reference_infinite, 2);
  const Tolerance all{.relative = 1e300, .absolute = 1e300};
  for (const double other : {1.0, kInfinity, -kInfinity, kNan}) {
    const Comparison found = compare(numbers({0, other}), numbers({0, other == 1 ? kNan : 1}), all);
    EXPECT_EQ(found.worst, 1) << other;
    EXPECT_EQ(found.outside, 1) << other;
  }
  EXPECT_FALSE(compare(numbers({kInfinity}), numbers({-kInfinity}), all).agrees());
}

TEST(Compare, takes_both_parts_of_complex_numbers) {
  const auto one = [](std::complex<float> value) {
    return TensorData::from_values<std::complex<float>>(DType::kComplex64, {1}, {value});
  };
  EXPECT_TRUE(compare(one({3, 4}), one({3, 4}), {}).agrees());
  const Comparison found = compare(one({3, 4.5}), one({3, 4}), {.absolute = 0.25});
  EXPECT_FALSE(found.agrees());
  EXPECT_DOUBLE_EQ(found.worst_difference, 0.5);
  EXPECT_EQ(compare(one({3, static_cast<float>(kNan)}), one({3, 4}), {.absolute = 1}).nan, 1);
}

TEST(Compare, wants_integers_bools_and_strings_equal) {
  const Tolerance all{.relative = 9, .absolute = 9};
  const int64_t large = (int64_t{1} << 60) + 1;
  const auto integer = [](int64_t value) { return TensorData::from_values<int64_t>(DType::kInt64, {1}, {value}); };
  EXPECT_TRUE(compare(integer(large), integer(large), all).agrees());
  EXPECT_FALSE(compare(integer(large), integer(large - 1), all).agrees());
  const auto word = [](const char* text) { return TensorData::from_strings({1}, {text}); };
  EXPECT_TRUE(compare(word("a"), word("a"), all).agrees());
  EXPECT_EQ(compare(word("a"), word("b"), all).worst, 0);
}

TEST(Compare, default_tolerances_are_finer_for_wider_types) {
  EXPECT_EQ(default_tolerance(DType::kInt32, 5).relative, 0);
  const DType types[] = {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3FN,
                         DType::kFloat8E5M2};
  for (size_t i = 1; i < std::size(types); ++i) {
    EXPECT_LT(default_tolerance(types[i - 1], 1).relative, default_tolerance(types[i], 1).relative);
  }
  EXPECT_DOUBLE_EQ(default_tolerance(DType::kFloat32, 100).absolute, 5e-3);
}

TEST(Compare, judges_floats_of_two_types_by_the_narrower_one) {
  const TensorData wide = TensorData::from_values<double>(DType::kFloat32, {2}, {1, 1000});
  const TensorData narrow = TensorData::from_values<double>(DType::kFloat16, {2}, {1.001, 1000});
  EXPECT_TRUE(judge(narrow, wide, {}).agrees);
  EXPECT_TRUE(judge(wide, narrow, {}).agrees);
  const TensorData far = TensorData::from_values<double>(DType::kFloat16, {2}, {1.001, 1100});
  const Judgement found = judge(far, wide, {});
  EXPECT_FALSE(found.agrees);
  EXPECT_EQ(found.found.first, 1);
  EXPECT_NE(found.words.find("WRONG: 1 of 2; worst [1]: 1100, reference 1000"), std::string::npos) << found.words;
  // Of two types of one width neither holds the other's numbers.
  const TensorData brain = TensorData::from_values<double>(DType::kBFloat16, {2}, {1, 1e30});
  const TensorData half = TensorData::from_values<double>(DType::kFloat16, {2}, {1, 1000});
  EXPECT_FALSE(judge(half, brain, {}).agrees);
}

TEST(Compare, judges_f32_by_what_the_network_rounds_to) {
  const TensorData reference = TensorData::from_values<double>(DType::kFloat32, {1}, {1});
  const TensorData result = TensorData::from_values<double>(DType::kFloat32, {1}, {1.005});
  EXPECT_FALSE(judge(result, reference, {}).agrees);
  EXPECT_TRUE(judge(result, reference, {.rounds_to = DType::kFloat16}).agrees);
  EXPECT_FALSE(judge(result, reference, {.relative = 1e-3, .absolute = 0, .rounds_to = DType::kFloat16}).agrees);
}

TEST(Compare, judges_other_types_and_shapes_to_be_wrong) {
  const TensorData number = TensorData::from_values<int64_t>(DType::kInt64, {1}, {1});
  EXPECT_FALSE(judge(number, TensorData::from_values<double>(DType::kFloat32, {1}, {1}), {}).compared);
  const Judgement shapes = judge(number, TensorData::from_values<int64_t>(DType::kInt64, {2}, {1, 1}), {});
  EXPECT_FALSE(shapes.agrees);
  EXPECT_EQ(shapes.words, "WRONG: the reference is i64[2]");
}

TEST(Compare, knows_the_range_of_the_reference) {
  const Comparison found = compare(numbers({1, 2, 3, 4}), numbers({-7, kNan, kInfinity, 5}), {});
  EXPECT_EQ(found.reference_low, -7);
  EXPECT_EQ(found.reference_high, 5);
}

TEST(Compare, prints_places_and_elements) {
  const TensorData tensor = TensorData::from_values<double>(DType::kFloat32, {2, 3}, {0, 1, 2, 3, 4, 5.5});
  EXPECT_EQ(index_text(tensor, 5), "[1, 2]");
  EXPECT_EQ(show_element(tensor, 5), "5.5");
  EXPECT_EQ(show_element(TensorData::from_values<uint64_t>(DType::kUint64, {1}, {~uint64_t{0}}), 0),
            "18446744073709551615");
}

}  // namespace
}  // namespace graft
