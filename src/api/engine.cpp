// SPDX-License-Identifier: Apache-2.0
// The C interface: compiling, loading and describing engines.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "api/describe.h"
#include "api/handles.h"
#include "base/log.h"
#include "base/printable.h"
#include "driver/check_model.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "modules/kernel_source.h"

using graft::api_detail::guarded;

namespace graft::api_detail {

namespace {

void copy_message(std::string_view message, graft_error& error) {
  size_t length = std::min(message.size(), sizeof error.message - 1);
  // A cut may not leave half of a character behind.
  while (length < message.size() && length > 0 && (message[length] & 0xC0) == 0x80) --length;
  std::memcpy(error.message, message.data(), length);
  error.message[length] = 0;
}

}  // namespace

graft_status fail(graft_error* error, ErrorKind kind, std::string_view message) noexcept {
  if (error) {
    error->status = status_of(kind);
    try {
      copy_message(printable(message), *error);
    } catch (const std::bad_alloc&) {
      copy_message("out of memory", *error);
    }
  }
  return status_of(kind);
}

namespace {

/// A caller's progress function, with what it was told last.
class ProgressCaller {
 public:
  ProgressCaller(graft_progress_function function, void* context, std::atomic<bool>& stopped)
      : function_(function), context_(context), stopped_(stopped) {}

