// SPDX-License-Identifier: Apache-2.0
#include "export/tensorflow/graph_view.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/spelling.h"
#include "import/tensorflow/element_types.h"
#include "import/tensorflow/graph.pb.h"
#include "import/tensorflow/import_tensor.h"
#include "import/tensorflow/operator_types.h"

namespace graft::tensorflow {
namespace {

/// Stands for what is no tensor of floats, and for what is not known.
constexpr DType kNoFloat = DType::kString;

bool is_next_iteration(std::string_view op) { return op == "NextIteration" || op == "RefNextIteration"; }

class Viewing {
 public:
  Viewing(const GraphFile& file, const std::vector<std::string>& outputs, DType low)
      : file_(file), low_(low), results_(file.nodes().size(), 1), taken_(file.nodes().size(), false),
        budget_(file.bytes().size()) {
    count_results();
    find_outputs(outputs);
    view_.node_of.assign(file.nodes().size(), -1);
    view_.inputs.resize(file.nodes().size());
  }

  GraphView run() {
    const std::vector<int> order = sort_nodes();
    for (const int n : order) add_values(n);
    for (const int n : order) take_inputs(n);
    for (const int n : order) add_demands(n);
    for (const int n : order) {
      if (!is_source(node(n)) && !is_alias_[static_cast<size_t>(n)]) add_node(n);
    }
    for (const Source& output : outputs_) view_.graph.outputs.push_back(value_at(output));
    return std::move(view_);
  }

 private:
  const FileNode& node(int n) const { return file_.nodes()[static_cast<size_t>(n)]; }
  int index_of(const Source& source) const { return file_.find(source.node); }
  int value_at(const Source& source) const { return view_.value_of.at({index_of(source), source.index}); }
  static bool is_source(const FileNode& node) { return node.op == "Const" || node.op == "Placeholder"; }

  /// How many results somebody takes, and of which nodes nobody takes any.
  void count_results() {
    for (const FileNode& each : file_.nodes()) {
      for (const Source& source : each.inputs) {
        if (source.control) continue;
        const auto n = static_cast<size_t>(index_of(source));
        taken_[n] = true;
        results_[n] = std::max(results_[n], source.index + 1);
      }
    }
    for (size_t n = 0; n < results_.size(); ++n) {
      GRAFT_USER_CHECK(results_[n] <= kMostResults, kInvalidModel,
                       fmt::format("somebody takes its result {}", results_[n] - 1), in_node(file_.nodes()[n]));
    }
  }

  void find_outputs(const std::vector<std::string>& outputs) {
    std::vector<std::string> names;
    for (const FileNode& each : file_.nodes()) names.push_back(each.name);
    for (const std::string& output : outputs) {
      const Source source = parse_source(output, "--outputs");
      const int n = source.control ? -1 : index_of(source);
      GRAFT_USER_CHECK(n >= 0, kInvalidArgument,
                       fmt::format("the graph has no node '{}'{}", source.node, did_you_mean(source.node, names)),
                       "--outputs");
      GRAFT_USER_CHECK(source.index < kMostResults, kInvalidArgument,
                       fmt::format("'{}' has no result {}", source.node, source.index), "--outputs");
      results_[static_cast<size_t>(n)] = std::max(results_[static_cast<size_t>(n)], source.index + 1);
      outputs_.push_back(source);
      given_out_.insert(n);
    }
    if (!outputs.empty()) return;
    for (size_t n = 0; n < taken_.size(); ++n) {
      if (taken_[n] || is_source(file_.nodes()[n])) continue;
      outputs_.push_back({.node = file_.nodes()[n].name});
      given_out_.insert(static_cast<int>(n));
    }
  }

  /// An order in which nodes can run; the next round of a loop comes after.
  std::vector<int> sort_nodes() const {
    const size_t count = file_.nodes().size();
    std::vector<std::vector<int>> next(count);
    std::vector<int> waiting(count, 0), order;
    for (size_t n = 0; n < count; ++n) {
      for (const Source& source : file_.nodes()[n].inputs) {
        const auto from = static_cast<size_t>(index_of(source));
        if (is_next_iteration(file_.nodes()[from].op)) continue;
        next[from].push_back(static_cast<int>(n));
        ++waiting[n];
      }
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (size_t n = 0; n < count; ++n) {
      if (waiting[n] == 0) ready.push(static_cast<int>(n));
    }
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (const int each : next[static_cast<size_t>(order.back())]) {
        if (--waiting[static_cast<size_t>(each)] == 0) ready.push(each);
      }
    }
    const auto stuck = std::ranges::find_if(waiting, [](int left) { return left > 0; });
    GRAFT_USER_CHECK(stuck == waiting.end(), kInvalidModel, "it takes what is made of its own result",
                     in_node(node(static_cast<int>(stuck - waiting.begin()))));
    return order;
  }

  static std::string in_node(const FileNode& node) { return fmt::format("node '{}'", node.name); }

  /// The constant that an Identity hands on, or -1.
  int constant_behind(int n) const {
    const FileNode& each = node(n);
    if (each.op != "Identity" || each.inputs.size() != 1 || each.inputs[0].control) return -1;
    const auto known = view_.value_of.find({index_of(each.inputs[0]), each.inputs[0].index});
    return known != view_.value_of.end() && view_.contents.contains(known->second) ? known->second : -1;
  }

