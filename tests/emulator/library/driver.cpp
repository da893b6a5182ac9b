// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 as far as Graft uses it (src/device/cuda/driver.h), on the processor of the host. Streams run what they
// are given at once; a stream that records keeps it for replays. GRAFT_EMULATED_GPU names the GPUs: `sm_90a` (the
// default), `sm_80,sm_80`. What NVIDIA's driver leaves undefined is an error here where it can be noticed.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cluster.h"
#include "decisions.h"
#include "device/cuda/driver.h"
#include "device/interface.h"
#include "host_compiler.h"
#include "memory.h"
#include "tensor_map.h"

namespace graft::emulator {
namespace {

using cuda::Address;
using cuda::ConditionalNode;
using cuda::LaunchAttribute;
using cuda::LaunchConfig;

// CUresult.
enum Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidContext = 201,
  kNoBinary = 209,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalState = 401,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureIsolation = 905
};

constexpr int kRelaxed = 2;
std::atomic<int> global_captures;  // that are under way
thread_local int thread_capture_mode = 0;

/// Does for what is launched and copied: now, or at each replay.
using Work = std::function<int()>;

struct Graph {
  std::vector<Work> work;
  int mode = 0;        ///< of its capture: 0 keeps all threads from what would wait
  bool ended = false;  ///< its capture
};
struct Stream {
  std::shared_ptr<Graph> recording;
  Graph* target = nullptr;  ///< of a capture into a graph that is there already
  bool joined = false;      ///< it waits for a stream that is captured, and is captured with it
};
struct Event {
  std::chrono::steady_clock::time_point time;
  std::weak_ptr<Graph> recording;  ///< of the stream whose place it notes
};
struct Module {
  void* library = nullptr;
  std::map<std::string, std::unique_ptr<struct Function>> functions;
};
struct Function {
  std::string name;
  const graft_kernel* kernel;
  size_t dynamic_shared = 48 << 10;
};
struct Gpu {
  int major, minor, shared_bytes;
  std::string architecture;
};

std::mutex mutex;
thread_local std::vector<void*> contexts;
thread_local std::string last_failure;  ///< what cuGetErrorString tells of a launch that failed

/// `sm_90a` -> 9, 0 and what a block of it may have, as NVIDIA's tables say.
Gpu gpu_of(const std::string& name) {
  const int number = std::atoi(name.c_str() + 3);
  const int kilobytes = number == 80 ? 163 : number == 86 || number == 89 || number >= 120 ? 99 : 227;
  return {number / 10, number % 10, kilobytes << 10, name};
}

const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> all = [] {
    const char* variable = std::getenv("GRAFT_EMULATED_GPU");
    std::string names = variable && *variable ? variable : "sm_90a";
    std::vector<Gpu> list;
    for (size_t comma = 0; comma != names.npos; names.erase(0, comma + 1)) {
      comma = names.find(',');
      list.push_back(gpu_of(names.substr(0, comma)));
      if (comma == names.npos) break;
    }
    return list;
  }();
  return all;
}

/// The GPU of the current context; contexts are pointers to their GPUs.
const Gpu* current_gpu() { return contexts.empty() ? nullptr : static_cast<const Gpu*>(contexts.back()); }

int failure(const std::string& what) {
  last_failure = what;
  return kLaunchFailed;
}

template <class T>
T* as(Address address) {
  return reinterpret_cast<T*>(address);
}

/// Runs it, or records it when the stream does that.
/// The graph into which a stream is captured; the default streams, 0 to 2, never are.
std::shared_ptr<Graph> recording_of(void* stream) {
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return nullptr;
  std::shared_ptr<Graph>& recording = static_cast<Stream*>(stream)->recording;
  if (recording && recording->ended) recording = nullptr;
  return recording;
}

int submit(void* stream, Work work) {
  if (!current_gpu()) return kInvalidContext;
  if (const auto recording = recording_of(stream)) {
    recording->work.push_back(std::move(work));
    return kSuccess;
  }
  return work();
}

bool records(void* stream) { return recording_of(stream) != nullptr; }

