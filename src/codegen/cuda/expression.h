// SPDX-License-Identifier: Apache-2.0
// Scalar expressions as CUDA C++ statements: one named value per node, shared nodes once, selects lazy.
#pragma once

#include <optional>
#include <unordered_set>

#include "codegen/cuda/kernel_text.h"

namespace graft::cuda {

/// What a quantizer computes: convert(round(value) + zero) to 8 bits; `zero` is null where nothing is added.
struct QuantizedValue {
  Expr value, zero;
};

/// Writes expressions into a kernel. Values named in a block are reused until the block is left.
class ExpressionWriter {
 public:
  ExpressionWriter(CodeText& code, const KernelNames& names) : code_(code), names_(names) { enter(); }

  /// Writes what computes `e` and returns its name or literal.
  std::string value(const Expr& e);
  /// The same of an integer of 8 bits, as a word of which the lowest byte counts.
  std::string byte_word(const Expr& e);
  /// The element of a buffer as an lvalue; fragments at the position set by `fragment_position`.
  std::string element(int buffer, const std::vector<Expr>& indices);

  /// A block of the code begins or ends: values named inside are forgotten.
  void enter() { scopes_.emplace_back(); }
  void leave() { scopes_.pop_back(); }
  /// From now on `e` is read from `text` (a vector load made beforehand).
  void define(const Expr& e, std::string text) { scopes_.back()[e.get()] = {std::move(text), {}, false, {}}; }
  /// The same of a byte, of which `as_float` makes a float at once.
  void define_byte(const Expr& e, std::string text, std::string as_float) {
    scopes_.back()[e.get()] = {std::move(text), {}, false, std::move(as_float)};
  }
  /// The register of a fragment that stands for its element at the current point: "[m][n][e]"; and for its row: "[h]".
  void set_fragment_position(std::string text, std::string row) {
    fragment_position_ = std::move(text), row_position_ = std::move(row);
  }

 private:
  /// A value's name or literal; an i64 may be known to lie in a range and, where that fits, be held in an int.
  struct Term {
    std::string text;
    Range range;
    bool narrow = false;
    std::string as_float = {};  ///< of a byte in a word
  };

  Term term(const Expr& e);
  Term compute(const Expr& e);
  Term call(const Expr& e);
  Term narrow_call(std::string_view function, const std::vector<Expr>& args);
  Term quantize(DType type, const QuantizedValue& quantized);
  /// Arguments of a function that quantizes; `divides`: a quantizer is among them, which clamps to all codes.
  struct Quantizing {
    std::string arguments;
    bool divides = false;
  };
  Quantizing to_quantize(DType type, const QuantizedValue& quantized);
  Term float_of_short(const Expr& e);
  Term select(const Expr& e);
  Term local_index(const Range& range, const std::string& text);
  std::string load(const Expr& e);
  std::string offset_of(int buffer, const std::vector<Expr>& indices);
  std::string local(DType type, const std::string& text);
  const Term* find(const ExprNode* node) const;
  static std::string widened(const Term& term, const Expr& e);

  CodeText& code_;
  const KernelNames& names_;
  std::vector<std::unordered_map<const ExprNode*, Term>> scopes_;
  std::string fragment_position_, row_position_;
};

/// A literal of the constant's type.
std::string literal(const ExprNode& constant);
/// Spelling of an intrinsic over operands that are names, for operands of `type`.
std::string intrinsic_text(Intrinsic intrinsic, DType type, const std::vector<std::string>& args);


/// A function of the prelude, and what it is called with.
struct NarrowSpelling {
  std::string function;
  std::vector<Expr> args;
};
/// What the program's results are rounded to, where nothing on the way to that jumps (floor, say, or a choice), so that
/// f32 values which are nearly right serve.
NarrowResults narrow_results(const tile::Program& program);
/// A cheaper spelling of a call of f32 that serves where results are rounded so; nothing where there is none.
std::optional<NarrowSpelling> narrow_spelling(const Expr& e, NarrowResults results);

/// The parts of `e` where it is such a conversion.
std::optional<QuantizedValue> quantized_value(const Expr& e);
/// Such a conversion, and the bounds that its codes are put to by max and min with constants.
struct BoundedCode {
  Expr code;
  int64_t low = 0, high = 0;
};
/// The parts of `e` where it is one; else nothing.
std::optional<BoundedCode> bounded_code(const Expr& e);
/// The lowest value of an integer type of 8 bits.
inline int64_t lowest_code(DType type) { return is_unsigned(type) ? 0 : -128; }
/// The integer of at most 16 bits that a cast to f32 makes a float of, perhaps by way of a wider one; else null.
Expr short_integer(const Expr& e);
/// The integer of a type that the f32 `e` stands for: a cast of one, or a bound that is put to such; else null.
Expr on_integers(const Expr& e, DType type);

}  // namespace graft::cuda
