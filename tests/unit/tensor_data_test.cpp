// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/tensor_data.h"

namespace graft {
namespace {

TEST(TensorData, int4_elements_share_bytes_low_nibble_first) {
  const TensorData x = TensorData::from_values<int>(DType::kInt4, {3}, {1, -2, 7});
  ASSERT_EQ(x.byte_count(), 2);
  EXPECT_EQ(x.bytes()[0], std::byte{0xe1});
  EXPECT_EQ(x.bytes()[1], std::byte{0x07});
  EXPECT_EQ(x.read_integer(1), -2);
  EXPECT_EQ(x.read_double(2), 7);
}

TEST(TensorData, int2_elements_are_four_to_a_byte) {
  TensorData x = TensorData::zeros(DType::kInt2, {5});
  ASSERT_EQ(x.byte_count(), 2);
  for (int i = 0; i < 5; ++i) x.write_integer(i, i - 2);
  EXPECT_EQ(x.bytes()[0], std::byte{0b01001110});
  EXPECT_EQ(x.read_integer(0), -2);
  EXPECT_EQ(x.read_integer(4), -2);  // 2 wraps
}

TEST(TensorData, float4_elements_round_and_pack) {
  const TensorData x = TensorData::from_values<double>(DType::kFloat4E2M1, {2}, {1.4, -100});
  ASSERT_EQ(x.byte_count(), 1);
  EXPECT_EQ(x.read_double(0), 1.5);
  EXPECT_EQ(x.read_double(1), -6);
}

TEST(TensorData, every_numeric_type_reads_back_what_it_holds_exactly) {
  for (int code = 1; code <= 26; ++code) {
    const DType type = *dtype_from_onnx(code);
    const DTypeKind kind = kind_of(type);
    if (kind == DTypeKind::kOpaque || kind == DTypeKind::kComplex) continue;
    TensorData x = TensorData::zeros(type, {9});
    x.write_double(5, 1);
    const bool has_zero = type != DType::kFloat8E8M0;
    for (int i = 0; i < 9; ++i) {
      if (i != 5 && !has_zero) continue;
      EXPECT_EQ(x.read_double(i), i == 5 ? 1 : 0) << name_of(type);
      EXPECT_EQ(x.read_integer(i), i == 5 ? 1 : 0) << name_of(type);
    }
    std::vector<double> values(4);
    x.read_doubles(3, values);
    EXPECT_EQ(values[2], 1) << name_of(type);
  }
}

TEST(TensorData, unsigned_64_bit_values_keep_their_bits) {
  TensorData x = TensorData::zeros(DType::kUint64, {1});
  x.write_integer(0, -1);
  EXPECT_EQ(x.read_integer(0), -1);
  EXPECT_EQ(x.read_double(0), 0x1p64);
}

TEST(TensorData, a_copy_shares_bytes_until_one_is_written) {
  TensorData a = TensorData::from_values<float>(DType::kFloat32, {2}, {1, 2});
  TensorData b = a;
  EXPECT_EQ(a.bytes().data(), b.bytes().data());
  b.write_double(0, 5);
  EXPECT_EQ(a.read_double(0), 1);
  EXPECT_EQ(b.read_double(0), 5);
  EXPECT_FALSE(a == b);
}

TEST(TensorData, borrowed_bytes_are_kept_alive_and_never_written) {
  alignas(8) const float values[] = {1, 2, 3};
  auto alive = std::make_shared<int>(0);
  TensorData x = TensorData::borrow(DType::kFloat32, {3}, std::as_bytes(std::span(values)), alive);
  EXPECT_EQ(x.bytes().data(), reinterpret_cast<const std::byte*>(values));
  EXPECT_EQ(alive.use_count(), 2);
  x.write_double(1, 9);
  EXPECT_EQ(values[1], 2);
  EXPECT_EQ(x.as<float>()[1], 9);
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(TensorData, misaligned_bytes_are_copied_to_an_aligned_place) {
  alignas(8) std::byte bytes[12] = {};
  const float value = 2.5f;
  std::memcpy(bytes + 1, &value, 4);
  const TensorData x = TensorData::borrow(DType::kFloat32, {1}, std::span(bytes + 1, 4), nullptr);
  EXPECT_EQ(x.as<float>()[0], 2.5f);
}

TEST(TensorData, refuses_shapes_that_overflow_or_are_negative) {
  const auto kind = [](std::vector<int64_t> shape) {
    try {
      checked_element_count(DType::kFloat32, shape);
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kInternal;
  };
  EXPECT_EQ(kind({INT64_MAX, 2}), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind({INT64_MAX / 4}), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind({3, -1}), ErrorKind::kInvalidArgument);
  EXPECT_EQ(checked_element_count(DType::kFloat32, std::vector<int64_t>{INT64_MAX, 0, 5}), 0);
}

TEST(TensorData, the_number_of_values_must_be_that_of_the_shape) {
  EXPECT_THROW(TensorData::from_values<float>(DType::kFloat32, {3}, {1, 2}), Error);
  const std::byte bytes[3] = {};
  EXPECT_THROW(TensorData::from_bytes(DType::kFloat32, {1}, bytes), Error);
}

TEST(TensorData, strings_and_complex_numbers_have_elements_too) {
  TensorData s = TensorData::from_strings({2}, {"a", "b"});
  TensorData t = s;
  t.mutable_strings()[0] = "c";
  EXPECT_EQ(s.strings()[0], "a");
  EXPECT_FALSE(s == t);
  const TensorData z = TensorData::from_values<std::complex<float>>(DType::kComplex64, {1}, {{1, 2}});
  EXPECT_EQ(z.as<float>()[1], 2);
  EXPECT_EQ(z.as<std::complex<float>>()[0], std::complex<float>(1, 2));
}

TEST(TensorData, empty_and_scalar_tensors_work) {
  const TensorData empty = TensorData::zeros(DType::kFloat32, {0, 3});
  EXPECT_EQ(empty.element_count(), 0);
  EXPECT_TRUE(empty.as<float>().empty());
  EXPECT_TRUE(empty == TensorData::zeros(DType::kFloat32, {0, 3}));
  EXPECT_EQ(TensorData::from_values<float>(DType::kFloat32, {}, {4}).read_double(0), 4);
}

}  // namespace
}  // namespace graft
