// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <set>

namespace graft {

std::string_view name_of(StepKind kind) {
  switch (kind) {
    case StepKind::kNone:
      return "none";
    case StepKind::kKernel:
      return "generated";
    case StepKind::kLibrary:
      return "library";
    case StepKind::kInterpreter:
      return "interpreter";
    case StepKind::kControl:
      return "control";
    case StepKind::kHost:
      return "host";
  }
  return "none";
}

size_t tightest_variant(const Engine& engine, const Bindings& sizes) {
  if (engine.variants.empty()) return 0;
  Bindings tightest;
  for (const auto& [symbol, first] : engine.variants.front().optima) {
    std::set<int64_t> optima;
    for (const EngineVariant& variant : engine.variants) optima.insert(variant.optima.at(symbol));
    const auto size = sizes.find(symbol);
    const auto found = optima.lower_bound(size == sizes.end() ? 0 : size->second);
    tightest[symbol] = found == optima.end() ? *optima.rbegin() : *found;
  }
  const auto found = std::find_if(engine.variants.begin(), engine.variants.end(),
                                  [&](const EngineVariant& variant) { return variant.optima == tightest; });
  return static_cast<size_t>(found - engine.variants.begin());
}

}  // namespace graft
