// SPDX-License-Identifier: Apache-2.0
// The first ranks of a row: keys as integers of the same order, and warps that find the best of them.
#include "codegen/cuda/prelude.h"

namespace graft::cuda {
namespace {

constexpr char kSelections[] = R"cuda(
// Keys as integers of the same order, small ones in the high bits: NaN largest, -0 as 0 (their sum with 0 is the NaN
// of all bits, and 0).
GRAFT_DEVICE u32 ordered(f32 x) {
  const i32 bits = __float_as_int(x + 0.0f);
  return (u32)(bits ^ ((bits >> 31) | (i32)0x80000000));
}
GRAFT_DEVICE u32 ordered(f16 x) { return ordered(f16_value(x.bits)); }
GRAFT_DEVICE u32 ordered(bf16 x) { return ordered(bf16_value(x.bits)); }
GRAFT_DEVICE u32 ordered(bool x) { return (u32)x << 31; }
template <class T> GRAFT_DEVICE u32 ordered(T x) {
  return (u32)((i64)x - (i64)Limits<T>::lowest) << (32 - 8 * sizeof(T));
}
// What comes first is the larger.
template <class T> GRAFT_DEVICE u32 preference(T key, bool descending) {
  const u32 order = ordered(key);
  return descending ? order : ~order;
}
// The same, and of equal keys the first one.
template <class T> GRAFT_DEVICE u64 rank_word(T key, u32 place, bool descending) {
  return (u64)preference(key, descending) << 32 | (u32)~place;
}
// What lanes hold of keys while they look for the best: floats as f32, other keys as their preferences.
template <class T, bool Descending> struct Seek {
  typedef u32 Held;
  static constexpr int kLowestBit = 0;  // of a preference that tells keys apart
  GRAFT_DEVICE u32 hold(T key) { return preference(key, Descending); }
  GRAFT_DEVICE u32 none() { return 0; }
  GRAFT_DEVICE u32 better(u32 a, u32 b) { return greatest(a, b); }
  GRAFT_DEVICE u32 preferred(u32 held) { return held; }
  GRAFT_DEVICE u32 held_of(u32 preferred) { return preferred; }
  GRAFT_DEVICE bool reaches(u32 held, u32 bound) { return held >= bound; }
};
// NaN as the largest: it passes through the one and never wins the other; what is not ordered counts as good enough.
template <class T, bool Descending> struct SeekFloat {
  typedef f32 Held;
  static constexpr int kLowestBit = 16;
  GRAFT_DEVICE f32 hold(T key) { return convert<f32>(key); }
  GRAFT_DEVICE f32 none() { return __int_as_float(Descending ? 0xff800000 : 0x7f800000); }
  GRAFT_DEVICE f32 better(f32 a, f32 b) { return Descending ? greatest(a, b) : fminf(a, b); }
  GRAFT_DEVICE u32 preferred(f32 held) { return preference(held, Descending); }
  GRAFT_DEVICE f32 held_of(u32 preferred) {
    const u32 order = Descending ? preferred : ~preferred;
    return __uint_as_float(order >> 31 ? order ^ 0x80000000u : ~order);
  }
  GRAFT_DEVICE bool reaches(f32 held, f32 bound) { return Descending ? !(held < bound) : !(held > bound); }
};
template <bool Descending> struct Seek<f32, Descending> : SeekFloat<f32, Descending> {};
template <bool Descending> struct Seek<f16, Descending> : SeekFloat<f16, Descending> {};
template <bool Descending> struct Seek<bf16, Descending> : SeekFloat<bf16, Descending> {};
// The high bits of a key's preference; of keys of up to 16 bits they tell all apart.
template <class T> GRAFT_DEVICE u32 short_preference(T key, bool descending) { return preference(key, descending); }
GRAFT_DEVICE u32 short_preference(f16 key, bool descending) {
  const u32 bits = key.bits, size = bits & 0x7fff;
  const u32 order = size > 0x7c00 ? 0xffffu : size == 0 ? 0x8000u : bits >> 15 ? ~bits & 0xffff : bits | 0x8000;
  return (descending ? order : ~order) << 16;
}
// The best words that a warp has seen, in order: that of rank r in slot r / 32 of lane r % 32.
template <int Slots> struct Best {
  u64 slots[Slots];
  u64 least;  // what a word must exceed to be kept
  __device__ Best() {
    least = 0;
#pragma unroll
    for (int m = 0; m < Slots; ++m) slots[m] = 0;
  }
  __device__ __forceinline__ void insert(u64 word) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < Slots; ++m) {
      const int place = __popc(__ballot_sync(0xffffffffu, slots[m] > word));
      const u64 above = __shfl_up_sync(0xffffffffu, slots[m], 1), last = __shfl_sync(0xffffffffu, slots[m], 31);
      if (place == 32) continue;
      if (lane >= place) slots[m] = lane == place ? word : above;
      word = last;
    }
  }
  // Takes in a word of each lane (0 for none); `kept` ranks matter.
  __device__ __forceinline__ void take(u64 word, int kept) {
    u32 better = __ballot_sync(0xffffffffu, word > least);
    while (better) {
      const int source = __ffs(better) - 1;
      insert(__shfl_sync(0xffffffffu, word, source));
      u64 weakest = 0;
#pragma unroll
      for (int m = 0; m < Slots; ++m) {
        const u64 there = __shfl_sync(0xffffffffu, slots[m], (kept - 1) % 32);
        if (m == (kept - 1) / 32) weakest = there;
      }
      least = weakest;
      better &= ~(1u << source) & __ballot_sync(0xffffffffu, word > least);
    }
  }
};

