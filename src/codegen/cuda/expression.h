// SPDX-License-Identifier: Apache-2.0
// Scalar expressions as CUDA C++ statements: one named value per node, shared nodes once, selects lazy.
#pragma once

#include <unordered_set>

#include "codegen/cuda/kernel_text.h"

namespace graft::cuda {

/// Writes expressions into a kernel. Values named in a block are reused until the block is left.
class ExpressionWriter {
 public:
  ExpressionWriter(CodeText& code, const KernelNames& names) : code_(code), names_(names) { enter(); }

  /// Writes what computes `e` and returns its name or literal.
  std::string value(const Expr& e);
  /// The element of a buffer as an lvalue; fragments at the position set by `fragment_position`.
  std::string element(int buffer, const std::vector<Expr>& indices);

  /// A block of the code begins or ends: values named inside are forgotten.
  void enter() { scopes_.emplace_back(); }
  void leave() { scopes_.pop_back(); }
  /// From now on `e` is read from `text` (a vector load made beforehand).
  void define(const Expr& e, std::string text) { scopes_.back()[e.get()] = {std::move(text), {}, false}; }
  /// The register of a fragment that stands for its element at the current point: "[m][n][e]"; and for its row: "[h]".
  /// Everything that is written ends in halves.
  void set_for_halves() { for_halves_ = true; }
  void set_fragment_position(std::string text, std::string row) {
    fragment_position_ = std::move(text), row_position_ = std::move(row);
  }

 private:
  /// A value's name or literal; an i64 may be known to lie in a range and, where that fits, be held in an int.
  struct Term {
    std::string text;
    Range range;
    bool narrow = false;
  };

  Term term(const Expr& e);
  Term compute(const Expr& e);
  Term call(const Expr& e);
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
  bool for_halves_ = false;
};

/// A literal of the constant's type.
std::string literal(const ExprNode& constant);
/// Spelling of an intrinsic over operands that are names, for operands of `type`.
std::string intrinsic_text(Intrinsic intrinsic, DType type, const std::vector<std::string>& args);

}  // namespace graft::cuda
