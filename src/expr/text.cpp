// SPDX-License-Identifier: Apache-2.0
#include "expr/text.h"

#include <charconv>
#include <set>

#include <fmt/format.h>

#include "base/convert.h"
#include "base/error.h"

namespace graft {
namespace {

constexpr int kMaxNesting = 200;  // of one expression as written; the printer stays below with lets
constexpr int kMaxHeight = 2000;  // through lets too, as later stages recurse over expressions

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

}  // namespace

Lexer::Lexer(std::string_view text, std::string what, size_t begin)
    : text_(text), what_(std::move(what)), at_(begin) {
  advance();
}

void Lexer::skip_spaces() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_spaces();
  begin_ = at_;
  token_.kind = TokenKind::kEnd;
  if (at_ < text_.size()) {
    const char first = text_[at_++];
    const auto more = [&] { return at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_])); };
    if (is_letter(first)) {
      token_.kind = TokenKind::kName;
      while (more()) ++at_;
    } else if (is_digit(first)) {
      token_.kind = TokenKind::kNumber;
      while (more() || (at_ < text_.size() && text_[at_] == '.') ||
             (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-') &&
              (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E'))) {
        ++at_;
      }
    } else {
      token_.kind = TokenKind::kPunctuation;
    }
  }
  token_.text = text_.substr(begin_, at_ - begin_);
}

Token Lexer::next() {
  const Token token = token_;
  advance();
  return token;
}

bool Lexer::accept(std::string_view text) {
  if (!is(text)) return false;
  advance();
  return true;
}

void Lexer::expect(std::string_view text) {
  if (!accept(text)) fail(fmt::format("expected '{}'", text));
}

bool Lexer::accept_ellipsis() {
  if (text_.substr(begin_, 3) != "...") return false;
  at_ = begin_ + 3;
  advance();
  return true;
}

std::string_view Lexer::quoted(std::string_view what) {
  const size_t end = is("\"") ? text_.find_first_of("\"\n", at_) : text_.npos;
  if (end == text_.npos || text_[end] != '"') fail(fmt::format("expected {} between double quotes, on one line", what));
  const std::string_view inside = text_.substr(at_, end - at_);
  at_ = end + 1;
  advance();
  return inside;
}

void Lexer::bind_size(std::string_view name, const Size& size) {
  sizes_.insert_or_assign(std::string(name), size);
  sizes_bound_ = true;
}

std::string_view Lexer::name(std::string_view what) {
  if (token_.kind != TokenKind::kName) fail(fmt::format("expected {}", what));
  return next().text;
}

int64_t Lexer::integer(std::string_view what) {
  const bool negative = accept("-");
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(token_.text.data(), token_.text.data() + token_.text.size(), magnitude);
  const bool whole = end == token_.text.data() + token_.text.size();
  const uint64_t limit = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (token_.kind != TokenKind::kNumber || error != std::errc() || !whole || magnitude > limit) {
    fail(fmt::format("expected {}, a 64-bit integer", what));
  }
  advance();
  return static_cast<int64_t>(negative ? uint64_t{0} - magnitude : magnitude);
}

DType Lexer::dtype() {
  if (const auto bound = types_.find(token_.text); bound != types_.end()) {
    advance();
    return bound->second;
  }
  const auto type = token_.kind == TokenKind::kName ? parse_dtype(token_.text) : std::nullopt;
  if (!type) fail("expected an element type such as f32 or i64");
  advance();
  return *type;
}

Size Lexer::size() {
  int depth = 0;
  size_t end = begin_;
  for (; end < text_.size(); ++end) {
    const char c = text_[end];
    if (c == '(') ++depth;
    if (depth == 0 && (c == ',' || c == ']' || c == ')' || c == '{' || c == ';' || c == '\n')) break;
    if (c == ')') --depth;
  }
  std::string_view text = text_.substr(begin_, end - begin_);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty()) fail("expected a size such as 8*batch + 3");
  if (text.size() > kLongestSizeText) fail("the size is too long");
  std::string problem;
  try {
    Size size = parse_size(text);
    if (sizes_bound_) {
      std::set<std::string, std::less<>> symbols;
      size.collect_symbols(symbols);
      for (const std::string& symbol : symbols) {
        GRAFT_USER_CHECK(sizes_.contains(symbol), kInvalidArgument,
                         fmt::format("'{}' is no size here: sizes are those of the inputs, counts and whole-numbered "
                                     "attributes", symbol), "");
      }
      size = size.substitute(sizes_);
    }
    at_ = end;
    advance();
    return size;
  } catch (const Error& error) {
    problem = error.message();
  }
  fail(problem);
}

