// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "device/device.h"

namespace graft {

/// A stream in a context of the driver, which stays the caller's. Throws Error{device}.
std::unique_ptr<DeviceStream> make_cuda_stream(void* context);

}  // namespace graft
