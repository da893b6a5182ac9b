// SPDX-License-Identifier: Apache-2.0
#include "export/mxnet/symbol_view.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/spelling.h"
#include "import/mxnet/precision_lists.h"
#include "import/mxnet/symbol_facts.h"

namespace graft::mxnet {
namespace {

bool has_bit(uint64_t mask, size_t i) { return i < 64 && (mask >> i & 1) != 0; }

class Viewing {
 public:
  Viewing(const Symbol& symbol, const amp::Request& request, const Parameters* parameters)
      : symbol_(symbol), request_(request), parameters_(parameters) {}

  SymbolView run() {
    find_places();
    check_names();
    view_.is_parameter.resize(symbol_.nodes.size());
    for (size_t i = 0; i < symbol_.nodes.size(); ++i) {
      if (symbol_.nodes[i].is_variable()) {
        add_variable(static_cast<int>(i));
      } else {
        add_operator(static_cast<int>(i));
      }
    }
    for (const SymbolEntry& head : symbol_.heads) view_.graph.outputs.push_back(value_at(head));
    return std::move(view_);
  }

 private:
  /// Which variables stand where operators have weights and statistics, and which outputs are read.
  void find_places() {
    const auto note = [&](const SymbolEntry& entry) { read_[entry.node].insert(entry.output); };
    for (const SymbolNode& node : symbol_.nodes) {
      const OperandRow row = operand_row(node.op);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        note(node.inputs[i]);
        if (has_bit(row.parameters | row.auxiliary, i)) weights_.insert(node.inputs[i].node);
      }
    }
    for (const SymbolEntry& head : symbol_.heads) note(head);
  }

  /// What the request names is there.
  void check_names() const {
    std::vector<std::string> names;
    for (const SymbolNode& node : symbol_.nodes) {
      if (node.is_variable()) names.push_back(node.name);
    }
    const std::set<std::string> known(names.begin(), names.end());
    const auto check = [&](const std::string& name, const char* where) {
      GRAFT_USER_CHECK(known.contains(name), kInvalidArgument,
                       fmt::format("the symbol has no variable '{}'{}", name, did_you_mean(name, names)), where);
    };
    for (const std::string& name : request_.data_names.value_or(std::vector<std::string>())) check(name, "data_names");
    for (const auto& [name, type] : request_.input_types) check(name, "input_dtypes");
  }

  bool is_data(int index) const {
    const std::string& name = symbol_.nodes[index].name;
    if (request_.input_types.contains(name)) return true;
    if (!request_.data_names) return parameters_ ? !parameters_->contains(name) : !weights_.contains(index);
    return std::ranges::find(*request_.data_names, name) != request_.data_names->end();
  }

  void add_variable(int index) {
    const SymbolNode& node = symbol_.nodes[index];
    const bool data = is_data(index);
    amp::Value value{.name = node.name, .type = stated_type(node), .is_parameter = !data};
    if (value.type == DType::kUndefined) value.type = DType::kFloat32;
    const auto wanted = request_.input_types.find(node.name);
    if (wanted != request_.input_types.end()) value.type = wanted->second.value_or(DType::kUndefined);
    if (parameters_) {
      const auto array = parameters_->find(node.name);
      const bool missing = array == parameters_->end() && (!data || (weights_.contains(index) && !is_named(node.name)));
      GRAFT_USER_CHECK(!missing, kInvalidModel,
                       "the parameters have no array of this name; name it in data_names if it is handed in",
                       node.name);
      if (!data && array->second) value.type = array->second.type();
      if (!data) type_code(value.type, node.name);  // MXNet has it
    }
    view_.is_parameter[index] = !data;
    add_value({index, 0}, std::move(value));
  }

  /// Whether the request says that the variable is data.
  bool is_named(const std::string& name) const {
    if (request_.input_types.contains(name)) return true;
    return request_.data_names && std::ranges::find(*request_.data_names, name) != request_.data_names->end();
  }

  void add_operator(int index) {
    const SymbolNode& from = symbol_.nodes[index];
    const OperandRow row = operand_row(from.op);
    amp::Node node{.op = from.op, .name = from.name, .attributes = from.attributes, .kept = row.kept | row.auxiliary};
    if (from.op == "amp_cast") node.kind = amp::NodeKind::kCast;
    if (from.op == "amp_multicast") node.kind = amp::NodeKind::kMulticast;
    if (!from.subgraphs.empty()) node.kind = amp::NodeKind::kClosed;
    for (const SymbolEntry& input : from.inputs) node.inputs.push_back(value_at(input));
    std::set<int> outputs = read_[index];
    if (node.kind == amp::NodeKind::kMulticast) {
      for (size_t k = 0; k < from.inputs.size(); ++k) outputs.insert(static_cast<int>(k));
    }
    for (const int output : outputs) {
      node.outputs.push_back(add_value({index, output}, {.name = from.name}));
      node.results.push_back(result_type(from, row.result, output));
    }
    view_.graph.nodes.push_back(std::move(node));
    view_.nodes.push_back(index);
  }

  static std::optional<DType> result_type(const SymbolNode& node, ResultType rule, int output) {
    switch (rule) {
      case ResultType::kOperands: return std::nullopt;
      case ResultType::kFirstOnly: return output == 0 ? std::nullopt : std::optional(DType::kFloat32);
      case ResultType::kInteger: return DType::kInt64;
      case ResultType::kFloat: return DType::kFloat32;
      case ResultType::kAttribute: break;
    }
    const auto stated = node.attributes.find("dtype");
    if (stated == node.attributes.end() || stated->second == "None") return DType::kFloat32;
    const DType type = type_of_name(stated->second);
    GRAFT_USER_CHECK(type != DType::kUndefined, kInvalidModel,
                     fmt::format("there is no element type '{}' (dtype)", stated->second), node.name);
    return type;
  }

  int add_value(SymbolEntry entry, amp::Value value) {
    const int id = static_cast<int>(view_.graph.values.size());
    view_.graph.values.push_back(std::move(value));
    view_.entries.push_back(entry);
    view_.value_of[{entry.node, entry.output}] = id;
    return id;
  }

  int value_at(const SymbolEntry& entry) const { return view_.value_of.at({entry.node, entry.output}); }

  const Symbol& symbol_;
  const amp::Request& request_;
  const Parameters* parameters_;
  std::set<int> weights_;             ///< variables at places of parameters and statistics
  std::map<int, std::set<int>> read_;  ///< by node: outputs that something reads
  SymbolView view_;
};

}  // namespace

SymbolView view_symbol(const Symbol& symbol, const amp::Request& request, const Parameters* parameters) {
  return Viewing(symbol, request, parameters).run();
}

}  // namespace graft::mxnet
