// SPDX-License-Identifier: Apache-2.0
// Operands that a DequantizeLinear gives, as products of codes take them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace graft::passes {

/// A tensor of codes: value = (codes - zero) * scale. Without a scale it is the codes themselves.
struct Quantized {
  ValueId codes = kNoValue, scale = kNoValue, zero = kNoValue;
  int64_t axis = 0;         ///< of a scale or zero point that is a list
  bool transposed = false;  ///< a matrix whose axes are to be exchanged
};

/// What a DequantizeLinear, perhaps behind an exchange of a matrix's axes, reads; nothing where it has blocks. The
/// scale is of the type of its result: f32, or f16 or bf16 of networks that are of these.
std::optional<Quantized> dequantized(const Graph& graph, ValueId value);

/// The value in f32, by a Cast where it is of another type; none where there is none.
ValueId in_f32(Graph& graph, const std::string& name, ValueId value);

/// Makes the node the last step, which computes in f32; of a network of f16 or bf16 a Cast of that step.
void finish_from_f32(Graph& graph, int index, std::string_view op, std::vector<ValueId> inputs,
                     Attributes attributes = {});

/// The number of elements of a parameter, a scalar or a list; 0 where it is not known.
int64_t count_of(const Graph& graph, ValueId value);

}  // namespace graft::passes
