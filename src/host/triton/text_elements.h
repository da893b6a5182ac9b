// SPDX-License-Identifier: Apache-2.0
// Triton's strings: each element is its length (32 bits, little-endian) and its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graft/graft_c.h"

namespace graft::triton {

/// Finds the elements of a tensor, which stay where they are. Throws Error unless there are `count` of them.
void read_texts(std::span<const std::byte> bytes, uint64_t count, std::vector<graft_text>& texts);
/// How many bytes the elements take.
uint64_t bytes_of_texts(std::span<const graft_text> texts);
/// Writes the elements, as many bytes as they take.
void write_texts(std::span<const graft_text> texts, std::byte* bytes);

}  // namespace graft::triton
