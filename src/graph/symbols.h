// SPDX-License-Identifier: Apache-2.0
// The names of symbols that inference makes for sizes that only a run knows. Models and texts name dimensions
// otherwise, so that nobody but inference can say where such a symbol comes from.
#pragma once

#include <string>
#include <string_view>

#include "base/size.h"

namespace graft {

/// `$VALUE:ELEMENT`, a number of either sign that a run reads from a tensor. Names differ when values do.
std::string number_symbol(std::string_view value, int64_t element);
/// `:NODE:WHAT`, a size that a node's region counts.
std::string count_symbol(std::string_view node, std::string_view what);
/// Whether a name has the syntax of the two above.
bool is_reserved_symbol(std::string_view name);
/// The first reserved symbol of a shape, or nothing.
std::string reserved_symbol_of(const Shape& shape);
/// Whether a size is a number or a symbol that anybody may name.
bool is_named(const Size& size);
/// A dimension's name as the text of sizes can hold it, never reserved: `batch size` -> `batch_size`, `2nd` -> `_2nd`.
std::string dimension_symbol(std::string_view name);

}  // namespace graft
