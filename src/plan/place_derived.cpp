// SPDX-License-Identifier: Apache-2.0
#include "plan/place_derived.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

using KnownBefore = std::map<std::string, int, std::less<>>;

/// The step before which the symbols of inputs, of reads and of counts are known.
KnownBefore known_symbols(const FusedProgram& program, const std::vector<EngineStep>& steps) {
  KnownBefore known;
  for (const int input : program.inputs) {
    for (const Size& size : program.tensors[input].shape) {
      if (const auto symbol = size.as_symbol()) known.emplace(*symbol, 0);
    }
  }
  for (size_t s = 0; s < steps.size(); ++s) {
    const auto step = static_cast<int>(s);
    for (const SymbolRead& read : steps[s].reads) known.emplace(read.symbol, step);
    for (const std::string& symbol : steps[s].control.symbols) known.emplace(symbol, step + 1);
    if (!steps[s].count_symbol.empty()) known.emplace(steps[s].count_symbol, step + 1);
  }
  return known;
}

/// The step before which all symbols of a size are known, or nothing when one never is.
std::optional<int> known_before(const Size& size, const KnownBefore& known) {
  std::set<std::string, std::less<>> symbols;
  size.collect_symbols(symbols);
  int before = 0;
  for (const std::string& symbol : symbols) {
    const auto at = known.find(symbol);
    if (at == known.end()) return std::nullopt;
    before = std::max(before, at->second);
  }
  return before;
}

}  // namespace

void add_typical(const std::vector<DerivedSize>& derived, Bindings& typical) {
  for (const auto& [symbol, value] : derived) {
    int64_t usual = 1;
    try {
      usual = value.evaluate(typical);
    } catch (const Error&) {
      // A division by zero, or a product beyond 64 bits, at sizes that were made up.
    }
    typical.emplace(symbol, symbol.starts_with('$') ? usual : std::max<int64_t>(1, usual));
  }
}

std::vector<EngineSize> place_derived(const FusedProgram& program, const std::vector<EngineStep>& steps) {
  KnownBefore known = known_symbols(program, steps);
  std::vector<EngineSize> placed;
  for (const DerivedSize& derived : program.derived) {
    GRAFT_USER_CHECK(!known.contains(derived.symbol), kInvalidModel, "two things have this name",
                     fmt::format("size '{}'", derived.symbol));
    const auto before = known_before(derived.value, known);
    if (!before) continue;
    known.emplace(derived.symbol, *before);
    placed.push_back({derived, *before});
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const EngineSize& a, const EngineSize& b) { return a.before_step < b.before_step; });
  return placed;
}

}  // namespace graft
