// SPDX-License-Identifier: Apache-2.0
// A library call as a oneDNN primitive.
#pragma once

#include <string>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "library/call.h"

namespace graft::onednn {

/// A primitive with its memory objects, which point nowhere until a run sets them.
struct CallPrimitive {
  std::string implementation;
  dnnl::primitive primitive;
  dnnl::stream stream;
  std::vector<dnnl::memory> operands;  ///< in the order of LibraryCall::operands()
  dnnl::memory scratchpad;
  std::vector<dnnl_exec_arg_t> arguments;
  int64_t scratch_bytes = 0;
};

/// Chooses and generates the primitive. Throws Error{unsupported} with the reason when oneDNN has none but its slow
/// reference, and dnnl::error.
CallPrimitive make_primitive(const LibraryCall& call);

}  // namespace graft::onednn
