// SPDX-License-Identifier: Apache-2.0
#include "modules/library_source.h"

#include <map>
#include <mutex>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "base/set_function.h"
#include "fuse/rewrite_region.h"
#include "library/libraries.h"
#include "library/library.h"
#include "library/match.h"
#include "library/slice.h"
#include "modules/open_module.h"

namespace graft {
namespace {

/// A library module: where it is, and its functions once it was opened.
struct Module {
  std::string name;
  std::mutex mutex;
  bool is_open = false;
  graft_library_create_fn create = nullptr;
  graft_library_scratch_fn scratch = nullptr;
  graft_library_run_fn run = nullptr;
  graft_library_destroy_fn destroy = nullptr;
  graft_library_version_fn version = nullptr;
  graft_library_problem_fn problem = nullptr;

  void open();
};

/// Opens the module and its library; throws a device error that says what is missing.
void Module::open() {
  const std::lock_guard lock(mutex);
  if (is_open) return;
  const std::string path = find_module(name);
  void* module = open_module(name, path);
  const auto find = [&](auto& function, const char* symbol) {
    GRAFT_USER_CHECK(set_function(function, module_function(module, symbol)), kDevice,
                     "is not a library module of this version of Graft", path);
  };
  find(create, "graft_library_create");
  find(scratch, "graft_library_scratch");
  find(run, "graft_library_run");
  find(destroy, "graft_library_destroy");
  find(version, "graft_library_version");
  find(problem, "graft_library_problem");
  GRAFT_USER_CHECK(*problem() == '\0', kDevice, problem(), name);
  log(LogLevel::kDetail, "opened {}: {}", path, version());
  is_open = true;
}

/// The module by the library's name; it stays open for the life of the process.
Module& module_of(const std::string& library) {
  static auto* modules = [] {
    auto* made = new std::map<std::string, Module, std::less<>>;
    for (const LibraryInfo& row : all_libraries()) (*made)[std::string(row.name)].name = row.name;
    return made;
  }();
  const auto it = modules->find(library);
  GRAFT_USER_CHECK(it != modules->end(), kDevice, fmt::format("there is no library '{}'", library), "library");
  return it->second;
}

/// What a module sends back.
struct Received {
  std::string implementation, error;
};

void receive(void* context, const char* kind, const void* data, size_t bytes) {
  auto& received = *static_cast<Received*>(context);
  const std::string text(static_cast<const char*>(data), bytes);
  (std::string_view(kind) == "error" ? received.error : received.implementation) = text;
}

/// A slice of a call with the library's handle for it.
struct Slice {
  void* handle = nullptr;
  std::vector<std::pair<int, int64_t>> operands;  ///< tensor of the step, and where in it the operand begins, in bytes
};

/// Bytes that every tensor on a device begins at a multiple of: what libraries there may ask of a pointer.
constexpr int64_t kDeviceAlignment = 16;

class LibraryCallSlices : public ReadyLibraryCall {
 public:
  LibraryCallSlices(Module& module, int64_t choice, void* stream)
      : module_(module), choice_(static_cast<int>(choice)), stream_(stream) {}
  ~LibraryCallSlices() override {
    for (const Slice& slice : slices_) module_.destroy(slice.handle);
  }
  LibraryCallSlices(const LibraryCallSlices&) = delete;
  LibraryCallSlices& operator=(const LibraryCallSlices&) = delete;

  void add(LibraryCall call) {
    Slice slice;
    // Slices that differ only in where they begin are the same call, as long as they are as well aligned.
    for (auto& [role, operand] : call.operands()) {
      const int64_t bytes = bit_width(operand->wide ? DType::kFloat32 : call.type) / 8;
      const int64_t boundary = stream_ ? kDeviceAlignment / bytes : 1;
      const int64_t offset = operand->offset.constant();
      slice.operands.emplace_back(operand->argument, (offset - offset % boundary) * bytes);
      operand->offset = offset % boundary;
    }
    Received received;
    const std::string text = print(call);
    slice.handle = module_.create(text.data(), text.size(), choice_, stream_, &receive, &received);
    GRAFT_USER_CHECK(slice.handle, kUnsupported, received.error, module_.name);
    log(LogLevel::kTrace, "{} runs as {}: {}", module_.name, received.implementation, text);
    slices_.push_back(std::move(slice));
    scratch_bytes_ = std::max(scratch_bytes_, module_.scratch(slices_.back().handle));
  }

  int64_t slices() const override { return static_cast<int64_t>(slices_.size()); }
  int64_t scratch_bytes() const override { return scratch_bytes_; }

  int run(int64_t index, void* const* buffers, void* scratch) const override {
    const Slice& slice = slices_[static_cast<size_t>(index)];
    void* operands[kMostOperands];
    size_t count = 0;
    for (const auto& [argument, offset] : slice.operands) {
      operands[count++] = static_cast<char*>(buffers[argument]) + offset;
    }
    return module_.run(slice.handle, operands, scratch);
  }

