// SPDX-License-Identifier: Apache-2.0
// Sorting rows in place for generated CPU kernels. Where keys and places fit one word together, each place becomes such
// a word, words are sorted digit by digit, and the keys follow; other rows are sorted by merging.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/dtype.h"
#include "device/cpu/host_functions.h"

namespace graft {
namespace {

/// The bits of an f16 or bf16 ordered like the numbers they stand for; NaN becomes the largest.
template <int kExponentBits>
struct SmallFloat {
  uint16_t bits;
  int32_t order() const {
    const int32_t magnitude = bits & 0x7fff;
    const int32_t infinity = ((1 << kExponentBits) - 1) << (15 - kExponentBits);
    if (magnitude > infinity) return 0x7fff;
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
};

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

template <class T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return !is_nan(a) && (is_nan(b) || a < b);
  else if constexpr (std::is_integral_v<T>)
    return a < b;
  else
    return a.order() < b.order();
}

/// A row of keys and the positions that move with them.
template <class T>
struct Row {
  T* keys;
  int64_t key_stride;
  int64_t* positions;
  int64_t position_stride;
  bool descending;

  T key(int64_t n) const { return keys[n * key_stride]; }
  /// Whether element b must come before element a although it stands after it.
  bool before(T a, T b) const { return descending ? less(b, a) : less(a, b); }
  void swap(int64_t a, int64_t b) {
    std::swap(keys[a * key_stride], keys[b * key_stride]);
    std::swap(positions[a * position_stride], positions[b * position_stride]);
  }
  void reverse(int64_t first, int64_t last) {
    for (--last; first < last; ++first, --last) swap(first, last);
  }
  void rotate(int64_t first, int64_t middle, int64_t last) {
    if (first == middle || middle == last) return;
    reverse(first, middle);
    reverse(middle, last);
    reverse(first, last);
  }
  void insert(int64_t first, int64_t last) {
    for (int64_t n = first + 1; n < last; ++n) {
      for (int64_t m = n; m > first && before(key(m), key(m - 1)); --m) swap(m, m - 1);
    }
  }
  /// Merges two sorted neighbours in place: cuts the longer in half, rotates, goes on with both halves.
  void merge(int64_t first, int64_t middle, int64_t last) {
    while (first < middle && middle < last) {
      if (!before(key(middle), key(middle - 1))) return;
      int64_t left = first, right = middle;
      if (middle - first >= last - middle) {
        left = first + (middle - first) / 2;
        right = lower_bound(middle, last, key(left));
      } else {
        right = middle + (last - middle) / 2;
        left = upper_bound(first, middle, key(right));
      }
      rotate(left, middle, right);
      const int64_t cut = left + (right - middle);
      merge(first, left, cut);
      first = cut;
      middle = right;
    }
  }
  int64_t lower_bound(int64_t first, int64_t last, T value) const {
    while (first < last) {
      const int64_t half = first + (last - first) / 2;
      if (before(key(half), value))
        first = half + 1;
      else
        last = half;
    }
    return first;
  }
  int64_t upper_bound(int64_t first, int64_t last, T value) const {
    while (first < last) {
      const int64_t half = first + (last - first) / 2;
      if (before(value, key(half)))
        last = half;
      else
        first = half + 1;
    }
    return first;
  }
  void sort(int64_t length) {
    constexpr int64_t kRun = 16;
    for (int64_t n = 0; n < length; n += kRun) insert(n, std::min(n + kRun, length));
    for (int64_t width = kRun; width < length; width *= 2) {
      for (int64_t n = 0; n + width < length; n += 2 * width) merge(n, n + width, std::min(n + 2 * width, length));
    }
  }
};

/// A number that is ordered like the key among others of its type; equal keys, and all NaNs, have the same.
template <class T>
uint64_t rank_of(T key) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
    if (std::isnan(key)) return std::numeric_limits<Bits>::max();
    const auto bits = std::bit_cast<Bits>(key == 0 ? T{0} : key);
    return bits & kSign ? static_cast<Bits>(~bits) : bits | kSign;
  } else if constexpr (std::is_unsigned_v<T>) {
    return key;
  } else {
    int64_t number = 0;
    if constexpr (std::is_integral_v<T>)
      number = key;
    else
      number = key.order();
    return static_cast<uint64_t>(number) ^ (uint64_t{1} << 63);
  }
}

