// SPDX-License-Identifier: Apache-2.0
// A device for tests without a GPU: its memory can be named everywhere but read and written only through its streams.
#pragma once

#include <memory>

#include "device/device.h"

namespace graft_test {

/// Kernels do not run there: engines for it are interpreted. Memory that is released too early, twice or never, and
/// copies beyond an allocation, fail the test.
std::shared_ptr<graft::Device> make_paged_device();

}  // namespace graft_test
