// SPDX-License-Identifier: Apache-2.0
#include "base/size.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

constexpr size_t kMaxTerms = 4096;  // more than any shape has, few enough to multiply out

using Monomial = std::vector<SizeAtom>;  // sorted; empty is the constant term

int64_t checked(bool overflow, int64_t value) {
  GRAFT_USER_CHECK(!overflow, kInvalidArgument, "a size overflows 64 bits", "size");
  return value;
}
int64_t checked_add(int64_t a, int64_t b) {
  int64_t r = 0;
  const bool overflow = __builtin_add_overflow(a, b, &r);
  return checked(overflow, r);
}
int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &r);
  return checked(overflow, r);
}

int64_t floor_div_value(int64_t a, int64_t b) {
  GRAFT_USER_CHECK(b != 0, kInvalidArgument, "a size is divided by zero", "size");
  GRAFT_USER_CHECK(a != INT64_MIN || b != -1, kInvalidArgument, "a size overflows 64 bits", "size");
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

int64_t apply_value(SizeFunction function, int64_t a, int64_t b) {
  switch (function) {
    case SizeFunction::kFloorDiv:
      return floor_div_value(a, b);
    case SizeFunction::kMod:
      return a - floor_div_value(a, b) * b;
    case SizeFunction::kMin:
      return std::min(a, b);
    case SizeFunction::kMax:
      return std::max(a, b);
    case SizeFunction::kSymbol:
      break;
  }
  throw_internal(__FILE__, __LINE__, "function", "a symbol has no value of its own");
}

constexpr std::string_view kFunctionNames[] = {"symbol", "floor_div", "mod", "min", "max"};

}  // namespace

struct Size::Polynomial {
  std::map<Monomial, int64_t> terms;  // no zero coefficients
};

namespace {

using Terms = std::map<Monomial, int64_t>;

void add_term(Terms& terms, const Monomial& monomial, int64_t coefficient) {
  auto [it, inserted] = terms.emplace(monomial, coefficient);
  if (!inserted) it->second = checked_add(it->second, coefficient);
  if (it->second == 0) terms.erase(it);
}

std::string product_text(std::span<const SizeAtom> atoms, std::string_view prefix) {
  std::string text;
  for (const SizeAtom& atom : atoms) {
    if (!text.empty()) text += '*';
    if (atom.function == SizeFunction::kSymbol) {
      text += atom.name;
    } else {
      text += fmt::format("{}{}({}, {})", prefix, kFunctionNames[static_cast<int>(atom.function)],
                          atom.arguments->first.to_string(prefix), atom.arguments->second.to_string(prefix));
    }
  }
  return text;
}

}  // namespace

std::strong_ordering SizeAtom::operator<=>(const SizeAtom& other) const {
  if (auto order = function <=> other.function; order != 0) return order;
  if (function == SizeFunction::kSymbol) return name.compare(other.name) <=> 0;
  return *arguments <=> *other.arguments;
}

bool SizeAtom::operator==(const SizeAtom& other) const { return (*this <=> other) == 0; }

Size::Size(int64_t value) : constant_(value) {}
Size::Size(std::shared_ptr<const Polynomial> polynomial) : polynomial_(std::move(polynomial)) {}

namespace {

Terms terms_of(const Size& size, const Size::Polynomial* polynomial) {
  if (polynomial) return polynomial->terms;
  Terms terms;
  if (const int64_t value = size.constant()) terms.emplace(Monomial{}, value);
  return terms;
}

}  // namespace

static Size make_size(Terms terms, Size (*wrap)(Terms)) {
  if (terms.empty()) return Size(0);
  if (terms.size() == 1 && terms.begin()->first.empty()) return Size(terms.begin()->second);
  return wrap(std::move(terms));
}

Size apply(SizeFunction function, const Size& a, const Size& b) {
  auto arguments = std::make_shared<const std::pair<Size, Size>>(a, b);
  auto polynomial = std::make_shared<Size::Polynomial>();
  polynomial->terms.emplace(Monomial{SizeAtom{function, "", std::move(arguments)}}, 1);
  return Size(std::shared_ptr<const Size::Polynomial>(std::move(polynomial)));
}

