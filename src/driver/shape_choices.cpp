// SPDX-License-Identifier: Apache-2.0
#include "driver/shape_choices.h"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/spelling.h"
#include "graph/symbols.h"

namespace graft {
namespace {

using Replacements = std::map<std::string, Size, std::less<>>;
using Ranges = std::map<std::string, Graph::Range, std::less<>>;

/// The input of that name; throws naming those there are.
Value& find_input(Graph& graph, const std::string& name, std::string_view option) {
  std::vector<std::string> names;
  for (const ValueId input : graph.inputs) {
    if (graph.value(input).name == name) return graph.value(input);
    names.push_back(graph.value(input).name);
  }
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("the model has no input '{}'; it has {}{}", name, fmt::join(names, ", "),
                          did_you_mean(name, names)),
              std::string(option));
}

/// Merges a wish for a symbol with what was wished before; contradictions are the caller's.
void merge(Ranges& ranges, const std::string& symbol, const Graph::Range& range, const std::string& where) {
  const auto [old, added] = ranges.emplace(symbol, range);
  const Graph::Range& known = old->second;
  const bool same = known.min == range.min && known.opt == range.opt && known.max == range.max &&
                    known.others == range.others;
  GRAFT_USER_CHECK(added || same, kInvalidArgument,
                   fmt::format("the size '{}' was chosen twice: {}:{}:{} and {}:{}:{}", symbol, known.min, known.opt,
                               known.max, range.min, range.opt, range.max), where);
}

/// What min-, opt- and max-shape (or three times the fixed shape) say of one input.
struct ShapeChoice {
  const std::vector<int64_t>*min = nullptr, *opt = nullptr, *max = nullptr;
};

void choose_axes(Value& input, const ShapeChoice& choice, Ranges& ranges) {
  const std::string where = fmt::format("shapes, input '{}'", input.name);
  GRAFT_USER_CHECK(choice.min->size() == choice.max->size() && choice.min->size() == choice.opt->size(),
                   kInvalidArgument, "its smallest, usual and largest shapes differ in rank", where);
  const size_t rank = choice.min->size();
  if (!input.shape) {
    input.shape.emplace();
    for (size_t axis = 0; axis < rank; ++axis) {
      input.shape->push_back(Size::symbol(dimension_symbol(fmt::format("{}_{}", input.name, axis))));
    }
  }
  GRAFT_USER_CHECK(input.shape->size() == rank, kInvalidArgument,
                   fmt::format("the shape given has {} axes, the model's has {}", rank, input.shape->size()), where);
  for (size_t axis = 0; axis < rank; ++axis) {
    const Graph::Range range{(*choice.min)[axis], (*choice.opt)[axis], (*choice.max)[axis]};
    GRAFT_USER_CHECK(range.min <= range.opt && range.opt <= range.max, kInvalidArgument,
                     fmt::format("axis {}: {} <= {} <= {} does not hold for its smallest, usual and largest size", axis,
                                 range.min, range.opt, range.max), where);
    const Size& size = (*input.shape)[axis];
    if (const std::optional<std::string> symbol = size.as_symbol()) {
      merge(ranges, *symbol, range, fmt::format("{}, axis {}", where, axis));
    } else if (size.is_constant()) {
      GRAFT_USER_CHECK(size.is(range.min) && size.is(range.max), kInvalidArgument,
                       fmt::format("axis {} is {} in the model and cannot become {}", axis, size.to_string(),
                                   range.min == range.max ? std::to_string(range.min)
                                                          : fmt::format("{}:{}", range.min, range.max)), where);
    }
  }
}

/// The value of a size with every symbol at one end of its range; nothing when a symbol has no range.
std::optional<int64_t> size_at(const Size& size, const Ranges& ranges, int64_t Graph::Range::*end) {
  std::set<std::string, std::less<>> symbols;
  size.collect_symbols(symbols);
  Bindings bindings;
  for (const std::string& symbol : symbols) {
    const auto it = ranges.find(symbol);
    if (it == ranges.end()) return std::nullopt;
    bindings[symbol] = it->second.*end;
  }
  return size.evaluate(bindings);
}

/// An axis that is an expression of others (`past + length`) has the size that follows from theirs.
void check_expressions(const Value& input, const ShapeChoice& choice, const Ranges& ranges) {
  for (size_t axis = 0; axis < input.shape->size(); ++axis) {
    const Size& size = (*input.shape)[axis];
    if (size.is_constant() || size.as_symbol()) continue;
    const std::string where = fmt::format("input '{}', axis {}", input.name, axis);
    const std::pair<const std::vector<int64_t>*, int64_t Graph::Range::*> ends[] = {
        {choice.min, &Graph::Range::min}, {choice.opt, &Graph::Range::opt}, {choice.max, &Graph::Range::max}};
    for (const auto& [shape, end] : ends) {
      const auto value = size_at(size, ranges, end);
      GRAFT_USER_CHECK(value, kInvalidArgument,
                       fmt::format("it is {}, of which not every size is chosen; give their ranges as --dim",
                                   size.to_string()), where);
      GRAFT_USER_CHECK(*value == (*shape)[axis], kInvalidArgument,
                       fmt::format("it is {}, which is {} for the sizes chosen, not {}", size.to_string(), *value,
                                   (*shape)[axis]), where);
    }
  }
}

void choose_by_input(Graph& graph, const CompileOptions& options, Ranges& ranges) {
  std::vector<std::pair<const Value*, ShapeChoice>> chosen;
  const auto choose = [&](Value& input, const ShapeChoice& choice) {
    choose_axes(input, choice, ranges);
    chosen.emplace_back(&input, choice);
  };
  for (const auto& [name, shape] : options.shapes) {
    choose(find_input(graph, name, "shape"), {&shape, &shape, &shape});
  }
  std::map<std::string, ShapeChoice> bounded;
  for (const auto& [name, shape] : options.min_shapes) bounded[name].min = &shape;
  for (const auto& [name, shape] : options.opt_shapes) bounded[name].opt = &shape;
  for (const auto& [name, shape] : options.max_shapes) bounded[name].max = &shape;
  for (auto& [name, choice] : bounded) {
    GRAFT_USER_CHECK(choice.min && choice.max, kInvalidArgument,
                     fmt::format("input '{}' needs both its smallest and its largest shape", name), "min-shape");
    if (!choice.opt) choice.opt = choice.max;
    choose(find_input(graph, name, "min-shape"), choice);
  }
  for (const auto& [input, choice] : chosen) check_expressions(*input, choice, ranges);
}

/// Replaces symbols in every known shape and content, also in bodies of control flow.
void substitute(Graph& graph, Replacements replacements) {
  graph.derived.substitute(replacements);
  for (Value& value : graph.values) {
    if (value.shape) {
      for (Size& size : *value.shape) size = size.substitute(replacements);
    }
    if (value.content) {
      for (Size& size : *value.content) size = size.substitute(replacements);
    }
  }
  for (Node& node : graph.nodes) {
    for (auto& [name, attribute] : node.attributes) {
      const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (!body) continue;
      auto changed = std::make_shared<Graph>(**body);
      substitute(*changed, replacements);
      attribute = std::shared_ptr<const Graph>(std::move(changed));
    }
  }
}

}  // namespace

