// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "batch.h"
#include "failure.h"
#include "variables.h"

namespace graft::extension {
namespace {

using mxnet::ext::Graph;
using mxnet::ext::MXTensor;
using mxnet::ext::Node;

/// One graph's reading.
class Reading {
 public:
  Reading(Graph& graph, const Spec& spec, const std::set<const Node*>& running)
      : graph_(graph), spec_(spec), running_(running), roles_(roles_of_variables(graph, spec)) {
    made_.handle = new_host_graph();
  }

  HostGraph read() {
    list_entries();
    find_axes();
    for (size_t i = 0; i < made_.entries.size(); ++i) add_value(i);
    for (const auto& [name, range] : ranges_) {
      check(graft_host_graph_set_range(handle(), name.c_str(), range[0], range[1], range[2], &error_), error_);
    }
    for (size_t i = 0; i < graph_.size(); ++i) {
      if (graph_.getNode(i)->op != "null") add_node(graph_.getNode(i));
    }
    set_borders();
    return std::move(made_);
  }

 private:
  graft_host_graph* handle() { return made_.handle.get(); }

  void list_entries() {
    for (size_t i = 0; i < graph_.size(); ++i) {
      Node* node = graph_.getNode(i);
      const std::vector<Inferred> outputs = inferred_outputs(*node);
      for (size_t index = 0; index < outputs.size(); ++index) {
        const Entry entry{node, static_cast<int>(index)};
        value_of_[node].push_back(static_cast<int32_t>(made_.entries.size()));
        if (!outputs[index].sizes) unknown_.insert(made_.entries.size());
        made_.entries.push_back(entry);
        const Sizes sizes = outputs[index].sizes.value_or(Sizes{});
        made_.types.push_back({.code = outputs[index].code, .axes = fixed_axes(sizes)});
      }
    }
  }

  static std::vector<Axis> fixed_axes(const Sizes& sizes) {
    std::vector<Axis> axes;
    for (const int64_t size : sizes) axes.push_back({size, 0});
    return axes;
  }

  /// Results that nothing uses (the statistics of a batch normalization) may have no shape that MXNet tells.
  std::vector<size_t> used_entries() {
    std::set<int32_t> used;
    for (size_t i = 0; i < graph_.size(); ++i) {
      for (const auto& input : graph_.getNode(i)->inputs) used.insert(value_at(input));
    }
    for (const auto& output : graph_.outputs) used.insert(value_at(output));
    return {used.begin(), used.end()};
  }

  void find_axes() {
    const int64_t batch = given_batch(graph_, roles_);
    const std::vector<size_t> used = used_entries();
    const bool follows = batch > 0 && !spec_.fixed_batch;
    const auto unknown = std::find_if(used.begin(), used.end(),
                                      [&](size_t value) { return unknown_.count(value) > 0; });
    if (!follows && unknown == used.end()) return;
    std::vector<Entry> entries;
    for (const size_t value : used) entries.push_back(made_.entries[value]);
    ShapesByBatch inferred(graph_, roles_, entries, batch);
    if (unknown != used.end()) {
      const auto shapes = inferred.at(batch);
      if (!shapes) refuse(*made_.entries[*unknown].first, inferred.reason());
      for (size_t i = 0; i < used.size(); ++i) made_.types[used[i]].axes = fixed_axes((*shapes)[i]);
    }
    if (!follows) return;
    const auto axes = axes_by_batch(inferred, batch);
    if (!axes) {
      made_.note = "the batch is fixed at " + std::to_string(batch) +
                   ": MXNet infers no shapes of this symbol for others\n";
      return;
    }
    for (size_t i = 0; i < used.size(); ++i) made_.types[used[i]].axes = (*axes)[i];
    usual_ = spec_.usual_batch > 0 ? spec_.usual_batch : batch;
  }

  [[noreturn]] static void refuse(const Node& node, const std::string& reason) {
    throw Failure("MXNet infers no shapes of '" + node.name + "' (" + node.op + ")" +
                  (reason.empty() ? "" : ", because " + reason) + ": `graft compile` takes such a symbol whole");
  }

  /// The name of a size that follows the batch, with its range.
  const std::string& symbol_of(const Axis& axis) {
    std::string name = "batch";
    if (axis != Axis{0, 1}) name += "_" + std::to_string(axis.per_batch) + "_" + std::to_string(axis.fixed);
    const int64_t largest = spec_.largest_batch > 0 ? axis.at(spec_.largest_batch) : 0;
    return ranges_.try_emplace(name, std::vector<int64_t>{axis.at(spec_.smallest_batch), axis.at(usual_), largest})
        .first->first;
  }