/// The arguments of a launch, copied, as the driver does.
class Arguments {
 public:
  Arguments(const graft_parameters& parameters, void** values) {
    constexpr size_t kAlignment = 64;
    size_t bytes = 0;
    for (int i = 0; i < parameters.count; ++i) bytes += (parameters.bytes[i] + kAlignment - 1) / kAlignment;
    data_.resize(bytes);
    size_t at = 0;
    for (int i = 0; i < parameters.count; ++i) {
      std::memcpy(&data_[at], values[i], parameters.bytes[i]);
      pointers_.push_back(&data_[at]);
      at += (parameters.bytes[i] + kAlignment - 1) / kAlignment;
    }
  }
  void** pointers() { return pointers_.data(); }

 private:
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<Line> data_;
  std::vector<void*> pointers_;
};

/// Why such a launch is refused, or success.
int check_launch(const LaunchConfig& config, const Function& function) {
  const Gpu& gpu = *current_gpu();
  const graft_kernel& kernel = *function.kernel;
  for (unsigned i = 0; i < config.attribute_count; ++i) {
    constexpr int kProgrammaticSerialization = 6;
    if (config.attributes[i].id != kProgrammaticSerialization || gpu.major < 9) return kNotSupported;
  }
  const bool flat = config.grid[1] == 1 && config.grid[2] == 1 && config.block[1] == 1 && config.block[2] == 1;
  if (!flat || config.grid[0] == 0 || config.block[0] == 0) return kInvalidValue;
  if (config.block[0] > kernel.most_threads) return kInvalidValue;
  if (config.shared_bytes > function.dynamic_shared) return kInvalidValue;
  if (config.grid[0] % kernel.cluster != 0 || (kernel.cluster > 1 && gpu.major < 9)) return kInvalidValue;
  return kSuccess;
}

/// What ptxas gives each thread of a kernel that passes registers on: all that its launch bounds leave, by eights.
unsigned registers_of(const graft_kernel& kernel) {
  constexpr unsigned kAll = 65536, kStep = 8, kMost = 255;
  const unsigned share = kAll / (kernel.most_threads * kernel.least_blocks);
  return std::min(share / kStep * kStep, kMost);
}

int launch(const LaunchConfig& config, const Function& function, void** arguments) {
  if (!current_gpu()) return kInvalidContext;
  if (const int refused = check_launch(config, function)) return refused;
  const auto kept = std::make_shared<Arguments>(function.kernel->parameters, arguments);
  const Launch what{.entry = function.kernel->entry,
                    .arguments = kept->pointers(),
                    .name = function.name,
                    .grid = config.grid[0],
                    .threads = config.block[0],
                    .cluster = function.kernel->cluster,
                    .registers = registers_of(*function.kernel),
                    .shared_bytes = config.shared_bytes};
  return submit(config.stream, [what, kept] {
    const std::string reason = cluster().run(what);
    return reason.empty() ? static_cast<int>(kSuccess) : failure(reason);
  });
}

int load(void** handle, const char* image) {
  if (is_ptx(image)) return *handle = new Module, kSuccess;
  constexpr std::string_view kBegin = "graft emulated ";
  if (std::strncmp(image, kBegin.data(), kBegin.size()) != 0) return kNoBinary;
  const char* end = std::strchr(image, '\n');
  std::istringstream words(std::string(image + kBegin.size(), end));
  std::string architecture, name;
  size_t bytes = 0;
  words >> architecture >> name >> bytes;
  if (architecture != current_gpu()->architecture) return kNoBinary;
  const std::string path = place(name, std::string(end + 1, bytes));
  auto module = std::make_unique<Module>();
  module->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module->library) return failure(dlerror());
  *handle = module.release();
  return kSuccess;
}

int find_function(void** handle, Module& module, const std::string& name) {
  auto& function = module.functions[name];
  if (!function) {
    const void* kernel = module.library ? dlsym(module.library, ("graft_kernel_" + name).c_str()) : find_decision(name);
    if (!kernel) return kNotFound;
    function = std::make_unique<Function>(Function{name, static_cast<const graft_kernel*>(kernel)});
  }
  *handle = function.get();
  return kSuccess;
}

/// What the driver's manual asks of a tensor that is read by boxes.
bool is_tiled(int rank, uint64_t address, const uint64_t* extents, const uint64_t* strides, const uint32_t* boxes,
              const uint32_t* steps, int element_bytes, int swizzle_bytes) {
  if (rank < 1 || rank > 5 || address % 16 != 0) return false;
  for (int i = 0; i < rank; ++i) {
    if (extents[i] == 0 || extents[i] > uint64_t{1} << 32 || steps[i] != 1) return false;
    if (boxes[i] == 0 || boxes[i] > 256) return false;
    if (i > 0 && (strides[i - 1] % 16 != 0 || strides[i - 1] >= uint64_t{1} << 40)) return false;
  }
  const auto line = static_cast<int>(boxes[0]) * element_bytes;
  return line % 16 == 0 && (swizzle_bytes == 0 || line <= swizzle_bytes);
}

}  // namespace
}  // namespace graft::emulator

