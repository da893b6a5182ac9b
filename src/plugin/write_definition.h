// SPDX-License-Identifier: Apache-2.0
// A definition as C++ and CUDA C++.
#pragma once

#include <string>

#include "plugin/definition.h"

namespace graft::plugin {

/// The word of graft_kernels.h for a type.
std::string type_word(DType type);
/// The name of the array of bytes that a build makes of a variant's file: `LayerNorm_sm_90a_cubin`.
std::string array_name(const Definition& definition, const Variant& variant, const std::string& kind);
/// Whether the variant's PTX serves later GPUs.
bool has_ptx(const Variant& variant);
/// The constants of the variant one behind the other, as kernels read them.
std::string constant_bytes(const Variant& variant);

/// What the plugin computes with, as a type of C++: tensors, sizes, workspace and launches. It depends on
/// graft_kernels.h alone.
std::string definition_header(const Definition& definition, const std::string& heading);
/// What two plugins that compute the same have in common, but for the name.
std::string identity_of(const Definition& definition);
/// The kernels of a variant: includes graft_device.cuh, and compiles with nvcc and NVRTC alone.
std::string kernel_source(const Definition& definition, const Variant& variant, const std::string& heading);

}  // namespace graft::plugin
