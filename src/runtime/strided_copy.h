// SPDX-License-Identifier: Apache-2.0
// Callers' buffers that kernels cannot use in place: strided or misaligned ones.
#pragma once

#include "runtime/session.h"

namespace graft {

/// Whether the buffer is not dense row-major, or not aligned to its elements.
bool needs_copy(const BufferView& view);
/// Whether its elements lie one after the other in row-major order.
bool is_row_major(const BufferView& view);
int64_t element_count(const BufferView& view);
/// How many elements the one at the row-major position `element` lies behind `data`.
int64_t element_offset(const BufferView& view, int64_t element);
/// Bytes of the dense form.
int64_t dense_bytes(const BufferView& view);
/// Strided -> dense row-major.
void copy_to_dense(const BufferView& from, void* to);
/// Dense row-major -> strided.
void copy_from_dense(const void* from, const BufferView& to);

}  // namespace graft