Size Size::symbol(std::string_view name) {
  auto polynomial = std::make_shared<Polynomial>();
  polynomial->terms.emplace(Monomial{SizeAtom{SizeFunction::kSymbol, std::string(name), nullptr}}, 1);
  return Size(std::shared_ptr<const Polynomial>(std::move(polynomial)));
}

bool Size::is_constant() const { return !polynomial_; }

int64_t Size::constant() const {
  GRAFT_CHECK(!polynomial_, "a constant size is expected, got " + to_string());
  return constant_;
}

std::optional<int64_t> Size::as_constant() const { return polynomial_ ? std::nullopt : std::optional(constant_); }

std::optional<std::string> Size::as_symbol() const {
  if (!polynomial_ || polynomial_->terms.size() != 1) return std::nullopt;
  const auto& [monomial, coefficient] = *polynomial_->terms.begin();
  if (coefficient != 1 || monomial.size() != 1) return std::nullopt;
  if (monomial[0].function != SizeFunction::kSymbol) return std::nullopt;
  return monomial[0].name;
}

Size operator+(const Size& a, const Size& b) {
  if (a.is_constant() && b.is_constant()) return checked_add(a.constant_, b.constant_);
  Terms terms = terms_of(a, a.polynomial_.get());
  for (const auto& [monomial, c] : terms_of(b, b.polynomial_.get())) add_term(terms, monomial, c);
  GRAFT_USER_CHECK(terms.size() <= kMaxTerms, kUnsupported, "a size has too many terms", "size");
  return make_size(std::move(terms), [](Terms t) {
    return Size(std::make_shared<const Size::Polynomial>(Size::Polynomial{std::move(t)}));
  });
}

Size operator*(const Size& a, const Size& b) {
  if (a.is_constant() && b.is_constant()) return checked_mul(a.constant_, b.constant_);
  Terms product;
  for (const auto& [ma, ca] : terms_of(a, a.polynomial_.get())) {
    for (const auto& [mb, cb] : terms_of(b, b.polynomial_.get())) {
      Monomial m = ma;
      m.insert(m.end(), mb.begin(), mb.end());
      std::sort(m.begin(), m.end());
      add_term(product, m, checked_mul(ca, cb));
      GRAFT_USER_CHECK(product.size() <= kMaxTerms, kUnsupported, "a size has too many terms", "size");
    }
  }
  return make_size(std::move(product), [](Terms t) {
    return Size(std::make_shared<const Size::Polynomial>(Size::Polynomial{std::move(t)}));
  });
}

Size operator-(const Size& a, const Size& b) { return a + b * Size(-1); }

Size floor_div(const Size& a, const Size& b) {
  if (b.is(1)) return a;
  if (a.is_constant() && b.is_constant()) return floor_div_value(a.constant_, b.constant_);
  if (a == b) return 1;
  if (b.is_constant() && b.constant_ > 0 && a.polynomial_) {
    // (d*p + r) / d -> p + r / d: whole multiples leave the division.
    Terms whole, rest;
    for (const auto& [monomial, c] : a.polynomial_->terms) {
      const int64_t quotient = floor_div_value(c, b.constant_);
      const bool divides = quotient * b.constant_ == c;
      if (divides || monomial.empty()) add_term(whole, monomial, quotient);
      if (!divides) add_term(rest, monomial, monomial.empty() ? c - quotient * b.constant_ : c);
    }
    auto wrap = [](Terms t) { return Size(std::make_shared<const Size::Polynomial>(Size::Polynomial{std::move(t)})); };
    if (!whole.empty()) return make_size(std::move(whole), wrap) + floor_div(make_size(std::move(rest), wrap), b);
  }
  // (p * b) / b -> p, where b is one symbol or product and divides every term.
  if (b.polynomial_ && b.polynomial_->terms.size() == 1 && a.polynomial_) {
    const auto& [divisor, scale] = *b.polynomial_->terms.begin();
    Terms quotient;
    for (const auto& [monomial, c] : a.polynomial_->terms) {
      if (c == INT64_MIN || c % scale != 0 ||
          !std::includes(monomial.begin(), monomial.end(), divisor.begin(), divisor.end())) {
        return apply(SizeFunction::kFloorDiv, a, b);
      }
      Monomial m;
      std::set_difference(monomial.begin(), monomial.end(), divisor.begin(), divisor.end(), std::back_inserter(m));
      add_term(quotient, m, c / scale);
    }
    return make_size(std::move(quotient), [](Terms t) {
      return Size(std::make_shared<const Size::Polynomial>(Size::Polynomial{std::move(t)}));
    });
  }
  return apply(SizeFunction::kFloorDiv, a, b);
}

