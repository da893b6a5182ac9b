// SPDX-License-Identifier: Apache-2.0
// How much memory a device has.
#pragma once

#include <cstdint>
#include <string_view>

namespace graft {

/// All the memory of `cpu`, `cuda` or `cuda:1`, in bytes. Throws Error where there is no such device.
uint64_t device_memory(std::string_view device);

}  // namespace graft