  void add_value(size_t index) {
    const Entry& entry = made_.entries[index];
    const TensorType& type = made_.types[index];
    std::vector<int64_t> sizes;
    std::vector<const char*> symbols;
    for (const Axis& axis : type.axes) {
      sizes.push_back(axis.per_batch == 0 ? axis.fixed : -1);
      symbols.push_back(axis.per_batch == 0 ? nullptr : symbol_of(axis).c_str());
    }
    const ElementType* element = element_type(type.code);
    const std::string name = entry.first->name + (entry.second > 0 ? ":" + std::to_string(entry.second) : "");
    const bool known = type.axes.size() > 0 || unknown_.count(index) == 0;
    const int32_t rank = known ? static_cast<int32_t>(sizes.size()) : -1;
    graft_host_value value{.struct_size = sizeof value,
                           .name = name.c_str(),
                           .dtype = element ? element->graft : 0,
                           .rank = rank,
                           .sizes = sizes.data(),
                           .symbols = symbols.data(),
                           .is_tensor = element != nullptr,
                           .constant = nullptr};
    graft_host_constant constant{};
    if (entry.first->op == "null" && roles_.at(entry.first) == Role::kParameter) {
      constant = constant_of(*entry.first, type);
      value.constant = &constant;
    }
    int32_t added = -1;
    check(graft_host_graph_add_value(handle(), &value, &added, &error_), error_);
  }

  /// The array's own memory, which MXNet keeps as long as the symbol is being optimised.
  graft_host_constant constant_of(const Node& variable, const TensorType& type) {
    const MXTensor& tensor = *variable.tensor;
    Sizes sizes;
    for (const Axis& axis : type.axes) sizes.push_back(axis.fixed);
    const std::string where = "the parameter '" + variable.name + "'";
    if (tensor.shape != sizes || tensor.dtype != type.code) {
      throw Failure(where + " has another type or shape than inferred");
    }
    if (!tensor.data_ptr) throw Failure(where + " has no values yet: wait for them with mx.nd.waitall()");
    if (!tensor.ctx.dev_type.starts_with("cpu")) {
      throw Failure(where + " is not in the host's memory: copy it to mx.cpu()");
    }
    return {[](void* data, void**) -> const void* { return data; }, nullptr, nullptr, tensor.data_ptr};
  }

  int32_t value_at(const mxnet::ext::NodeEntry& entry) const {
    const std::vector<int32_t>& results = value_of_.at(entry.node);
    if (entry.entry >= static_cast<int>(results.size())) {
      throw Failure("'" + entry.node->name + "' has no result " + std::to_string(entry.entry));
    }
    return results[static_cast<size_t>(entry.entry)];
  }

  void add_node(Node* node) {
    std::vector<int32_t> inputs;
    for (const auto& input : node->inputs) inputs.push_back(value_at(input));
    std::string name = node->name;
    while (!names_.insert(name).second) name += "_";
    const std::vector<int32_t>& results = value_of_.at(node);
    const bool unknown = std::any_of(results.begin(), results.end(),
                                     [&](int32_t value) { return unknown_.count(static_cast<size_t>(value)) > 0; });
    if (unknown && !node->subgraphs.empty()) made_.unknown.push_back(made_.nodes.size());
    add_host_node(handle(), *node, name, inputs, results, reason_to_stay(*node));
    made_.nodes.push_back(node);
  }

  /// Random numbers; what MXNet knows the shape of only while running, and whoever reads the results of such a node.
  std::string reason_to_stay(const Node& node) {
    if (node.op.rfind("_random_", 0) == 0 || node.op.rfind("_sample_", 0) == 0) {
      return "MXNet draws random numbers itself, by mx.random.seed: a symbol that is compiled whole draws them";
    }
    if (running_.count(&node) > 0) behind_[&node] = node.name;
    for (const auto& input : node.inputs) {
      const auto found = behind_.find(input.node);
      if (found == behind_.end()) continue;
      behind_[&node] = found->second;
      return "MXNet knows the shape of what it reads only while running: it is behind '" + found->second + "'";
    }
    return "";
  }

  void set_borders() {
    std::vector<int32_t> inputs, outputs;
    for (Node* variable : graph_.inputs) {
      if (roles_.at(variable) != Role::kParameter) inputs.push_back(value_of_.at(variable).at(0));
    }
    for (const auto& output : graph_.outputs) outputs.push_back(value_at(output));
    check(graft_host_graph_set_borders(handle(), inputs.data(), inputs.size(), outputs.data(), outputs.size(), &error_),
          error_);
  }

  Graph& graph_;
  const Spec& spec_;
  const std::set<const Node*>& running_;
  std::map<const Node*, std::string> behind_;  // by node, the one of running_ that it reads from
  std::map<const Node*, Role> roles_;
  HostGraph made_;
  std::unordered_map<const Node*, std::vector<int32_t>> value_of_;
  std::set<size_t> unknown_;  // values whose shapes MXNet knows only while running
  std::map<std::string, std::vector<int64_t>> ranges_;
  std::set<std::string> names_;
  int64_t usual_ = 0;
  graft_error error_ = {};
};

}  // namespace

HostGraph read_graph(Graph& graph, const Spec& spec, const std::set<const Node*>& running) {
  return Reading(graph, spec, running).read();
}

}  // namespace graft::extension
