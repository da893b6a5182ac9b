// SPDX-License-Identifier: Apache-2.0
#include "quantize/stated_ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "passes/edit.h"
#include "quantize/places.h"

namespace graft::quantize {
namespace {

using passes::is_op;
using passes::scalar_of;

constexpr double kMostSteps = 256;

/// A rounding, from its Clip on.
struct Rounding {
  int last = -1;  ///< the node that gives its result
  Range range;
};

/// The other operand of a node of two, a constant; nothing where that is none.
std::optional<double> constant_beside(const Graph& graph, const Node& node, ValueId value) {
  if (node.inputs.size() != 2) return std::nullopt;
  if (node.inputs[0] == value) return scalar_of(graph, node.inputs[1]);
  return node.op == "Sub" ? std::nullopt : scalar_of(graph, node.inputs[0]);
}

/// Follows the only reader of a value as long as it is what a rounding consists of.
class Following {
 public:
  Following(const Graph& graph, const std::vector<std::vector<int>>& consumers)
      : graph_(graph), consumers_(consumers) {}

  std::optional<Rounding> from(int clip) {
    const Node& node = graph_.nodes[static_cast<size_t>(clip)];
    const auto low = scalar_of(graph_, passes::input(node, 1)), high = scalar_of(graph_, passes::input(node, 2));
    if (!low || !high || !(*low <= 0 && *high >= 0 && *low < *high)) return std::nullopt;
    value_ = node.outputs[0];
    const bool shifted = take("Sub").has_value();
    if (!take("Mul") && !take("Div")) return std::nullopt;
    take("Add");  // half a step
    if (!advance("Floor") && !advance("Round")) return std::nullopt;
    const std::optional<double> step = take("Mul");
    if (!step || *step <= 0 || (*high - *low) / *step > kMostSteps) return std::nullopt;
    if (shifted && !take("Add")) return std::nullopt;
    return Rounding{last_, {*low, *high}};
  }

 private:
  bool advance(std::string_view op) {
    const std::vector<int>& readers = consumers_[static_cast<size_t>(value_)];
    const bool is_result = std::find(graph_.outputs.begin(), graph_.outputs.end(), value_) != graph_.outputs.end();
    if (readers.size() != 1 || is_result) return false;
    const Node& node = graph_.nodes[static_cast<size_t>(readers[0])];
    if (!is_op(node, {op}) || node.outputs.size() != 1) return false;
    last_ = readers[0], value_ = node.outputs[0];
    return true;
  }
  /// The constant operand of the next node, if that is such an operator.
  std::optional<double> take(std::string_view op) {
    const ValueId before = value_;
    const int last = last_;
    if (!advance(op)) return std::nullopt;
    const auto found = constant_beside(graph_, graph_.nodes[static_cast<size_t>(last_)], before);
    if (!found) value_ = before, last_ = last;
    return found;
  }

  const Graph& graph_;
  const std::vector<std::vector<int>>& consumers_;
  ValueId value_ = kNoValue;
  int last_ = -1;
};

/// What an operator leaves of its operand's range; nothing where it computes another one.
std::optional<Range> left_of(const Graph& graph, const Node& node, const Range& range) {
  if (keeps_range(node)) return range;
  if (is_op(node, {"Relu"})) return Range{0, range.high};
  if (!is_op(node, {"Clip"})) return std::nullopt;
  const auto low = scalar_of(graph, passes::input(node, 1)), high = scalar_of(graph, passes::input(node, 2));
  if (passes::input(node, 1) != kNoValue && !low) return std::nullopt;
  if (passes::input(node, 2) != kNoValue && !high) return std::nullopt;
  constexpr double kAny = std::numeric_limits<double>::infinity();
  return Range{std::min(std::max(range.low, low.value_or(-kAny)), 0.0),
               std::max(std::min(range.high, high.value_or(kAny)), 0.0)};
}

}  // namespace

std::map<std::string, CalibratedTensor, std::less<>> take_stated_ranges(Graph& graph) {
  std::map<std::string, CalibratedTensor, std::less<>> ranges;
  const auto consumers = graph.consumers();
  std::vector<std::pair<int, ValueId>> gone;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_op(node, {"Clip"})) continue;
    const auto rounding = Following(graph, consumers).from(static_cast<int>(n));
    if (!rounding) continue;
    ranges[graph.value(node.inputs[0]).name] = {rounding->range, std::nullopt};
    gone.emplace_back(rounding->last, node.inputs[0]);
  }
  for (const auto& [last, value] : gone) passes::bypass(graph, last, value);
  passes::sweep(graph);
  return ranges;
}

void spread_ranges(const Graph& graph, std::map<std::string, CalibratedTensor, std::less<>>& ranges) {
  for (const Node& node : graph.nodes) {  // in an order in which they run
    if (node.inputs.empty() || node.outputs.size() != 1 || node.inputs[0] == kNoValue) continue;
    const auto known = ranges.find(graph.value(node.inputs[0]).name);
    if (known == ranges.end()) continue;
    if (const auto left = left_of(graph, node, known->second.range)) {
      ranges.emplace(graph.value(node.outputs[0]).name, CalibratedTensor{*left, std::nullopt});
    }
  }
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    if (!keeps_range(node) || node.inputs[0] == kNoValue) continue;
    const auto known = ranges.find(graph.value(node.outputs[0]).name);
    if (known != ranges.end()) ranges.emplace(graph.value(node.inputs[0]).name, known->second);
  }
}

}  // namespace graft::quantize
