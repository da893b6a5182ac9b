// SPDX-License-Identifier: Apache-2.0
#include "machine_peak.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <fmt/format.h>

#include "base/thread_team.h"
#include "device/device.h"
#include "runtime/kernel_cache.h"

namespace graft {
namespace {

// The sums stay in registers only when the loop over them is unrolled; clang does so by itself.
#if defined(__GNUC__) && !defined(__clang__)
#define GRAFT_UNROLL _Pragma("GCC unroll 10")
#else
#define GRAFT_UNROLL
#endif

constexpr int kChains = 10;  // enough independent sums to fill two units of latency 4 or 5
constexpr int64_t kRounds = 200000;
constexpr int kRepeats = 8;

double seconds_of(int threads, RangeFunction body) {
  const auto start = std::chrono::steady_clock::now();
  parallel_for(threads, threads, body);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) float multiply_add_512() {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 factor = _mm512_set1_ps(0.999F), term = _mm512_set1_ps(0.001F);
  for (int64_t round = 0; round < kRounds; ++round) {
    GRAFT_UNROLL for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
  }
  for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  return _mm512_cvtss_f32(sums[0]);
}

__attribute__((target("avx2,fma"))) float multiply_add_256() {
  __m256 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 factor = _mm256_set1_ps(0.999F), term = _mm256_set1_ps(0.001F);
  for (int64_t round = 0; round < kRounds; ++round) {
    GRAFT_UNROLL for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
  }
  for (int i = 1; i < kChains; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  return _mm256_cvtss_f32(sums[0]);
}
#endif

/// The best of a few rounds: other work can only slow one down.
double measure_arithmetic(int threads) {
#if defined(__x86_64__)
  const int lanes = __builtin_cpu_supports("avx512f") ? 16 : __builtin_cpu_supports("fma") ? 8 : 0;
  if (lanes == 0) return 0;
  double best = 0;
  volatile float sink = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double seconds = seconds_of(threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) sink = lanes == 16 ? multiply_add_512() : multiply_add_256();
    });
    best = std::max(best, 2.0 * lanes * kChains * static_cast<double>(kRounds) * threads / seconds);
  }
  return best * 1e-9;
#else
  (void)threads;
  return 0;
#endif
}

double measure_copies(int threads) {
  constexpr size_t kBytes = size_t{32} << 20;
  std::vector<std::vector<char>> from(threads, std::vector<char>(kBytes, 1)), to(threads, std::vector<char>(kBytes));
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double seconds = seconds_of(threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) std::memcpy(to[i].data(), from[i].data(), kBytes);
    });
    best = std::max(best, 2.0 * static_cast<double>(kBytes) * threads / seconds);
  }
  return best * 1e-9;
}

/// What the peaks of a processor depend on: its model, the memory that is beside it, and the threads.
std::string key_of_machine(int threads) {
  std::string model, memory;
  const auto find = [](const char* path, std::string_view name, std::string& value) {
    std::ifstream file(path);
    for (std::string line; value.empty() && std::getline(file, line);) {
      if (line.starts_with(name)) value = line;
    }
  };
  find("/proc/cpuinfo", "model name", model);
  find("/proc/meminfo", "MemTotal", memory);
  return kernel_key({"peak 1", model, memory, fmt::format("{} threads", threads)});
}

/// Two numbers, as the cache keeps them.
struct StoredPeak {
  double gflops = 0, gigabytes_per_s = 0;
};

KernelCache& peaks_cache() {
  static KernelCache* instance = new KernelCache;
  return *instance;
}

std::optional<MachinePeak> known_peak(KernelCache& cache, int threads) {
  const auto bytes = cache.find(key_of_machine(threads));
  StoredPeak stored;
  if (!bytes || bytes->size() != sizeof stored) return std::nullopt;
  std::memcpy(&stored, bytes->data(), sizeof stored);
  const bool usable = std::isfinite(stored.gflops) && std::isfinite(stored.gigabytes_per_s);
  if (!usable) return std::nullopt;
  return MachinePeak{.gflops = stored.gflops, .gigabytes_per_s = stored.gigabytes_per_s};
}

}  // namespace

MachinePeak better_of(const MachinePeak& a, const MachinePeak& b) {
  return {.gflops = std::max(a.gflops, b.gflops),
          .half_gflops = std::max(a.half_gflops, b.half_gflops),
          .gigabytes_per_s = std::max(a.gigabytes_per_s, b.gigabytes_per_s)};
}

PeakMeter::PeakMeter(int threads) : threads_(threads) {
  if (const auto known = known_peak(peaks_cache(), threads)) best_ = *known;
  measure();
}

const MachinePeak& PeakMeter::measure() {
  const MachinePeak now{.gflops = measure_arithmetic(threads_), .gigabytes_per_s = measure_copies(threads_)};
  const auto lower = [](double& lowest, double value) { lowest = lowest > 0 ? std::min(lowest, value) : value; };
  lower(lowest_.gflops, now.gflops);
  lower(lowest_.gigabytes_per_s, now.gigabytes_per_s);
  const MachinePeak better = better_of(best_, now);
  if (better.gflops > best_.gflops || better.gigabytes_per_s > best_.gigabytes_per_s) {
    const StoredPeak stored{.gflops = better.gflops, .gigabytes_per_s = better.gigabytes_per_s};
    peaks_cache().store(key_of_machine(threads_), std::as_bytes(std::span(&stored, 1)));
  }
  best_ = better;
  return best_;
}

bool PeakMeter::varies() const {
  constexpr double kFar = 0.8;
  return lowest_.gflops < kFar * best_.gflops || lowest_.gigabytes_per_s < kFar * best_.gigabytes_per_s;
}

MachinePeak measure_peak(Device& device) {
  constexpr int64_t kBytes = 512 << 20;
  constexpr int kCopies = 10;
  MachinePeak peak{.gflops = device.peak_gflops(false), .half_gflops = device.peak_gflops(true)};
  const auto stream = device.make_stream();
  void* memory = stream->allocate(2 * kBytes);
  char* second = static_cast<char*>(memory) + kBytes;
  stream->clear(memory, kBytes);
  stream->mark(0);
  for (int i = 0; i < kCopies; ++i) stream->copy(i % 2 ? memory : second, i % 2 ? second : memory, kBytes);
  stream->mark(1);
  peak.gigabytes_per_s = 2.0 * kBytes * kCopies / stream->elapsed_us(0, 1) * 1e-3;
  stream->release(memory);
  return peak;
}

}  // namespace graft