  void tell(std::string_view stage, std::string_view step, int done, int total) {
    stage_ = stage, step_ = step, done_ = done, total_ = total;
    tell_again();
  }
  /// Asked between kernels and the like, from any thread: the caller may want to stop in the middle of a step.
  bool is_stopped() {
    const bool waited = std::this_thread::get_id() == thread_ && Clock::now() - told_ > kInterval;
    if (waited && !stage_.empty()) tell_again();
    return stopped_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kInterval{100};

  void tell_again() {
    if (stopped_) return;
    told_ = Clock::now();
    if (function_(context_, stage_.c_str(), step_.c_str(), done_, total_) != 0) stopped_ = true;
  }

  const graft_progress_function function_;
  void* const context_;
  std::atomic<bool>& stopped_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::string stage_, step_;
  int done_ = 0, total_ = 0;
  Clock::time_point told_;
};

}  // namespace

CompileOptions make_options(const graft_option* options, size_t count, graft_progress_function progress,
                            void* context, std::atomic<bool>& stopped) {
  CompileOptions made;
  GRAFT_USER_CHECK(options || count == 0, kInvalidArgument, "NULL with a count that is not 0", "options");
  for (size_t i = 0; i < count; ++i) {
    GRAFT_USER_CHECK(options[i].key && options[i].value, kInvalidArgument, fmt::format("number {} has a NULL", i),
                     "options");
    set_option(made, {options[i].key, options[i].value});
  }
  if (progress) {
    const auto caller = std::make_shared<ProgressCaller>(progress, context, stopped);
    made.progress = [caller](std::string_view stage, std::string_view step, int done, int total) {
      caller->tell(stage, step, done, total);
    };
    made.cancelled = [caller] { return caller->is_stopped(); };
  }
  return made;
}

std::unique_ptr<graft_engine> engine_of(Compiled compiled, const CompileOptions& options) {
  const std::string elsewhere = options.targets.empty() ? "" : why_not_here(compiled.engine, options.device);
  std::shared_ptr<const LoadedEngine> loaded;
  if (elsewhere.empty()) {
    loaded = load(std::move(compiled.engine), options.device, options.threads);
  } else {
    auto engine = std::make_shared<const Engine>(std::move(compiled.engine));
    loaded = std::make_shared<const LoadedEngine>(LoadedEngine{.engine = std::move(engine)});
  }
  auto handle = std::make_unique<graft_engine>(std::move(compiled.plan), std::move(loaded));
  handle->device = options.device;
  handle->elsewhere = elsewhere;
  return handle;
}

namespace {

/// The choices of loading.
struct LoadOptions {
  Weights weights = Weights::kMapped;
  std::string device = "auto";  ///< the plan's
  int threads = 0;
};

LoadOptions load_options(const graft_option* options, size_t count) {
  GRAFT_USER_CHECK(options || count == 0, kInvalidArgument, "NULL with a count that is not 0", "options");
  std::vector<graft_option> others;
  LoadOptions chosen;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view key = options[i].key ? options[i].key : "", value = options[i].value ? options[i].value : "";
    if (key == "device" && value == "auto") continue;
    if (key != "weights") {
      others.push_back(options[i]);
      continue;
    }
    GRAFT_USER_CHECK(value == "mapped" || value == "copied", kInvalidArgument,
                     fmt::format("'{}' is no place for weights: mapped or copied", value), "weights");
    chosen.weights = value == "copied" ? Weights::kCopied : Weights::kMapped;
  }
  std::atomic<bool> stopped = false;
  const CompileOptions made = make_options(others.data(), others.size(), nullptr, nullptr, stopped);
  chosen.threads = made.threads;
  for (const graft_option& option : others) {
    const std::string_view key = option.key;
    if (key == "device") chosen.device = made.device;
    GRAFT_USER_CHECK(key == "device" || key == "threads", kInvalidArgument,
                     "it is chosen when a plan is compiled; device, threads and weights are chosen when it is loaded",
                     std::string(key));
  }
  return chosen;
}

/// Loads the plan that `open` gives for the options.
template <class Open>
void load_plan(const graft_option* options, size_t option_count, graft_engine** engine, const Open& open) {
  const LoadOptions chosen = load_options(options, option_count);
  Plan plan = open(chosen.weights);
  const std::string device = chosen.device == "auto" ? device_of(plan) : chosen.device;
  auto loaded = load(plan, device, chosen.threads);
  auto handle = std::make_unique<graft_engine>(std::move(plan), std::move(loaded));
  handle->device = device;
  *engine = handle.release();
}

/// The choices of a check without how deep it goes, and that.
std::pair<std::vector<graft_option>, CheckDepth> split_depth(const graft_option* options, size_t count) {
  GRAFT_USER_CHECK(options || count == 0, kInvalidArgument, "NULL with a count that is not 0", "options");
  std::vector<graft_option> others;
  CheckDepth depth = CheckDepth::kChoices;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view key = options[i].key ? options[i].key : "", value = options[i].value ? options[i].value : "";
    if (key == "tune" && (value == "fast" || value == "full")) depth = CheckDepth::kCode;  // measuring takes code
    if (key != "generate") {
      others.push_back(options[i]);
      continue;
    }
    GRAFT_USER_CHECK(value == "yes" || value == "no", kInvalidArgument,
                     fmt::format("'{}' is neither yes nor no", value), "generate");
    if (value == "yes") depth = CheckDepth::kCode;
  }
  return {std::move(others), depth};
}

graft_status compile_source(const ModelSource& source, const graft_option* options, size_t option_count,
                            graft_progress_function progress, void* context, graft_engine** engine,
                            graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(engine, kInvalidArgument, "the place for the engine is NULL", "graft_compile");
    std::atomic<bool> stopped = false;
    std::vector<graft_option> others;
    const Int8Choices int8 = take_int8(options, option_count, others);
    CompileOptions made = make_options(others.data(), others.size(), progress, context, stopped);
    add_origin(made.metadata, source);
    if (!int8.asked) {
      *engine = engine_of(compile(source, made), made).release();
      return;
    }
    run_by_deadline(made, [&](const CompileOptions& limited) {
      *engine = engine_of(compile_int8(import_model(source, limited), int8, limited), int8, limited).release();
    });
  });
}

}  // namespace
}  // namespace graft::api_detail

graft_engine::graft_engine(graft::Plan made, std::shared_ptr<const graft::LoadedEngine> engine)
    : plan(std::move(made)), loaded(std::move(engine)) {
  for (const int input : data().inputs) inputs.push_back(value_info(input));
  for (const int output : data().outputs) outputs.push_back(value_info(output));
}

