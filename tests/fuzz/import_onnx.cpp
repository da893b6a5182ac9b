// SPDX-License-Identifier: Apache-2.0
// Any bytes given as an ONNX model: a graph that verifies and survives its text form, or an error; never a crash, and
// never an internal error. Reads and writes no files: external data is refused without a folder.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "graph/graph.h"
#include "import/onnx/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const graft::Graph graph = graft::import_onnx_bytes(std::as_bytes(std::span(data, size)), "");
    const auto weights = graft::large_constants(graph);
    const std::string text = graft::print(graph);
    if (graft::print(graft::parse_graph(text, &weights)) != text) std::abort();
  } catch (const graft::Error& error) {
    if (error.kind() == graft::ErrorKind::kInternal) std::abort();
  }
  return 0;
}
