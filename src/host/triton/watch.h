// SPDX-License-Identifier: Apache-2.0
// Ends runs whose clients have gone: Triton says only when it is asked that a request was cancelled.
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <span>
#include <thread>

#include "graft/graft_c.h"
#include "triton.h"

namespace graft::triton {

/// Whether the client of a request has gone.
bool is_cancelled(TRITONBACKEND_Request* request);

/// A thread that looks at all runs every 20 ms, and sleeps while there are none.
class Watch {
 public:
  /// Where an instance says what it runs.
  class Seat {
   public:
    explicit Seat(Watch& watch);
    ~Seat();
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    /// From now on the session runs for these requests; the span's memory stays the caller's until `end`.
    void begin(graft_session* session, std::span<TRITONBACKEND_Request* const> requests);
    void end();

   private:
    friend class Watch;
    bool look();

    Watch& watch_;
    std::mutex mutex_;
    graft_session* session_ = nullptr;
    std::span<TRITONBACKEND_Request* const> requests_;
  };

  Watch() : thread_([this] { look(); }) {}
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void look();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Seat*> seats_;
  bool stopped_ = false;
  std::atomic<bool> asleep_ = false;
  std::atomic<uint64_t> runs_ = 0;  ///< how many have begun
  std::thread thread_;
};

}  // namespace graft::triton
