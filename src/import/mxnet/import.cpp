// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/import.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/spelling.h"
#include "frontend/whole_model.h"
#include "graph/symbols.h"
#include "import/mxnet/precision_lists.h"
#include "import/mxnet/rows.h"
#include "import/mxnet/symbol_facts.h"
#include "import/mxnet/upgrade_symbol.h"

namespace graft::mxnet {
namespace {

constexpr int64_t kMostResults = 1 << 18;  // of all nodes of all graphs, beside the first of each

constexpr std::string_view kSymbolEnding = "-symbol.json";

/// The file of parameters that stands beside a symbol, or nothing.
std::string params_beside(const std::string& path) {
  if (!path.ends_with(kSymbolEnding)) return "";
  std::string beside = path.substr(0, path.size() - kSymbolEnding.size()) + "-0000.params";
  std::error_code fault;
  return std::filesystem::exists(beside, fault) ? beside : "";
}

/// The symbol as a foreign graph: variables with an array are constants, the others inputs.
class Reading {
 public:
  /// `allowed`: how many more results may be read. `inner`: the graph of a node, whose variables are all inputs, of
  /// which the node knows more.
  Reading(const Symbol& symbol, const Parameters& arrays, const ImportOptions& options, int64_t& allowed,
          bool inner = false)
      : symbol_(symbol), arrays_(arrays), options_(options), allowed_(allowed), inner_(inner) {}

  frontend::ForeignGraph read() {
    foreign_.name = "model";
    find_uses();
    for (size_t i = 0; i < symbol_.nodes.size(); ++i) {
      if (symbol_.nodes[i].is_variable()) {
        add_variable(static_cast<int>(i));
      } else {
        add_node(static_cast<int>(i));
      }
    }
    for (const SymbolEntry& head : symbol_.heads) foreign_.outputs.push_back(value_at(head));
    return std::move(foreign_);
  }

 private:
  /// Which variables stand where operators have weights and statistics, and how many results are read.
  void find_uses() {
    results_.assign(symbol_.nodes.size(), 1);
    const auto note = [&](const SymbolEntry& entry) {
      const SymbolNode& node = symbol_.nodes[static_cast<size_t>(entry.node)];
      int& count = results_[static_cast<size_t>(entry.node)];
      allowed_ -= std::max(entry.output + 1 - count, 0);
      const int has = node.is_variable() ? 1 : node.output_count;  // 0: the file does not say
      GRAFT_USER_CHECK(allowed_ >= 0 && (has == 0 || entry.output < has), kInvalidModel,
                       fmt::format("its result {} is read, which it does not have", entry.output), node.name);
      count = std::max(count, entry.output + 1);
    };
    for (const SymbolNode& node : symbol_.nodes) {
      const OperandRow row = operand_row(node.op);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        note(node.inputs[i]);
        const bool weight = i < 64 && ((row.parameters | row.auxiliary) >> i & 1) != 0;
        if (weight) weights_.emplace(node.inputs[i].node, node.name);
      }
    }
    for (const SymbolEntry& head : symbol_.heads) note(head);
  }

  int add_value(int node, frontend::ForeignValue value) {
    const int id = static_cast<int>(foreign_.values.size());
    foreign_.values.push_back(std::move(value));
    values_[{node, next_result_++}] = id;
    return id;
  }

  int value_at(const SymbolEntry& entry) const { return values_.at({entry.node, entry.output}); }

  void add_variable(int index) {
    const SymbolNode& node = symbol_.nodes[static_cast<size_t>(index)];
    GRAFT_USER_CHECK(names_.insert(node.name).second, kInvalidModel, "two variables have this name", node.name);
    next_result_ = 0;
    if (inner_) return foreign_.inputs.push_back(add_value(index, {.name = node.name}));
    const auto array = arrays_.find(node.name);
    if (array != arrays_.end() && array->second) {
      add_value(index, {.name = node.name, .constant = array->second});
      return;
    }
    const auto weight = weights_.find(index);
    GRAFT_USER_CHECK(weight == weights_.end(), kInvalidModel,
                     fmt::format("the parameters have no array of this name, and '{}' takes it as a weight; name the "
                                 "file that has it by --params (params=)", weight->second),
                     node.name);
    frontend::ForeignValue value{.name = node.name, .type = stated_type(node), .shape = shape_of(node)};
    if (value.type == DType::kUndefined) value.type = DType::kFloat32;
    foreign_.inputs.push_back(add_value(index, std::move(value)));
  }

  /// As the caller says, else as the symbol does; nothing where neither says how many axes there are.
  std::optional<Shape> shape_of(const SymbolNode& variable) const {
    std::optional<std::vector<int64_t>> sizes = stated_shape(variable);
    const auto chosen = options_.shapes.find(variable.name);
    const auto smallest = options_.min_shapes.find(variable.name), largest = options_.max_shapes.find(variable.name);
    if (chosen != options_.shapes.end()) {
      sizes = chosen->second;
    } else if (smallest != options_.min_shapes.end() && largest != options_.max_shapes.end() &&
               smallest->second.size() == largest->second.size()) {
      sizes = smallest->second;
      for (size_t axis = 0; axis < sizes->size(); ++axis) {
        if ((*sizes)[axis] != largest->second[axis]) (*sizes)[axis] = -1;
      }
    }
    if (!sizes) return std::nullopt;
    Shape shape;
    for (size_t axis = 0; axis < sizes->size(); ++axis) {
      const bool open = (*sizes)[axis] < 0;
      const std::string name = axis == 0 ? "batch" : dimension_symbol(fmt::format("{}_{}", variable.name, axis));
      shape.push_back(open ? Size::symbol(name) : Size((*sizes)[axis]));
    }
    return shape;
  }

  void add_node(int index) {
    const SymbolNode& from = symbol_.nodes[static_cast<size_t>(index)];
    frontend::ForeignNode node{.op = from.op, .name = from.name};
    while (!nodes_.insert(node.name).second) node.name += "_";
    for (const SymbolEntry& input : from.inputs) node.arguments.push_back(frontend::Reference{value_at(input)});
    for (const auto& [name, text] : from.attributes) {
      if (!name.starts_with("__")) node.attributes[name] = frontend::Argument(text);
    }
    add_bodies(from, node);
    next_result_ = 0;
    const int count = results_[static_cast<size_t>(index)];
    for (int k = 0; k < count; ++k) node.outputs.push_back(add_value(index, {.name = output_name(from, k)}));
    foreign_.nodes.push_back(std::move(node));
  }

  /// The node's graphs by their number.
  void add_bodies(const SymbolNode& from, frontend::ForeignNode& node) const {
    for (const Symbol& graph : from.subgraphs) {
      node.bodies[std::to_string(node.bodies.size())] =
          std::make_shared<frontend::ForeignGraph>(Reading(graph, arrays_, options_, allowed_, /*inner=*/true).read());
    }
  }

  const Symbol& symbol_;
  const Parameters& arrays_;
  const ImportOptions& options_;
  int64_t& allowed_;
  const bool inner_;
  std::map<int, std::string> weights_;  ///< variables at places of parameters and statistics -> who takes them
  std::vector<int> results_;            ///< by node: how many are read, at least one
  std::map<std::pair<int, int>, int> values_;  ///< by node and result
  std::set<std::string> names_, nodes_;
  int next_result_ = 0;
  frontend::ForeignGraph foreign_;
};

/// A shape that is chosen is one of an input.
void check_shapes(const frontend::ForeignGraph& foreign, const ImportOptions& options) {
  std::vector<std::string> names;
  for (const int input : foreign.inputs) names.push_back(foreign.values[static_cast<size_t>(input)].name);
  for (const auto* shapes : {&options.shapes, &options.min_shapes, &options.max_shapes}) {
    for (const auto& [name, shape] : *shapes) {
      GRAFT_USER_CHECK(std::ranges::find(names, name) != names.end(), kInvalidArgument,
                       fmt::format("the model has no input '{}'; it has {}{}", name, fmt::join(names, ", "),
                                   did_you_mean(name, names)),
                       "shape");
    }
  }
}

/// Where the first node that stays reads an input of which nobody told the shape, that is the caller's to say.
void check_ranks(const frontend::ForeignGraph& foreign, const frontend::Converted& converted) {
  const auto first = std::ranges::find_if(converted.reasons, [](const std::string& reason) { return !reason.empty(); });
  if (first == converted.reasons.end()) return;
  std::vector<std::string> unknown;
  visit_references(foreign.nodes[static_cast<size_t>(first - converted.reasons.begin())], [&](int read) {
    const frontend::ForeignValue& value = foreign.values[static_cast<size_t>(read)];
    const bool is_input = std::ranges::find(foreign.inputs, read) != foreign.inputs.end();
    if (is_input && !value.shape) unknown.push_back(value.name);
  });
  GRAFT_USER_CHECK(unknown.empty(), kInvalidArgument,
                   fmt::format("the symbol does not say the shape of {}: give it by --shapes {}:SIZExSIZE..., or a "
                               "smallest and a largest one",
                               fmt::join(unknown, " and "), unknown.front()),
                   "shape");
}

/// Converters give the results that inference has.
void check_outputs(const Symbol& symbol, const frontend::ForeignGraph& foreign, const frontend::Converted& converted) {
  for (size_t i = 0; i < symbol.heads.size(); ++i) {
    if (converted.values[static_cast<size_t>(foreign.outputs[i])] != kNoValue) continue;
    const SymbolEntry& head = symbol.heads[i];
    const SymbolNode& node = symbol.nodes[static_cast<size_t>(head.node)];
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the converter of {} does not give its result {}: leave this output out", node.op,
                            head.output),
                node.name);
  }
}

/// Inputs that no result needs are none: labels of losses.
void drop_unread_inputs(Graph& graph) {
  const auto consumers = graph.consumers();
  std::erase_if(graph.inputs, [&](ValueId input) {
    return consumers[static_cast<size_t>(input)].empty() && !graph.is_output(input);
  });
}

}  // namespace

Graph import_symbol(Symbol symbol, const Parameters& arrays, const ImportOptions& options) {
  upgrade(symbol);
  int64_t allowed = kMostResults;
  const frontend::ForeignGraph foreign = Reading(symbol, arrays, options, allowed).read();
  check_shapes(foreign, options);
  frontend::Converted converted = frontend::convert(foreign, converters());
  check_ranks(foreign, converted);
  frontend::check_converted(foreign, converted, "`graft.mxnet` makes engines of the parts around them inside MXNet");
  check_outputs(symbol, foreign, converted);
  drop_unread_inputs(converted.graph);
  std::vector<std::string> inputs, outputs;
  for (const ValueId input : converted.graph.inputs) inputs.push_back(converted.graph.value(input).name);
  for (const SymbolEntry& head : symbol.heads) {
    outputs.push_back(output_name(symbol.nodes[static_cast<size_t>(head.node)], head.output));
  }
  frontend::name_borders(converted.graph, inputs, outputs);
  return std::move(converted.graph);
}

bool is_model(const std::string& path) { return path.ends_with(".json"); }

Graph import_model(const std::string& path, const ImportOptions& options) {
  Symbol symbol = read_symbol(path);
  const std::string params = options.params.empty() ? params_beside(path) : options.params;
  const Parameters arrays = params.empty() ? Parameters() : parameters_of(read_params(params));
  try {
    return import_symbol(std::move(symbol), arrays, options);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(),
                error.where().empty() ? path : fmt::format("{}: {}", path, error.where()));
  }
}

}  // namespace graft::mxnet
