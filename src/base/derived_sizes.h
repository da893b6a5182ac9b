// SPDX-License-Identifier: Apache-2.0
// Symbols that stand for long sizes: what a shape depends on is computed once and named, not repeated in each text.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/size.h"

namespace graft {

/// A symbol whose value a run computes from symbols that are known before.
struct DerivedSize {
  std::string symbol;  ///< `:dHASH`, or `$dHASH` of a number of either sign; no symbol of another origin looks like it
  Size value;
};

/// The derived sizes of a graph, each over symbols of the inputs, of nodes and earlier ones of this list; of a body,
/// also over those of the graph around it. A size always gets the same symbol, which follows from its text: shapes are
/// seen to be equal as their sizes would be.
class DerivedSizes {
 public:
  /// The size while it is short, else the symbol that stands for it, which is made when there is none yet.
  Size shortened(const Size& size);
  /// The symbol that stands for the size, or the size itself where there is none.
  Size named(const Size& size) const;
  /// Adds what another list or a text says; throws invalid_model when the symbol is not one of a derived size, or
  /// stands for another size already.
  void add(const DerivedSize& derived);
  /// Replaces symbols in all values, and by the way those of this list whose values become short.
  void substitute(std::map<std::string, Size, std::less<>>& replacements);

  bool empty() const { return list_.empty(); }
  const std::vector<DerivedSize>& list() const { return list_; }

 private:
  std::vector<DerivedSize> list_;
  std::map<Size, size_t> by_value_;
  std::map<std::string, size_t, std::less<>> by_symbol_;
};

/// How long a size may get: terms of the sum that it is, and terms and factors, those inside of functions included.
struct SizeLength {
  int terms, parts;
};
inline constexpr SizeLength kShortInShapes{6, 48};       ///< of sizes that shapes repeat, and products multiply
inline constexpr SizeLength kShortInIndices{256, 1024};  ///< of sizes that arithmetic on indices folds

bool is_longer(const Size& size, const SizeLength& most);

/// Binds the symbols of the list, in order, where all that their values depend on is bound. Throws invalid_argument for
/// sizes that are negative, overflow, or divide by zero.
void bind_derived(std::span<const DerivedSize> list, Bindings& bindings);

}  // namespace graft
