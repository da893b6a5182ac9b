// SPDX-License-Identifier: Apache-2.0
#include "loaded_engine.h"

#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "graft/graft_host.h"

namespace graft::tensorflow_host {
namespace {

constexpr size_t kAlignment = 64;  // plans that begin there are used where they lie

/// Engines that are in use, by the hash of the plan or of its path.
struct Cache {
  std::mutex mutex;
  std::multimap<size_t, std::weak_ptr<LoadedEngine>> engines;
};

Cache& cache() {
  static Cache* const made = new Cache;  // kernels may outlive statics
  return *made;
}

void check(graft_status status, const graft_error& error) {
  if (status != GRAFT_OK) throw Error(static_cast<ErrorKind>(status), error.message);
}

/// Loads a plan; of one in the graph `plan` becomes the copy that the engine keeps.
graft::Engine load(PlanSource& plan, const std::string& device) {
  const graft_option option{"device", device.c_str()};
  graft_engine* handle = nullptr;
  graft_error error;
  if (!plan.path.empty()) {
    check(graft_load_with(plan.path.c_str(), &option, 1, &handle, &error), error);
    graft::Engine loaded(handle);
    if (FileState::of(plan.path) == plan.state) return loaded;
    throw Error(ErrorKind::kInvalidModel, plan.path + ": another version of the model was saved there since this one "
                                          "was loaded: load the model again, and save versions side by side");
  }
  const size_t bytes = (plan.bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  void* const copy = std::aligned_alloc(kAlignment, std::max(bytes, kAlignment));
  if (!copy) throw Error(ErrorKind::kOutOfMemory, "no memory for a plan");
  std::memcpy(copy, plan.bytes.data(), plan.bytes.size());
  check(graft_load_bytes(copy, plan.bytes.size(), std::free, copy, &option, 1, &handle, &error), error);
  plan.bytes = {static_cast<const char*>(copy), plan.bytes.size()};
  return graft::Engine(handle);
}

/// What an engine says of itself by that name.
uint64_t number_in(std::string_view description, std::string_view name) {
  const std::string key = "\"" + std::string(name) + "\":";
  const size_t found = description.find(key);
  return found == std::string_view::npos ? 0 : std::strtoull(description.data() + found + key.size(), nullptr, 10);
}

}  // namespace

FileState FileState::of(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return {};
  return {.device = found.st_dev, .file = found.st_ino, .bytes = static_cast<uint64_t>(found.st_size),
          .seconds = found.st_mtim.tv_sec, .nanoseconds = found.st_mtim.tv_nsec};
}

std::shared_ptr<LoadedEngine> LoadedEngine::of(const PlanSource& plan, const std::string& device) {
  const size_t key = std::hash<std::string_view>()(plan.path.empty() ? plan.bytes : plan.path);
  Cache& known = cache();
  const std::lock_guard lock(known.mutex);  // one loads, others that want the same wait for it
  auto [first, last] = known.engines.equal_range(key);
  while (first != last) {
    const auto engine = first->second.lock();
    if (engine && engine->is_of(plan, device)) return engine;
    first = engine ? std::next(first) : known.engines.erase(first);
  }
  PlanSource kept = plan;
  graft::Engine loaded = load(kept, device);
  auto engine = std::make_shared<LoadedEngine>(std::move(loaded), std::move(kept), device);
  known.engines.emplace(key, engine);
  return engine;
}

std::shared_ptr<LoadedEngine> LoadedEngine::named(const std::string& name, const std::string& device) {
  graft_engine* const handle = graft_host_find_engine(name.c_str());
  if (handle) return std::make_shared<LoadedEngine>(graft::Engine(handle), PlanSource{}, device);
  throw Error(ErrorKind::kInvalidArgument, "this graph is for calibrating, and was made by another process, or is "
                                           "converted already: run the graph that calib_graph_to_infer_graph gives, or "
                                           "convert the model again");
}

std::shared_ptr<LoadedEngine> LoadedEngine::build(std::string_view model, const std::vector<graft_option>& options,
                                                  const std::string& device) {
  graft_engine* handle = nullptr;
  graft_error error;
  check(graft_compile_bytes(model.data(), model.size(), nullptr, options.data(), options.size(), nullptr, nullptr,
                            &handle, &error), error);
  return std::make_shared<LoadedEngine>(graft::Engine(handle), PlanSource{}, device);
}

LoadedEngine::LoadedEngine(graft::Engine engine, PlanSource plan, std::string device)
    : sessions_(std::move(engine)), plan_(std::move(plan)), device_(std::move(device)),
      held_(DeviceShare::of(device_)) {
  held_.add(this, number_in(sessions_.engine().describe(), "constant_bytes"));
}

LoadedEngine::~LoadedEngine() { held_.remove(this); }

LoadedEngine::Run::Run(LoadedEngine& engine, double share)
    : engine_(engine), limited_(share > 0), session_(engine.sessions_.take()) {
  engine_.held_.limit(&engine_, *session_, share);
}

LoadedEngine::Run::~Run() {
  if (limited_) engine_.held_.note(&engine_, *session_);
}

graft_status LoadedEngine::Run::operator()(const std::vector<graft_tensor>& inputs, std::vector<graft_tensor>& outputs,
                                           const graft_allocator& allocator, graft_error& error) {
  return graft_session_run(session(), inputs.data(), inputs.size(), outputs.data(), outputs.size(), &allocator,
                           &error);
}

}  // namespace graft::tensorflow_host