std::set<std::string, std::less<>> input_symbols(const Graph& graph) {
  std::set<std::string, std::less<>> symbols;
  for (const ValueId input : graph.inputs) {
    if (!graph.value(input).shape) continue;
    for (const Size& size : *graph.value(input).shape) size.collect_symbols(symbols);
  }
  return symbols;
}

void apply_shape_choices(Graph& graph, const CompileOptions& options) {
  Ranges ranges;
  const auto symbols = input_symbols(graph);
  for (const auto& [name, range] : options.dims) {
    GRAFT_USER_CHECK(symbols.contains(name), kInvalidArgument,
                     symbols.empty() ? fmt::format("all sizes of the model's inputs are fixed; there is no '{}'", name)
                                     : fmt::format("no input has a size named '{}'; there are {}{}", name,
                                                   fmt::join(symbols, ", "),
                                                   did_you_mean(name, {symbols.begin(), symbols.end()})), "dim");
    ranges[name] = range;
  }
  choose_by_input(graph, options, ranges);
  Replacements fixed;
  for (const auto& [name, range] : ranges) {
    if (range.min == range.max && range.opt == range.max) {  // 0:8:0 is any size
      fixed[name] = Size(range.min);
    } else {
      graph.symbol_ranges[name] = range;
    }
  }
  if (!fixed.empty()) substitute(graph, fixed);
}

}  // namespace graft
