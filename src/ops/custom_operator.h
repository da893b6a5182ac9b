// SPDX-License-Identifier: Apache-2.0
// Operators that users define, as text (docs/OWN_OPERATORS.md has the language):
//
//   operator example::RootMeanSquare {
//     "x over the root of the mean of its squares along the last axis"
//     type T: float
//     attribute epsilon: real = 1e-5
//     input x: T[..., n]
//     output y: T[..., n]
//     reduce squares over [...] fold add [k < n] { lift x[..., k] * x[..., k] }
//     compute y over [..., i < n] { value x[..., i] / sqrt(squares[...] / n + epsilon) }
//   }
//
// The header says which nodes fit. The body is read anew for each node, with types, ranks and attributes known and
// sizes symbolic, and gives the node's region. Whatever it reads that is not seen to lie inside a tensor is checked in
// the kernel: a text from anywhere cannot lead a run out of its memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "expr/text.h"
#include "graph/op_def.h"

namespace graft {

/// A name for one of several element types.
struct TypeVariable {
  std::string name;
  std::vector<DType> allowed;
};

/// An input or output: `x: T[..., n]`.
struct CustomOperand {
  std::string name;
  DType type = DType::kUndefined;  ///< undefined: that of the variable
  int variable = -1;               ///< index into CustomOperator::types
  bool leading = false;            ///< any axes come in front
  Shape sizes = {};                ///< of the axes that are written out, in symbols of the definition's own
  size_t position = 0;             ///< in the text that it was read from
};

/// A number that the node gives: a double, or an int64_t when `whole`.
struct CustomAttribute {
  std::string name;
  bool whole = false;
  Attribute default_value = {};  ///< a monostate: the node has to give it
};

/// One definition; the members but `text` are its header.
struct CustomOperator {
  std::string text;  ///< all of it, from `operator` to its closing brace
  std::string domain, name, doc;
  std::vector<TypeVariable> types;
  std::vector<CustomAttribute> attributes;
  std::vector<CustomOperand> inputs, outputs;
};

/// Reads definitions, one after the other, and tries each with every element type that it allows and with no, one and
/// two axes for `...`. Throws invalid_argument whose `where` is "<where>, line L, column C".
std::vector<CustomOperator> parse_custom_operators(std::string_view text, const std::string& where);

/// Reads a header; the lexer stands at the first form then.
CustomOperator parse_custom_header(Lexer& lexer);
/// Reads the body and builds what it says for the definition's node.
void build_custom(const CustomOperator& op, Lexer& lexer, Definition& d);
/// The row that the table of operators would have.
std::shared_ptr<const OpDef> op_def_of(CustomOperator op);

}  // namespace graft