Shape Lexer::shape() {
  Shape shape;
  expect("[");
  if (accept("]")) return shape;
  do {
    shape.push_back(size());
  } while (accept(","));
  expect("]");
  return shape;
}

std::string Lexer::place() const {
  int line = 1;
  size_t line_begin = 0;
  for (size_t i = 0; i < begin_; ++i) {
    if (text_[i] == '\n') ++line, line_begin = i + 1;
  }
  return fmt::format("{}, line {}, column {}", what_, line, begin_ - line_begin + 1);
}

void Lexer::fail(const std::string& message) const {
  std::string found = "the end of the text";
  if (!at_end()) {
    found = "'";
    for (const char c : token_.text.substr(0, 40)) found += c >= ' ' && c <= '~' ? c : '?';
    found += "'";
  }
  throw Error(ErrorKind::kInvalidArgument, fmt::format("{}; found {}", message, found), place());
}

void ExprScope::declare(const Lexer& lexer, std::string_view name, const Entry& entry) {
  if (!names_.emplace(std::string(name), entry).second) {
    lexer.fail(fmt::format("the name '{}' is taken", name));
  }
}

void ExprScope::declare_literal(std::string_view name, const Expr& e) {
  names_.insert_or_assign(std::string(name), Entry{e, 1, /*literal=*/true});
}

const ExprScope::Entry* ExprScope::find(std::string_view name) const {
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : &it->second;
}

namespace {

using Entry = ExprScope::Entry;

/// Recursive descent over the syntax in text.h.
class ExprParser {
 public:
  ExprParser(Lexer& lexer, const ExprScope& scope) : lexer_(lexer), scope_(scope) {}

  Entry parse() {
    if (++nesting_ > kMaxNesting) lexer_.fail("the expression nests too deeply");
    Entry entry = scope_.shorthand() ? binary(0) : primary();
    --nesting_;
    if (entry.depth > kMaxHeight) lexer_.fail("the expression is too deep");
    return entry;
  }

 private:
  /// Comparisons bind least, then sums, then products.
  static constexpr int kLevels = 3;

  Entry binary(int level) {
    if (level == kLevels) return unary();
    Entry left = binary(level + 1);
    while (const auto intrinsic = infix(level)) {
      Entry right = binary(level + 1);
      left = apply(*intrinsic, {std::move(left), std::move(right)});
      if (level == 0) break;  // a < b < c means nothing
    }
    return left;
  }

  std::optional<Intrinsic> infix(int level) {
    if (level == 1) {
      if (lexer_.accept("+")) return Intrinsic::kAdd;
      if (lexer_.accept("-")) return Intrinsic::kSub;
    } else if (level == 2) {
      if (lexer_.accept("*")) return Intrinsic::kMul;
      if (lexer_.accept("/")) return Intrinsic::kDiv;
    } else {
      if (lexer_.accept("<")) return lexer_.accept("=") ? Intrinsic::kLe : Intrinsic::kLt;
      if (lexer_.accept(">")) return lexer_.accept("=") ? Intrinsic::kGe : Intrinsic::kGt;
      const bool equal = lexer_.is("=");
      if (equal || lexer_.is("!")) {
        lexer_.next();
        lexer_.expect("=");
        return equal ? Intrinsic::kEq : Intrinsic::kNe;
      }
    }
    return std::nullopt;
  }

  Entry unary() {
    if (lexer_.accept("(")) {
      Entry inside = parse();
      lexer_.expect(")");
      return inside;
    }
    if (!lexer_.accept("-")) return primary();
    if (begins_constant()) return constant(/*negative=*/true);
    if (++nesting_ > kMaxNesting) lexer_.fail("the expression nests too deeply");
    Entry value = unary();
    --nesting_;
    return apply(Intrinsic::kNeg, {std::move(value)});
  }

  bool begins_constant() const {
    return lexer_.peek().kind == TokenKind::kNumber || lexer_.is("inf") || lexer_.is("nan");
  }

  Entry primary() {
    if (lexer_.accept("-")) return constant(/*negative=*/true);
    if (begins_constant()) return constant(/*negative=*/false);
    const std::string_view name = lexer_.name("an expression");
    if (name == "true" || name == "false") return {make_integer(DType::kBool, name == "true"), 1};
    if (lexer_.is("[")) return load(name);
    if (lexer_.is("<") && (!scope_.shorthand() || name == "cast" || name == "bitcast")) return conversion(name);
    if (lexer_.is("(")) return name == "size" ? size() : call(name);
    const Entry* entry = scope_.find(name);
    if (!entry) lexer_.fail(fmt::format("'{}' is not a variable here", name));
    return *entry;
  }

