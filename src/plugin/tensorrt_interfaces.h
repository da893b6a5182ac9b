// SPDX-License-Identifier: Apache-2.0
// What is called of TensorRT's C++ interfaces, whose headers are not needed: the places of their functions in the
// tables of virtual functions. tests/plugin/test_parser.py holds them to the public headers.
#pragma once

#include <cstdint>

namespace graft::plugin {

/// Places of functions, which differ by generation.
struct TensorRTSlots {
  int create_network;  ///< of what an IBuilder points to
  int parse, supports_model, error_count, error;
};
inline constexpr TensorRTSlots kTensorRT10Slots = {8, 0, 17, 5, 6};
inline constexpr TensorRTSlots kTensorRT11Slots = {6, 0, 15, 3, 4};  // and of TensorRT-RTX 1.7
inline constexpr int kErrorDescription = 1, kErrorNode = 5;  // of an IParserError

/// Calls a virtual function by its place.
template <class Result, class... Args>
Result call_slot(void* object, int slot, Args... args) {
  using Function = Result (*)(void*, Args...);
  void** const table = *static_cast<void***>(object);
  return reinterpret_cast<Function>(table[slot])(object, args...);
}

/// What an IBuilder points to, behind its own table.
inline void* builder_body(void* builder) { return static_cast<void**>(builder)[1]; }

/// An ILogger of TensorRT 10 that keeps quiet.
class QuietLogger10 {
 public:
  virtual void log(int32_t, const char*) noexcept {}
  virtual ~QuietLogger10() = default;
};

/// An ILogger of TensorRT 11, which tells its version.
class QuietLogger11 {
 public:
  struct Info {
    const char* kind;
    int32_t major, minor;
  };
  virtual int32_t language() const noexcept { return 0; }
  virtual Info info() const noexcept { return {"ILogger", 1, 0}; }
  virtual ~QuietLogger11() = default;
  virtual void log(int32_t, const char*) noexcept {}
};

}  // namespace graft::plugin
