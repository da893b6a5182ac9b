// SPDX-License-Identifier: Apache-2.0
#include "variables.h"

#include <algorithm>
#include <string_view>

#include "failure.h"

namespace graft::extension {
namespace {

using mxnet::ext::Node;

/// Operators all of whose inputs but the first are learned.
const std::set<std::string_view> kWeighted = {
    "Convolution", "Deconvolution", "FullyConnected", "BatchNorm", "BatchNorm_v1", "LayerNorm", "InstanceNorm",
    "GroupNorm",   "Embedding",     "LeakyReLU",      "_contrib_SyncBatchNorm"};

/// `data`, `data0`, and `label` with what stands before it: as Module, Gluon and iterators call what they feed.
bool is_called_like_data(const std::string& name) {
  const std::string_view data = "data";
  if (name.ends_with("label")) return true;
  return name.starts_with(data) && std::all_of(name.begin() + data.size(), name.end(),
                                               [](char c) { return '0' <= c && c <= '9'; });
}

/// Operators that bring the weights of a recurrent layer into the one vector that it takes.
const std::set<std::string_view> kJoining = {"_rnn_param_concat", "Reshape", "reshape"};

bool is_used_as_weight(const Node& variable);

bool is_weight_of(const mxnet::ext::NodeEntry& use) {
  const std::string& op = use.node->op;
  if (op == "RNN") return use.entry == 1;
  if (kJoining.count(op) > 0) return is_used_as_weight(*use.node);
  return use.entry > 0 && kWeighted.count(op) > 0;
}

/// Whether every use is a weight's.
bool is_used_as_weight(const Node& variable) {
  return !variable.outputs.empty() && std::all_of(variable.outputs.begin(), variable.outputs.end(), is_weight_of);
}

void check_names(const mxnet::ext::Graph& graph, const Spec& spec) {
  for (const std::string& name : spec.data_names) {
    const bool found = std::any_of(graph.inputs.begin(), graph.inputs.end(),
                                   [&](const Node* variable) { return variable->name == name; });
    if (!found) throw Failure("data_names: the symbol has no argument '" + name + "'");
  }
}

Role role_of(const Node& variable, const Spec& spec) {
  const bool weight = is_used_as_weight(variable);
  if (!spec.data_names.empty()) {
    const auto& names = spec.data_names;
    if (std::find(names.begin(), names.end(), variable.name) != names.end()) return Role::kData;
    const bool label = !weight && variable.name.ends_with("label");
    if (variable.tensor && !label) return Role::kParameter;
  } else if (!weight && variable.tensor && !is_called_like_data(variable.name)) {
    return Role::kOther;
  }
  if (!weight) return Role::kData;
  if (!variable.tensor) throw Failure("the parameter '" + variable.name + "' has no array: hand it in by args or aux");
  return Role::kParameter;
}

}  // namespace

std::map<const Node*, Role> roles_of_variables(mxnet::ext::Graph& graph, const Spec& spec) {
  check_names(graph, spec);
  std::map<const Node*, Role> roles;
  bool data = false;
  for (const Node* variable : graph.inputs) {
    const Role role = role_of(*variable, spec);
    roles[variable] = role;
    data = data || role == Role::kData;
  }
  for (auto& [variable, role] : roles) {  // names that say nothing: what is no weight is data
    if (!data && role == Role::kOther) role = Role::kData;
  }
  return roles;
}

}  // namespace graft::extension
