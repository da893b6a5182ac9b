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
  if (last - first < kFew) return std::sort(first, last);
  const auto digit = [&](uint64_t word) { return (word >> shift) & 0xff; };
  std::array<int64_t, 256> count;
  while (true) {
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

/// The key of a rank; not of one that several keys share.
template <class T>
T key_of(uint64_t rank) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
    const auto bits = static_cast<Bits>(rank);
    return std::bit_cast<T>(bits & kSign ? static_cast<Bits>(bits ^ kSign) : static_cast<Bits>(~bits));
  } else if constexpr (std::is_unsigned_v<T>) {
    return static_cast<T>(rank);
  } else {
    return static_cast<T>(static_cast<int64_t>(rank ^ (uint64_t{1} << 63)));
  }
}

/// What a row's keys have in common, as far as sorting asks.
struct Ranks {
  uint64_t least = std::numeric_limits<uint64_t>::max(), most = 0;
  bool in_order = true;   ///< positions are 0, 1, 2 ...
  bool tell_keys = true;  ///< no two different keys have the same: NaNs, -0
};

template <class T>
Ranks look_at_ranks(const Row<T>& row, int64_t length) {
  Ranks found;
  for (int64_t n = 0; n < length; ++n) {
    const T key = row.key(n);
    const uint64_t rank = rank_of(key);
    found.least = std::min(found.least, rank);
    found.most = std::max(found.most, rank);
    found.in_order &= row.positions[n] == n;
    if constexpr (std::is_floating_point_v<T>) found.tell_keys &= key == key && !(key == 0 && std::signbit(key));
  }
  if constexpr (!std::is_arithmetic_v<T>) found.tell_keys = false;
  return found;
}

/// Sorts a row whose positions are 0, 1, 2 ... as words of rank and position; false, and nothing is touched, where
/// these do not fit. Positions need not be read, so that words go to the parts of their highest digit at once.
template <class T>
bool sort_as_words(Row<T>& row, int64_t length) {
  constexpr int64_t kShort = 64;
  constexpr int kMostDigit = 10;
  if (length < kShort || row.position_stride != 1) return false;
  const Ranks known = look_at_ranks(row, length);
  const int places = std::bit_width(static_cast<uint64_t>(length - 1));
  const int ranks = std::bit_width(known.most - known.least);
  if (!known.in_order || places + ranks > 64) return false;
  const auto order = [&](int64_t n) {
    const uint64_t rank = rank_of(row.key(n));
    return row.descending ? known.most - rank : rank - known.least;
  };
  const int digit = std::min({ranks, places, kMostDigit}), rest = ranks - digit;
  const size_t parts = size_t{1} << digit;
  std::array<int64_t, (1 << kMostDigit) + 1> end;  // of a part, when all words lie there: first where it begins
  std::fill_n(end.begin(), parts + 1, 0);
  for (int64_t n = 0; n < length; ++n) ++end[(order(n) >> rest) + 1];
  for (size_t d = 1; d <= parts; ++d) end[d] += end[d - 1];
  // An unsigned word may lie where an i64 does.
  auto* words = reinterpret_cast<uint64_t*>(row.positions);
  for (int64_t n = 0; n < length; ++n) {
    const uint64_t rank = order(n);
    words[end[rank >> rest]++] = rank << places | static_cast<uint64_t>(n);
  }
  for (size_t d = 0; rest > 0 && d < parts; ++d) {
    uint64_t *const first = words + (d == 0 ? 0 : end[d - 1]), *const last = words + end[d];
    if (last - first > 1) sort_words(first, last, std::max(0, places + rest - 8));
  }
  for (int64_t n = 0; known.tell_keys && n < length; ++n) {
    const uint64_t rank = words[n] >> places;
    row.keys[n * row.key_stride] = key_of<T>(row.descending ? known.most - rank : rank + known.least);
  }
  for (int64_t n = 0; n < length; ++n) words[n] &= (uint64_t{1} << places) - 1;
  if (!known.tell_keys) follow(row, length);
  return true;
}

/// The rank of a key of at most 32 bits, in 32 bits.
template <class T>
uint32_t short_rank(T key) {
  if constexpr (std::is_floating_point_v<T> || std::is_unsigned_v<T>)
    return static_cast<uint32_t>(rank_of(key));
  else
    return static_cast<uint32_t>(rank_of(key) ^ (uint64_t{1} << 63)) ^ 0x80000000U;
}

/// The first elements of a row in order: candidates, words of rank and place, wait side by side until there are twice
/// as many as wanted; then the best stay, and others must be below the last of them.
template <class T>
class Selection {
 public:
  Selection(const Row<T>& row, int64_t count)
      : row_(row), count_(count), flip_(row.descending ? 0xffffffffU : 0),
        words_(reinterpret_cast<uint64_t*>(row.positions)), end_(words_) {}

  void run(int64_t length) {
    int64_t first = 0;
    for (; first + kBlock <= length; first += kBlock) look_at_block(first);
    for (; first < length; ++first) look_at(first, short_rank(row_.key(first)) ^ flip_);
    if (end_ - words_ > count_) keep_best();
    std::sort(words_, end_);
    move_to_front();
  }

