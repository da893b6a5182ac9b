// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>

#include "graft/mxnet.h"

namespace {

/// Ours first, then those of MXNet 1.3's TensorRT.
constexpr const char* kVariables[] = {"MXNET_USE_GRAFT", "MXNet_USE_TENSORRT", "MXNET_USE_TENSORRT"};

/// 1, 0, or -1 for what is neither.
int truth(std::string value) {
  std::erase_if(value, [](unsigned char c) { return std::isspace(c) != 0; });
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  if (value.empty() || value == "0" || value == "false") return 0;
  return value == "1" || value == "true" ? 1 : -1;
}

}  // namespace

extern "C" GRAFT_API int graft_mxnet_use_at_bind(const char** variable) {
  for (const char* name : kVariables) {
    const char* value = std::getenv(name);
    if (!value) continue;
    if (variable) *variable = name;
    const int wanted = truth(value);
    if (wanted != 0 || name == kVariables[0]) return wanted;
  }
  return 0;
}