graft_value_info graft_engine::value_info(int tensor) {
  const graft::EngineTensor& described_tensor = data().tensors[tensor];
  axes_.push_back(std::make_unique<std::vector<graft_axis>>());
  for (const graft::Size& size : described_tensor.shape) {
    texts_.push_back(std::make_unique<std::string>(size.to_string()));
    graft_axis axis{.size = size.as_constant().value_or(-1), .text = texts_.back()->c_str()};
    axis.min = axis.opt = axis.max = size.as_constant().value_or(0);
    if (const auto symbol = size.as_symbol()) {
      const auto found = data().symbols.find(*symbol);
      if (found != data().symbols.end()) {
        axis.min = found->second.min, axis.opt = found->second.opt, axis.max = found->second.max;
      }
    }
    axes_.back()->push_back(axis);
  }
  const std::string& handles = described_tensor.handles;
  const bool is_text = handles == "str", is_dynamic = !handles.empty() && !is_text;
  return {.name = described_tensor.name.c_str(),
          .dtype = is_dynamic ? 0 : is_text ? GRAFT_STRING : graft::onnx_code(described_tensor.type),
          .rank = static_cast<int32_t>(axes_.back()->size()),
          .axes = axes_.back()->data(),
          .type = is_dynamic ? handles.c_str() : nullptr};
}

extern "C" {

const char* graft_version(void) { return GRAFT_VERSION; }

void graft_set_log(graft_log_function log, void* context, int32_t level) {
  graft::set_log_level(static_cast<graft::LogLevel>(std::clamp<int32_t>(level, 0, 6)));
  if (!log) return graft::set_log_callback({});
  graft::set_log_callback([=](graft::LogLevel severity, std::string_view message) {
    log(context, static_cast<int32_t>(severity), std::string(message).c_str());
  });
}

graft_status graft_compile(const char* path, const graft_option* options, size_t option_count,
                           graft_progress_function progress, void* context, graft_engine** engine,
                           graft_error* error) {
  if (!path) return graft::api_detail::fail(error, graft::ErrorKind::kInvalidArgument, "graft_compile: path is NULL");
  return graft::api_detail::compile_source({.path = path}, options, option_count, progress, context, engine, error);
}

graft_status graft_compile_bytes(const void* bytes, size_t byte_count, const char* directory,
                                 const graft_option* options, size_t option_count, graft_progress_function progress,
                                 void* context, graft_engine** engine, graft_error* error) {
  if (!bytes && byte_count > 0) {
    return graft::api_detail::fail(error, graft::ErrorKind::kInvalidArgument, "graft_compile_bytes: bytes is NULL");
  }
  graft::ModelSource source{.path = directory ? directory : ""};
  source.bytes = std::span(static_cast<const std::byte*>(bytes), byte_count);
  return graft::api_detail::compile_source(source, options, option_count, progress, context, engine, error);
}

graft_status graft_load(const char* path, graft_engine** engine, graft_error* error) {
  return graft_load_with(path, nullptr, 0, engine, error);
}

graft_status graft_load_on(const char* path, const char* device, graft_engine** engine, graft_error* error) {
  const graft_option option{.key = "device", .value = device};
  return graft_load_with(path, &option, 1, engine, error);
}

graft_status graft_load_with(const char* path, const graft_option* options, size_t option_count,
                             graft_engine** engine, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(path && engine, kInvalidArgument, "path or the place for the engine is NULL", "graft_load");
    graft::api_detail::load_plan(options, option_count, engine,
                                 [&](graft::Weights weights) { return graft::open_plan(path, weights); });
  });
}

graft_status graft_check_options(const graft_option* options, size_t option_count, graft_error* error) {
  return guarded(error, [&] {
    std::atomic<bool> stopped = false;
    std::vector<graft_option> others;
    graft::api_detail::take_int8(options, option_count, others);
    graft::api_detail::make_options(others.data(), others.size(), nullptr, nullptr, stopped);
  });
}

graft_status graft_check(const char* path, const void* bytes, size_t byte_count, const graft_option* options,
                         size_t option_count, graft_progress_function progress, void* context,
                         void (*take)(void* context, const char* json), graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK((path || bytes) && take, kInvalidArgument,
                     "the model or the function that takes the answer is NULL", "graft_check");
    std::atomic<bool> stopped = false;
    const auto [others, depth] = graft::api_detail::split_depth(options, option_count);
    const graft::CompileOptions made =
        graft::api_detail::make_options(others.data(), others.size(), progress, context, stopped);
    graft::ModelSource source{.path = path ? path : ""};
    if (bytes) source.bytes = std::span(static_cast<const std::byte*>(bytes), byte_count);
    take(context, graft::describe(graft::check_model(source, made, depth)).c_str());
  });
}