  void add_values(int n) {
    if (is_alias_.empty()) is_alias_.assign(file_.nodes().size(), false);
    const int constant = given_out_.contains(n) ? -1 : constant_behind(n);
    if (constant >= 0) {
      is_alias_[static_cast<size_t>(n)] = true;
      view_.value_of[{n, 0}] = constant;
      return;
    }
    const FileNode& each = node(n);
    const auto count = static_cast<size_t>(results_[static_cast<size_t>(n)]);
    std::vector<TypedPlace> places(count);
    if (const OperatorTypes* types = find_operator_types(each.op)) places = output_types(each, *types, count);
    for (size_t k = 0; k < count; ++k) {
      const int id = static_cast<int>(view_.graph.values.size());
      const Source source{.node = each.name, .index = static_cast<int>(k)};
      DType type = places[k].type == DType::kUndefined ? kNoFloat : places[k].type;
      if (is_source(each)) type = stated_type(each);
      view_.graph.values.push_back({.name = spell(source.node, source.index), .type = type});
      view_.sources.push_back(source);
      view_.value_of[{n, source.index}] = id;
    }
    if (each.op != "Const" || count != 1 || stated_type(each) != DType::kFloat32) return;
    TensorData data = import_constant(file_, each, budget_);
    if (!data || data.type() != DType::kFloat32) return;
    const int id = view_.value_of.at({n, 0});
    view_.graph.values[static_cast<size_t>(id)].is_parameter = true;
    view_.contents[id] = std::move(data);
  }

  static DType stated_type(const FileNode& node) {
    const auto* type = node.attribute("dtype");
    return type ? element_type(type->type()).value_or(kNoFloat) : kNoFloat;
  }

  void take_inputs(int n) {
    for (const Source& source : node(n).inputs) {
      if (!source.control) view_.inputs[static_cast<size_t>(n)].push_back(value_at(source));
    }
  }

  /// What the table does not tell of a result is what those who take it demand.
  void add_demands(int n) {
    const OperatorTypes* types = find_operator_types(node(n).op);
    if (!types) return;
    const std::vector<int>& inputs = view_.inputs[static_cast<size_t>(n)];
    const std::vector<TypedPlace> places = input_types(node(n), *types, inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      DType& type = view_.graph.values[static_cast<size_t>(inputs[i])].type;
      if (type == kNoFloat && places[i].type != DType::kUndefined) type = places[i].type;
    }
  }

  void add_node(int n) {
    const FileNode& from = node(n);
    amp::Node made{.op = from.op, .name = from.name, .inputs = view_.inputs[static_cast<size_t>(n)]};
    const OperatorTypes* types = find_operator_types(from.op);
    const std::vector<TypedPlace> inputs =
        types ? input_types(from, *types, made.inputs.size()) : std::vector<TypedPlace>(made.inputs.size());
    const std::string main = main_attribute(inputs);
    for (size_t i = 0; i < inputs.size() && i < 64; ++i) {
      const bool statistics = from.op == "FusedBatchNorm" && i > 0;
      if (inputs[i].attribute != main || statistics) made.kept |= uint64_t{1} << i;
    }
    const auto count = static_cast<size_t>(results_[static_cast<size_t>(n)]);
    const std::vector<TypedPlace> outputs = types ? output_types(from, *types, count) : std::vector<TypedPlace>(count);
    for (size_t k = 0; k < count; ++k) {
      const int id = view_.value_of.at({n, static_cast<int>(k)});
      made.outputs.push_back(id);
      const bool statistics = from.op == "FusedBatchNorm" && k > 0;
      const bool follows = !main.empty() && outputs[k].attribute == main && !statistics;
      made.results.push_back(follows ? std::nullopt : std::optional(view_.graph.values[static_cast<size_t>(id)].type));
    }
    const bool cast = from.op == "Cast";
    const bool several = given_out_.contains(n) && count > 1;  // only a first result can have another node's name
    const bool closed = main.empty() || several || !(cast || has_low(from.op, *types)) || made.inputs.size() > 64;
    if (closed) made.kind = amp::NodeKind::kClosed;
    if (cast && !closed) made.kind = amp::NodeKind::kCast;
    view_.node_of[static_cast<size_t>(n)] = static_cast<int>(view_.graph.nodes.size());
    view_.graph.nodes.push_back(std::move(made));
  }

  /// The first normalisation of TensorFlow has no low type, the second one is the same and has.
  bool has_low(const std::string& op, const OperatorTypes& types) const {
    return types.has(low_) || op == "FusedBatchNorm";
  }

  /// The attribute that is the type of the floats that an operator computes with.
  static std::string main_attribute(const std::vector<TypedPlace>& inputs) {
    for (const TypedPlace& place : inputs) {
      const bool narrow = place.type == DType::kFloat32 || place.type == DType::kFloat16 ||
                          place.type == DType::kBFloat16;
      if (!place.attribute.empty() && narrow) return place.attribute;
    }
    return "";
  }

  static constexpr int kMostResults = 1 << 16;
  const GraphFile& file_;
  DType low_;
  std::vector<int> results_;  // by node of the file: how many of its results are looked at
  std::vector<bool> taken_;
  std::vector<bool> is_alias_;
  std::vector<Source> outputs_;
  std::set<int> given_out_;  // nodes of the file
  ConstantBudget budget_;
  GraphView view_;
};

}  // namespace

GraphView view_graph(const GraphFile& file, const std::vector<std::string>& outputs, DType low) {
  return Viewing(file, outputs, low).run();
}

}  // namespace graft::tensorflow