Size mod(const Size& a, const Size& b) {
  if (b.is(1) || a == b) return 0;
  if (a.is_constant() && b.is_constant()) return apply_value(SizeFunction::kMod, a.constant_, b.constant_);
  if (b.is_constant() && b.constant_ > 0 && a.is_multiple_of(b.constant_)) return 0;
  if (const Size quotient = floor_div(a, b); quotient * b == a) return 0;
  return apply(SizeFunction::kMod, a, b);
}

Size min(const Size& a, const Size& b) {
  if (const Size d = a - b; d.is_constant()) return d.constant_ <= 0 ? a : b;
  return a < b ? apply(SizeFunction::kMin, a, b) : apply(SizeFunction::kMin, b, a);
}

Size max(const Size& a, const Size& b) {
  if (const Size d = a - b; d.is_constant()) return d.constant_ >= 0 ? a : b;
  return a < b ? apply(SizeFunction::kMax, a, b) : apply(SizeFunction::kMax, b, a);
}

bool Size::operator==(const Size& other) const { return (*this <=> other) == 0; }

std::strong_ordering Size::operator<=>(const Size& other) const {
  if (!polynomial_ || !other.polynomial_) {
    if (polynomial_) return std::strong_ordering::greater;
    if (other.polynomial_) return std::strong_ordering::less;
    return constant_ <=> other.constant_;
  }
  if (polynomial_ == other.polynomial_) return std::strong_ordering::equal;
  return polynomial_->terms <=> other.polynomial_->terms;
}

bool Size::is_multiple_of(int64_t divisor) const {
  if (!polynomial_) return constant_ % divisor == 0;
  return std::all_of(polynomial_->terms.begin(), polynomial_->terms.end(),
                     [&](const auto& term) { return term.second % divisor == 0; });
}

bool Size::is_non_negative() const {
  if (!polynomial_) return constant_ >= 0;
  for (const auto& [monomial, coefficient] : polynomial_->terms) {
    if (coefficient < 0) return false;
    for (const SizeAtom& atom : monomial) {
      if (atom.function == SizeFunction::kSymbol && !atom.name.starts_with('$')) continue;
      if (atom.function == SizeFunction::kSymbol) return false;
      const bool first = atom.arguments->first.is_non_negative();
      const bool second = atom.arguments->second.is_non_negative();
      if (atom.function == SizeFunction::kMax ? !first && !second : !first || !second) return false;
    }
  }
  return true;
}

int64_t Size::evaluate(const Bindings& bindings) const {
  if (!polynomial_) return constant_;
  int64_t sum = 0;
  for (const auto& [monomial, coefficient] : polynomial_->terms) {
    int64_t product = coefficient;
    for (const SizeAtom& atom : monomial) {
      int64_t value = 0;
      if (atom.function == SizeFunction::kSymbol) {
        const auto it = bindings.find(atom.name);
        GRAFT_USER_CHECK(it != bindings.end(), kInvalidArgument, "the size has no value in this run",
                         "dimension '" + atom.name + "'");
        value = it->second;
      } else {
        value = apply_value(atom.function, atom.arguments->first.evaluate(bindings),
                            atom.arguments->second.evaluate(bindings));
      }
      product = checked_mul(product, value);
    }
    sum = checked_add(sum, product);
  }
  return sum;
}

Size Size::substitute(const std::map<std::string, Size, std::less<>>& replacements) const {
  if (!polynomial_) return *this;
  Size sum = 0;
  for (const auto& [monomial, coefficient] : polynomial_->terms) {
    Size product = coefficient;
    for (const SizeAtom& atom : monomial) {
      if (atom.function == SizeFunction::kSymbol) {
        const auto it = replacements.find(atom.name);
        product = product * (it != replacements.end() ? it->second : Size::symbol(atom.name));
        continue;
      }
      const Size a = atom.arguments->first.substitute(replacements);
      const Size b = atom.arguments->second.substitute(replacements);
      switch (atom.function) {
        case SizeFunction::kFloorDiv:
          product = product * floor_div(a, b);
          break;
        case SizeFunction::kMod:
          product = product * mod(a, b);
          break;
        case SizeFunction::kMin:
          product = product * min(a, b);
          break;
        default:
          product = product * max(a, b);
          break;
      }
    }
    sum = sum + product;
  }
  return sum;
}

