// SPDX-License-Identifier: Apache-2.0
// The parts of a written folder that are the same for all plugins.
#pragma once

#include <string>

namespace graft::plugin {

/// `#include <cuda.h>` of text that is written: this project includes no such header here.
std::string include_line(const std::string& header);

/// graft_kernels.h: sizes, and loading and launching kernels through the driver; C++17 and cuda.h alone.
std::string kernels_header();
/// graft_tensorrt.h: the plugin of TensorRT 10 and 11 (IPluginV3), or that of 8.6 (IPluginV2DynamicExt), as a template
/// over what kernels_header()'s users describe.
/// What the two have in common.
std::string tensorrt_common();
std::string tensorrt_header();
std::string tensorrt_8_header();
/// graft_torch.h and graft_tensorflow.h: operators of those frameworks, as templates over the same.
std::string torch_header();
std::string tensorflow_header();
/// embed.cmake: from a binary file to a C++ file that holds its bytes.
std::string embed_script();

}  // namespace graft::plugin
