// SPDX-License-Identifier: Apache-2.0
#include "modules/kernel_source.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "base/source_identity.h"
#include "codegen/codegen.h"
#include "modules/open_module.h"
#include "runtime/kernel_cache.h"

namespace graft {
namespace {

std::atomic<uint64_t> compilations{0}, compile_nanoseconds{0}, cache_hits{0}, cache_misses{0};

/// A code generator module: where it is, and its functions once it was opened.
struct Generator {
  std::string name;
  std::string path;  ///< empty when there is no file
  std::mutex mutex;
  std::atomic<bool> told{false};  ///< that it cannot be opened
  graft_codegen_compile_fn compile = nullptr;
  graft_codegen_version_fn version = nullptr;

  void open();
};

/// Opens the module; throws a device error that says what is missing.
void Generator::open() {
  const std::lock_guard lock(mutex);
  if (compile) return;
  void* module = open_module(name, path);
  version = reinterpret_cast<graft_codegen_version_fn>(module_function(module, "graft_codegen_version"));
  const auto found = reinterpret_cast<graft_codegen_compile_fn>(module_function(module, "graft_codegen_compile"));
  GRAFT_USER_CHECK(version && found, kDevice, "is not a code generator of this version of Graft", path);
  log(LogLevel::kDetail, "opened {}: {}", path, version());
  compile = found;
}

/// The module for the target; kept open for the life of the process.
Generator& generator_for(const Target& target) {
  static Generator* generators = [] {
    auto* made = new Generator[2];
    made[0].name = "llvm", made[0].path = find_module("llvm");
    made[1].name = "cuda", made[1].path = find_module("cuda");
    return made;
  }();
  return generators[target.kind == TargetKind::kCuda ? 1 : 0];
}

/// What a module sends back, and whom it asks.
struct Received {
  std::string code, source, launch, ptx, error;
  const KernelProgress* progress = nullptr;
  std::exception_ptr thrown;  ///< by `progress`, on its way round the C interface

  bool stop(std::string_view finished) noexcept {
    try {
      return progress && *progress && (*progress)(finished);
    } catch (...) {
      thrown = std::current_exception();
      return true;
    }
  }
};

int receive(void* context, const char* kind, const void* data, size_t bytes) {
  auto& received = *static_cast<Received*>(context);
  const std::string_view text(static_cast<const char*>(data), bytes);
  const std::string_view form(kind);
  if (form == "progress") return received.stop(text);
  if (form == "object" || form == "cubin") received.code = text;
  if (form == "source") received.source = text;
  if (form == "launch") received.launch = text;
  if (form == "ptx") received.ptx = text;
  if (form == "error") received.error = text;
  if (form == "log") log(LogLevel::kDetail, "{}", text);
  return 0;
}

Received generate(const std::string& programs, const Target& target, const char* options,
                  const KernelProgress& progress) {
  Generator& generator = generator_for(target);
  try {
    generator.open();
  } catch (const Error& error) {
    if (!generator.told.exchange(true)) {
      log(LogLevel::kWarning, "{}; the interpreter runs everything, slowly", error.what());
    }
    throw;
  }
  compilations.fetch_add(1, std::memory_order_relaxed);
  Received received;
  received.progress = &progress;
  const auto begin = std::chrono::steady_clock::now();
  const int outcome =
      generator.compile(programs.data(), programs.size(), print(target).c_str(), options, &receive, &received);
  const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - begin;
  compile_nanoseconds.fetch_add(static_cast<uint64_t>(taken.count()), std::memory_order_relaxed);
  if (received.thrown) std::rethrow_exception(received.thrown);
  const std::string name = fmt::format("code generator {}", generator.name);
  if (outcome == graft_codegen_stopped) throw Error(ErrorKind::kCancelled, "stopped as the caller asked", name);
  if (outcome != graft_codegen_done) {
    throw Error(ErrorKind::kInternal, received.error.empty() ? "failed without a message" : received.error, name);
  }
  return received;
}

/// What code depends on, beside the programs: the generator's sources, whether its module is there or not, and the
/// instructions of the machine. What else is known of a CPU has gone into the programs.
std::string code_key(Target target, const std::string& programs) {
  target.threads = 1;
  if (target.kind == TargetKind::kCpu) target.name.clear(), target.l1_bytes = target.l2_bytes = target.l3_bytes = 0;
  return kernel_key({generator_identity(), print(target), programs});
}

/// The process's cache, which says itself why it is not used.
KernelCache& cache() {
  static KernelCache* instance = new KernelCache;
  return *instance;
}

}  // namespace

std::string generator_identity() { return GRAFT_VERSION " " GRAFT_SOURCES; }

std::vector<std::byte> kernel_code(const std::string& programs, const Target& target) {
  return interruptible_kernel_code(programs, target, {});
}

std::vector<std::byte> interruptible_kernel_code(const std::string& programs, const Target& target,
                                                 const KernelProgress& progress, const KernelUse& use) {
  const std::string key = code_key(target, programs);
  auto known = cache().find(key);
  (known ? cache_hits : cache_misses).fetch_add(1, std::memory_order_relaxed);
  if (known) {
    if (use) use(key, *known);
    return *std::move(known);
  }
  const Received received = generate(programs, target, "", progress);
  // A GPU's code begins with what its launches need to know, and an empty line.
  const std::string whole = received.launch.empty() ? "" : received.launch + "\n" + received.code;
  const auto bytes = std::as_bytes(std::span(whole.empty() ? received.code : whole));
  GRAFT_CHECK(!bytes.empty(), "the code generator reported success and gave no code");
  cache().store(key, bytes);
  if (use) use(key, bytes);
  return {bytes.begin(), bytes.end()};
}

std::string kernel_source_text(const std::string& programs, const Target& target) {
  return generate(programs, target, "source no-object no-cubin", {}).source;
}

std::string emitted_source_text(const std::string& programs, const Target& target) {
  return generate(programs, target, "source emitted no-object no-cubin", {}).source;
}

KernelTexts kernel_texts(const std::string& programs, const Target& target, bool with_ptx, bool with_cubin) {
  std::string options = "source";
  if (with_ptx) options += " ptx";
  if (!with_cubin) options += " no-cubin";
  Received received = generate(programs, target, options.c_str(), {});
  return {std::move(received.source), std::move(received.launch), std::move(received.ptx), std::move(received.code)};
}

TimingCache timing_cache(const Target& target, const std::string& machine) {
  const auto key_of = [machine, kind = print(target)](const std::string& key) {
    return kernel_key({"timing", generator_identity(), kind, machine, key});
  };
  return {.find = [key_of](const std::string& key) -> std::optional<double> {
            const auto bytes = cache().find(key_of(key));
            double milliseconds = 0;
            if (!bytes || bytes->size() != sizeof milliseconds) return std::nullopt;
            std::memcpy(&milliseconds, bytes->data(), sizeof milliseconds);
            return milliseconds;
          },
          .store = [key_of](const std::string& key, double milliseconds) {
            cache().store(key_of(key), std::as_bytes(std::span(&milliseconds, 1)));
          }};
}

uint64_t compilation_count() { return compilations.load(std::memory_order_relaxed); }

KernelCounts kernel_counts() {
  const auto get = [](const std::atomic<uint64_t>& number) { return number.load(std::memory_order_relaxed); };
  return {get(compilations), get(compile_nanoseconds), get(cache_hits), get(cache_misses)};
}

std::string why_no_generator(const Target& target) {
  try {
    generator_for(target).open();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string generator_version(const Target& target) {
  return why_no_generator(target).empty() ? generator_for(target).version() : "";
}

}  // namespace graft
