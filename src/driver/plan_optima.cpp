// SPDX-License-Identifier: Apache-2.0
// Engines for several optima: the network is planned for each, and what comes out the same is kept once.
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "driver/stages.h"
#include "graph/optima.h"

namespace graft {
namespace {

bool do_the_same(const Engine& a, const Engine& b);

bool do_the_same(const EngineStep& a, const Engine& of_a, const EngineStep& b, const Engine& of_b) {
  if (a.kind != b.kind || a.library != b.library || a.schedule != b.schedule || a.tensors != b.tensors ||
      a.offsets != b.offsets || a.bodies.size() != b.bodies.size() || (a.kernel < 0) != (b.kernel < 0)) {
    return false;
  }
  if (a.kernel >= 0 && of_a.kernels[static_cast<size_t>(a.kernel)].program !=
                           of_b.kernels[static_cast<size_t>(b.kernel)].program) {
    return false;
  }
  return std::equal(a.bodies.begin(), a.bodies.end(), b.bodies.begin(),
                    [](const auto& one, const auto& other) { return do_the_same(*one, *other); });
}

/// Whether two engines of one network run the same kernels and calls on the same tensors. They compute the same in any
/// case: this is about keeping one of them.
bool do_the_same(const Engine& a, const Engine& b) {
  const bool same_tensors = std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                                       [](const EngineTensor& one, const EngineTensor& other) {
                                         return one.storage == other.storage && one.index == other.index &&
                                                one.bytes == other.bytes && one.shape == other.shape;
                                       });
  return same_tensors && std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                                    [&](const EngineStep& one, const EngineStep& other) {
                                      return do_the_same(one, a, other, b);
                                    });
}

/// Keeps packed weights that are not known in this form yet.
void keep_new(std::vector<PackedConstant>& known, std::vector<PackedConstant> more) {
  for (PackedConstant& packed : more) {
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const PackedConstant& other) {
      return other.name == packed.name && other.layout == packed.layout && other.view == packed.view;
    });
    if (!is_known) known.push_back(std::move(packed));
  }
}

std::string text_of(const Bindings& optima) {
  std::string text;
  for (const auto& [symbol, size] : optima) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", symbol, size);
  return text;
}

/// The variant that does what an engine does, or null.
const EngineVariant* find_same(const Engine& main, const Engine& engine) {
  if (do_the_same(main, engine)) return &main.variants.front();
  const auto found = std::find_if(main.variants.begin(), main.variants.end(), [&](const EngineVariant& variant) {
    return variant.engine && do_the_same(*variant.engine, engine);
  });
  return found == main.variants.end() ? nullptr : &*found;
}

}  // namespace

BuiltEngine plan_for_optima(const Graph& graph, const Target& target, const CompileOptions& options,
                            const Plan& known) {
  const std::vector<Bindings> combined = combined_optima(graph);
  if (combined.size() == 1) return plan(fuse_for(target, graph, options, nullptr), target, options, &known);
  BuiltEngine all;
  Plan seen{.graph = {}, .options = {}, .records = known.records, .packed = known.packed};
  for (const Bindings& optima : combined) {
    log(LogLevel::kStep, "optimum {}", text_of(optima));
    const Graph chosen = at_optima(graph, optima);
    BuiltEngine built = plan(fuse_for(target, chosen, options, nullptr), target, options, &seen);
    keep_new(seen.packed, built.packed);  // weights that several read in one form are in memory once
    keep_new(all.packed, std::move(built.packed));
    if (all.engine.variants.empty()) {
      all.engine = std::move(built.engine);
      all.record = std::move(built.record);
      all.engine.variants.push_back({optima, nullptr});
      continue;
    }
    all.record.regions.merge(built.record.regions);
    const EngineVariant* const same = find_same(all.engine, built.engine);
    built.engine.name = graph.name;
    auto engine = same ? same->engine : std::make_shared<const Engine>(std::move(built.engine));
    all.engine.variants.push_back({optima, std::move(engine)});
  }
  return all;
}

}  // namespace graft
