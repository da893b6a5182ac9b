// SPDX-License-Identifier: Apache-2.0
#include "plan/typical_sizes.h"

#include <algorithm>
#include <set>
#include <string>

#include "plan/place_derived.h"

namespace graft {
namespace {

using Symbols = std::set<std::string, std::less<>>;

/// Symbols that are the first axis of inputs and nothing else.
Symbols batches_of(const FusedProgram& program) {
  Symbols first, later;
  for (const int input : program.inputs) {
    const Shape& shape = program.tensors[input].shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (const auto symbol = shape[d].as_symbol(); symbol && shape.size() > 1) (d ? later : first).insert(*symbol);
    }
  }
  for (const std::string& symbol : later) first.erase(symbol);
  return first;
}

/// Symbols that no other sizes give.
Symbols symbols_of(const FusedProgram& program) {
  Symbols symbols;
  for (const FusedTensor& tensor : program.tensors) {
    for (const Size& size : tensor.shape) size.collect_symbols(symbols);
  }
  for (const FusedStep& step : program.steps) {
    for (const SymbolSource& source : step.sources) symbols.insert(source.symbol);
    for (const TensorDecl& decl : step.region.tensors) {
      for (const Size& size : decl.shape) size.collect_symbols(symbols);
    }
  }
  for (const DerivedSize& derived : program.derived) derived.value.collect_symbols(symbols);
  for (const DerivedSize& derived : program.derived) symbols.erase(derived.symbol);
  return symbols;
}

}  // namespace

Bindings typical_sizes(const FusedProgram& program) {
  constexpr int64_t kUsual = 32;
  Bindings typical;
  for (const auto& [name, range] : program.symbol_ranges) typical[name] = std::max<int64_t>(1, range.opt);
  for (const std::string& symbol : batches_of(program)) typical.emplace(symbol, 1);
  for (const std::string& symbol : symbols_of(program)) typical.emplace(symbol, kUsual);
  add_typical(program.derived, typical);
  return typical;
}

}  // namespace graft
