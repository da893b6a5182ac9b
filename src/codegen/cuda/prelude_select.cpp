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
// What lanes hold of keys while they look for the best: floats as f32, other keys as their preferences. Halves are held
// in pairs; a key is a part of what is held.
template <class T, bool Descending> struct Seek {
  typedef u32 Held;
  typedef u32 Part;
  static constexpr int kKeys = 1, kLowestBit = 0;  // of a preference that tells keys apart
  GRAFT_DEVICE u32 part(T key) { return preference(key, Descending); }
  GRAFT_DEVICE u32 nothing() { return 0; }
  GRAFT_DEVICE u32 join(const u32* parts) { return parts[0]; }
  GRAFT_DEVICE u32 better(u32 a, u32 b) { return greatest(a, b); }
  GRAFT_DEVICE u32 preferred(u32 held, int) { return held; }
  GRAFT_DEVICE u32 held_of(u32 preferred) { return preferred; }
  GRAFT_DEVICE u32 reaching(u32 held, u32 bound) { return held >= bound; }
};
// NaN as the largest: it passes through the one and never wins the other; what is not ordered counts as good enough.
template <class T, bool Descending> struct SeekFloat {
  typedef f32 Held;
  typedef f32 Part;
  static constexpr int kKeys = 1, kLowestBit = 16;
  GRAFT_DEVICE f32 part(T key) { return convert<f32>(key); }
  GRAFT_DEVICE f32 nothing() { return __int_as_float(Descending ? 0xff800000 : 0x7f800000); }
  GRAFT_DEVICE f32 join(const f32* parts) { return parts[0]; }
  GRAFT_DEVICE f32 better(f32 a, f32 b) { return Descending ? greatest(a, b) : fminf(a, b); }
  GRAFT_DEVICE u32 preferred(f32 held, int) { return preference(held, Descending); }
  GRAFT_DEVICE f32 held_of(u32 preferred) {
    const u32 order = Descending ? preferred : ~preferred;
    return __uint_as_float(order >> 31 ? order ^ 0x80000000u : ~order);
  }
  GRAFT_DEVICE u32 reaching(f32 held, f32 bound) { return Descending ? !(held < bound) : !(held > bound); }
};
template <bool Descending> struct Seek<f32, Descending> : SeekFloat<f32, Descending> {};
template <bool Descending> struct Seek<bf16, Descending> : SeekFloat<bf16, Descending> {};
// The high bits of a key's preference; of keys of up to 16 bits they tell all apart.
template <class T> GRAFT_DEVICE u32 short_preference(T key, bool descending) { return preference(key, descending); }
GRAFT_DEVICE u32 short_preference(f16 key, bool descending) {
  const u32 bits = key.bits, size = bits & 0x7fff;
  const u32 order = size > 0x7c00 ? 0xffffu : size == 0 ? 0x8000u : bits >> 15 ? ~bits & 0xffff : bits | 0x8000;
  return (descending ? order : ~order) << 16;
}
template <bool Descending> struct Seek<f16, Descending> {
  typedef u32 Held;
  typedef u16 Part;
  static constexpr int kKeys = 2, kLowestBit = 0;
  GRAFT_DEVICE u16 part(f16 key) { return key.bits; }
  GRAFT_DEVICE u16 nothing() { return Descending ? 0xfc00 : 0x7c00; }
  GRAFT_DEVICE u32 join(const u16* parts) { return pair_of(parts[0], parts[1]); }
  GRAFT_DEVICE u32 better(u32 a, u32 b) {
    u32 r;
    if constexpr (Descending) asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    else asm("min.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
  }
  GRAFT_DEVICE u32 preferred(u32 held, int i) { return short_preference(half_of<f16>(held, i), Descending) >> 16; }
  GRAFT_DEVICE u32 held_of(u32 preferred) {
    const u32 order = Descending ? preferred : ~preferred & 0xffff;
    const u16 half = order >> 15 ? order & 0x7fff : ~order & 0xffff;
    return pair_of(half, half);
  }
  // All bits of each half that reaches its bound.
  GRAFT_DEVICE u32 reaching(u32 held, u32 bound) {
    u32 r;
    if constexpr (Descending) asm("set.geu.u32.f16x2 %0, %1, %2;" : "=r"(r) : "r"(held), "r"(bound));
    else asm("set.leu.u32.f16x2 %0, %1, %2;" : "=r"(r) : "r"(held), "r"(bound));
    return r;
  }
};
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

// A preference that at least `Kept` of a warp's reach, and not many more.
template <int Kept, int Lowest> GRAFT_DEVICE u32 reached_by(u32 value) {
  u32 bound = 0;
#pragma unroll
  for (int bit = 31; bit >= Lowest; --bit) {
    const u32 higher = bound | 1u << bit;
    if (__popc(__ballot_sync(0xffffffffu, value >= higher)) >= Kept) bound = higher;
  }
  return bound;
}
// The same between the least and the greatest of the values, until few more than `Kept` of them reach it.
template <int Kept, int Parts> GRAFT_DEVICE u32 reached_between(const u32 (&values)[Parts]) {
  u32 low = values[0], high = values[0];
#pragma unroll
  for (int g = 1; g < Parts; ++g) low = values[g] < low ? values[g] : low, high = values[g] > high ? values[g] : high;
  low = __reduce_min_sync(0xffffffffu, low), high = __reduce_max_sync(0xffffffffu, high);
  u32 bound = low;
#pragma unroll 1
  for (int bit = 31 - __clz(high - low); bit >= 0; --bit) {
    const u32 higher = bound + (1u << bit);
    if (higher < bound || higher > high) continue;
    int count = 0;
#pragma unroll
    for (int g = 0; g < Parts; ++g) {
      count += Parts <= 2 ? __popc(__ballot_sync(0xffffffffu, values[g] >= higher)) : values[g] >= higher;
    }
    if (Parts > 2) count = __reduce_add_sync(0xffffffffu, count);
    if (count >= Kept) bound = higher;
    if (count >= Kept && count <= Kept + Kept / 16) break;
  }
  return bound;
}
// How many of the `total` words are greater than each of the first `Some` of a lane's. There is room for zeros behind.
template <int Some, class W, int Parts>
GRAFT_DEVICE void count_greater(const W* all, int total, const W (&words)[Parts], int (&counts)[Parts]) {
  constexpr int kAtOnce = 16 / sizeof(W);
#pragma unroll
  for (int s = 0; s < Some; ++s) counts[s] = 0;
#pragma unroll 2
  for (int i = 0; i < total; i += kAtOnce) {
    const Pack<W, kAtOnce> pack = *(const Pack<W, kAtOnce>*)(all + i);
#pragma unroll
    for (int s = 0; s < Some; ++s) {
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) counts[s] += pack.at[j] > words[s];
    }
  }
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
  constexpr int kFew = (3 * Parts + 4) / 5;
#pragma unroll
  for (int s = 0; s < Parts; ++s) ranks[s] = 32 * Parts;
  if (total <= 32 * kFew) count_greater<kFew>(shared, total, words, ranks);
  else count_greater<Parts>(shared, total, words, ranks);
}
// The best `Kept` of a row in the registers of a warp, of which lane l has the keys (k / V * 32 + l) * V + k % V -
// skipped. The best of many small parts of the row tell which elements may be among the best of all; those are ranked
// in `shared`. False when they are more than fit there: then nothing has been given.
template <class T, bool Descending, int Kept, int Length, int V, int E, class Key, class Give>
GRAFT_DEVICE bool select_best(const typename Seek<T, Descending>::Held (&held)[E], int skipped, u64* shared, Key key_at,
                              Give give) {
  typedef Seek<T, Descending> S;
  constexpr int kParts = kPartsOfLane<Kept>, kGroups = (kParts + S::kKeys - 1) / S::kKeys;
  constexpr int kValues = kGroups * S::kKeys, kPerWord = 32 / S::kKeys, kFlags = (E + kPerWord - 1) / kPerWord;
  const int lane = threadIdx.x % 32;
  const auto place_of = [&](int k) { return (k / V * 32 + lane) * V + k % V - skipped; };
  typename S::Held best[kGroups];
  const typename S::Part nothings[2] = {S::nothing(), S::nothing()};
  const typename S::Held none = S::join(nothings);
  u32 preferred[kValues], flags[kFlags];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) best[g] = g < E ? held[g < E ? g : 0] : none;
