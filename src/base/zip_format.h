// SPDX-License-Identifier: Apache-2.0
// Constants of the zip format (PKWARE's APPNOTE 6.3).
#pragma once

#include <cstddef>
#include <cstdint>

namespace graft {

constexpr uint32_t kLocalHeader = 0x04034B50, kCentralHeader = 0x02014B50, kEndRecord = 0x06054B50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
/// A deflated entry may grow to this much: deflate itself cannot do better than 1032 to 1.
constexpr uint64_t kMaxGrowth = 1032;

}  // namespace graft
