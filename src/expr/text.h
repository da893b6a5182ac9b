// SPDX-License-Identifier: Apache-2.0
// The syntax that regions and tile programs share: tokens, expressions, sizes.
//
//   expression := 3 | -7:i32 | 1.5:f32 | -inf:f32 | nan:f64 | true | false      constants (bare integers are i64)
//               | i0                                                            variables and `let` names
//               | size(8*batch + 1)                                             symbolic sizes
//               | x[i0, add(k0, 1)]                                             loads (a scalar is x[])
//               | add(a, b) | cast<f16>(a) | bitcast<i32>(a)                    intrinsics, by their table name
//   let        := let t0 = expression                                           what several places share
//
// What people write (definitions of their own operators, ops/own_operator.h) reads the same and more, by which forms
// and expressions fit several types and ranks; ExprScope::allow_shorthand switches it on:
//
//   expression := (a + b) * -c | a / b | a < b | a == b                         infix operators, parentheses
//               | 0.5 | 3 | n                                                   a literal, or the size n: of the type
//                                                                               of what it is computed with
//               | x[..., k0]                                                    the axes that `...` stands for
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "expr/expr.h"

namespace graft {

/// Characters of one symbolic size, here and in the texts of graphs.
inline constexpr size_t kLongestSizeText = size_t{1} << 16;

enum class TokenKind : uint8_t { kName, kNumber, kPunctuation, kEnd };

/// A piece of the text being read. Numbers have no sign; punctuation is one character; `#` comments to the line's end.
struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
};

/// Reads text token by token. Every failure is an invalid_argument Error whose `where` is "<what>, line L, column C".
/// The text must outlive the lexer.
class Lexer {
 public:
  /// Begins at `begin`; lines are counted from the beginning of the text.
  Lexer(std::string_view text, std::string what, size_t begin = 0);

  const Token& peek() const { return token_; }
  /// Where the next token begins.
  size_t position() const { return begin_; }
  Token next();
  bool at_end() const { return token_.kind == TokenKind::kEnd; }
  bool is(std::string_view text) const { return token_.kind != TokenKind::kEnd && token_.text == text; }
  /// Takes the token when it is exactly `text` (a keyword or one punctuation character).
  bool accept(std::string_view text);
  void expect(std::string_view text);
  /// Takes `...`.
  bool accept_ellipsis();
  /// Text between double quotes, on one line.
  std::string_view quoted(std::string_view what);

  /// From now on the name stands for the type.
  void bind_type(std::string_view name, DType type) { types_.insert_or_assign(std::string(name), type); }
  /// From now on the name stands for the size, and a size with symbols that are not bound is an error.
  void bind_size(std::string_view name, const Size& size);
  void bind_sizes() { sizes_bound_ = true; }

  /// `what` says in the error what was expected: "a tensor name".
  std::string_view name(std::string_view what);
  /// An integer with an optional minus.
  int64_t integer(std::string_view what);
  DType dtype();
  /// A size up to the next `,`, `]`, `)`, `{`, `;` or line end at its own nesting level.
  Size size();
  /// `[8*batch, 384]`
  Shape shape();

  /// `<what>, line L, column C` of the next token.
  std::string place() const;
  [[noreturn]] void fail(const std::string& message) const;

 private:
  void advance();
  void skip_spaces();

  std::string_view text_;
  std::string what_;
  size_t at_ = 0;     ///< after the token
  size_t begin_ = 0;  ///< of the token
  Token token_;
  std::map<std::string, DType, std::less<>> types_;
  std::map<std::string, Size, std::less<>> sizes_;
  bool sizes_bound_ = false;
};

/// What an expression's names mean while it is read.
class ExprScope {
 public:
  struct Tensor {
    int index;
    DType type;
    int rank;  ///< -1: any
    int leading = -1;              ///< how many of its first axes `...` stands for; -1: it has none of these
    const Shape* shape = nullptr;  ///< known where `leading` is
  };
  /// `find_tensor` gives nothing for an unknown name.
  explicit ExprScope(std::function<std::optional<Tensor>(std::string_view)> find_tensor)
      : find_tensor_(std::move(find_tensor)) {}