using namespace graft::emulator;
using graft::cuda::Address;

#define GRAFT_LOCK const std::lock_guard lock(mutex)

namespace {
std::atomic<int64_t> descriptions{0};
}

#pragma GCC visibility push(default)
extern "C" {

int cuInit(unsigned) { return kSuccess; }
int cuGetErrorString(int result, const char** text) {
  switch (result) {
    case kInvalidValue:
      *text = "invalid argument";
      break;
    case kOutOfMemory:
      *text = "out of memory";
      break;
    case kInvalidContext:
      *text = "invalid device context";
      break;
    case kNoBinary:
      *text = "no kernel image is available for execution on the device";
      break;
    case kInvalidHandle:
      *text = "invalid resource handle";
      break;
    case kNotFound:
      *text = "named symbol not found";
      break;
    case kNotSupported:
      *text = "operation not supported";
      break;
    case kLaunchFailed:
      *text = last_failure.c_str();
      break;
    case kCaptureUnsupported:
      *text = "operation not permitted when stream is capturing";
      break;
    default:
      *text = "unknown error";
  }
  return kSuccess;
}
int cuDriverGetVersion(int* version) { return *version = 13000, kSuccess; }
int cuDeviceGetCount(int* count) { return *count = static_cast<int>(gpus().size()), kSuccess; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, kSuccess; }
int cuDeviceGetName(char* name, int bytes, int device) {
  std::snprintf(name, static_cast<size_t>(bytes), "emulated %s", gpus()[device].architecture.c_str());
  return kSuccess;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  constexpr int kMultiprocessors = 3, kClock = 1000000;  // few, so that blocks go on to further points
  switch (attribute) {
    case 13:
      *value = kClock;
      return kSuccess;
    case 16:
      *value = kMultiprocessors;
      return kSuccess;
    case 75:
      *value = gpus()[device].major;
      return kSuccess;
    case 76:
      *value = gpus()[device].minor;
      return kSuccess;
    case 97:
      *value = gpus()[device].shared_bytes;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}
int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = memory_size(), kSuccess; }
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = const_cast<Gpu*>(&gpus()[device]);
  return kSuccess;
}
int cuCtxGetCurrent(void** context) { return *context = contexts.empty() ? nullptr : contexts.back(), kSuccess; }
int cuCtxGetDevice(int* device) {
  if (contexts.empty()) return kInvalidContext;
  *device = static_cast<int>(static_cast<const Gpu*>(contexts.back()) - gpus().data());
  return kSuccess;
}
int cuCtxPushCurrent_v2(void* context) { return contexts.push_back(context), kSuccess; }
int cuCtxPopCurrent_v2(void** context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return kSuccess;
}

int cuMemGetInfo_v2(size_t* free, size_t* whole) { return *free = memory_free(), *whole = memory_size(), kSuccess; }
int cuMemAlloc_v2(Address* memory, size_t bytes) {
  if (!current_gpu()) return kInvalidContext;
  if (global_captures > 0 && thread_capture_mode != kRelaxed) return kCaptureUnsupported;
  void* pointer = allocate(bytes);
  *memory = reinterpret_cast<Address>(pointer);
  return pointer ? kSuccess : kOutOfMemory;
}
int cuMemFree_v2(Address memory) {
  GRAFT_LOCK;
  return release(as<void>(memory)) ? kSuccess : kInvalidValue;
}
int cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
  GRAFT_LOCK;
  if (!holds(as<void>(to), bytes)) return kInvalidValue;
  std::memcpy(as<void>(to), from, bytes);
  return kSuccess;
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
  GRAFT_LOCK;
  if (records(stream)) return kCaptureUnsupported;
  if (!holds(as<void>(to), bytes)) return kInvalidValue;
  std::memcpy(as<void>(to), from, bytes);
  return kSuccess;
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
  GRAFT_LOCK;
  if (records(stream)) return kCaptureUnsupported;
  if (!holds(as<void>(from), bytes)) return kInvalidValue;
  std::memcpy(to, as<void>(from), bytes);
  return kSuccess;
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  GRAFT_LOCK;
  return submit(stream, [=]() -> int {
    if (!holds(as<void>(to), bytes) || !holds(as<void>(from), bytes)) return kInvalidValue;
    std::memmove(as<void>(to), as<void>(from), bytes);
    return kSuccess;
  });
}
int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void* stream) {
  GRAFT_LOCK;
  return submit(stream, [=]() -> int {
    if (!holds(as<void>(to), bytes)) return kInvalidValue;
    std::memset(as<void>(to), value, bytes);
    return kSuccess;
  });
}

