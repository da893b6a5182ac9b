// SPDX-License-Identifier: Apache-2.0
// A seeded generator for samples, tests and mutations: the same numbers on every machine, unlike <random>'s
// distributions.
#pragma once

#include <cmath>
#include <cstdint>

namespace graft {

/// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, a full period of 2^64. Owned by one thread.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// In [0, 1), with 53 random bits.
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  /// In [low, high]; the bias of the remainder is below 2^-32 for ranges below 2^32.
  int64_t integer(int64_t low, int64_t high) {
    const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
    return static_cast<int64_t>(static_cast<uint64_t>(low) + (span == 0 ? next() : next() % span));
  }
  bool chance(double probability) { return unit() < probability; }
  /// Standard normal (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - unit()));
    return radius * std::cos(6.283185307179586 * unit());
  }

 private:
  uint64_t state_;
};

}  // namespace graft
