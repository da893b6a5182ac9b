// SPDX-License-Identifier: Apache-2.0
#include "runtime/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked_size.h"
#include "base/error.h"

namespace graft {
namespace {

size_t element_bytes(const BufferView& view) { return static_cast<size_t>(bit_width(view.type)) / 8; }

constexpr size_t kMaxRank = 64;

/// Copies the elements along the last axis, `Bytes` each, and moves on by both strides.
template <size_t Bytes>
void copy_row(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, Bytes);
}

/// Copies between strided memory and dense memory in row-major order; strides in bytes.
template <size_t Bytes>
void walk(const BufferView& view, char* dense, bool to_dense) {
  constexpr auto kBytes = static_cast<int64_t>(Bytes);
  GRAFT_CHECK(view.shape.size() <= kMaxRank, "a tensor of more axes than the interface takes");
  std::array<int64_t, kMaxRank> index{};
  const size_t axes = view.shape.size();
  const int64_t row = axes ? view.shape[axes - 1] : 1, stride = axes ? view.strides[axes - 1] * kBytes : 0;
  char* strided = static_cast<char*>(view.data);
  for (int64_t left = element_count(view); left > 0; left -= row, dense += row * kBytes) {
    if (to_dense) copy_row<Bytes>(dense, kBytes, strided, stride, row);
    if (!to_dense) copy_row<Bytes>(strided, stride, dense, kBytes, row);
    for (size_t d = axes; d-- > 1;) {
      const size_t axis = d - 1;
      strided += view.strides[axis] * kBytes;
      if (++index[axis] < view.shape[axis]) break;
      strided -= view.shape[axis] * view.strides[axis] * kBytes;
      index[axis] = 0;
    }
  }
}

void walk(const BufferView& view, char* dense, bool to_dense) {
  switch (element_bytes(view)) {
    case 1:
      return walk<1>(view, dense, to_dense);
    case 2:
      return walk<2>(view, dense, to_dense);
    case 4:
      return walk<4>(view, dense, to_dense);
    case 8:
      return walk<8>(view, dense, to_dense);
    case 16:
      return walk<16>(view, dense, to_dense);
    default:
      throw Error(ErrorKind::kInvalidArgument, "elements narrower than a byte must be row-major", "run");
  }
}

}  // namespace

bool is_row_major(const BufferView& view) {
  if (view.strides.empty()) return true;
  int64_t expected = 1;
  for (size_t d = view.shape.size(); d-- > 0;) {
    if (view.shape[d] == 0) return true;
    if (view.shape[d] != 1 && view.strides[d] != expected) return false;
    expected *= view.shape[d];
  }
  return true;
}

bool needs_copy(const BufferView& view) {
  const size_t bytes = element_bytes(view);
  const bool misaligned = bytes > 1 && reinterpret_cast<uintptr_t>(view.data) % std::min<size_t>(bytes, 8) != 0;
  return misaligned || !is_row_major(view);
}

int64_t element_count(const BufferView& view) {
  if (std::find(view.shape.begin(), view.shape.end(), 0) != view.shape.end()) return 0;  // others may be of any size
  int64_t count = 1;
  for (const int64_t extent : view.shape) count = checked_product(count, extent, "a tensor of the caller");
  return count;
}

int64_t element_offset(const BufferView& view, int64_t element) {
  if (view.strides.empty()) return element;
  int64_t offset = 0;
  for (size_t d = view.shape.size(); d-- > 0; element /= view.shape[d]) {
    offset += element % view.shape[d] * view.strides[d];
  }
  return offset;
}

int64_t dense_bytes(const BufferView& view) { return packed_bytes(view.type, element_count(view)); }

void copy_to_dense(const BufferView& from, void* to) {
  if (!is_row_major(from)) return walk(from, static_cast<char*>(to), true);
  std::memcpy(to, from.data, static_cast<size_t>(dense_bytes(from)));
}

void copy_from_dense(const void* from, const BufferView& to) {
  if (!is_row_major(to)) return walk(to, static_cast<char*>(const_cast<void*>(from)), false);
  std::memcpy(to.data, from, static_cast<size_t>(dense_bytes(to)));
}

}  // namespace graft
