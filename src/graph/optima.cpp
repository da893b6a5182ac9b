// SPDX-License-Identifier: Apache-2.0
#include "graph/optima.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

/// Whether an axis of an input is this dimension itself.
bool is_axis(const Graph& graph, const std::string& symbol) {
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](ValueId input) {
    const auto& shape = graph.value(input).shape;
    return shape && std::any_of(shape->begin(), shape->end(),
                                [&](const Size& size) { return size.as_symbol() == symbol; });
  });
}

void check_optima(const Graph& graph, const std::string& symbol, const Graph::Range& range) {
  const std::vector<int64_t> optima = optima_of(range);
  const bool inside = optima.front() >= range.min && (range.max == 0 || optima.back() <= range.max);
  const bool apart = std::adjacent_find(optima.begin(), optima.end()) == optima.end();
  GRAFT_USER_CHECK(inside && apart, kInvalidArgument, "its optima are not different sizes within its range",
                   fmt::format("dimension '{}'", symbol));
  GRAFT_USER_CHECK(is_axis(graph, symbol), kInvalidArgument,
                   "it has several optima, but no input has it as an axis by which a run could choose; give it one",
                   fmt::format("dimension '{}'", symbol));
}

}  // namespace

std::vector<int64_t> optima_of(const Graph::Range& range) {
  std::vector<int64_t> optima = range.others;
  optima.push_back(range.opt);
  std::sort(optima.begin(), optima.end());
  return optima;
}

std::vector<Bindings> combined_optima(const Graph& graph) {
  std::vector<Bindings> combined(1);
  for (const auto& [symbol, range] : graph.symbol_ranges) {
    if (range.others.empty()) continue;
    check_optima(graph, symbol, range);
    std::vector<int64_t> optima = {range.opt};
    optima.insert(optima.end(), range.others.begin(), range.others.end());
    GRAFT_USER_CHECK(combined.size() * optima.size() <= kMostOptima, kInvalidArgument,
                     fmt::format("there are more than {} combinations of optima, and each is compiled; give fewer",
                                 kMostOptima),
                     fmt::format("dimension '{}'", symbol));
    std::vector<Bindings> more;
    for (const int64_t optimum : optima) {
      for (Bindings each : combined) {
        each[symbol] = optimum;
        more.push_back(std::move(each));
      }
    }
    combined = std::move(more);
  }
  return combined;
}

Graph at_optima(const Graph& graph, const Bindings& optima) {
  Graph chosen = graph;
  for (auto& [symbol, range] : chosen.symbol_ranges) {
    const auto found = optima.find(symbol);
    if (found == optima.end()) continue;
    range.opt = found->second;
    range.others.clear();
  }
  return chosen;
}

}  // namespace graft
