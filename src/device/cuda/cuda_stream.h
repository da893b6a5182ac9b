// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "device/device.h"

namespace graft {

/// A stream in a context of the driver, which stays the caller's. `overlaps`: its kernels wait themselves for those
/// before them (griddepcontrol, from sm_90 on), so that they may be brought to the multiprocessors early. Throws
/// Error{device}.
std::unique_ptr<DeviceStream> make_cuda_stream(void* context, bool overlaps);

}  // namespace graft
