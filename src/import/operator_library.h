// SPDX-License-Identifier: Apache-2.0
// Operators that a caller brings along: definitions as text, and functions of ONNX files.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "ops/custom_operator.h"

namespace graft {

/// What one compilation knows beside the table of operators.
struct OperatorLibrary {
  std::vector<CustomOperator> definitions = {};
  std::vector<std::shared_ptr<const MappedFile>> functions = {};  ///< ONNX models, of which the functions count

  const CustomOperator* find(std::string_view domain, std::string_view name) const;
};

/// Reads files ending in `.onnx`, files of definitions, and texts of definitions, which have a line break. Throws
/// invalid_argument naming the file, line and column; also for an operator that two of them define.
OperatorLibrary read_operator_library(const std::vector<std::string>& sources);

}  // namespace graft
