// SPDX-License-Identifier: Apache-2.0
// In place of driver/framework_formats.cpp, in a library that reads ONNX files alone.
#include "driver/model_format.h"

namespace graft {

std::span<const ModelFormat> framework_formats() { return {}; }

}  // namespace graft