 private:
  Module& module_;
  int choice_;
  void* stream_;
  std::vector<Slice> slices_;
  int64_t scratch_bytes_ = 0;
};

/// What a step is in its library's vocabulary, whatever the sizes.
struct SymbolicCall {
  LibrarySchedule schedule;
  LibraryCall call;
};

SymbolicCall symbolic_call(const EngineStep& step) {
  SymbolicCall made{.schedule = parse_library_schedule(step.schedule), .call = {}};
  Region region = parse_region(step.region);
  normalise(region);
  auto match = match_library(region, made.schedule);
  if (const auto* reason = std::get_if<std::string>(&match)) {
    throw Error(ErrorKind::kInvalidModel,
                fmt::format("it cannot run in {}: {}; compile the model again", made.schedule.library, *reason));
  }
  made.call = std::move(std::get<LibraryMatch>(match).call);
  return made;
}

/// Throws unless every operand lies inside its tensor.
void check_bounds(const Engine& engine, const EngineStep& step, const LibraryCall& call, const Bindings& bindings) {
  for (const auto& [role, operand] : call.operands()) {
    const int64_t width = bit_width(operand->wide ? DType::kFloat32 : call.type) / 8;
    const bool known = operand->argument >= 0 && operand->argument < static_cast<int>(step.tensors.size());
    const int64_t bytes = known ? engine.tensors[step.tensors[operand->argument]].bytes.evaluate(bindings) : -1;
    GRAFT_USER_CHECK(
        operand->offset.constant() >= 0 && reach_of(call, *operand, role) * width <= bytes, kInvalidModel,
        fmt::format("its library call reaches beyond tensor {}; compile the model again", operand->argument),
        step.name);
  }
}

bool sums_nothing(const LibraryCall& call) {
  for (const Size& extent : extents_of(call, CallRole::kWeights)) {
    if (extent.is(0)) return true;
  }
  return false;
}

/// The calls of one engine by what they follow from.
class LibraryCalls {
 public:
  std::shared_ptr<const ReadyLibraryCall> ready(const Engine& engine, const EngineStep& step, const Bindings& bindings,
                                                const LibraryPlace& place) {
    Module& module = module_of(step.library);
    module.open();
    const std::shared_ptr<const SymbolicCall> symbolic = find(step);
    const LibraryCall call = evaluate(symbolic->call, bindings);
    check_bounds(engine, step, call, bindings);
    GRAFT_USER_CHECK(!sums_nothing(call), kUnsupported, "it has nothing to sum", step.library);
    return place.stream ? for_device(module, symbolic->schedule, call, place)
                        : for_threads(module, symbolic->schedule, call, place.threads);
  }

 private:
  static std::shared_ptr<const ReadyLibraryCall> for_threads(Module& module, const LibrarySchedule& schedule,
                                                             const LibraryCall& call, int threads) {
    // Some libraries take whole calls, or halves of them, and not quarters.
    for (int64_t pieces = threads > 1 ? threads * schedule.pieces : 1;; pieces /= 2) {
      auto made = std::make_shared<LibraryCallSlices>(module, 0, nullptr);
      try {
        for (LibraryCall& part : slice(call, schedule.cut, pieces)) made->add(std::move(part));
        return made;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kUnsupported || pieces == 1) throw;
      }
    }
  }

  /// The whole call; sizes for which the library has fewer ways of its own take its first.
  static std::shared_ptr<const ReadyLibraryCall> for_device(Module& module, const LibrarySchedule& schedule,
                                                            const LibraryCall& call, const LibraryPlace& place) {
    for (int64_t choice = schedule.choice;; choice = 0) {
      auto made = std::make_shared<LibraryCallSlices>(module, choice, place.stream);
      try {
        for (LibraryCall& whole : slice(call, LibraryCut::kRows, 1)) made->add(std::move(whole));
        return made;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kUnsupported || choice == 0) throw;
      }
    }
  }

  std::shared_ptr<const SymbolicCall> find(const EngineStep& step) {
    const std::string key = step.schedule + "\n" + step.region;
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const SymbolicCall>& call = known_[key];
    if (!call) call = std::make_shared<const SymbolicCall>(symbolic_call(step));
    return call;
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const SymbolicCall>> known_;
};

}  // namespace

LibrarySource library_source() {
  return [calls = std::make_shared<LibraryCalls>()](const Engine& engine, const EngineStep& step,
                                                    const Bindings& bindings, const LibraryPlace& place) {
    return calls->ready(engine, step, bindings, place);
  };
}

LibraryRefusal library_refusal(std::shared_ptr<DeviceStream> stream) {
  struct Asked {
    std::mutex mutex;
    std::shared_ptr<DeviceStream> stream;
    std::shared_ptr<LibraryCallSlices> last;  // keeps what its library has for the stream

    ~Asked() {
      if (!stream) return;
      try {
        const auto scope = stream->enter();
        last = nullptr;
      } catch (const Error&) {
        // The driver is gone, and what it held with it.
      }
    }
  };
  auto asked = std::make_shared<Asked>();
  asked->stream = std::move(stream);
  return [asked](const LibrarySchedule& schedule, const LibraryCall& call) -> std::string {
    const std::lock_guard lock(asked->mutex);
    try {
      const auto scope = asked->stream ? asked->stream->enter() : nullptr;
      Module& module = module_of(schedule.library);
      module.open();
      if (sums_nothing(call)) return "it has nothing to sum";
      void* stream = asked->stream ? asked->stream->native() : nullptr;
      auto made = std::make_shared<LibraryCallSlices>(module, schedule.choice, stream);
      made->add(call);
      asked->last = std::move(made);
      return "";
    } catch (const Error& error) {
      return error.message();
    }
  };
}

std::string why_no_library(const std::string& library) {
  try {
    module_of(library).open();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string library_version(const std::string& library) {
  return why_no_library(library).empty() ? module_of(library).version() : "";
}

}  // namespace graft
