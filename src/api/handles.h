// SPDX-License-Identifier: Apache-2.0
// What is behind the handles of the C interface.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "driver/compile.h"
#include "driver/int8.h"
#include "graft/graft_c.h"
#include "runtime/session.h"

/// An engine with the descriptions that callers ask for; counted by hand, since C has no destructors.
struct graft_engine {
  graft_engine(graft::Plan made, std::shared_ptr<const graft::LoadedEngine> engine);

  const graft::Engine& data() const { return *loaded->engine; }

  graft::Plan plan;
  std::shared_ptr<const graft::LoadedEngine> loaded;
  std::string device = "cpu";  ///< what runs it: cpu, cuda or cuda:N
  std::string elsewhere;  ///< why it runs on another machine only, and has no code here; empty when it runs here
  std::atomic<int64_t> references{1};
  std::vector<graft_value_info> inputs, outputs;
  mutable std::once_flag described;
  mutable std::string description;
  mutable std::once_flag metadata_described;
  mutable std::string metadata;
  std::string quantization = "null", quantization_text;  ///< the report on one of 8 bits, as JSON and as a text

  /// Of an engine that runs in f32 and learns to be one of 8 bits: `loaded` is not what runs, but describes it.
  struct Learning {
    std::shared_ptr<graft::LearningNetwork> network;
    int64_t runs = 0;               ///< after which it changes over by itself; 0: when it is told to
    graft::CompileOptions options;  ///< for what it becomes, without functions of the caller
    std::mutex changing = {};
  };
  /// What it still learns in; null for an engine that does not, or has changed over.
  std::shared_ptr<Learning> learning() const;
  void learn(std::shared_ptr<Learning> how) { learning_ = std::move(how); }
  /// From now on `next` is what runs for its holders.
  void become(std::unique_ptr<graft_engine> next);
  /// What runs: what it has become, or itself. Lives as long as this one.
  graft_engine& latest();
  const graft_engine& latest() const { return const_cast<graft_engine*>(this)->latest(); }
  ~graft_engine();

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Learning> learning_;
  std::atomic<graft_engine*> next_{nullptr};
  graft_value_info value_info(int tensor);
  std::vector<std::unique_ptr<std::vector<graft_axis>>> axes_;
  std::vector<std::unique_ptr<std::string>> texts_;
};

namespace graft::api_detail {

/// The status of an error kind; the two lists are in the same order.
inline graft_status status_of(ErrorKind kind) { return static_cast<graft_status>(kind) + 1; }

/// Describes a failure to the caller and gives its status.
graft_status fail(graft_error* error, ErrorKind kind, std::string_view message) noexcept;

/// The choices of a C caller; `stopped` is set when `progress` asks to stop, and has to live as long as the result.
/// Within a long step `progress` is asked again, ten times a second, by the thread that compiles.
CompileOptions make_options(const graft_option* options, size_t count, graft_progress_function progress, void* context,
                            std::atomic<bool>& stopped);

/// The handle of what was compiled for the options: ready to run, or, for a `target` that this machine is not, to be
/// described and saved.
std::unique_ptr<graft_engine> engine_of(Compiled compiled, const CompileOptions& options);
/// The same of what int8 has made: an engine of 8 bits, or one that learns to be.
std::unique_ptr<graft_engine> engine_of(Int8Engine made, const Int8Choices& choices, const CompileOptions& options);

/// The choices of int8 among a caller's; the others stay in `others`. Throws invalid_argument where there are some
/// without the precision itself.
Int8Choices take_int8(const graft_option* options, size_t count, std::vector<graft_option>& others);

/// Ends the calibration of an engine that learns, which becomes the one that is given back. Throws as
/// LearningNetwork::quantise does; then it learns on.
graft_engine& finish_calibration(graft_engine& engine, const CompileOptions& callbacks);
/// Runs an engine that learns, once; it may change over then.
void run_learning(graft_engine& engine, graft_engine::Learning& learning, const std::vector<TensorData>& inputs,
                  const std::function<void(std::span<const TensorData>)>& use);

/// Runs `body`, which may throw, behind a function that may not.
template <class Body>
graft_status guarded(graft_error* error, const Body& body) noexcept {
  try {
    body();
    return GRAFT_OK;
  } catch (const Error& fault) {
    return fail(error, fault.kind(), fault.what());
  } catch (const std::bad_alloc&) {
    return fail(error, ErrorKind::kOutOfMemory, "out of memory: free some, or use smaller sizes");
  } catch (const std::exception& fault) {
    return fail(error, ErrorKind::kInternal, fault.what());
  } catch (...) {
    return fail(error, ErrorKind::kInternal, "a failure without a description");
  }
}

}  // namespace graft::api_detail