  Entry constant(bool negative) {
    const Token token = lexer_.next();
    if (!lexer_.accept(":")) {
      const bool whole = token.text.find_first_not_of("0123456789") == token.text.npos;
      if (!scope_.shorthand() || whole) {
        return {make_index(integer(token.text, negative, DType::kInt64)), 1, scope_.shorthand()};
      }
      return {make_constant(DType::kFloat64, real<double>(token.text, negative)), 1, /*literal=*/true};
    }
    const DType type = lexer_.dtype();
    if (is_integer(type)) return {make_integer(type, integer(token.text, negative, type)), 1};
    if (!is_float(type)) lexer_.fail("a constant is of a float or integer type");
    return {make_constant(type, type == DType::kFloat32 ? real<float>(token.text, negative)
                                                        : real<double>(token.text, negative)),
            1};
  }

  int64_t integer(std::string_view text, bool negative, DType type) {
    uint64_t magnitude = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), magnitude);
    const int64_t value = static_cast<int64_t>(negative ? uint64_t{0} - magnitude : magnitude);
    const bool sign_kept =
        type == DType::kUint64 ? !negative || magnitude == 0 : magnitude == 0 || (value < 0) == negative;
    if (error != std::errc() || end != text.data() + text.size() || !sign_kept || wrap_integer(type, value) != value) {
      lexer_.fail(fmt::format("'{}{}' is not a constant of type {}", negative ? "-" : "", text, name_of(type)));
    }
    return value;
  }

  template <class T>
  double real(std::string_view text, bool negative) {
    T value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      lexer_.fail(fmt::format("'{}' is not a number of this type", text));
    }
    return static_cast<double>(negative ? -value : value);
  }

  Entry size() {
    lexer_.expect("(");
    const Size size = lexer_.size();
    lexer_.expect(")");
    return {make_size(size), 1};
  }

  Entry load(std::string_view name) {
    const auto tensor = scope_.tensor(name);
    if (!tensor) lexer_.fail(fmt::format("'{}' is not a tensor here", name));
    lexer_.expect("[");
    int depth = 0;
    std::vector<Expr> indices = leading_indices(name, *tensor);
    for (Entry& entry : arguments("]")) {
      Expr index = std::move(entry.expr);
      if (scope_.shorthand() && is_integer(index->type)) index = make_cast(DType::kInt64, index);
      if (index->type != DType::kInt64) lexer_.fail(fmt::format("an index of '{}' is not an i64", name));
      depth = std::max(depth, entry.depth);
      indices.push_back(std::move(index));
    }
    if (tensor->rank >= 0 && static_cast<int>(indices.size()) != tensor->rank) {
      lexer_.fail(fmt::format("'{}' has {} axes, but {} indices are given", name, tensor->rank, indices.size()));
    }
    Expr element = make_load(tensor->index, tensor->type, std::move(indices));
    if (scope_.shorthand()) element = make_cast(compute_type(tensor->type), element);
    return {std::move(element), depth + 1};
  }

  /// `...` -> the form's variables for the axes that the tensor has of these, by numpy's broadcasting.
  std::vector<Expr> leading_indices(std::string_view name, const ExprScope::Tensor& tensor) {
    if (!scope_.shorthand() || !lexer_.accept_ellipsis()) {
      if (tensor.leading >= 0) lexer_.fail(fmt::format("'{}' is declared with '...', which comes first here", name));
      return {};
    }
    if (!lexer_.is("]")) lexer_.expect(",");
    if (tensor.leading < 0) lexer_.fail(fmt::format("'{}' is declared without '...'", name));
    const auto wanted = static_cast<size_t>(tensor.leading);
    const size_t there = scope_.ellipsis() ? scope_.ellipsis()->size() : 0;
    if (!scope_.ellipsis() || there < wanted) lexer_.fail("this form's axes have no '...'");
    std::vector<Expr> indices;
    for (size_t axis = 0; axis < wanted; ++axis) {
      const bool repeated = (*tensor.shape)[axis].is(1);
      indices.push_back(repeated ? make_index(0) : (*scope_.ellipsis())[there - wanted + axis]);
    }
    return indices;
  }

  Entry conversion(std::string_view name) {
    if (name != "cast" && name != "bitcast") lexer_.fail("only cast and bitcast take a type");
    lexer_.expect("<");
    const DType type = lexer_.dtype();
    lexer_.expect(">");
    lexer_.expect("(");
    const Entry value = parse();
    lexer_.expect(")");
    const Intrinsic intrinsic = name == "cast" ? Intrinsic::kCast : Intrinsic::kBitcast;
    if (const auto problem = operand_error(intrinsic, {value.expr->type}, type)) lexer_.fail(*problem);
    const bool casts = intrinsic == Intrinsic::kCast;
    return {casts ? make_cast(type, value.expr) : make_bitcast(type, value.expr), value.depth + 1};
  }

  Entry call(std::string_view name) {
    const auto intrinsic = parse_intrinsic(name);
    if (!intrinsic || info(*intrinsic).result == IntrinsicResult::kCast) {
      lexer_.fail(fmt::format("there is no intrinsic '{}' of this form", name));
    }
    lexer_.expect("(");
    return apply(*intrinsic, arguments(")"));
  }

  Entry apply(Intrinsic intrinsic, std::vector<Entry> entries) {
    const bool literal = scope_.shorthand() && give_types(intrinsic, entries);
    std::vector<Expr> args;
    std::vector<DType> types;
    int depth = 0;
    for (Entry& entry : entries) {
      types.push_back(intrinsic == Intrinsic::kSelect ? entry.expr->type : compute_type(entry.expr->type));
      depth = std::max(depth, entry.depth);
      args.push_back(std::move(entry.expr));
    }
    if (depth > kMaxHeight) lexer_.fail("the expression is too deep");
    if (const auto problem = operand_error(intrinsic, types, DType::kUndefined)) lexer_.fail(*problem);
    std::string problem;
    try {
      return {make_call(intrinsic, std::move(args)), depth + 1, literal};
    } catch (const Error& error) {  // sizes that overflow while folding
      problem = error.message();
    }
    lexer_.fail(problem);
  }

  /// Literals take the type of the first operand that has one; whether all are literals. Among themselves they are
  /// whole numbers until one is not, or the operation has no whole result.
  bool give_types(Intrinsic intrinsic, std::vector<Entry>& entries) {
    const size_t first = intrinsic == Intrinsic::kSelect ? 1 : 0;
    const Entry* typed = nullptr;
    bool fractions = intrinsic == Intrinsic::kDiv;
    std::vector<DType> types;
    for (size_t i = first; i < entries.size(); ++i) {
      types.push_back(entries[i].expr->type);
      if (!entries[i].literal && !typed) typed = &entries[i];
      if (entries[i].literal) fractions |= is_float(entries[i].expr->type);
    }
    fractions |= !typed && first == 0 && operand_error(intrinsic, types, DType::kUndefined);
    if (!typed && !fractions) return first == 0;
    const DType type = typed ? compute_type(typed->expr->type) : DType::kFloat64;
    for (size_t i = first; i < entries.size(); ++i) {
      if (!entries[i].literal) continue;
      if (is_float(entries[i].expr->type) && !is_float(type)) {
        lexer_.fail(fmt::format("a whole number is expected beside a value of type {}", name_of(type)));
      }
      entries[i].expr = make_cast(type, entries[i].expr);
    }
    return !typed && first == 0;
  }

  std::vector<Entry> arguments(std::string_view close) {
    std::vector<Entry> args;
    if (lexer_.accept(close)) return args;
    do {
      args.push_back(parse());
    } while (lexer_.accept(","));
    lexer_.expect(close);
    return args;
  }

  Lexer& lexer_;
  const ExprScope& scope_;
  int nesting_ = 0;
};

}  // namespace

Expr parse_expr(Lexer& lexer, const ExprScope& scope) { return ExprParser(lexer, scope).parse().expr; }

std::vector<Expr> parse_exprs(Lexer& lexer, const ExprScope& scope) {
  std::vector<Expr> exprs;
  do {
    exprs.push_back(parse_expr(lexer, scope));
  } while (lexer.accept(","));
  return exprs;
}

void parse_lets(Lexer& lexer, ExprScope& scope) {
  while (lexer.accept("let")) {
    const std::string name(lexer.name("a name for the shared expression"));
    lexer.expect("=");
    const Entry entry = ExprParser(lexer, scope).parse();
    scope.declare(lexer, name, entry);
  }
}

}  // namespace graft
