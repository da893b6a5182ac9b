// SPDX-License-Identifier: Apache-2.0
#include "watch.h"

#include <algorithm>
#include <chrono>

#include "failure.h"

namespace graft::triton {
namespace {

constexpr std::chrono::milliseconds kPeriod{20};  ///< a run that nobody waits for goes on for so long at most
constexpr int kIdlePeriods = 50;                  ///< without any run, before the thread sleeps

}  // namespace

bool is_cancelled(TRITONBACKEND_Request* request) {
  bool cancelled = false;
  ignore(TRITONBACKEND_RequestIsCancelled(request, &cancelled));
  return cancelled;
}

Watch::Seat::Seat(Watch& watch) : watch_(watch) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.seats_.push_back(this);
}

Watch::Seat::~Seat() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.seats_.remove(this);
}

void Watch::Seat::begin(graft_session* session, std::span<TRITONBACKEND_Request* const> requests) {
  {
    const std::lock_guard lock(mutex_);
    session_ = session, requests_ = requests;
  }
  watch_.runs_.fetch_add(1);
  if (!watch_.asleep_.load()) return;
  const std::lock_guard lock(watch_.mutex_);
  watch_.changed_.notify_one();
}

void Watch::Seat::end() {
  const std::lock_guard lock(mutex_);
  session_ = nullptr, requests_ = {};
}

/// A joined run goes on while one of its clients is there. Says whether there is a run.
bool Watch::Seat::look() {
  const std::lock_guard lock(mutex_);
  if (session_ && std::ranges::all_of(requests_, is_cancelled)) graft_session_cancel(session_);
  return session_ != nullptr;
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watch::look() {
  std::unique_lock lock(mutex_);
  uint64_t seen = 0;
  for (int idle = 0; !stopped_;) {
    bool busy = false;
    for (Seat* const seat : seats_) busy = seat->look() || busy;
    const uint64_t runs = runs_.load();
    idle = runs == seen && !busy ? idle + 1 : 0;
    seen = runs;
    if (idle < kIdlePeriods) {
      changed_.wait_for(lock, kPeriod, [this] { return stopped_; });
      continue;
    }
    asleep_ = true;
    changed_.wait(lock, [&] { return stopped_ || runs_.load() != seen; });
    asleep_ = false;
    idle = 0;
  }
}

}  // namespace graft::triton
