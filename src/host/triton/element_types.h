// SPDX-License-Identifier: Apache-2.0
// Element types of Graft (the numbers of ONNX) and of Triton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "triton.h"

namespace graft::triton {

/// A row of the table of both.
struct ElementType {
  int32_t graft = 0;        ///< GRAFT_FLOAT32 ...
  DataType server = DataType::kInvalid;
  const char* name = "";    ///< as a configuration has it
  size_t bytes = 0;         ///< of an element; of strings, that of a graft_text
};

/// The row of a type of Graft's, or null where Triton has no such type.
const ElementType* element_type(int32_t graft);

}  // namespace graft::triton
