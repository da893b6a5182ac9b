// SPDX-License-Identifier: Apache-2.0
// The functions of this process that generated CPU kernels may call, by name, and nothing else.
#pragma once

#include <cstdint>
#include <string_view>

namespace graft {

/// The address of an allowed function, or null.
void* find_host_function(std::string_view name);

}  // namespace graft

extern "C" {

/// Sorts one row in place, stably, without allocating; NaN counts as largest. `type` is the ONNX code of the keys'
/// element type; strides are in elements. Positions move with their keys.
void graft_host_sort(void* keys, int64_t key_stride, int64_t* positions, int64_t position_stride, int64_t length,
                     int32_t type, int32_t descending);

/// Moves the first `count` elements of the sorted row to its front and their places into `positions`, which has room
/// for twice as many, side by side; the rest of both is left undefined. Keys have at most 32 bits, a row fewer than
/// 2^32 elements. Otherwise as graft_host_sort.
void graft_host_select(void* keys, int64_t key_stride, int64_t* positions, int64_t position_stride, int64_t length,
                       int64_t count, int32_t type, int32_t descending);
}