// A preference that at least `Kept` of the given ones of a warp reach, and not many more.
template <int Kept, int Lowest, int Parts> GRAFT_DEVICE u32 reached_by(const u32 (&values)[Parts]) {
  u32 bound = 0;
#pragma unroll
  for (int bit = 31; bit >= Lowest; --bit) {
    const u32 higher = bound | 1u << bit;
    int count = 0;
    if constexpr (Parts == 1) {
      count = __popc(__ballot_sync(0xffffffffu, values[0] >= higher));
    } else {
#pragma unroll
      for (int g = 0; g < Parts; ++g) count += values[g] >= higher;
      count = __reduce_add_sync(0xffffffffu, count);
    }
    if (count >= Kept) bound = higher;
  }
  return bound;
}
// How many of the `total` words are greater. There is room for zeros behind them.
template <class W> GRAFT_DEVICE int count_greater(const W* words, int total, W word) {
  constexpr int kAtOnce = 16 / sizeof(W);
  int count = 0;
#pragma unroll 2
  for (int i = 0; i < total; i += kAtOnce) {
    const Pack<W, kAtOnce> pack = *(const Pack<W, kAtOnce>*)(words + i);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) count += pack.at[j] > word;
  }
  return count;
}
template <int Kept> constexpr int kPartsOfLane = (5 * Kept / 2 + 31) / 32;
// Gives the words of a warp their ranks, no two the same: lane l has those of elements s * 32 + l.
template <class W, int Parts> GRAFT_DEVICE void rank_words(W* shared, const W (&words)[Parts], int total,
                                                           int (&ranks)[Parts]) {
  const int lane = threadIdx.x % 32;
  __syncwarp();
#pragma unroll
  for (int s = 0; s < Parts; ++s) shared[s * 32 + lane] = s * 32 + lane < total ? words[s] : (W)0;
  __syncwarp();
#pragma unroll
  for (int s = 0; s < Parts; ++s) {
    ranks[s] = 32 * Parts;
    if (s * 32 < total) ranks[s] = count_greater(shared, total, words[s]);
  }
}
// The best `Kept` of a row in the registers of a warp, of which lane l has elements (u / V * 32 + l) * V + u % V. The
// best of many small parts of the row tell which elements may be among the best of all; those are ranked in `shared`.
// False when they are more than fit there: then nothing has been given.
template <class T, bool Descending, int Kept, int Length, int V, int E, class Key, class Give>
GRAFT_DEVICE bool select_best(const typename Seek<T, Descending>::Held (&held)[E], u64* shared, Key key_at, Give give) {
  typedef Seek<T, Descending> S;
  constexpr int kParts = kPartsOfLane<Kept>, kFlags = (E + 31) / 32;
  const int lane = threadIdx.x % 32;
  typename S::Held best[kParts];
  u32 preferred[kParts], flags[kFlags];
#pragma unroll
  for (int g = 0; g < kParts; ++g) best[g] = S::none();
#pragma unroll
  for (int u = 0; u < E; ++u) best[u % kParts] = S::better(best[u % kParts], held[u]);
#pragma unroll
  for (int g = 0; g < kParts; ++g) preferred[g] = S::preferred(best[g]);
  const typename S::Held bound = S::held_of(reached_by<Kept, S::kLowestBit>(preferred));
  int own = 0;
#pragma unroll
  for (int f = 0; f < kFlags; ++f) {
    flags[f] = 0;
#pragma unroll
    for (int u = f * 32; u < E && u < f * 32 + 32; ++u) {
      const bool there = (u / V + 1) * 32 * V <= Length || (u / V * 32 + lane) * V + u % V < Length;
      if (there && S::reaches(held[u], bound)) flags[f] |= 1u << (u % 32);
    }
    own += __popc(flags[f]);
  }
  int next = own;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int earlier = __shfl_up_sync(0xffffffffu, next, distance);
    if (lane >= distance) next += earlier;
  }
  const int total = __shfl_sync(0xffffffffu, next, 31);
  if (total > 32 * kParts) return false;
  next -= own;
  u32* const places = (u32*)shared;
