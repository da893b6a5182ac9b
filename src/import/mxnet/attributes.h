// SPDX-License-Identifier: Apache-2.0
// Attributes of MXNet's operators, which are texts: `(3, 3)`, `True`, `None`, `1e-3`, `relu`. Each function refuses the
// node where the attribute is not what is asked for; the row's signature has the defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/conversion.h"

namespace graft::mxnet {

/// A text as MXNet's parsers take it: nothing for None, a bool, a number, a list for a tuple, or the text itself; also
/// for a tuple in so many tuples that no attribute is.
frontend::Argument parse_attribute(std::string_view text, int depth = 0);

/// Whether it is neither None nor an empty tuple.
bool given(const frontend::Conversion& c, std::string_view name);
int64_t integer(const frontend::Conversion& c, std::string_view name);
double real(const frontend::Conversion& c, std::string_view name);
bool flag(const frontend::Conversion& c, std::string_view name);
std::string word(const frontend::Conversion& c, std::string_view name);
DType type(const frontend::Conversion& c, std::string_view name);
/// A tuple, or a number as a tuple of one; empty for None.
std::vector<int64_t> integers(const frontend::Conversion& c, std::string_view name);
/// A tuple of numbers, or one number.
std::vector<double> reals(const frontend::Conversion& c, std::string_view name);
/// A tuple that may have None in it: `slice(begin=(None, 1))`.
std::vector<std::optional<int64_t>> some_integers(const frontend::Conversion& c, std::string_view name);
/// One number for each of `count` axes; `otherwise` for each where the tuple is empty.
std::vector<int64_t> per_axis(const frontend::Conversion& c, std::string_view name, size_t count, int64_t otherwise);
/// Refuses a layout whose channels do not stand behind the batch.
void check_layout(const frontend::Conversion& c);

}  // namespace graft::mxnet
