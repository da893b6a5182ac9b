// SPDX-License-Identifier: Apache-2.0
// Forms as text: what regions (print_region.cpp shows the syntax) and definitions that people write have in common.
//
// The shorthand that people write adds to it:
//   compute y over [..., k < n]        `...`: all axes in front, however many the inputs have
//   reduce m over [...] fold max [k < n] { lift x[..., k] }       a fold by one of add, mul, min, max, and, or, xor
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "expr/region.h"
#include "expr/text.h"

namespace graft {

/// What the names of a form mean in the text around it.
struct FormNames {
  std::function<std::optional<ExprScope::Tensor>(std::string_view)> find_tensor;
  /// The number that Form::outputs gets for a tensor that the form defines.
  std::function<int(std::string_view)> define;
  /// The symbol of a count; null: the name itself.
  std::function<std::string(std::string_view)> count = {};
  /// The shorthand is allowed, and these are the extents of `...`.
  const Shape* ellipsis = nullptr;
  /// Names that take the type of what they are computed with.
  std::vector<std::pair<std::string, Expr>> literals = {};
};

/// Reads one form, from its first word to the closing brace; `over_ellipsis` is told whether its axes begin with `...`.
Form parse_form(Lexer& lexer, const FormNames& names, bool* over_ellipsis = nullptr);

}  // namespace graft