/// Sorts words that agree above bit `shift + 8`, by the digits of eight bits from there down (American flag sort,
/// McIlroy, Bostic and McIlroy 1993).
void sort_words(uint64_t* first, uint64_t* last, int shift) {
  constexpr std::ptrdiff_t kFew = 256;
  const auto digit = [&](uint64_t word) { return (word >> shift) & 0xff; };
  std::array<int64_t, 256> count{};
  while (true) {
    if (last - first < kFew) return std::sort(first, last);
    count.fill(0);
    for (const uint64_t* word = first; word < last; ++word) ++count[digit(*word)];
    if (count[digit(*first)] < last - first) break;
    if (shift == 0) return;
    shift = std::max(0, shift - 8);
  }
  std::array<uint64_t*, 256> head{}, end{};
  uint64_t* at = first;
  for (size_t d = 0; d < count.size(); ++d) {
    head[d] = at;
    at = end[d] = at + count[d];
  }
  for (size_t d = 0; d < head.size(); ++d) {
    while (head[d] < end[d]) {
      uint64_t word = *head[d];
      for (size_t to = digit(word); to != d; to = digit(word)) std::swap(word, *head[to]++);
      *head[d]++ = word;
    }
  }
  if (shift == 0) return;
  for (size_t d = 0; d < end.size(); ++d) sort_words(d == 0 ? first : end[d - 1], end[d], std::max(0, shift - 8));
}

/// keys[n] = keys[positions[n]] for all n, cycle by cycle; positions that are done have their bits inverted meanwhile.
template <class T>
void follow(Row<T>& row, int64_t length) {
  for (int64_t n = 0; n < length; ++n) {
    if (row.positions[n] < 0) continue;
    const T kept = row.key(n);
    int64_t to = n;
    for (int64_t from = row.positions[n]; from != n; from = row.positions[to]) {
      row.keys[to * row.key_stride] = row.key(from);
      row.positions[to] = ~from;
      to = from;
    }
    row.keys[to * row.key_stride] = kept;
    row.positions[to] = ~n;
  }
  for (int64_t n = 0; n < length; ++n) row.positions[n] = ~row.positions[n];
}

/// Sorts a row whose positions are 0, 1, 2 ... as words of rank and position; false, and nothing is touched, where
/// these do not fit.
template <class T>
bool sort_as_words(Row<T>& row, int64_t length) {
  constexpr int64_t kShort = 64;
  if (length < kShort || row.position_stride != 1) return false;
  uint64_t least = std::numeric_limits<uint64_t>::max(), most = 0;
  bool in_order = true;
  for (int64_t n = 0; n < length; ++n) {
    const uint64_t rank = rank_of(row.key(n));
    least = std::min(least, rank);
    most = std::max(most, rank);
    in_order &= row.positions[n] == n;
  }
  const int places = std::bit_width(static_cast<uint64_t>(length - 1)), ranks = std::bit_width(most - least);
  if (!in_order || places + ranks > 64) return false;
  const auto word = [&](int64_t n) {
    const uint64_t rank = rank_of(row.key(n));
    return (row.descending ? most - rank : rank - least) << places | static_cast<uint64_t>(n);
  };
  // An unsigned word may lie where an i64 does.
  auto* words = reinterpret_cast<uint64_t*>(row.positions);
  for (int64_t n = 0; n < length; ++n) words[n] = word(n);
  sort_words(words, words + length, std::max(0, places + ranks - 8));
  for (int64_t n = 0; n < length; ++n) words[n] &= (uint64_t{1} << places) - 1;
  follow(row, length);
  return true;
}

}  // namespace
}  // namespace graft

void graft_host_sort(void* keys, int64_t key_stride, int64_t* positions, int64_t position_stride, int64_t length,
                     int32_t type, int32_t descending) {
  using graft::DType;
  auto sort = [&](auto zero) {
    using T = decltype(zero);
    graft::Row<T> row{static_cast<T*>(keys), key_stride, positions, position_stride, descending != 0};
    if (!graft::sort_as_words(row, length)) row.sort(length);
  };
  switch (graft::dtype_from_onnx(type).value_or(DType::kUndefined)) {
    case DType::kFloat32:
      return sort(float{});
    case DType::kFloat64:
      return sort(double{});
    case DType::kInt8:
      return sort(int8_t{});
    case DType::kInt16:
      return sort(int16_t{});
    case DType::kInt32:
      return sort(int32_t{});
    case DType::kInt64:
      return sort(int64_t{});
    case DType::kBool:
    case DType::kUint8:
      return sort(uint8_t{});
    case DType::kUint16:
      return sort(uint16_t{});
    case DType::kUint32:
      return sort(uint32_t{});
    case DType::kUint64:
      return sort(uint64_t{});
    case DType::kFloat16:
      return sort(graft::SmallFloat<5>{});
    case DType::kBFloat16:
      return sort(graft::SmallFloat<8>{});
    default:
      return;
  }
}
