// SPDX-License-Identifier: Apache-2.0
// Tensors of DLPack as views.
#include <gtest/gtest.h>

#include "graft/graft.h"

namespace {

// The layout of dlpack.h 1.0, whose names differ from ours.
struct Device {
  int32_t device_type, device_id;
};
struct Type {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  Device device;
  int32_t ndim;
  Type dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

constexpr uint8_t kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6;

TEST(DlPack, a_tensor_is_described_where_it_lies) {
  float values[12] = {};
  int64_t shape[] = {2, 3}, strides[] = {1, 2};
  const DlTensor tensor{values, {2, 0}, 2, {kFloat, 32, 1}, shape, strides, 8};
  const graft::TensorView view = graft::view_of_dlpack("x", tensor);
  EXPECT_EQ(view.name, "x");
  EXPECT_EQ(view.dtype, graft::DataType::kFloat32);
  EXPECT_EQ(view.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(view.strides, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(view.data, values + 2);
  EXPECT_EQ(view.device, GRAFT_CUDA);
  const DlTensor dense{values, {1, 0}, 2, {kFloat, 32, 1}, shape, nullptr, 0};
  EXPECT_TRUE(graft::view_of_dlpack("x", dense).strides.empty());
  EXPECT_EQ(graft::view_of_dlpack("x", dense).device, GRAFT_CPU);
}

TEST(DlPack, every_element_type_has_its_equal_or_is_refused) {
  const auto type_of = [](Type type) {
    return graft::view_of_dlpack("x", DlTensor{nullptr, {1, 0}, 0, type, nullptr, nullptr, 0}).dtype;
  };
  EXPECT_EQ(type_of({kInt, 64, 1}), graft::DataType::kInt64);
  EXPECT_EQ(type_of({kInt, 8, 1}), graft::DataType::kInt8);
  EXPECT_EQ(type_of({kUint, 16, 1}), graft::DataType::kUint16);
  EXPECT_EQ(type_of({kFloat, 16, 1}), graft::DataType::kFloat16);
  EXPECT_EQ(type_of({kFloat, 64, 1}), graft::DataType::kFloat64);
  EXPECT_EQ(type_of({kBfloat, 16, 1}), graft::DataType::kBFloat16);
  EXPECT_EQ(type_of({kBool, 8, 1}), graft::DataType::kBool);
  for (const Type type : {Type{kFloat, 8, 1}, {kInt, 4, 1}, {kComplex, 64, 1}, {kFloat, 32, 4}, {kBfloat, 32, 1}}) {
    EXPECT_THROW(type_of(type), graft::Error);
  }
}

}  // namespace
