// SPDX-License-Identifier: Apache-2.0
// Any bytes as MXNet's .params: arrays that can be read, converted and written, or an error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "amp/narrowing.h"
#include "base/error.h"
#include "import/mxnet/params_file.h"

namespace {

using namespace graft;

/// What fits becomes f16.
void narrow(mxnet::ParamsEntry& entry) {
  if (entry.data.type() != DType::kFloat32 || !amp::conversion_fault(entry.data, DType::kFloat16).empty()) return;
  entry.data = amp::converted(entry.data, DType::kFloat16);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    mxnet::ParamsFile file = mxnet::parse_params(std::as_bytes(std::span(data, size)), nullptr, "fuzz");
    mxnet::write_params(file, "/dev/null");
    for (mxnet::ParamsEntry& entry : file.entries) {
      if (entry.data) narrow(entry);
    }
    mxnet::write_params(file, "/dev/null");
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) __builtin_trap();
  }
  return 0;
}