#pragma unroll
  for (int u = kGroups; u < E; ++u) best[u % kGroups] = S::better(best[u % kGroups], held[u]);
#pragma unroll
  for (int g = 0; g < kValues; ++g) preferred[g] = S::preferred(best[g / S::kKeys], g % S::kKeys);
  u32 reached;
  if constexpr (kValues == 1) reached = reached_by<Kept, S::kLowestBit>(preferred[0]);
  else reached = reached_between<Kept>(preferred);
  const typename S::Held bound = S::held_of(reached);
  int own = 0;
#pragma unroll
  for (int f = 0; f < kFlags; ++f) {
    flags[f] = 0;
#pragma unroll
    for (int u = f * kPerWord; u < E && u < (f + 1) * kPerWord; ++u) {
      if constexpr (S::kKeys == 2) flags[f] |= S::reaching(held[u], bound) & 0x00010001u << (u % kPerWord);
      else if (S::reaching(held[u], bound)) flags[f] |= 1u << (u % 32);
    }
  }
  // What stands for elements beside the row is to be left out where it would do.
  if (S::reaching(none, bound)) {
#pragma unroll
    for (int k = 0; k < E * S::kKeys; ++k) {
      if (k >= V && (k / V + 1) * 32 * V <= Length) continue;
      const int u = k / S::kKeys, at = place_of(k);
      if (at < 0 || at >= Length) flags[u / kPerWord] &= ~(1u << (u % kPerWord + k % S::kKeys * kPerWord));
    }
  }
#pragma unroll
  for (int f = 0; f < kFlags; ++f) own += __popc(flags[f]);
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
      const int bit = __ffs(flags[f]) - 1;
      flags[f] &= flags[f] - 1;
      places[next++] = place_of((f * kPerWord + bit % kPerWord) * S::kKeys + bit / kPerWord);
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
