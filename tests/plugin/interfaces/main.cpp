// SPDX-License-Identifier: Apache-2.0
// Whether the places of functions in src/plugin/tensorrt_interfaces.h are those of TensorRT's public headers, against
// which this is compiled: objects are called through the headers whose tables note the place of the call.
#include <NvInfer.h>
#include <NvOnnxParser.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "plugin/tensorrt_interfaces.h"

namespace {

using graft::plugin::TensorRTSlots;

constexpr int kPlaces = 256;
int called = -1;

template <int N>
long note() {
  called = N;
  return 0;
}

/// An object that has nothing but its table, and one behind whose table lies its address.
struct Object {
  void** table;
  void* body;
};
void* table[kPlaces];
Object body{table, nullptr}, object{table, &body};

template <int... N>
void fill(std::integer_sequence<int, N...>) {
  ((table[N] = reinterpret_cast<void*>(&note<N>)), ...);
}

void expect(int place, const char* what) {
  if (called == place) return;
  std::fprintf(stderr, "FAILED: %s is at %d, not at %d\n", what, called, place);
  std::exit(1);
}

template <class T>
T* as() {
  return reinterpret_cast<T*>(&object);
}

void check_objects(const TensorRTSlots& slots) {
  as<nvinfer1::IBuilder>()->createNetworkV2(0), expect(slots.create_network, "createNetworkV2");
  if (graft::plugin::builder_body(&object) != &body) expect(-1, "the body of a builder");
  auto* parser = as<nvonnxparser::IParser>();
  parser->parse("", 0), expect(slots.parse, "parse");
  parser->supportsModelV2("", 0), expect(slots.supports_model, "supportsModelV2");
  parser->getNbErrors(), expect(slots.error_count, "getNbErrors");
  parser->getError(0), expect(slots.error, "getError");
  auto* error = as<nvonnxparser::IParserError>();
  error->desc(), expect(graft::plugin::kErrorDescription, "desc");
  error->node(), expect(graft::plugin::kErrorNode, "node");
}

/// A log of ours, called as one of TensorRT's.
template <class Own>
class CheckedLog final : public Own {
 public:
  void log(int32_t severity, const char* message) noexcept override {
    called = severity == 2 && std::string(message) == "text" ? 7 : -1;
  }
};

}  // namespace

int main() {
  fill(std::make_integer_sequence<int, kPlaces>());
#if NV_TENSORRT_MAJOR >= 11
  CheckedLog<graft::plugin::QuietLogger11> own;
  auto& log = *reinterpret_cast<nvinfer1::ILogger*>(&own);
  called = std::string(log.getInterfaceInfo().kind) == "ILogger" && log.getInterfaceInfo().major == 1 ? 7 : -1;
  expect(7, "getInterfaceInfo");
  check_objects(graft::plugin::kTensorRT11Slots);
#else
  CheckedLog<graft::plugin::QuietLogger10> own;
  auto& log = *reinterpret_cast<nvinfer1::ILogger*>(&own);
  check_objects(graft::plugin::kTensorRT10Slots);
#endif
  log.log(nvinfer1::ILogger::Severity::kWARNING, "text"), expect(7, "log");
  std::printf("all as in the headers\n");
  return 0;
}