int cuStreamCreate(void** stream, unsigned) { return *stream = new Stream, kSuccess; }
int cuStreamSynchronize(void* stream) { return records(stream) ? kCaptureUnsupported : kSuccess; }
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  const auto noted = static_cast<Event*>(event)->recording.lock(), own = recording_of(stream);
  if (own == noted) return kSuccess;
  if (own) return kCaptureIsolation;
  if (noted->ended) return kSuccess;
  static_cast<Stream*>(stream)->recording = noted;
  static_cast<Stream*>(stream)->joined = true;
  return kSuccess;
}
int cuStreamIsCapturing(void* stream, int* status) { return *status = records(stream) ? 1 : 0, kSuccess; }
int cuThreadExchangeStreamCaptureMode(int* mode) { return std::swap(*mode, thread_capture_mode), kSuccess; }
int cuStreamDestroy_v2(void* stream) { return delete static_cast<Stream*>(stream), kSuccess; }
int cuStreamBeginCapture_v2(void* stream, int mode) {
  if (records(stream)) return kIllegalState;
  const auto graph = std::make_shared<Graph>();
  graph->mode = mode;
  global_captures += mode == 0;
  static_cast<Stream*>(stream)->recording = graph;
  static_cast<Stream*>(stream)->joined = false;
  return kSuccess;
}
int cuStreamEndCapture(void* stream, void** graph) {
  const auto recording = recording_of(stream);
  if (!recording || static_cast<Stream*>(stream)->joined) return kIllegalState;
  global_captures -= recording->mode == 0;
  Graph*& target = static_cast<Stream*>(stream)->target;
  if (target) target->work.insert(target->work.end(), recording->work.begin(), recording->work.end());
  *graph = target ? target : new Graph{.work = recording->work};
  target = nullptr;
  recording->ended = true;
  return kSuccess;
}
int cuStreamBeginCaptureToGraph(void* stream, void* graph, void* const*, const void*, size_t count, int mode) {
  if ((count == 0) != static_cast<Graph*>(graph)->work.empty()) return kInvalidValue;  // what is queued is in order
  const int result = cuStreamBeginCapture_v2(stream, mode);
  if (result == kSuccess) static_cast<Stream*>(stream)->target = static_cast<Graph*>(graph);
  return result;
}
/// The last of what is queued stands for all of it.
int cuStreamGetCaptureInfo_v3(void* stream, int* status, uint64_t* id, void** graph, void* const** last,
                              const void** edges, size_t* count) {
  const auto recording = recording_of(stream);
  if (!recording) return kIllegalState;
  static void* const kLast = &descriptions;
  *status = 1, *id = 0, *edges = nullptr;
  *graph = recording.get();
  *last = &kLast;
  *count = recording->work.empty() ? 0 : 1;
  return kSuccess;
}
int cuGraphConditionalHandleCreate(unsigned long long* handle, void*, void* context, unsigned value, unsigned) {
  if (context != contexts.back()) return kInvalidContext;
  return *handle = make_conditional(value), kSuccess;
}
int cuGraphAddNode_v2(void** node, void* handle, void* const*, const void*, size_t count, ConditionalNode* given) {
  constexpr int kConditional = 13, kWhile = 1;
  auto* graph = static_cast<Graph*>(handle);
  if (given->type != kConditional || given->parts != 1 || (count == 0) != graph->work.empty()) return kInvalidValue;
  unsigned* value = conditional_value(given->handle);
  if (!value) return kInvalidValue;
  static std::list<std::pair<std::shared_ptr<Graph>, void*>> parts;  // which recordings may name as long as they live
  auto& [part, pointer] = parts.emplace_back(std::make_shared<Graph>(), nullptr);
  pointer = part.get();
  given->graphs = &pointer;
  *node = pointer;
  graph->work.push_back([part = part, value, loops = given->condition == kWhile]() -> int {
    while (*value != 0) {
      for (const Work& work : part->work) {
        if (const int result = work()) return result;
      }
      if (!loops) break;
    }
    return kSuccess;
  });
  return kSuccess;
}
int cuGraphInstantiateWithFlags(void** ready, void* graph, unsigned long long) {
  return *ready = new Graph(*static_cast<Graph*>(graph)), kSuccess;
}
int cuGraphLaunch(void* graph, void*) {
  GRAFT_LOCK;
  for (const Work& work : static_cast<Graph*>(graph)->work) {
    if (const int result = work()) return result;
  }
  return kSuccess;
}
int cuGraphDestroy(void* graph) { return delete static_cast<Graph*>(graph), kSuccess; }
int cuGraphExecDestroy(void* graph) { return delete static_cast<Graph*>(graph), kSuccess; }

