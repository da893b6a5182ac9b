// SPDX-License-Identifier: Apache-2.0
// The functions of libcuda.so.1 that are used, found at run time, so that one binary runs with and without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace graft::cuda {

using Result = int;
using Handle = void*;  ///< context, module, function, stream, graph, event
using Address = unsigned long long;

/// CUlaunchAttribute, of those whose value is one number.
struct LaunchAttribute {
  int id = 0, padding = 0;
  union {
    int number = 0;
    char rest[64];
  };
};

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared_bytes = 0;
  Handle stream = nullptr;
  const LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

/// CUgraphNodeParams of a node whose part runs under a condition.
struct ConditionalNode {
  int type = 13;  ///< CU_GRAPH_NODE_TYPE_CONDITIONAL
  int reserved[3] = {};
  unsigned long long handle = 0;
  int condition = 0;  ///< CU_GRAPH_COND_TYPE_*
  unsigned parts = 1;
  Handle* graphs = nullptr;  ///< the driver's list of the parts' graphs, which it sets
  Handle context = nullptr;
  long long rest[26] = {};
};
static_assert(sizeof(ConditionalNode) == 256);

/// The driver's entry points; `missing` says why there are none.
struct Driver {
  std::string missing;
  Result (*init)(unsigned) = nullptr;
  Result (*error_string)(Result, const char**) = nullptr;
  Result (*version)(int*) = nullptr;
  Result (*device_count)(int*) = nullptr;
  Result (*device_get)(int*, int) = nullptr;
  Result (*device_name)(char*, int, int) = nullptr;
  Result (*device_attribute)(int*, int, int) = nullptr;
  Result (*device_memory)(size_t*, int) = nullptr;
  Result (*retain_context)(Handle*, int) = nullptr;
  Result (*current_context)(Handle*) = nullptr;
  Result (*push_context)(Handle) = nullptr;
  Result (*pop_context)(Handle*) = nullptr;
  Result (*memory_info)(size_t*, size_t*) = nullptr;
  Result (*allocate)(Address*, size_t) = nullptr;
  Result (*release)(Address) = nullptr;
  Result (*upload)(Address, const void*, size_t, Handle) = nullptr;
  Result (*download)(void*, Address, size_t, Handle) = nullptr;
  Result (*copy)(Address, Address, size_t, Handle) = nullptr;
  Result (*fill)(Address, unsigned char, size_t, Handle) = nullptr;
  Result (*stream_create)(Handle*, unsigned) = nullptr;
  Result (*stream_wait)(Handle) = nullptr;
  Result (*stream_wait_event)(Handle, Handle, unsigned) = nullptr;
  Result (*stream_destroy)(Handle) = nullptr;
  Result (*begin_capture)(Handle, int) = nullptr;
  Result (*end_capture)(Handle, Handle*) = nullptr;
  Result (*is_capturing)(Handle, int*) = nullptr;
  Result (*exchange_capture_mode)(int*) = nullptr;
  Result (*graph_instantiate)(Handle*, Handle, unsigned long long) = nullptr;
  Result (*graph_launch)(Handle, Handle) = nullptr;
  Result (*graph_destroy)(Handle) = nullptr;
  Result (*graph_exec_destroy)(Handle) = nullptr;
  Result (*event_create)(Handle*, unsigned) = nullptr;
  Result (*event_record)(Handle, Handle) = nullptr;
  Result (*event_wait)(Handle) = nullptr;
  Result (*event_elapsed)(float*, Handle, Handle) = nullptr;
  Result (*event_destroy)(Handle) = nullptr;
  Result (*module_load)(Handle*, const void*) = nullptr;
  Result (*module_unload)(Handle) = nullptr;
  Result (*module_function)(Handle*, Handle, const char*) = nullptr;
  Result (*set_function_attribute)(Handle, int, int) = nullptr;
  /// Null before CUDA 12.
  Result (*encode_tiled)(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                         const uint32_t*, int, int, int, int) = nullptr;
  /// Null before CUDA 12.3; conditional nodes nest from 12.4 on.
  Result (*begin_capture_to_graph)(Handle, Handle, const Handle*, const void*, size_t, int) = nullptr;
  Result (*capture_info)(Handle, int*, uint64_t*, Handle*, const Handle**, const void**, size_t*) = nullptr;
  Result (*graph_add_node)(Handle*, Handle, const Handle*, const void*, size_t, ConditionalNode*) = nullptr;
  Result (*conditional_handle)(unsigned long long*, Handle, Handle, unsigned, unsigned) = nullptr;
  Result (*launch)(const LaunchConfig*, Handle, void**, void**) = nullptr;
};

/// Opened and initialised once per process.
const Driver& driver();

/// Makes a context this thread's current one, and the caller's own current again at the end.
class Current {
 public:
  /// Throws Error{device}.
  explicit Current(Handle context);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  bool pushed_ = false;
};

/// Throws Error{device} naming `what` and the driver's reason when `result` is not success.
void check(Result result, const std::string& what);

}  // namespace graft::cuda
