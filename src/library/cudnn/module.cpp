// SPDX-License-Identifier: Apache-2.0
// The cuDNN module.
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "library/cudnn/plan.h"
#include "library/library.h"

using graft::cudnn::Plan;

void* graft_library_create(const char* call, size_t bytes, int choice, void* stream, graft_library_sink sink,
                           void* context) {
  const auto send = [&](const char* kind, std::string_view text) {
    if (sink) sink(context, kind, text.data(), text.size());
  };
  try {
    auto made = std::make_unique<Plan>(graft::cudnn::choose_plan({call, bytes}, choice, stream));
    send("implementation", made->implementation());
    return made.release();
  } catch (const std::exception& error) {
    send("error", error.what());
  }
  return nullptr;
}

int64_t graft_library_scratch(const void* handle) { return static_cast<const Plan*>(handle)->workspace_bytes(); }

int graft_library_run(void* handle, void* const* buffers, void* scratch) {
  return static_cast<Plan*>(handle)->run(buffers, scratch);
}

void graft_library_destroy(void* handle) { delete static_cast<Plan*>(handle); }

const char* graft_library_version(void) {
  static const std::string text = [] {
    const auto& api = graft::cudnn::api();
    if (!api.missing.empty()) return std::string();
    const size_t version = api.version();
    return fmt::format("cuDNN {}.{}.{} ({})", version / 10000, version / 100 % 100, version % 100, api.path);
  }();
  return text.c_str();
}

const char* graft_library_problem(void) { return graft::cudnn::api().missing.c_str(); }