int cuEventCreate(void** event, unsigned) { return *event = new Event, kSuccess; }
int cuEventRecord(void* event, void* stream) {
  static_cast<Event*>(event)->recording = recording_of(stream);
  static_cast<Event*>(event)->time = std::chrono::steady_clock::now();
  return kSuccess;
}
int cuEventSynchronize(void*) { return kSuccess; }
int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  const auto time = static_cast<Event*>(to)->time - static_cast<Event*>(from)->time;
  *milliseconds = std::chrono::duration<float, std::milli>(time).count();
  return kSuccess;
}
int cuEventDestroy_v2(void* event) { return delete static_cast<Event*>(event), kSuccess; }

int cuModuleLoadData(void** module, const void* image) {
  GRAFT_LOCK;
  return current_gpu() ? load(module, static_cast<const char*>(image)) : kInvalidContext;
}
int cuModuleUnload(void* handle) {
  GRAFT_LOCK;
  auto* module = static_cast<Module*>(handle);
  if (module->library) dlclose(module->library);
  return delete module, kSuccess;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  GRAFT_LOCK;
  return find_function(function, *static_cast<Module*>(module), name);
}
int cuFuncSetAttribute(void* handle, int attribute, int value) {
  constexpr int kMostDynamicShared = 8;
  if (attribute != kMostDynamicShared || value > current_gpu()->shared_bytes) return kInvalidValue;
  auto* function = static_cast<Function*>(handle);
  function->dynamic_shared = std::max<size_t>(function->dynamic_shared, static_cast<size_t>(value));
  return kSuccess;
}
int cuLaunchKernelEx(const graft::cuda::LaunchConfig* config, void* function, void** arguments, void**) {
  GRAFT_LOCK;
  return launch(*config, *static_cast<Function*>(function), arguments);
}

/// For tests: how many TMA descriptors this process has encoded.
int64_t graft_emulated_descriptions() { return descriptions; }

int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address, const uint64_t* extents,
                           const uint64_t* strides, const uint32_t* boxes, const uint32_t* steps, int interleave,
                           int swizzle, int, int out_of_bounds) {
  constexpr int kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};  // of CU_TENSOR_MAP_DATA_TYPE_*
  const int bytes = type >= 0 && type < 10 ? kBytes[type] : 0;
  const int line = swizzle == 0 ? 0 : 16 << swizzle;
  const bool good = bytes > 0 && interleave == 0 && out_of_bounds == 0 && swizzle >= 0 && swizzle <= 3 &&
                    is_tiled(static_cast<int>(rank), reinterpret_cast<uint64_t>(address), extents, strides, boxes,
                             steps, bytes, line);
  if (!good) return kInvalidValue;
  ++descriptions;
  TensorMap result{.magic = TensorMap::kMagic,
                   .rank = static_cast<uint8_t>(rank),
                   .element_bytes = static_cast<uint8_t>(bytes),
                   .swizzle_bytes = static_cast<uint8_t>(line),
                   .unused = 0,
                   .address = static_cast<char*>(address),
                   .extents = {},
                   .boxes = {},
                   .strides = {}};
  for (unsigned i = 0; i < rank; ++i) {
    result.extents[i] = static_cast<uint32_t>(extents[i]), result.boxes[i] = boxes[i];
    result.strides[i] = i == 0 ? static_cast<uint64_t>(bytes) : strides[i - 1];
  }
  std::memcpy(map, &result, sizeof result);
  return kSuccess;
}
}
#pragma GCC visibility pop
