// SPDX-License-Identifier: Apache-2.0
// A device for tests without a GPU: its memory can be named everywhere but read and written only through its streams.
#pragma once

#include <limits>
#include <memory>

#include "device/device.h"

namespace graft_test {

/// Kernels do not run there: engines for it are interpreted. Memory that is released too early, twice or never, and
/// copies beyond an allocation, fail the test. `good_uploads`: copies to the device that succeed; later ones fail.
std::shared_ptr<graft::Device> make_paged_device(int good_uploads = std::numeric_limits<int>::max());

}  // namespace graft_test
