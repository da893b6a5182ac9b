// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "failure.h"
#include "graft/graft_host.h"
#include "hash.h"
#include "tensor_type.h"

namespace graft::extension {
namespace {

using mxnet::ext::MXTensor;

/// What stands before a plan: as long as what its bytes are aligned to.
struct alignas(64) Header {
  char magic[16] = "graft plan 1";
  uint64_t bytes = 0;
  std::array<uint64_t, 2> hash = {};
};
static_assert(sizeof(Header) == 64);

constexpr size_t kKept = 16;  // engines that stay loaded when nobody uses them: between the calls of a Gluon block

using Key = std::pair<std::array<uint64_t, 2>, std::string>;

/// The engines of the process, by content and device.
class Engines {
 public:
  std::shared_ptr<Engine> find(const Key& key) {
    const std::shared_ptr<Engine> engine = known_[key].lock();
    if (engine) keep(engine);
    return engine;
  }
  void add(const Key& key, const std::shared_ptr<Engine>& engine) {
    std::erase_if(known_, [](const auto& row) { return row.second.expired(); });
    known_[key] = engine;
    keep(engine);
  }
  std::mutex mutex;

 private:
  void keep(const std::shared_ptr<Engine>& engine) {
    const auto found = std::find(kept_.begin(), kept_.end(), engine);
    if (found != kept_.end()) kept_.erase(found);
    kept_.push_front(engine);
    if (kept_.size() > kKept) kept_.pop_back();
  }
  std::map<Key, std::weak_ptr<Engine>> known_;
  std::list<std::shared_ptr<Engine>> kept_;
};

Engines& engines() {
  static auto* const all = new Engines;  // its engines must not go with the process's other statics
  return *all;
}

std::shared_ptr<Engine> load(const std::byte* plan, const Header& header, const std::string& device) {
  if (hash_of(plan, header.bytes) != header.hash) {
    throw Failure("the plan of an engine was changed: load the parameters that belong to the symbol");
  }
  const graft_option option{"device", device.c_str()};
  graft_engine* handle = nullptr;
  graft_error error;
  check(graft_load_bytes(plan, header.bytes, nullptr, nullptr, &option, 1, &handle, &error), error);
  return std::make_shared<Engine>(handle);
}

/// MXNet's temporary space, which its operators share and which grows to what the largest of them asks for. Null where
/// MXNet has none left, or cannot say how much is wanted.
void* space_of_mxnet(void* resource, size_t bytes) {
  if (bytes > INT32_MAX) return nullptr;
  try {
    return static_cast<const mxnet::ext::OpResource*>(resource)->alloc_cpu(static_cast<int>(bytes));
  } catch (...) {
    return nullptr;  // no exception may cross the C interface
  }
}

}  // namespace

graft_tensor Engine::view_of(const MXTensor& tensor) const {
  const ElementType* type = element_type(tensor.dtype);
  if (!type || tensor.stype != mxnet::ext::kDefaultStorage) {
    throw Failure("an engine takes dense tensors of floats or integers");
  }
  return {.struct_size = sizeof(graft_tensor),
          .name = nullptr,
          .dtype = type->graft,
          .rank = static_cast<int32_t>(tensor.shape.size()),
          .shape = tensor.shape.data(),
          .strides = nullptr,
          .data = tensor.data_ptr,
          .bytes = 0,
          .device = GRAFT_HOST};
}

void Engine::run(const MXTensor* inputs, size_t input_count, std::vector<MXTensor>& outputs,
                 const mxnet::ext::OpResource* scratch) {
  std::vector<graft_tensor> given, wanted;
  for (size_t i = 0; i < input_count; ++i) given.push_back(view_of(inputs[i]));
  for (const MXTensor& output : outputs) wanted.push_back(view_of(output));
  const auto session = sessions_.take();
  session->set_scratch(scratch ? space_of_mxnet : nullptr, const_cast<mxnet::ext::OpResource*>(scratch));
  graft_error error;
  const graft_status status =
      graft_session_run(session->handle(), given.data(), given.size(), wanted.data(), wanted.size(), nullptr, &error);
  session->set_scratch(nullptr, nullptr);  // the resource is this call's
  check(status, error);
}

void write_plan(const graft_engine& engine, mxnet::ext::Node& variable) {
  struct Target {
    mxnet::ext::Node& variable;
    size_t refused = 0;  // bytes that an array of MXNet cannot have
  } target{variable};
  const auto allocate = [](void* context, size_t bytes) -> void* {
    Target& target = *static_cast<Target*>(context);
    const size_t all = sizeof(Header) + bytes;
    if (all > INT32_MAX) target.refused = bytes;
    if (target.refused > 0) return nullptr;
    target.variable.alloc_arg({static_cast<int64_t>(all)}, mxnet::ext::MXContext::CPU(0), mxnet::ext::kUint8);
    return target.variable.tensor->data<std::byte>() + sizeof(Header);
  };
  graft_error error;
  const graft_status status = graft_engine_save_bytes(&engine, allocate, &target, &error);
  if (target.refused > 0) {
    throw Failure("the plan of an engine takes " + std::to_string(target.refused) +
                  " bytes, which no array of MXNet can hold: divide the symbol with the option exclude");
  }
  check(status, error);
  auto* const data = variable.tensor->data<std::byte>();
  Header header;
  header.bytes = static_cast<uint64_t>(variable.tensor->shape[0]) - sizeof header;
  header.hash = hash_of(data + sizeof header, header.bytes);
  std::memcpy(data, &header, sizeof header);
}

std::shared_ptr<Engine> named_engine(const std::string& name) {
  graft_engine* const handle = graft_host_find_engine(name.c_str());
  return handle ? std::make_shared<Engine>(handle) : nullptr;
}

std::shared_ptr<Engine> engine_of(const MXTensor& plan, const std::string& device) {
  const auto* const data = static_cast<const std::byte*>(plan.data_ptr);
  const auto size = static_cast<uint64_t>(plan.size());
  Header header;
  const Header expected;
  if (size >= sizeof header) std::memcpy(&header, data, sizeof header);
  if (size < sizeof header || plan.dtype != mxnet::ext::kUint8 || size - sizeof header != header.bytes ||
      std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0) {
    throw Failure(
        "the parameter that should hold an engine's plan does not: load the parameters that belong to the symbol");
  }
  const Key key(header.hash, device);
  const std::lock_guard lock(engines().mutex);
  std::shared_ptr<Engine> engine = engines().find(key);
  if (engine) return engine;
  engine = load(data + sizeof header, header, device);
  engines().add(key, engine);
  return engine;
}

}  // namespace graft::extension
