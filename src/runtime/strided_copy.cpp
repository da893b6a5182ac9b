// SPDX-License-Identifier: Apache-2.0
#include "runtime/strided_copy.h"

#include <cstring>

namespace graft {
namespace {

size_t element_bytes(const BufferView& view) { return static_cast<size_t>(bit_width(view.type)) / 8; }

bool is_dense(const BufferView& view) {
  if (view.strides.empty()) return true;
  int64_t expected = 1;
  for (size_t d = view.shape.size(); d-- > 0;) {
    if (view.shape[d] == 0) return true;
    if (view.shape[d] != 1 && view.strides[d] != expected) return false;
    expected *= view.shape[d];
  }
  return true;
}

/// Calls copy(strided byte offset, dense byte offset) for every element.
template <class Copy>
void walk(const BufferView& view, const Copy& copy) {
  const int64_t bytes = static_cast<int64_t>(element_bytes(view));
  std::vector<int64_t> index(view.shape.size(), 0);
  for (const int64_t extent : view.shape) {
    if (extent == 0) return;
  }
  int64_t dense = 0;
  while (true) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * (view.strides.empty() ? 0 : view.strides[d]);
    copy(view.strides.empty() ? dense : offset * bytes, dense);
    dense += bytes;
    size_t d = index.size();
    while (d > 0 && ++index[d - 1] == view.shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace

bool needs_copy(const BufferView& view) {
  const size_t bytes = element_bytes(view);
  const bool misaligned = bytes > 1 && reinterpret_cast<uintptr_t>(view.data) % std::min<size_t>(bytes, 8) != 0;
  return misaligned || !is_dense(view);
}

int64_t dense_bytes(const BufferView& view) {
  int64_t count = 1;
  for (const int64_t extent : view.shape) count *= extent;
  return packed_bytes(view.type, count);
}

void copy_to_dense(const BufferView& from, void* to) {
  if (is_dense(from)) {
    std::memcpy(to, from.data, static_cast<size_t>(dense_bytes(from)));
    return;
  }
  const size_t bytes = element_bytes(from);
  walk(from, [&](int64_t strided, int64_t dense) {
    std::memcpy(static_cast<char*>(to) + dense, static_cast<const char*>(from.data) + strided, bytes);
  });
}

void copy_from_dense(const void* from, const BufferView& to) {
  if (is_dense(to)) {
    std::memcpy(to.data, from, static_cast<size_t>(dense_bytes(to)));
    return;
  }
  const size_t bytes = element_bytes(to);
  walk(to, [&](int64_t strided, int64_t dense) {
    std::memcpy(static_cast<char*>(to.data) + strided, static_cast<const char*>(from) + dense, bytes);
  });
}

}  // namespace graft
