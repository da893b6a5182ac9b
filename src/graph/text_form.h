// SPDX-License-Identifier: Apache-2.0
// The pieces of the graph's text form that its printer and its parser must agree on.
#pragma once

#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/tensor_data.h"

namespace graft {

/// Constants of up to this many elements are printed in full.
inline constexpr int64_t kInlineElements = 16;
/// Larger constants whose elements are all the same are printed as `all X` up to this size.
inline constexpr int64_t kUniformBytes = int64_t{1} << 26;

/// Characters of a name that needs no quotes.
inline bool is_bare_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '/' || c == '$' || c == '-';
}

/// `"text"` with quotes, backslashes, what does not show (base/printable.h) and bytes that are no UTF-8 escaped.
std::string quote(std::string_view text);
/// The name itself, or quoted when it holds other characters than bare ones.
std::string bare_or_quoted(std::string_view name);
/// A real number that reads back to the same value and cannot be taken for an integer.
std::string real_text(double value);
/// One element: a number, `nan`, `bits 0x7fc1` for what no number stands for (an unusual NaN), `(re, im)`, or a quoted
/// string.
std::string element_text(const TensorData& tensor, int64_t index);
/// True when every element has the bits of the first.
bool is_uniform(const TensorData& tensor);
/// Identifies type, shape and contents.
Hash128 content_hash(const TensorData& tensor);
/// The bits of one element of at most 64 bits.
uint64_t element_bits(const TensorData& tensor, int64_t index);
/// Stores the bits of one element of at most 64 bits.
void set_element_bits(TensorData& tensor, int64_t index, uint64_t bits);

}  // namespace graft
