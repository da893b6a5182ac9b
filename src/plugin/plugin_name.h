// SPDX-License-Identifier: Apache-2.0
// What plugins are called: operators of a model, files, and names in C++.
#pragma once

#include <set>
#include <string>

#include "export/onnx/model_file.h"
#include "plugin/consumer.h"

namespace graft::plugin {

/// Throws invalid_argument where a caller's name is no name in C++ and Python, or, for TensorRT, that of an operator of
/// ONNX or of the model, which it would take it for.
void check_name(const std::string& name, const ModelFile& model, Consumer consumer);
/// `graft_` and the name of the part's last node, with `_` for anything but letters and digits; numbered where it is
/// taken.
std::string default_name(const ModelFile& model, const ModelCut& part, const std::set<std::string>& taken);

}  // namespace graft::plugin
