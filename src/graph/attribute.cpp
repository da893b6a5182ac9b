// SPDX-License-Identifier: Apache-2.0
#include "graph/attribute.h"

#include <cmath>

#include "graph/graph.h"

namespace graft {
namespace {

/// NaN equals NaN here: an attribute that is copied stays equal to itself.
bool same_real(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

bool same_reals(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same_real(a[i], b[i])) return false;
  }
  return true;
}

bool same_graph(const Graph* a, const Graph* b) {
  if (a == b) return true;
  return a && b && print(*a) == print(*b);
}

}  // namespace

bool equal(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* real = std::get_if<double>(&a)) return same_real(*real, std::get<double>(b));
  if (const auto* reals = std::get_if<std::vector<double>>(&a)) {
    return same_reals(*reals, std::get<std::vector<double>>(b));
  }
  if (const auto* graph = std::get_if<std::shared_ptr<const Graph>>(&a)) {
    return same_graph(graph->get(), std::get<std::shared_ptr<const Graph>>(b).get());
  }
  return a == b;
}

}  // namespace graft
