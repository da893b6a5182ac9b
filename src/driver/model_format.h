// SPDX-License-Identifier: Apache-2.0
// The formats of whole models, as rows: how a file is known, which options are the format's own, how it is imported.
#pragma once

#include <span>
#include <string_view>

#include "driver/compile_options.h"
#include "driver/model_source.h"
#include "graph/graph.h"

namespace graft {

struct ModelFormat {
  std::string_view what;                          ///< "a symbol of MXNet", for messages
  std::span<const std::string_view> own_options;  ///< which are mistakes with a model of another format
  bool (*is_model)(const ModelSource& source);
  Graph (*import)(const ModelSource& source, const CompileOptions& options);
};

/// The formats of frameworks, first come first asked. A library that reads ONNX files alone defines it as none.
std::span<const ModelFormat> framework_formats();

}  // namespace graft
