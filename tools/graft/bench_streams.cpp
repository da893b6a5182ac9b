// SPDX-License-Identifier: Apache-2.0
#include "bench_streams.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "console.h"

namespace graft {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// A session with what it reads and writes.
class Stream {
 public:
  Stream(const std::shared_ptr<const LoadedEngine>& engine, std::vector<TensorData> given, int threads,
         const BenchSettings& settings)
      : given_(std::move(given)), session_(engine, threads), buffers_(*engine->engine) {
    session_.set_deadline(settings.run_deadline);
    if (engine->device && !settings.host_io) on_device_.emplace(*engine, given_);
  }
  void run() { on_device_ ? on_device_->run(session_) : buffers_.run(session_, given_); }
  Session& session() { return session_; }

 private:
  std::vector<TensorData> given_;
  Session session_;
  OutputBuffers buffers_;
  std::optional<DeviceTensors> on_device_;
};

/// Times runs until there are enough, or `stopped` says so.
std::vector<double> time_runs(Stream& stream, const BenchSettings& settings, const std::function<bool()>& stopped) {
  std::vector<double> milliseconds;
  const auto start = Clock::now();
  const auto enough = [&] {
    if (settings.iterations > 0) return static_cast<int>(milliseconds.size()) >= settings.iterations;
    return seconds_since(start) >= settings.duration && milliseconds.size() >= 2;
  };
  while (!stopped() && !enough()) {
    const auto begin = Clock::now();
    stream.run();
    milliseconds.push_back(1000 * seconds_since(begin));
  }
  return milliseconds;
}

BenchTimes measure_one(Stream& stream, const BenchSettings& settings) {
  const InterruptibleSession interruptible(stream.session());
  for (int i = 0; i < settings.warmup; ++i) {
    stop_if_interrupted();
    show_progress("bench", "warming up", i, settings.warmup);
    stream.run();
  }
  const auto start = Clock::now();
  BenchTimes times;
  times.milliseconds = time_runs(stream, settings, interrupted);
  times.seconds = seconds_since(start);
  stop_if_interrupted();
  clear_progress();
  return times;
}

}  // namespace

BenchTimes measure_streams(const std::shared_ptr<const LoadedEngine>& engine, const std::vector<TensorData>& given,
                           int streams, const BenchSettings& settings) {
  const int threads = std::max(1, engine->engine->threads / streams);
  if (streams == 1) {
    Stream stream(engine, given, threads, settings);
    return measure_one(stream, settings);
  }
  std::vector<std::unique_ptr<Stream>> all;
  for (int s = 0; s < streams; ++s) all.push_back(std::make_unique<Stream>(engine, given, threads, settings));
  std::barrier together(streams + 1);
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr fault;
  BenchTimes times;
  const auto stopped = [&] { return failed.load() || interrupted(); };
  const auto guarded = [&](const auto& work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!fault) fault = std::current_exception();
      failed = true;
    }
  };
  std::vector<std::thread> workers;
  for (const auto& stream : all) {
    workers.emplace_back([&, &own = *stream] {
      guarded([&] {
        for (int i = 0; i < settings.warmup && !stopped(); ++i) own.run();
      });
      together.arrive_and_wait();
      guarded([&] {
        const std::vector<double> mine = time_runs(own, settings, stopped);
        const std::lock_guard lock(mutex);
        times.milliseconds.insert(times.milliseconds.end(), mine.begin(), mine.end());
      });
    });
  }
  together.arrive_and_wait();
  const auto start = Clock::now();
  for (std::thread& worker : workers) worker.join();
  times.seconds = seconds_since(start);
  stop_if_interrupted();
  if (fault) std::rethrow_exception(fault);
  return times;
}

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::optional<int> best_streams(const std::shared_ptr<const LoadedEngine>& engine, const std::vector<TensorData>& given,
                                const BenchSettings& settings, std::optional<double> bound_ms) {
  constexpr int kMostOnDevice = 8;
  constexpr double kLongestTrial = 1;
  const int most = engine->device ? kMostOnDevice : std::max(1, engine->engine->threads);
  BenchSettings trial = settings;
  trial.duration = std::min(settings.duration, kLongestTrial);
  std::optional<int> best;
  double most_runs = 0;
  for (int streams = 1; streams <= most; streams *= 2) {
    show_progress("bench", std::to_string(streams) + " streams", 0, 0);
    BenchTimes times = measure_streams(engine, given, streams, trial);
    std::sort(times.milliseconds.begin(), times.milliseconds.end());
    if (bound_ms && quantile(times.milliseconds, 0.99) > *bound_ms) continue;
    const double runs = static_cast<double>(times.milliseconds.size()) / times.seconds;
    if (runs > most_runs) best = streams, most_runs = runs;
  }
  clear_progress();
  return best;
}

std::optional<DeviceParts> measure_parts(const std::shared_ptr<const LoadedEngine>& engine,
                                         const std::vector<TensorData>& given) {
  constexpr int kRepetitions = 20;
  if (!engine->device) return std::nullopt;
  std::vector<TensorData> inputs = given;
  Session session(engine);
  DeviceTensors tensors(*engine, inputs);
  tensors.run(session);
  DeviceParts parts;
  if (!session.time_steps(kRepetitions, parts.compute).ok()) return std::nullopt;
  parts.upload = tensors.time_uploads(inputs, kRepetitions);
  parts.download = tensors.time_downloads(kRepetitions);
  return parts;
}

}  // namespace graft
