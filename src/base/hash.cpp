// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <charconv>

#include <fmt/format.h>
#include <xxhash.h>

#include "base/error.h"

namespace graft {
namespace {

Hash128 from_xxh(const XXH128_hash_t& hash) { return {hash.high64, hash.low64}; }

}  // namespace

struct Hasher::State {
  XXH3_state_t* xxh = nullptr;
};

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t hash64(std::string_view text, uint64_t seed) { return hash64(std::as_bytes(std::span(text)), seed); }

std::string Hash128::to_string() const { return fmt::format("{:016x}{:016x}", high, low); }

std::optional<Hash128> parse_hash128(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  for (const char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return std::nullopt;
  }
  Hash128 hash;
  std::from_chars(text.data(), text.data() + 16, hash.high, 16);
  std::from_chars(text.data() + 16, text.data() + 32, hash.low, 16);
  return hash;
}

Hash128 hash128(std::span<const std::byte> bytes) { return from_xxh(XXH3_128bits(bytes.data(), bytes.size())); }

Hash128 hash128(std::string_view text) { return hash128(std::as_bytes(std::span(text))); }

Hasher::Hasher() : state_(std::make_unique<State>()) {
  state_->xxh = XXH3_createState();
  GRAFT_USER_CHECK(state_->xxh, kOutOfMemory, "cannot allocate the state of a hash", "hash");
  XXH3_128bits_reset(state_->xxh);
}

Hasher::~Hasher() { XXH3_freeState(state_->xxh); }

Hasher& Hasher::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
  return *this;
}

Hasher& Hasher::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  return add(std::as_bytes(std::span(text)));
}

Hasher& Hasher::add(int64_t value) { return add(std::as_bytes(std::span(&value, 1))); }

Hash128 Hasher::finish() const { return from_xxh(XXH3_128bits_digest(state_->xxh)); }

}  // namespace graft
