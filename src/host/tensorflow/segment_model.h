// SPDX-License-Identifier: Apache-2.0
// The operators that an engine stands for, as a model that Graft compiles.
#pragma once

#include <string>
#include <vector>

#include "built_engines.h"
#include "tensorflow/core/framework/function.h"

namespace graft::tensorflow_host {

/// A node's operators: the function that it falls back to, and what that takes and gives.
struct SegmentModel {
  const tensorflow::FunctionLibraryDefinition& library;
  const tensorflow::NameAttrList& function;
  const std::vector<tensorflow::DataType>& inputs;
  const std::vector<tensorflow::DataType>& outputs;

  /// A GraphDef that calls the function with placeholders of these shapes. Throws Error where there is no such function
  /// or it is too large for a GraphDef.
  std::string graph(const ShapeRanges& ranges) const;
  /// Compiles that; `options` are of graft_compile, `tune=off`, with the device among them. Throws Error.
  std::shared_ptr<LoadedEngine> build(const ShapeRanges& ranges, const std::vector<std::string>& options,
                                      const std::string& device) const;
};

}  // namespace graft::tensorflow_host
