// SPDX-License-Identifier: Apache-2.0
// The oneDNN module: each handle runs on the thread that calls it. oneDNN brings OpenMP; a thread that says it has one
// thread makes no team, so that Graft's own team is the only one.
#include <cstring>
#include <memory>
#include <string>

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/error.h"
#include "library/library.h"
#include "library/onednn/call_primitive.h"

namespace {

using graft::onednn::CallPrimitive;

/// OpenMP's functions as oneDNN itself finds them, whatever runtime the process has. Not linked: the compiler's own
/// OpenMP may be another.
struct OpenMp {
  void (*set_threads)(int) = nullptr;
  int (*threads)() = nullptr;
};

const OpenMp& open_mp() {
  static const OpenMp found{reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")),
                            reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"))};
  return found;
}

/// While it lives, OpenMP on this thread has one thread. The setting belongs to the thread and is put back.
class OneThread {
 public:
  OneThread() : before_(open_mp().threads ? open_mp().threads() : 1) {
    if (before_ != 1) open_mp().set_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) open_mp().set_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

void send(graft_library_sink sink, void* context, const char* kind, const std::string& text) {
  if (sink) sink(context, kind, text.data(), text.size());
}

std::unique_ptr<CallPrimitive> create(std::string_view text) {
  const OneThread alone;
  const graft::LibraryCall call = graft::parse_library_call(text);
  return std::make_unique<CallPrimitive>(graft::onednn::make_primitive(call));
}

}  // namespace

void* graft_library_create(const char* call, size_t bytes, int choice, void*, graft_library_sink sink, void* context) {
  try {
    GRAFT_USER_CHECK(choice == 0, kUnsupported, "it has one primitive for a call", "oneDNN");
    auto made = create({call, bytes});
    send(sink, context, "implementation", made->implementation);
    return made.release();
  } catch (const dnnl::error& error) {
    send(sink, context, "error", fmt::format("oneDNN has no primitive for it: {}", error.what()));
  } catch (const std::exception& error) {
    send(sink, context, "error", error.what());
  }
  return nullptr;
}

int64_t graft_library_scratch(const void* handle) { return static_cast<const CallPrimitive*>(handle)->scratch_bytes; }

int graft_library_run(void* handle, void* const* buffers, void* scratch) {
  auto& call = *static_cast<CallPrimitive*>(handle);
  const OneThread alone;
  for (size_t i = 0; i < call.operands.size(); ++i) dnnl_memory_set_data_handle(call.operands[i].get(), buffers[i]);
  if (call.scratch_bytes > 0) dnnl_memory_set_data_handle(call.scratchpad.get(), scratch);
  return dnnl_primitive_execute(call.primitive.get(), call.stream.get(), static_cast<int>(call.arguments.size()),
                                call.arguments.data());
}

void graft_library_destroy(void* handle) { delete static_cast<CallPrimitive*>(handle); }

const char* graft_library_version(void) {
  static const std::string text = [] {
    const dnnl_version_t* version = dnnl_version();
    return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
  }();
  return text.c_str();
}

const char* graft_library_problem(void) { return ""; }
