// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs through the driver API, which is opened when the first one is asked for.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace graft {

/// Device `ordinal` of the driver. Throws Error{device} saying what is missing: the driver, a GPU, or this one.
std::shared_ptr<Device> open_cuda_device(int ordinal);

/// Empty when the driver opens and sees a GPU, else one sentence that says what is missing.
std::string why_no_cuda_device();

/// The driver's version, "13.0". Throws as open_cuda_device does.
std::string cuda_driver_version();

/// What code is generated for: `sm_90a` and so on. Throws as open_cuda_device does.
std::string cuda_architecture(int ordinal);

}  // namespace graft
