// SPDX-License-Identifier: Apache-2.0
// A backend that does nothing but copy each request's input to its output: what Triton's server costs by itself. The
// model's configuration names both.
#include <chrono>
#include <cstring>

#include "triton.h"

namespace {

using namespace graft::triton;

uint64_t now() {
  return static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// Copies the only input to the only output.
void answer(TRITONBACKEND_Request* request) {
  TRITONBACKEND_Input* input = nullptr;
  TRITONBACKEND_Output* output = nullptr;
  TRITONBACKEND_Response* response = nullptr;
  const char *name = nullptr, *output_name = nullptr;
  DataType type{};
  const int64_t* shape = nullptr;
  uint32_t rank = 0, pieces = 0;
  uint64_t bytes = 0, piece_bytes = 0;
  MemoryType memory = MemoryType::kCpu;
  int64_t device = 0;
  const void* from = nullptr;
  void* to = nullptr;
  TRITONBACKEND_ResponseNew(&response, request);
  TRITONBACKEND_RequestInputByIndex(request, 0, &input);
  TRITONBACKEND_RequestOutputName(request, 0, &output_name);
  TRITONBACKEND_InputProperties(input, &name, &type, &shape, &rank, &bytes, &pieces);
  TRITONBACKEND_InputBuffer(input, 0, &from, &piece_bytes, &memory, &device);
  TRITONBACKEND_ResponseOutput(response, &output, output_name, type, shape, rank);
  TRITONBACKEND_OutputBuffer(output, &to, bytes, &memory, &device);
  std::memcpy(to, from, piece_bytes);
  TRITONBACKEND_ResponseSend(response, kFinalResponse, nullptr);
}

}  // namespace

#define STUB_ENTRY extern "C" __attribute__((visibility("default"), used)) TRITONSERVER_Error*

STUB_ENTRY TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests,
                                              uint32_t count) {
  const uint64_t begin = now();
  for (uint32_t i = 0; i < count; ++i) answer(requests[i]);
  const uint64_t end = now();
  for (uint32_t i = 0; i < count; ++i) {
    TRITONBACKEND_ModelInstanceReportStatistics(instance, requests[i], true, begin, begin, end, end);
    TRITONBACKEND_RequestRelease(requests[i], kReleaseRequest);
  }
  TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, count, begin, begin, end, end);
  return nullptr;
}