  std::optional<Tensor> tensor(std::string_view name) const { return find_tensor_(name); }
  struct Entry {
    Expr expr;
    int depth;  ///< height of the expression tree, which is limited
    bool literal = false;  ///< takes the type of what it is computed with
  };
  /// Declares a variable or a shared expression; `lexer` reports a name that is taken.
  void declare(const Lexer& lexer, std::string_view name, const Entry& entry);
  void declare(const Lexer& lexer, std::string_view name, const Expr& variable) { declare(lexer, name, {variable, 1}); }
  const Entry* find(std::string_view name) const;

  /// Infix operators, literals without a type, and loads in the type that arithmetic uses.
  void allow_shorthand() { shorthand_ = true; }
  bool shorthand() const { return shorthand_; }
  /// A name that takes the type of what it is computed with, as a literal does.
  void declare_literal(std::string_view name, const Expr& e);
  /// The variables of the axes that `...` stands for in this form.
  void set_ellipsis(std::vector<Expr> variables) { ellipsis_ = std::move(variables); }
  const std::vector<Expr>* ellipsis() const { return ellipsis_ ? &*ellipsis_ : nullptr; }

 private:
  std::function<std::optional<Tensor>(std::string_view)> find_tensor_;
  std::map<std::string, Entry, std::less<>> names_;
  std::optional<std::vector<Expr>> ellipsis_;
  bool shorthand_ = false;
};

/// Reads one expression; checks types, so that what it returns keeps the rules of intrinsics.inc.
Expr parse_expr(Lexer& lexer, const ExprScope& scope);
/// Expressions separated by commas.
std::vector<Expr> parse_exprs(Lexer& lexer, const ExprScope& scope);
/// Reads `let name = expression` as long as they come, into the scope.
void parse_lets(Lexer& lexer, ExprScope& scope);

/// Prints expressions of one statement or form. What they share, and what nests too deeply, becomes a `let`.
class ExprPrinter {
 public:
  using NameOfTensor = std::function<std::string(int tensor)>;
  using NameOfVariable = std::function<std::string(int variable)>;
  ExprPrinter(NameOfTensor tensor, NameOfVariable variable)
      : tensor_(std::move(tensor)), variable_(std::move(variable)) {}

  /// `let t0 = ...` lines for all expressions that will be printed next; nulls are skipped.
  std::vector<std::string> lets(const std::vector<Expr>& roots);
  std::string print(const Expr& e);
  /// Separated by commas.
  std::string print(const std::vector<Expr>& exprs);

 private:
  struct Text {
    std::string text;
    int height = 0;
  };
  Text build(const Expr& e);
  const Text& text_of(const Expr& e);

  NameOfTensor tensor_;
  NameOfVariable variable_;
  std::unordered_map<const ExprNode*, int> uses_;
  std::unordered_map<const ExprNode*, Text> done_;
  std::vector<std::string> lines_;
};

/// Text of one expression, without lets: for messages, and where an expression is known to be small.
std::string print_expr(const Expr& e, const ExprPrinter::NameOfTensor& name_of_tensor,
                       const ExprPrinter::NameOfVariable& name_of_variable);

/// A literal: `1.5:f32`, `3`, `true`. Floats print the shortest digits that read back exactly.
std::string print_constant(const ExprNode& constant);

/// `name` reduced to letters, digits and underscores, not starting with a digit, and different from all in `taken`,
/// which it joins.
std::string unique_identifier(std::string_view name, std::map<std::string, int, std::less<>>& taken);

/// Why these operand types do not suit the intrinsic, or nothing. Types are those after promotion (compute_type).
std::optional<std::string> operand_error(Intrinsic intrinsic, const std::vector<DType>& types, DType result);

}  // namespace graft
