// SPDX-License-Identifier: Apache-2.0
// Symbolic sizes: integer expressions over named dimensions, kept in a canonical form.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

class Size;

/// Values of the symbols of a run, by name.
using Bindings = std::map<std::string, int64_t, std::less<>>;

/// A function of sizes that is not a polynomial: the atoms of the canonical form.
enum class SizeFunction : uint8_t { kSymbol, kFloorDiv, kMod, kMin, kMax };

/// A factor of a term: a named dimension, or a function of two sizes. Ordered so that products have one spelling.
struct SizeAtom {
  SizeFunction function = SizeFunction::kSymbol;
  std::string name;                                        ///< of a symbol, else empty
  std::shared_ptr<const std::pair<Size, Size>> arguments;  ///< of a function, else null

  std::strong_ordering operator<=>(const SizeAtom& other) const;
  bool operator==(const SizeAtom& other) const;
};

/// An immutable symbolic integer: a polynomial with integer coefficients over atoms, where an atom is a
/// named dimension or floor_div, mod, min, max of two sizes. Two sizes that are equal as polynomials
/// compare equal, so `batch * length == length * batch`. All values are int64; sizes are never negative
/// in a shape but may be in index arithmetic. Floor division and mod round towards minus infinity.
/// Cheap to copy; safe to share between threads.
class Size {
 public:
  Size(int64_t value = 0);
  static Size symbol(std::string_view name);

  bool is_constant() const;
  /// The value of a constant; an internal error otherwise.
  int64_t constant() const;
  std::optional<int64_t> as_constant() const;
  bool is(int64_t value) const { return as_constant() == value; }
  /// The name, when this is exactly one symbol.
  std::optional<std::string> as_symbol() const;

  friend Size operator+(const Size& a, const Size& b);
  friend Size operator-(const Size& a, const Size& b);
  friend Size operator*(const Size& a, const Size& b);
  friend Size floor_div(const Size& a, const Size& b);
  friend Size mod(const Size& a, const Size& b);
  friend Size min(const Size& a, const Size& b);
  friend Size max(const Size& a, const Size& b);

  bool operator==(const Size& other) const;
  std::strong_ordering operator<=>(const Size& other) const;

  /// True when `divisor` divides every coefficient (so the size is a multiple whatever the symbols are).
  bool is_multiple_of(int64_t divisor) const;

  /// True when this is seen to be zero at least: symbols are sizes, but for those named `$...`, which are numbers
  /// of either sign that a run reads from a tensor.
  bool is_non_negative() const;

  /// The value under `bindings`; throws invalid_argument naming a symbol that is missing or an overflow.
  int64_t evaluate(const Bindings& bindings) const;
  Size substitute(const std::map<std::string, Size, std::less<>>& replacements) const;
  void collect_symbols(std::set<std::string, std::less<>>& into) const;

  /// Visits the terms whose sum this is, each a coefficient (not 0, but for the constant 0) times the product of its
  /// atoms: the highest term first, the constant, which has no atoms, last. How a size is taken apart; to compute with
  /// `8*batch + 3` in another arithmetic, multiply and add up what is visited.
  using TermVisitor = std::function<void(int64_t coefficient, std::span<const SizeAtom> atoms)>;
  void for_each_term(const TermVisitor& visit) const;

  /// Text such as `8*batch*length + 3`, `floor_div(length + 1, 2)`; parse_size reads it back. `function_prefix` goes
  /// before the names of functions, for a language that has such functions under longer names.
  std::string to_string(std::string_view function_prefix = "") const;

  struct Polynomial;

 private:
  explicit Size(std::shared_ptr<const Polynomial> polynomial);
  friend Size apply(SizeFunction function, const Size& a, const Size& b);
  std::shared_ptr<const Polynomial> polynomial_;  // null for constants
  int64_t constant_ = 0;
};

Size ceil_div(const Size& a, const Size& b);

/// Reads the text form of a size; throws invalid_argument with the offending text.
Size parse_size(std::string_view text);

/// A tensor's shape: one size per axis.
using Shape = std::vector<Size>;

/// Product of all sizes (1 for rank 0).
Size element_count(const Shape& shape);
/// The extents of a shape in which all sizes are constant.
std::vector<int64_t> concrete(const Shape& shape);
/// `[batch, length, 384]`
std::string to_string(const Shape& shape);

}  // namespace graft