 private:
  static constexpr int64_t kBlock = 64, kGroup = 8;
  static constexpr int kPlaceBits = 32;

  static uint64_t word(uint32_t rank, int64_t place) {
    return uint64_t{rank} << kPlaceBits | static_cast<uint64_t>(place);
  }

  /// Most blocks of a long row have no candidate, and most groups of the others.
  void look_at_block(int64_t first) {
    if constexpr (std::is_arithmetic_v<T>) {
      if (row_.key_stride == 1) {
        if (!may_come_before<kBlock>(row_.keys + first)) return;
        for (int64_t n = first; n < first + kBlock; n += kGroup) {
          if (may_come_before<kGroup>(row_.keys + n)) look_at_group(n);
        }
        return;
      }
    }
    for (int64_t n = first; n < first + kBlock; n += kGroup) look_at_group(n);
  }

  /// Whether one of so many keys may come before the last that is wanted: NaN counts as one that does.
  template <int64_t kCount>
  bool may_come_before(const T* keys) const {
    if (!is_full_) return true;
    int32_t any = 0;
    if (row_.descending) {
      for (int64_t n = 0; n < kCount; ++n) any |= keys[n] <= last_ ? 0 : -1;
    } else {
      for (int64_t n = 0; n < kCount; ++n) any |= keys[n] >= last_ ? 0 : -1;
    }
    return any != 0;
  }

  void look_at_group(int64_t first) {
    for (int64_t n = first; n < first + kGroup; ++n) look_at(n, short_rank(row_.key(n)) ^ flip_);
  }

  void look_at(int64_t place, uint32_t rank) {
    const uint64_t candidate = word(rank, place);
    if (candidate >= limit_) return;
    *end_++ = candidate;
    if (end_ == words_ + 2 * count_) keep_best();
  }

  void keep_best() {
    std::nth_element(words_, words_ + count_ - 1, end_);
    end_ = words_ + count_;
    limit_ = words_[count_ - 1];
    is_full_ = true;
    last_ = row_.key(static_cast<int64_t>(limit_ & ((uint64_t{1} << kPlaceBits) - 1)));
  }

  /// Keys wait behind the words meanwhile, as they may lie where others go.
  void move_to_front() {
    const int64_t found = end_ - words_;
    for (int64_t n = 0; n < found; ++n) {
      words_[n] &= (uint64_t{1} << kPlaceBits) - 1;
      const T key = row_.key(static_cast<int64_t>(words_[n]));
      std::memcpy(words_ + count_ + n, &key, sizeof(T));
    }
    for (int64_t n = 0; n < found; ++n) std::memcpy(row_.keys + n * row_.key_stride, words_ + count_ + n, sizeof(T));
  }

  const Row<T>& row_;
  const int64_t count_;
  const uint32_t flip_;
  uint64_t* const words_;  ///< where positions lie: an unsigned word may lie where an i64 does
  uint64_t* end_;
  uint64_t limit_ = std::numeric_limits<uint64_t>::max();
  bool is_full_ = false;  ///< so many were found that the others have to come before `last_`
  T last_{};
};

/// Calls `use` with a zero of the type of that code of ONNX.
template <class Use>
void with_key_type(int32_t type, const Use& use) {
  switch (dtype_from_onnx(type).value_or(DType::kUndefined)) {
    case DType::kFloat32:
      return use(float{});
    case DType::kFloat64:
      return use(double{});
    case DType::kInt8:
      return use(int8_t{});
    case DType::kInt16:
      return use(int16_t{});
    case DType::kInt32:
      return use(int32_t{});
    case DType::kInt64:
      return use(int64_t{});
    case DType::kBool:
    case DType::kUint8:
      return use(uint8_t{});
    case DType::kUint16:
      return use(uint16_t{});
    case DType::kUint32:
      return use(uint32_t{});
    case DType::kUint64:
      return use(uint64_t{});
    case DType::kFloat16:
      return use(SmallFloat<5>{});
    case DType::kBFloat16:
      return use(SmallFloat<8>{});
    default:
      return;
  }
}

}  // namespace
}  // namespace graft

void graft_host_sort(void* keys, int64_t key_stride, int64_t* positions, int64_t position_stride, int64_t length,
                     int32_t type, int32_t descending) {
  graft::with_key_type(type, [&](auto zero) {
    using T = decltype(zero);
    graft::Row<T> row{static_cast<T*>(keys), key_stride, positions, position_stride, descending != 0};
    if (!graft::sort_as_words(row, length)) row.sort(length);
  });
}

void graft_host_select(void* keys, int64_t key_stride, int64_t* positions, int64_t position_stride, int64_t length,
                       int64_t count, int32_t type, int32_t descending) {
  graft::with_key_type(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) <= sizeof(uint32_t)) {
      graft::Row<T> row{static_cast<T*>(keys), key_stride, positions, position_stride, descending != 0};
      if (count > 0) graft::Selection<T>(row, std::min(count, length)).run(length);
    }
  });
}
