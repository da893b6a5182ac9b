// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/dimension_expression.h"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

constexpr size_t kLongestText = 1024;
constexpr int kDeepest = 32;
constexpr int64_t kHighestPower = 8;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The text is no expression, which says nothing against it.
struct NoExpression {};

/// A quotient that stands for a whole number where it is a dimension: sympy writes the half of an even `s0` as `s0/2`.
struct Quotient {
  Size over = 1, under = 1;

  Size floor() const { return floor_div(over, under); }
};

Quotient operator+(const Quotient& a, const Quotient& b) {
  if (a.under == b.under) return {a.over + b.over, a.under};
  return {a.over * b.under + b.over * a.under, a.under * b.under};
}
Quotient operator*(const Quotient& a, const Quotient& b) { return {a.over * b.over, a.under * b.under}; }
Quotient negative(const Quotient& a) { return {a.over * Size(-1), a.under}; }

Quotient divided(const Quotient& a, const Quotient& b) {
  if (b.over.is(0)) throw NoExpression();
  return {a.over * b.under, a.under * b.over};
}

/// Recursive descent over Python's precedence of operators.
class DimensionParser {
 public:
  DimensionParser(std::string_view text, const DimensionLookup& lookup) : text_(text), lookup_(lookup) {}

  Size parse() {
    const Quotient result = sum();
    if (peek() != 0 || !names_) throw NoExpression();
    return result.floor();
  }

 private:
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(std::string_view symbol) {
    peek();
    if (text_.substr(at_, symbol.size()) != symbol) return false;
    at_ += symbol.size();
    return true;
  }
  void expect(std::string_view symbol) {
    if (!accept(symbol)) throw NoExpression();
  }

  Quotient sum() {
    if (++depth_ > kDeepest) throw NoExpression();
    Quotient total = product();
    while (true) {
      if (accept("+")) {
        total = total + product();
      } else if (accept("-")) {
        total = total + negative(product());
      } else {
        --depth_;
        return total;
      }
    }
  }

  Quotient product() {
    Quotient total = sign();
    while (true) {
      if (accept("//")) {
        total = {divided(total, sign()).floor(), 1};
      } else if (accept("/")) {
        total = divided(total, sign());
      } else if (accept("%")) {
        total = {remainder(total, sign()), 1};
      } else if (accept("*")) {
        total = total * sign();
      } else {
        return total;
      }
    }
  }

  Quotient sign() {
    if (accept("-")) {
      if (++depth_ > kDeepest) throw NoExpression();
      const Quotient value = negative(sign());
      --depth_;
      return value;
    }
    const Quotient base = atom();
    if (!accept("**")) return base;
    const auto power = atom().floor().as_constant();
    if (!power || *power < 0 || *power > kHighestPower) throw NoExpression();
    Quotient result;
    for (int64_t i = 0; i < *power; ++i) result = result * base;
    return result;
  }

  Quotient atom() {
    if (accept("(")) {
      const Quotient inner = sum();
      expect(")");
      return inner;
    }
    const char first = peek();
    if (is_digit(first)) return {number(), 1};
    if (!is_letter(first)) throw NoExpression();
    const size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (accept("(")) return function(name);
    const auto size = lookup_(name);
    if (!size) throw NoExpression();
    names_ = true;
    return {*size, 1};
  }

  Size number() {
    int64_t value = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value)) {
        throw NoExpression();
      }
    }
    return value;
  }

  static Size remainder(const Quotient& a, const Quotient& b) {
    if (!a.under.is(1) || !b.under.is(1) || b.over.is(0)) throw NoExpression();
    return mod(a.over, b.over);
  }

  Quotient function(std::string_view name) {
    std::vector<Quotient> given;
    do {
      given.push_back(sum());
    } while (accept(","));
    expect(")");
    const auto is = [&](std::initializer_list<std::string_view> names, size_t count) {
      return given.size() == count && std::find(names.begin(), names.end(), name) != names.end();
    };
    if (is({"floor"}, 1)) return {given[0].floor(), 1};
    if (is({"ceiling", "ceil"}, 1)) return {ceil_div(given[0].over, given[0].under), 1};
    if (is({"FloorDiv"}, 2)) return {divided(given[0], given[1]).floor(), 1};
    if (is({"CeilDiv"}, 2)) {
      const Quotient exact = divided(given[0], given[1]);
      return {ceil_div(exact.over, exact.under), 1};
    }
    if (is({"IntTrueDiv", "FloatTrueDiv"}, 2)) return divided(given[0], given[1]);
    if (is({"Mod", "PythonMod"}, 2)) return {remainder(given[0], given[1]), 1};
    if (name != "Max" && name != "Min") throw NoExpression();
    Size best = given[0].floor();
    for (size_t i = 1; i < given.size(); ++i) {
      best = name == "Max" ? max(best, given[i].floor()) : min(best, given[i].floor());
    }
    return {best, 1};
  }

  std::string_view text_;
  const DimensionLookup& lookup_;
  size_t at_ = 0;
  int depth_ = 0;
  bool names_ = false;
};

std::string atom_text(const SizeAtom& atom) {
  constexpr std::string_view kNames[] = {"", "FloorDiv", "Mod", "Min", "Max"};
  if (atom.function == SizeFunction::kSymbol) return atom.name;
  return fmt::format("{}({}, {})", kNames[static_cast<int>(atom.function)], dimension_text(atom.arguments->first),
                     dimension_text(atom.arguments->second));
}

}  // namespace

std::string dimension_text(const Size& size) {
  std::string text;
  size.for_each_term([&](int64_t coefficient, std::span<const SizeAtom> atoms) {
    std::string factors;
    for (const SizeAtom& atom : atoms) factors += (factors.empty() ? "" : "*") + atom_text(atom);
    const bool negative = coefficient < 0;
    std::string number = std::to_string(coefficient).substr(negative ? 1 : 0);
    if (text.empty()) {
      text = negative ? "-" : "";
    } else {
      text += negative ? " - " : " + ";
    }
    if (factors.empty()) {
      text += number;
    } else {
      text += number == "1" ? factors : number + "*" + factors;
    }
  });
  return text;
}

std::optional<Size> parse_dimension(std::string_view text, const DimensionLookup& lookup) {
  if (text.size() > kLongestText) return std::nullopt;
  try {
    Size size = DimensionParser(text, lookup).parse();
    if (size.is_constant() && size.constant() < 0) return std::nullopt;
    return size;
  } catch (const NoExpression&) {
    return std::nullopt;
  } catch (const Error&) {  // a size that overflows or grows too long
    return std::nullopt;
  }
}

bool is_dimension_name(std::string_view text) {
  return !text.empty() && !is_digit(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

}  // namespace graft
