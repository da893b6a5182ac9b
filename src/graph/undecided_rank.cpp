// SPDX-License-Identifier: Apache-2.0
#include "graph/undecided_rank.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/bodies.h"
#include "graph/infer.h"
#include "graph/symbols.h"
#include "graph/unknown_shape.h"

namespace graft {
namespace {

/// The numbers of axes that the two branches give for the first result in which they differ.
std::optional<std::pair<size_t, size_t>> different_ranks(const Node& node) {
  if (!node.domain.empty() || node.op != "If") return std::nullopt;
  const std::vector<NodeBody> bodies = bodies_of(node);
  if (bodies.size() != 2) return std::nullopt;
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const auto shape = [&](const NodeBody& body) -> const std::optional<Shape>& {
      return body.graph->value(body.graph->outputs[k]).shape;
    };
    const auto &first = shape(bodies[0]), &second = shape(bodies[1]);
    if (first && second && first->size() != second->size()) return std::pair(second->size(), first->size());
  }
  return std::nullopt;
}

/// The dimensions that a value is computed from, as far back as elements of it are known.
std::set<std::string, std::less<>> dimensions_behind(const Graph& graph, ValueId value) {
  std::set<std::string, std::less<>> dimensions;
  std::set<ValueId> seen;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (id == kNoValue || !seen.insert(id).second) continue;
    if (const auto content = known_content(graph.value(id))) {
      for (const Size& size : *content) size.collect_symbols(dimensions);
      continue;
    }
    const int producer = graph.value(id).producer;
    if (producer < 0) continue;
    const std::vector<ValueId>& inputs = graph.nodes[static_cast<size_t>(producer)].inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  // A size that was long has a symbol of its own, over those that a caller states.
  const std::vector<DerivedSize>& derived = graph.derived.list();
  for (auto long_one = derived.rbegin(); long_one != derived.rend(); ++long_one) {
    if (dimensions.erase(long_one->symbol) > 0) long_one->value.collect_symbols(dimensions);
  }
  return dimensions;
}

}  // namespace

bool differs_in_rank(const Node& node) { return different_ranks(node).has_value(); }

const Node* if_behind(const Graph& graph, ValueId value) {
  return cause_of_unknown_shape(graph, value, differs_in_rank);
}

std::string undecided_rank(const Graph& graph, const Node& node) {
  const auto [then_rank, else_rank] = different_ranks(node).value();
  std::string asked, options;
  for (const std::string& name : dimensions_behind(graph, node.inputs[0])) {
    if (is_reserved_symbol(name)) continue;
    asked += fmt::format("{}'{}'", asked.empty() ? "" : ", ", name);
    options += fmt::format("{}--dim {}=SIZE", options.empty() ? "" : " ", name);
  }
  return fmt::format("the branches of node '{}' (If) give {} and {} axes{}", node.name, then_rank, else_rank,
                     asked.empty() ? "; state the shapes of the inputs (--shapes) if they decide which is taken"
                                   : fmt::format(", and its condition depends on {}: state it ({})", asked, options));
}

}  // namespace graft
