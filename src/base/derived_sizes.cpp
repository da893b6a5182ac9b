// SPDX-License-Identifier: Apache-2.0
#include "base/derived_sizes.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"

namespace graft {
namespace {

/// Takes the parts of a size off `left`; false when there are more.
bool take_parts(const Size& size, int& left) {
  size.for_each_term([&](int64_t, std::span<const SizeAtom> atoms) {
    --left;
    for (const SizeAtom& atom : atoms) {
      if (left < 0) return;
      --left;
      if (atom.arguments && take_parts(atom.arguments->first, left)) take_parts(atom.arguments->second, left);
    }
  });
  return left >= 0;
}

bool is_derived_symbol(std::string_view symbol) {
  const bool marked = symbol.starts_with(":d") || symbol.starts_with("$d");
  return marked && symbol.size() == 18 && symbol.find_first_not_of("0123456789abcdef", 2) == symbol.npos;
}

}  // namespace

bool is_longer(const Size& size, const SizeLength& most) {
  int terms = 0, left = most.parts;
  size.for_each_term([&](int64_t, std::span<const SizeAtom>) { ++terms; });
  return terms > most.terms || !take_parts(size, left);
}

Size DerivedSizes::shortened(const Size& size) {
  if (const auto known = by_value_.find(size); known != by_value_.end()) {
    return Size::symbol(list_[known->second].symbol);
  }
  if (!is_longer(size, kShortInShapes)) return size;
  const char mark = size.is_non_negative() ? ':' : '$';
  add({fmt::format("{}d{:016x}", mark, hash64(size.to_string())), size});
  return Size::symbol(list_.back().symbol);
}

Size DerivedSizes::named(const Size& size) const {
  const auto known = by_value_.find(size);
  return known == by_value_.end() ? size : Size::symbol(list_[known->second].symbol);
}

void DerivedSizes::add(const DerivedSize& derived) {
  const std::string where = fmt::format("size '{}'", derived.symbol);
  GRAFT_USER_CHECK(is_derived_symbol(derived.symbol), kInvalidModel, "it is not called like a derived size", where);
  if (const auto known = by_symbol_.find(derived.symbol); known != by_symbol_.end()) {
    GRAFT_USER_CHECK(list_[known->second].value == derived.value, kInvalidModel, "it stands for two sizes", where);
    return;
  }
  by_symbol_.emplace(derived.symbol, list_.size());
  by_value_.emplace(derived.value, list_.size());
  list_.push_back(derived);
}

void DerivedSizes::substitute(std::map<std::string, Size, std::less<>>& replacements) {
  by_value_.clear();
  for (size_t i = 0; i < list_.size(); ++i) {
    DerivedSize& derived = list_[i];
    derived.value = derived.value.substitute(replacements);
    if (is_longer(derived.value, kShortInShapes)) {
      by_value_.emplace(derived.value, i);
    } else {
      replacements.insert_or_assign(derived.symbol, derived.value);
    }
  }
}

void bind_derived(std::span<const DerivedSize> list, Bindings& bindings) {
  std::set<std::string, std::less<>> symbols;
  for (const DerivedSize& derived : list) {
    symbols.clear();
    derived.value.collect_symbols(symbols);
    const bool known =
        std::all_of(symbols.begin(), symbols.end(), [&](const auto& symbol) { return bindings.contains(symbol); });
    if (!known) continue;
    const int64_t value = derived.value.evaluate(bindings);
    GRAFT_USER_CHECK(value >= 0 || derived.symbol.starts_with('$'), kInvalidArgument,
                     fmt::format("{} would be {}", derived.value.to_string(), value), "size");
    const auto [it, fresh] = bindings.emplace(derived.symbol, value);
    GRAFT_USER_CHECK(fresh || it->second == value, kInvalidArgument,
                     fmt::format("{} is {} here and {} elsewhere", derived.symbol, value, it->second), "size");
  }
}

}  // namespace graft
