// SPDX-License-Identifier: Apache-2.0
// Dimensions that exporters write as expressions of others, read and written:
// `past_sequence_length + sequence_length`, `(s0 - 1)//2`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/size.h"

namespace graft {

/// Gives the size that a name stands for, or nothing when no dimension is called so.
using DimensionLookup = std::function<std::optional<Size>(std::string_view name)>;

/// Reads an expression in the syntax of sympy, which torch.onnx writes: + - * / // % **, parentheses, and floor,
/// ceiling, Max, Min, Mod, FloorDiv, CeilDiv and their like. Nothing when the text is no such expression, or names
/// what `lookup` does not know: then it is a name, whatever its characters.
std::optional<Size> parse_dimension(std::string_view text, const DimensionLookup& lookup);

/// The text that parse_dimension reads back as this size, where its names are known.
std::string dimension_text(const Size& size);

/// Whether a text is a name only: letters, digits and underscores, no digit first.
bool is_dimension_name(std::string_view text);

}  // namespace graft
