// SPDX-License-Identifier: Apache-2.0
// Fast, stable, non-cryptographic hashes (XXH3): names of constants, keys of caches, checks of sections.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace graft {

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t hash64(std::string_view text, uint64_t seed = 0);

/// 128 bits: enough that different contents can be taken to differ, where nobody plans a collision.
struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const Hash128&) const = default;
  /// 32 lower-case hexadecimal digits; parse_hash128 reads them back.
  std::string to_string() const;
};
std::optional<Hash128> parse_hash128(std::string_view text);

Hash128 hash128(std::span<const std::byte> bytes);
Hash128 hash128(std::string_view text);

/// Hashes what is appended piece by piece. Texts are preceded by their length, so that ("ab", "c") and
/// ("a", "bc") differ; bytes are not.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  Hasher& add(std::span<const std::byte> bytes);
  Hasher& add(std::string_view text);
  Hasher& add(int64_t value);
  Hash128 finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft
