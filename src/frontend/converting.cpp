// SPDX-License-Identifier: Apache-2.0
// Conversion of whole graphs and of parts: nodes in order, each by its rows.
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/free_name.h"
#include "frontend/complex.h"
#include "frontend/conversion.h"
#include "graph/infer.h"
#include "graph/symbols.h"

namespace graft::frontend {

namespace {

/// Takes back what a row that then refused had added.
class Attempt {
 public:
  explicit Attempt(Graph& graph) : graph_(graph), nodes_(graph.nodes.size()) {}
  void undo() {
    std::vector<bool> erased(graph_.nodes.size(), false);
    std::fill(erased.begin() + static_cast<std::ptrdiff_t>(nodes_), erased.end(), true);
    if (nodes_ < erased.size()) graph_.erase_nodes(erased);
  }

 private:
  Graph& graph_;
  size_t nodes_;
};

/// The work of one call of convert().
class Converting {
 public:
  Converting(const ForeignGraph& foreign, const Converters& converters)
      : foreign_(foreign), converters_(converters) {
    result_.graph.name = foreign.name;
    result_.graph.opsets[""] = kOpset;
    result_.reasons.resize(foreign.nodes.size());
    result_.values.assign(foreign.values.size(), kNoValue);
  }

  /// The inputs of what is converted. A run finds symbols where an input has them as a size.
  void take_inputs(const std::vector<int>& inputs) {
    std::set<std::string, std::less<>> told;
    for (const int input : inputs) {
      for (const Size& size : foreign_.values[input].shape.value_or(Shape{})) {
        size.collect_symbols(symbols_);
        if (is_named(size)) size.collect_symbols(told);
      }
    }
    for (const int input : inputs) {
      if (foreign_.values[input].constant) continue;
      take_input(input);
      if (result_.values[input] != kNoValue) name_untold(result_.graph.value(result_.values[input]), told);
    }
  }

  void take_input(int value) {
    const ForeignValue& given = foreign_.values[value];
    if (result_.values[value] != kNoValue || result_.complexes.contains(value)) return;
    if (is_complex(given.type)) return;  // no engine takes it
    if (given.list) {
      lists_[value] = {.begun = value};
      return;
    }
    const auto described = described_.find(value);
    DType type = given.type;
    std::optional<Shape> shape = given.shape;
    if (described != described_.end()) {
      if (described->second.type != DType::kUndefined) type = described->second.type;
      if (described->second.shape) shape = described->second.shape;
    }
    const ValueId made = result_.graph.add_value(given.name, type, std::move(shape));
    result_.graph.value(made).content = given.content;
    result_.values[value] = made;
    result_.graph.inputs.push_back(made);
  }

  void convert_node(int index) {
    const ForeignNode& node = foreign_.nodes[index];
    visit_references(node, [&](int value) { take_constant(value); });
    const std::vector<Converters::Entry>& rows = converters_.rows_of(node.op);
    std::string& reason = result_.reasons[index];
    if (!node.kept.empty()) {
      reason = node.kept;
      for (const Converters::Entry& each : rows) {
        if (each.origin.empty()) describe(index, each);
      }
    } else if (rows.empty()) {
      reason = fmt::format("there is no converter for {}", node.op);
    } else {
      reason = build(index, rows);
    }
    if (reason.empty()) return;
    for (const int output : node.outputs) {  // what the framework computes comes in, as far as it can be handed over
      if (foreign_.values[output].tensor) take_input(output);
    }
  }

  Converted finish(const std::vector<int>& outputs) {
    for (const int output : outputs) {
      take_constant(output);
      if (result_.values[output] != kNoValue) give(result_.values[output]);
    }
    return std::move(result_);
  }

  /// The same of a function, whose results are values of their own.
  Converted finish_function(std::vector<BodyResult>& results) {
    std::vector<ValueId> named(result_.graph.inputs);
    for (const int output : foreign_.outputs) {
      take_constant(output);
      BodyResult made{.value = result_.values[output]};
      if (const auto list = lists_.find(output); list != lists_.end()) {
        const auto& inputs = foreign_.inputs;
        const auto begun = std::find(inputs.begin(), inputs.end(), list->second.begun);
        made = {.value = joined(list->second), .list = true,
                .continues = begun == inputs.end() ? -1 : static_cast<int>(begun - inputs.begin())};
      }
      if (made.value != kNoValue) {
        made.value = own_value(made.value, named);
        named.push_back(made.value);
        result_.graph.outputs.push_back(made.value);
      }
      results.push_back(made);
    }
    return std::move(result_);
  }

 private:
  /// Sizes of an input of which a symbol is told by none become symbols, and elements of it are forgotten.
  void name_untold(Value& input, const std::set<std::string, std::less<>>& told) {
    const auto is_told = [&](const Size& size) {
      std::set<std::string, std::less<>> symbols;
      size.collect_symbols(symbols);
      return std::ranges::includes(told, symbols);
    };
    for (size_t axis = 0; input.shape && axis < input.shape->size(); ++axis) {
      Size& size = (*input.shape)[axis];
      if (is_told(size)) continue;
      auto same = std::ranges::find_if(result_.renamed, [&](const auto& each) { return each.second == size; });
      if (same == result_.renamed.end()) {
        const std::string wanted = dimension_symbol(fmt::format("{}_{}", input.name, axis));
        same = result_.renamed.emplace(take_free_name(wanted, symbols_), size).first;
      }
      size = Size::symbol(same->first);
    }
    if (input.content && !std::ranges::all_of(*input.content, is_told)) input.content.reset();
  }

  /// What a list has beside that which it goes on, as one run.
  ValueId joined(List list) {
    list.begun = -1;
    static const ForeignNode kJoin{.op = "list", .name = "list"};
    static const Signature kSignature{.op = "list", .parameters = {}};
    return conversion_of(kJoin, kSignature).joined(list);
  }

  /// The value, or a copy where it is a constant, an input or a result already.
  ValueId own_value(ValueId value, const std::vector<ValueId>& named) {
    Graph& graph = result_.graph;
    if (!graph.value(value).constant && std::find(named.begin(), named.end(), value) == named.end()) return value;
    return copied(value);
  }

  /// The same under another name.
  ValueId copied(ValueId value) {
    Graph& graph = result_.graph;
    const graft::Value like = graph.value(value);
    const ValueId made = graph.add_value(like.name, like.type, like.shape);
    graph.value(made).content = known_content(like);
    graph.add_node({.name = like.name, .op = "Identity", .inputs = {value}, .outputs = {made}});
    return made;
  }

  /// Makes it an output. One that is one already (a row gave its operand) is given again under another name.
  void give(ValueId value) {
    Graph& graph = result_.graph;
    const bool again = std::ranges::find(graph.outputs, value) != graph.outputs.end();
    graph.outputs.push_back(again ? copied(value) : value);
  }

  void take_constant(int value) {
    const ForeignValue& given = foreign_.values[value];
    if (given.constant && is_complex(given.constant.type())) {
      if (result_.complexes.contains(value)) return;
      auto [real, imaginary] = parts_of(given.constant);
      result_.complexes[value] = {.real = result_.graph.add_constant(given.name + ".real", std::move(real)),
                                  .imaginary = result_.graph.add_constant(given.name + ".imag", std::move(imaginary))};
    } else if (result_.values[value] == kNoValue && given.constant) {
      result_.values[value] = result_.graph.add_constant(given.name, given.constant);
    }
  }

  /// What the row of a node that stays tells of results whose sizes the framework does not know.
  void describe(int index, const Converters::Entry& entry) {
    const ForeignNode& node = foreign_.nodes[index];
    Attempt attempt(result_.graph);
    Conversion conversion = conversion_of(node, entry.signature);
    try {
      build_of(node, entry)(conversion);
      for (size_t i = 0; i < conversion.results().size(); ++i) conversion.describe(i, conversion.results()[i]);
    } catch (const Refusal&) {
    }
    attempt.undo();
    keep_given(index, conversion);
    for (const auto& [result, description] : conversion.descriptions()) {
      if (result >= node.outputs.size() || foreign_.values[node.outputs[result]].shape) continue;
      described_.insert_or_assign(node.outputs[result], description);
    }
  }

  /// Runs rows until one does not refuse; gives all their reasons otherwise.
  std::string build(int index, const std::vector<Converters::Entry>& rows) {
    std::string reasons;
    for (const Converters::Entry& each : rows) {
      const std::string reason = build(index, each);
      if (reason.empty()) return "";
      const std::string whose = each.origin.empty() ? "the built-in converter" : "that of " + each.origin;
      reasons += (reasons.empty() ? "" : "; ") + (rows.size() == 1 ? reason : fmt::format("{}: {}", whose, reason));
    }
    return reasons;
  }

  Conversion conversion_of(const ForeignNode& node, const Signature& signature) {
    return {foreign_, node, signature, result_.graph, result_.values, lists_, result_.complexes, converters_};
  }

  // ---- Complex numbers ----

  /// Whether it is a type whose numbers are pairs of reals.
  bool is_complex(DType type) const { return converters_.pairs_complex() && kind_of(type) == DTypeKind::kComplex; }

