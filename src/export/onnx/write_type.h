// SPDX-License-Identifier: Apache-2.0
// Types and shapes of values as TypeProto.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace graft_onnx {
class TensorShapeProto_Dimension;
class TypeProto;
}  // namespace graft_onnx

namespace graft {

/// A size as a dimension: a number, a name, or an expression of names as sympy writes it. What only a run knows stays
/// unknown.
void write_dimension(const Size& size, graft_onnx::TensorShapeProto_Dimension& proto);

/// The type of a value; false when nothing is known of it, and nothing was written.
bool write_type(const Value& value, graft_onnx::TypeProto& proto);

/// A type from its text, as import.h has them: `f32[2, n]`, `seq(i64)`, `optional(seq(f32))`, `map(i64, f32)`. Throws
/// invalid_model for other texts.
void write_type(std::string_view text, graft_onnx::TypeProto& proto);

}  // namespace graft