void Size::collect_symbols(std::set<std::string, std::less<>>& into) const {
  if (!polynomial_) return;
  for (const auto& [monomial, coefficient] : polynomial_->terms) {
    for (const SizeAtom& atom : monomial) {
      if (atom.function == SizeFunction::kSymbol) {
        into.insert(atom.name);
      } else {
        atom.arguments->first.collect_symbols(into);
        atom.arguments->second.collect_symbols(into);
      }
    }
  }
}

void Size::for_each_term(const TermVisitor& visit) const {
  if (!polynomial_) return visit(constant_, {});
  const Terms& terms = polynomial_->terms;
  for (auto it = terms.rbegin(); it != terms.rend(); ++it) visit(it->second, it->first);
}

std::string Size::to_string(std::string_view function_prefix) const {
  if (!polynomial_) return std::to_string(constant_);
  std::string text;
  for_each_term([&](int64_t coefficient, std::span<const SizeAtom> atoms) {
    const bool negative = coefficient < 0;
    text += text.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
    const int64_t magnitude = negative ? -coefficient : coefficient;
    const bool factor = magnitude != 1 || atoms.empty();
    if (factor) text += std::to_string(magnitude);
    if (factor && !atoms.empty()) text += '*';
    text += product_text(atoms, function_prefix);
  });
  return text;
}

Size ceil_div(const Size& a, const Size& b) { return floor_div(a + b - Size(1), b); }

Size element_count(const Shape& shape) {
  Size product = 1;
  for (const Size& size : shape) product = product * size;
  return product;
}

std::vector<int64_t> concrete(const Shape& shape) {
  std::vector<int64_t> extents;
  for (const Size& size : shape) extents.push_back(size.constant());
  return extents;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + shape[i].to_string();
  return text + "]";
}

namespace {

/// Recursive descent over `sum := product (('+'|'-') product)*`.
class SizeParser {
 public:
  explicit SizeParser(std::string_view text) : text_(text) {}

  Size parse() {
    const Size size = sum(0);
    skip_spaces();
    check(at_ == text_.size());
    return size;
  }

 private:
  void check(bool good) const {
    GRAFT_USER_CHECK(good, kInvalidArgument,
                     fmt::format("cannot read the size '{}' at character {}; expected something like "
                                 "'8*batch + 3'",
                                 text_, at_ + 1),
                     "size");
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Size sum(int depth) {
    check(depth < 64);
    Size total = accept('-') ? Size(0) - product(depth) : product(depth);
    while (true) {
      if (accept('+')) {
        total = total + product(depth);
      } else if (accept('-')) {
        total = total - product(depth);
      } else {
        return total;
      }
    }
  }
  Size product(int depth) {
    Size total = atom(depth);
    while (accept('*')) total = total * atom(depth);
    return total;
  }
  Size atom(int depth) {
    skip_spaces();
    check(at_ < text_.size());
    if (accept('(')) {
      const Size inner = sum(depth + 1);
      check(accept(')'));
      return inner;
    }
    const size_t begin = at_;
    if (text_[at_] >= '0' && text_[at_] <= '9') return number();
    while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
    check(at_ > begin);
    const std::string_view name = text_.substr(begin, at_ - begin);
    for (int f = 1; f < 5; ++f) {
      if (name == kFunctionNames[f] && accept('(')) return function(static_cast<SizeFunction>(f), depth);
    }
    return Size::symbol(name);
  }
  Size number() {
    int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = checked_add(checked_mul(value, 10), text_[at_++] - '0');
    }
    return value;
  }
  Size function(SizeFunction f, int depth) {
    const Size a = sum(depth + 1);
    check(accept(','));
    const Size b = sum(depth + 1);
    check(accept(')'));
    switch (f) {
      case SizeFunction::kFloorDiv:
        return floor_div(a, b);
      case SizeFunction::kMod:
        return mod(a, b);
      case SizeFunction::kMin:
        return min(a, b);
      default:
        return max(a, b);
    }
  }
  static bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '$' || c == ':' || c == '/';
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Size parse_size(std::string_view text) { return SizeParser(text).parse(); }

}  // namespace graft