  bool has_complex(const Argument& argument) const {
    if (const auto* type = std::get_if<DType>(&argument.is)) return is_complex(*type);
    if (const auto* reference = std::get_if<Reference>(&argument.is)) {
      return result_.complexes.contains(reference->value) || is_complex(foreign_.values[reference->value].type);
    }
    const auto* list = std::get_if<Arguments>(&argument.is);
    return list && std::ranges::any_of(*list, [&](const Argument& each) { return has_complex(each); });
  }

  /// What a row does with the node's arguments; refuses where it has nothing to do with complex ones.
  const std::function<void(Conversion&)>& build_of(const ForeignNode& node, const Converters::Entry& entry) const {
    const bool complex = std::ranges::any_of(node.arguments, [&](const Argument& each) { return has_complex(each); }) ||
                         std::ranges::any_of(node.attributes,
                                             [&](const auto& each) { return has_complex(each.second); });
    if (!complex) return entry.build;
    if (!entry.of_complex) throw Refusal{"its converter takes no complex numbers"};
    return entry.of_complex;
  }

  void take_results(Conversion& conversion, const ForeignNode& node) {
    const std::vector<ValueId> results = conversion.results();
    for (size_t i = 0; i < results.size() && i < node.outputs.size(); ++i) {
      if (results[i] != kNoValue && is_complex(conversion.type_of(results[i]))) conversion.refuse("complex numbers");
      result_.values[node.outputs[i]] = with_stated_sizes(conversion, node.outputs[i], results[i]);
    }
    const std::vector<Complex> complexes = conversion.complex_results();
    for (size_t i = 0; i < complexes.size() && i < node.outputs.size(); ++i) {
      result_.complexes[node.outputs[i]] = {
          .real = with_stated_sizes(conversion, node.outputs[i], complexes[i].real),
          .imaginary = with_stated_sizes(conversion, node.outputs[i], complexes[i].imaginary)};
    }
  }

  /// Runs a row; gives its refusal.
  std::string build(int index, const Converters::Entry& entry) {
    const ForeignNode& node = foreign_.nodes[index];
    Attempt attempt(result_.graph);
    Conversion conversion = conversion_of(node, entry.signature);
    try {
      build_of(node, entry)(conversion);
      take_results(conversion, node);
      return "";
    } catch (const Refusal& refusal) {
      attempt.undo();
      keep_given(index, conversion);
      for (const auto& [result, description] : conversion.descriptions()) {
        if (result < node.outputs.size()) described_.insert_or_assign(node.outputs[result], description);
      }
      return refusal.reason;
    }
  }

  /// A result of which the framework states a size that inference does not know (`x[:1]` has one row, whatever x has)
  /// has that size: so it broadcasts where the framework says that it does.
  ValueId with_stated_sizes(Conversion& conversion, int output, ValueId value) {
    const std::optional<Shape>& stated = foreign_.values[output].shape;
    if (value == kNoValue || !stated) return value;
    const std::optional<Shape> found = result_.graph.value(value).shape;
    if (!found || found->size() != stated->size()) return value;
    std::vector<int64_t> sizes(found->size(), 0);  // 0: as it is
    bool any = false;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      const auto size = (*stated)[axis].as_constant();
      if (!size || *size == 0 || (*found)[axis].is_constant()) continue;
      sizes[axis] = *size;
      any = true;
    }
    return any ? conversion.add("Reshape", {value, conversion.integers_constant(sizes)}) : value;
  }

  /// What the functions of a node that stays are given.
  void keep_given(int index, const Conversion& conversion) {
    for (const auto& [name, given] : conversion.given_to_bodies()) {
      result_.given_to_bodies.insert_or_assign({index, name}, given);
    }
  }

  const ForeignGraph& foreign_;
  const Converters& converters_;
  std::map<int, Conversion::Description> described_;  // by foreign value: what rows told that then refused
  Lists lists_;
  std::set<std::string, std::less<>> symbols_;  // of the inputs' sizes, and those that stand for some
  Converted result_;
};

}  // namespace

Converted convert(const ForeignGraph& foreign, const std::vector<int>& nodes, const std::vector<int>& inputs,
                  const std::vector<int>& outputs, const Converters& converters) {
  Converting converting(foreign, converters);
  converting.take_inputs(inputs);
  for (const int node : nodes) converting.convert_node(node);
  return converting.finish(outputs);
}

Converted convert(const ForeignGraph& foreign, const Converters& converters) {
  std::vector<int> nodes(foreign.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  return convert(foreign, nodes, foreign.inputs, foreign.outputs, converters);
}

Converted convert_function(const ForeignGraph& foreign, const Converters& converters,
                           std::vector<BodyResult>& results) {
  Converting converting(foreign, converters);
  converting.take_inputs(foreign.inputs);
  for (size_t node = 0; node < foreign.nodes.size(); ++node) converting.convert_node(static_cast<int>(node));
  return converting.finish_function(results);
}

}  // namespace graft::frontend