graft_status graft_load_bytes(const void* bytes, size_t byte_count, void (*release)(void* context), void* context,
                              const graft_option* options, size_t option_count, graft_engine** engine,
                              graft_error* error) {
  return guarded(error, [&] {
    const std::shared_ptr<const void> owner(bytes, [release, context](const void*) {
      if (release) release(context);
    });
    GRAFT_USER_CHECK(bytes && engine, kInvalidArgument, "bytes or the place for the engine is NULL",
                     "graft_load_bytes");
    for (size_t i = 0; options && i < option_count; ++i) {
      GRAFT_USER_CHECK(!options[i].key || std::strcmp(options[i].key, "weights") != 0, kInvalidArgument,
                       "those of a plan in memory stay in that memory", "weights");
    }
    const std::span file(static_cast<const std::byte*>(bytes), byte_count);
    graft::api_detail::load_plan(options, option_count, engine, [&](graft::Weights) {
      return graft::read_plan(file, release ? owner : nullptr);
    });
  });
}

graft_status graft_engine_save(const graft_engine* engine, const char* path, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(engine && path, kInvalidArgument, "engine or path is NULL", "graft_engine_save");
    graft::save(engine->latest().plan, path);
  });
}

graft_status graft_engine_save_bytes(const graft_engine* engine, void* (*allocate)(void* context, size_t bytes),
                                     void* context, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(engine && allocate, kInvalidArgument, "engine or allocate is NULL", "graft_engine_save_bytes");
    const std::vector<std::byte> file = graft::print_plan(graft::to_file(engine->latest().plan));
    void* target = allocate(context, file.size());
    GRAFT_USER_CHECK(target, kOutOfMemory, fmt::format("the caller has no memory for {} bytes", file.size()),
                     "graft_engine_save_bytes");
    std::memcpy(target, file.data(), file.size());
  });
}

graft_engine* graft_engine_retain(graft_engine* engine) {
  if (engine) engine->references.fetch_add(1, std::memory_order_relaxed);
  return engine;
}

void graft_engine_release(graft_engine* engine) {
  if (engine && engine->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete engine;
}

uint64_t graft_compilation_count(void) { return graft::compilation_count(); }

const char* graft_engine_device(const graft_engine* engine) { return engine ? engine->device.c_str() : ""; }

size_t graft_engine_input_count(const graft_engine* engine) { return engine ? engine->inputs.size() : 0; }
size_t graft_engine_output_count(const graft_engine* engine) { return engine ? engine->outputs.size() : 0; }

const graft_value_info* graft_engine_input(const graft_engine* engine, size_t index) {
  return index < graft_engine_input_count(engine) ? &engine->inputs[index] : nullptr;
}

const graft_value_info* graft_engine_output(const graft_engine* engine, size_t index) {
  return index < graft_engine_output_count(engine) ? &engine->outputs[index] : nullptr;
}

const char* graft_engine_metadata(const graft_engine* engine) {
  if (!engine) return "{}";
  const graft_engine& latest = engine->latest();
  const graft_status status = guarded(nullptr, [&] {
    std::call_once(latest.metadata_described, [&] {
      latest.metadata = graft::describe_metadata(
          graft::all_metadata(latest.plan.metadata, latest.plan.graph, latest.plan.options));
    });
  });
  return status == GRAFT_OK ? latest.metadata.c_str() : "{}";
}

const char* graft_engine_describe(const graft_engine* engine) {
  if (!engine) return "null";
  const graft_engine& latest = engine->latest();
  const graft_status status = guarded(nullptr, [&] {
    std::call_once(latest.described, [&] { latest.description = graft::describe(latest.data()); });
  });
  return status == GRAFT_OK ? latest.description.c_str() : "null";
}

}  // extern "C"
