// SPDX-License-Identifier: Apache-2.0
// An engine's constants on a device: all of them, or none.
#include "runtime/device_code.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/paged_device.h"

namespace graft {
namespace {

Engine with_constants(int count) {
  Engine engine;
  for (int c = 0; c < count; ++c) {
    engine.constants.push_back(TensorData::from_values(DType::kFloat32, {2}, std::vector<float>{1, 2}));
  }
  return engine;
}

TEST(DeviceCode, constants_are_in_the_memory_of_the_device) {
  const auto device = graft_test::make_paged_device();
  const DeviceCode code(with_constants(2), device);
  ASSERT_EQ(code.constants.size(), 2U);
  float back[2] = {};
  device->make_stream()->download(back, code.constants[1], sizeof back);
  EXPECT_EQ(back[1], 2);
}

TEST(DeviceCode, memory_is_given_back_when_an_upload_fails) {
  constexpr int kConstants = 3;
  for (int good = 0; good < kConstants; ++good) {
    // The device fails the test when memory of it is left.
    const auto device = graft_test::make_paged_device(good);
    EXPECT_THROW(DeviceCode(with_constants(kConstants), device), Error) << good;
  }
}

}  // namespace
}  // namespace graft
