// SPDX-License-Identifier: Apache-2.0
// A request as the backend reads it: its tensors in the engine's order, and the response that it will get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graft/graft_c.h"
#include "signature.h"
#include "triton.h"

namespace graft::triton {

/// The elements of an input.
struct InputData {
  const int64_t* shape = nullptr;  ///< the request's
  uint32_t rank = 0;
  uint64_t bytes = 0;
  const std::byte* data = nullptr;
  bool on_gpu = false;
  std::vector<std::byte> gathered;  ///< of one that Triton has in several pieces
  std::vector<graft_text> texts;    ///< of strings
};

/// Whether a client wants an output, and where it has memory for it.
enum class Wanted : char { kNo, kOnHost, kOnGpu };

/// Kept from call to call, so that a request costs no allocation.
struct Request {
  TRITONBACKEND_Request* handle = nullptr;
  TRITONBACKEND_Response* response = nullptr;
  int64_t rows = 1;                  ///< of its batch
  std::vector<InputData> inputs;     ///< in the engine's order
  std::vector<Wanted> wanted;        ///< of each output of the engine
  uint64_t timeout_us = 0;           ///< 0: none
  bool answered = false, succeeded = false;

  /// Reads the request; makes its response. Throws Error and ServerFailure, also for one that is cancelled.
  void read(TRITONBACKEND_Request* request, const Signature& signature, bool batched, bool gpu);
  /// Sends the response, with an error unless that is null.
  void answer(TRITONSERVER_Error* error);
  bool uses_gpu_memory() const;

 private:
  void read_input(uint32_t index, const Signature& signature, bool gpu);
  void read_wanted(const Signature& signature, bool gpu);
};

/// Whether two requests with a batch can be one run: they lie in the host's memory, and their shapes differ in nothing
/// but the rows.
bool can_join(const Request& first, const Request& second);

}  // namespace graft::triton
