// SPDX-License-Identifier: Apache-2.0
// The C interface of engines that run in f32 and learn to be of 8 bits, and how a framework's graph names them.
#include <map>
#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "api/handles.h"
#include "base/log.h"
#include "driver/fallbacks.h"
#include "driver/load.h"
#include "graft/graft_host.h"

using graft::api_detail::guarded;

std::shared_ptr<graft_engine::Learning> graft_engine::learning() const {
  const std::lock_guard lock(mutex_);
  return learning_;
}

void graft_engine::become(std::unique_ptr<graft_engine> next) {
  const std::lock_guard lock(mutex_);
  next_.store(next.release(), std::memory_order_release);
  learning_.reset();
}

graft_engine& graft_engine::latest() {
  graft_engine* const next = next_.load(std::memory_order_acquire);
  return next ? *next : *this;
}

graft_engine::~graft_engine() { graft_engine_release(next_.load()); }

namespace graft::api_detail {
namespace {

/// With the functions of a caller, who waits.
CompileOptions with_callbacks(CompileOptions options, const CompileOptions& callbacks) {
  options.progress = callbacks.progress, options.cancelled = callbacks.cancelled;
  return options;
}

std::unique_ptr<graft_engine> with_report(std::unique_ptr<graft_engine> engine, const quantize::Report& report) {
  engine->quantization = quantize::json_of(report), engine->quantization_text = print(report);
  return engine;
}

/// An engine that cannot be quantised after all computes in f32 for good.
void stay_plain(graft_engine& engine, graft_engine::Learning& learning, const Error& reason) {
  const std::lock_guard lock(learning.changing);
  if (!engine.learning()) return;  // another run has seen to it
  count_fallback("an engine that was to become int8, and stays fp32", reason.what());
  engine.become(engine_of(compile_from(learning.network->imported(), Stage::kImport, learning.options),
                          learning.options));
}

/// The engines that graphs name, each held.
struct Published {
  std::mutex mutex;
  std::map<std::string, graft_engine*, std::less<>> engines;
};
Published& published() {
  static auto* const made = new Published;  // graphs may outlive statics
  return *made;
}

}  // namespace

Int8Choices take_int8(const graft_option* options, size_t count, std::vector<graft_option>& others) {
  GRAFT_USER_CHECK(options || count == 0, kInvalidArgument, "NULL with a count that is not 0", "options");
  Int8Choices chosen;
  const char* first = nullptr;
  for (size_t i = 0; i < count; ++i) {
    const bool complete = options[i].key && options[i].value;
    if (complete && set_choice(chosen, {options[i].key, options[i].value})) {
      if (!first) first = options[i].key;
    } else {
      others.push_back(options[i]);
    }
  }
  GRAFT_USER_CHECK(!first || chosen.asked, kInvalidArgument,
                   "it is a choice of the precisions int8, fp8, int4 and auto: choose one of them, too",
                   first);
  return chosen;
}

std::unique_ptr<graft_engine> engine_of(Int8Engine made, const Int8Choices& choices, const CompileOptions& options) {
  if (made.compiled) {
    auto engine = engine_of(std::move(*made.compiled), options);
    return made.report ? with_report(std::move(engine), *made.report) : std::move(engine);
  }
  CompileOptions described = options;  // nobody runs it
  described.tuning = Tuning::kOff, described.choices_only = true;
  Compiled plain = compile_from(made.learning->imported(), Stage::kImport, described);
  LoadedEngine loaded{.engine = std::make_shared<const Engine>(std::move(plain.engine))};
  auto engine = std::make_unique<graft_engine>(std::move(plain.plan),
                                               std::make_shared<const LoadedEngine>(std::move(loaded)));
  engine->device = options.device;
  auto learning = std::make_shared<graft_engine::Learning>();
  learning->network = std::move(made.learning);
  learning->runs = choices.learned_runs.value_or(0);
  learning->options = with_callbacks(options, {});
  engine->learn(std::move(learning));
  return engine;
}

graft_engine& finish_calibration(graft_engine& engine, const CompileOptions& callbacks) {
  const auto learning = engine.learning();
  if (!learning) return engine.latest();
  const std::lock_guard lock(learning->changing);
  if (!engine.learning()) return engine.latest();
  const CompileOptions options = with_callbacks(learning->options, callbacks);
  QuantisedModel made = learning->network->quantise(options);
  auto next = engine_of(compile_from(std::move(made.graph), Stage::kImport, options), options);
  write_calibration(made);
  engine.become(with_report(std::move(next), made.report));
  return engine.latest();
}

void run_learning(graft_engine& engine, graft_engine::Learning& learning, const std::vector<TensorData>& inputs,
                  const std::function<void(std::span<const TensorData>)>& use) {
  learning.network->run(inputs, use);
  if (learning.runs == 0 || learning.network->runs() < learning.runs) return;
  try {
    const graft_engine& made = finish_calibration(engine, {});
    log(LogLevel::kStep, "an engine has changed over to int8 after {} runs:\n{}", learning.runs,
        made.quantization_text);
  } catch (const Error& reason) {
    stay_plain(engine, learning, reason);
  }
}

}  // namespace graft::api_detail

extern "C" {

int64_t graft_engine_calibration_runs(const graft_engine* engine) {
  const auto learning = engine ? engine->learning() : nullptr;
  return learning ? learning->network->runs() : -1;
}

graft_status graft_engine_finish_calibration(graft_engine* engine, graft_progress_function progress, void* context,
                                             graft_engine** quantized, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(engine, kInvalidArgument, "the engine is NULL", "graft_engine_finish_calibration");
    std::atomic<bool> stopped = false;
    const graft::CompileOptions callbacks =
        graft::api_detail::make_options(nullptr, 0, progress, context, stopped);
    graft_engine& made = graft::api_detail::finish_calibration(*engine, callbacks);
    if (quantized) *quantized = graft_engine_retain(&made);
  });
}

const char* graft_engine_quantization_report(const graft_engine* engine) {
  return engine ? engine->latest().quantization.c_str() : "null";
}

const char* graft_engine_quantization_text(const graft_engine* engine) {
  return engine ? engine->latest().quantization_text.c_str() : "";
}

graft_status graft_host_publish_engine(graft_engine* engine, void* context,
                                       void (*take)(void* context, const char* name), graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(engine && take, kInvalidArgument, "an argument is NULL", "graft_host_publish_engine");
    static std::mutex mutex;
    static std::random_device random;  // a graph may come from another process
    std::string name;
    {
      const std::lock_guard lock(mutex);
      name = fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
    }
    {
      const std::lock_guard lock(graft::api_detail::published().mutex);
      graft::api_detail::published().engines[name] = graft_engine_retain(engine);
    }
    take(context, name.c_str());
  });
}

graft_engine* graft_host_find_engine(const char* name) {
  if (!name) return nullptr;
  const std::lock_guard lock(graft::api_detail::published().mutex);
  const auto found = graft::api_detail::published().engines.find(std::string_view(name));
  return found == graft::api_detail::published().engines.end() ? nullptr : graft_engine_retain(found->second);
}

void graft_host_withdraw_engine(const char* name) {
  graft_engine* engine = nullptr;
  if (!name) return;
  {
    const std::lock_guard lock(graft::api_detail::published().mutex);
    const auto found = graft::api_detail::published().engines.find(std::string_view(name));
    if (found == graft::api_detail::published().engines.end()) return;
    engine = found->second;
    graft::api_detail::published().engines.erase(found);
  }
  graft_engine_release(engine);
}

}  // extern "C"