#pragma unroll
  for (int f = 0; f < kFlags; ++f) {
    while (flags[f]) {
      const int u = f * 32 + __ffs(flags[f]) - 1;
      flags[f] &= flags[f] - 1;
      places[next++] = (u / V * 32 + lane) * V + u % V;
    }
  }
  __syncwarp();
  int at[kParts], ranks[kParts];
  u32 words[kParts];
  constexpr bool kShort = sizeof(T) <= 2 && Length <= 65536;
#pragma unroll
  for (int s = 0; s < kParts; ++s) {
    const bool there = s * 32 + lane < total;
    at[s] = there ? (int)places[s * 32 + lane] : 0;
    words[s] = 0;
    if (there && kShort) words[s] = (short_preference(key_at(at[s]), Descending) & 0xffff0000u) | (0xffff - at[s]);
    if (there && !kShort) words[s] = preference(key_at(at[s]), Descending);
  }
  rank_words((u32*)shared, words, total, ranks);
  if constexpr (!kShort) {
    // Equal keys have the same rank so far, which the sum of the ranks shows.
    int sum = 0;
#pragma unroll
    for (int s = 0; s < kParts; ++s) sum += s * 32 + lane < total ? ranks[s] : 0;
    if (__reduce_add_sync(0xffffffffu, sum) != total * (total - 1) / 2) {
      u64 longer[kParts];
#pragma unroll
      for (int s = 0; s < kParts; ++s) longer[s] = (u64)words[s] << 32 | (u32)~at[s];
      rank_words(shared, longer, total, ranks);
    }
  }
#pragma unroll
  for (int s = 0; s < kParts; ++s) {
    if (s * 32 + lane < total && ranks[s] < Kept) give(ranks[s], at[s]);
  }
  __syncwarp();
  return true;
}
)cuda";

}  // namespace

std::string prelude_of_selections() { return kSelections; }

}  // namespace graft::cuda
