// SPDX-License-Identifier: Apache-2.0
// The machine's own limits: what fused multiply-adds in registers and plain copies reach.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
// One vector of fp32 lanes.
typedef float Vector __attribute__((vector_size(kVectorBytes)));
// Enough independent sums to hide the latency of an FMA on two ports.
constexpr int kSums = 12;

// Runs `work(thread)` on so many threads and returns the seconds until the last one ends.
template <typename Work>
double seconds_on(int threads, Work work) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> team;
  for (int thread = 1; thread < threads; ++thread) team.emplace_back(work, thread);
  work(0);
  for (std::thread& member : team) member.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Keeps `steps` rounds of multiply-adds in registers; returns a value so that none is dropped.
float multiply_add(std::int64_t steps) {
  Vector sums[kSums];
  for (int index = 0; index < kSums; ++index) {
    sums[index] = Vector{} + static_cast<float>(index);
  }
  Vector factor = Vector{} + 0.999f;
  Vector addend = Vector{} + 0.001f;
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int index = 0; index < kSums; ++index) sums[index] = sums[index] * factor + addend;
  }
  Vector total = Vector{};
  for (const Vector& sum : sums) total += sum;
  return total[0];
}

}  // namespace

// Measures fp32 GFLOP/s over `threads` threads, each running about `steps` rounds.
extern "C" double peak_gflops(int threads, std::int64_t steps) {
  std::vector<float> results(threads * 64);
  const double seconds =
      seconds_on(threads, [&](int thread) { results[thread * 64] = multiply_add(steps); });
  const double lanes = sizeof(Vector) / sizeof(float);
  return 2.0 * lanes * kSums * static_cast<double>(steps) * threads / seconds / 1e9;
}

// Measures GB/s read plus written while `threads` threads copy buffers of `bytes` in all.
extern "C" double copy_bandwidth(int threads, std::size_t bytes) {
  const std::size_t share = bytes / threads;
  std::unique_ptr<char[]> source(new char[bytes]);
  std::unique_ptr<char[]> target(new char[bytes]);
  std::memset(source.get(), 1, bytes);
  std::memset(target.get(), 2, bytes);
  const double seconds = seconds_on(threads, [&](int thread) {
    std::memcpy(target.get() + thread * share, source.get() + thread * share, share);
  });
  return 2.0 * static_cast<double>(share) * threads / seconds / 1e9;
}

// Measures GB/s while `threads` threads read a buffer of `bytes` in all.
extern "C" double read_bandwidth(int threads, std::size_t bytes) {
  constexpr std::size_t kWords = 8;  // of a line, each summed by itself, so that the loop becomes vectors
  const std::size_t share = bytes / threads / sizeof(std::uint64_t) / kWords * kWords;
  std::unique_ptr<std::uint64_t[]> source(new std::uint64_t[share * threads]);
  std::memset(source.get(), 1, share * threads * sizeof(std::uint64_t));
  std::vector<std::uint64_t> results(threads * 64);
  const double seconds = seconds_on(threads, [&](int thread) {
    const std::uint64_t* begin = source.get() + thread * share;
    std::uint64_t sums[kWords] = {};
    for (std::size_t i = 0; i < share; i += kWords) {
      for (std::size_t n = 0; n < kWords; ++n) sums[n] += begin[i + n];
    }
    for (const std::uint64_t sum : sums) results[thread * 64] += sum;
  });
  volatile std::uint64_t kept = results[0];  // keeps the sums from being left out
  (void)kept;
  return static_cast<double>(share * threads * sizeof(std::uint64_t)) / seconds / 1e9;
}
