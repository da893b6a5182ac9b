// SPDX-License-Identifier: Apache-2.0
// Arithmetic on counts and bytes that cannot wrap: whatever becomes the size of memory is computed here.
#pragma once

#include <cstdint>
#include <string_view>

namespace graft {

/// The most bytes that anything may ask for (16 TiB): more than machines have, and so few that 2^18 of them together
/// fit in 63 bits.
inline constexpr int64_t kMostBytes = int64_t{1} << 44;

/// The bytes themselves, between 0 and kMostBytes; all of these throw out_of_memory naming `what`, how much it would
/// be and the limit.
int64_t checked_bytes(int64_t bytes, std::string_view what);
/// a * b
int64_t checked_product(int64_t a, int64_t b, std::string_view what);
/// a + b
int64_t checked_sum(int64_t a, int64_t b, std::string_view what);
/// `bytes`, rounded up to a multiple of `alignment`.
int64_t checked_aligned(int64_t bytes, int64_t alignment, std::string_view what);

}  // namespace graft
