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

 private:
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
