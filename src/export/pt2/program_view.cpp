// SPDX-License-Identifier: Apache-2.0
#include "export/pt2/program_view.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "import/pt2/tensors.h"

namespace graft::pt2 {
namespace {

using Document = nlohmann::ordered_json;
using frontend::Argument;
using frontend::ForeignNode;

/// Stands for what is no tensor of floats.
constexpr DType kNoFloat = DType::kString;

std::string_view plain_name(std::string_view op) { return op.substr(0, op.find('.')); }

bool is_batch_norm(std::string_view op) {
  return op == "aten::batch_norm" || op == "aten::_native_batch_norm_legit_no_training" ||
         op == "aten::_native_batch_norm_legit" || op == "aten::native_batch_norm";
}

/// Normalisations whose weights torch's GPUs want in the type of what they scale: f32, as torch.autocast has them.
bool needs_f32(std::string_view op) {
  constexpr std::array<std::string_view, 9> kNormalisations = {
      "aten::layer_norm", "aten::native_layer_norm", "aten::group_norm", "aten::native_group_norm",
      "aten::instance_norm", "aten::rms_norm", "aten::_fused_rms_norm", "aten::local_response_norm",
      "aten::_weight_norm_interface"};
  return std::ranges::find(kNormalisations, op) != kNormalisations.end();
}

/// Statistics and weights that torch lets have a type of their own.
bool is_kept(std::string_view op, const std::string& argument) {
  return is_batch_norm(op) && (argument == "weight" || argument == "bias" || argument == "running_mean" ||
                               argument == "running_var");
}

/// The places of names in an argument, in the order in which they are read.
void collect_names(Document& argument, std::vector<Document*>& names) {
  if (argument.is_array()) {
    for (Document& each : argument) collect_names(each, names);
  }
  if (!argument.is_object()) return;
  for (const char* key : {"name", "as_name"}) {
    if (argument.contains(key) && argument[key].is_string()) return names.push_back(&argument[key]);
  }
  for (auto& [key, value] : argument.items()) collect_names(value, names);
}

class Viewing {
 public:
  Viewing(const Program& program, Document& document, const amp::DefaultLists& lists, const std::string& where)
      : program_(program), graph_(document["graph_module"]["graph"]), lists_(lists), where_(where) {}

  ProgramView run() {
    for (const frontend::ForeignValue& value : program_.foreign.values) add_value(value);
    for (size_t n = 0; n < program_.foreign.nodes.size(); ++n) add_node(program_.foreign.nodes[n], graph_["nodes"][n]);
    view_.graph.outputs = program_.foreign.outputs;
    return std::move(view_);
  }

 private:
  void add_value(const frontend::ForeignValue& from) {
    amp::Value value{.name = from.name, .type = from.type, .is_parameter = static_cast<bool>(from.constant)};
    const Document& known = graph_["tensor_values"];
    if (value.type == DType::kUndefined && known.contains(from.name)) {
      value.type = element_type(known[from.name]["dtype"].get<int64_t>());
    }
    if (value.type == DType::kUndefined || !from.tensor) value.type = kNoFloat;
    view_.graph.values.push_back(std::move(value));
  }

  DType type_of(int value) const { return view_.graph.values[static_cast<size_t>(value)].type; }

  void add_node(const ForeignNode& from, Document& described) {
    amp::Node node{.op = from.op, .name = from.name};
    const std::string_view op = plain_name(from.op);
    std::vector<Document*>& names = view_.names.emplace_back();
    size_t position = 0;
    bool typed = false;
    for (Document& input : described["inputs"]) {
      const std::string name = input["name"].get<std::string>();
      const Argument& argument = name.empty() ? from.arguments[position++] : from.attributes.find(name)->second;
      typed |= name == "dtype" && !argument.is_none();
      const size_t before = node.inputs.size();
      frontend::visit_references(argument, [&](int value) { node.inputs.push_back(value); });
      if (node.inputs.size() > before) collect_names(input["arg"], names);
      GRAFT_USER_CHECK(names.size() == node.inputs.size(), kUnsupported,
                       fmt::format("its argument '{}' names something that is not read", name),
                       fmt::format("{}: {}", where_, from.name));
      for (size_t i = before; i < node.inputs.size() && i < 64; ++i) {
        if (is_kept(op, name)) node.kept |= uint64_t{1} << i;
      }
    }
    add_outputs(from, typed, node);
    const bool known = from.op.starts_with("aten::") && lists_.rule(from.op).has_value();
    if (!known || needs_f32(op)) node.kind = amp::NodeKind::kClosed;
    view_.graph.nodes.push_back(std::move(node));
  }

  /// Results follow the operands unless the node says a type, or reads none of theirs.
  void add_outputs(const ForeignNode& from, bool typed, amp::Node& node) const {
    bool reads = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      reads |= !node.keeps(i) && type_of(node.inputs[i]) == DType::kFloat32;
    }
    for (size_t k = 0; k < from.outputs.size(); ++k) {
      const DType type = type_of(from.outputs[k]);
      node.outputs.push_back(from.outputs[k]);
      const bool statistics = k > 0 && is_batch_norm(plain_name(from.op));
      const bool narrow = type == DType::kFloat32 || type == DType::kFloat16 || type == DType::kBFloat16;
      const bool follows = narrow && reads && !typed && !statistics;
      node.results.push_back(follows ? std::nullopt : std::optional(type));
    }
  }

  const Program& program_;
  Document& graph_;
  const amp::DefaultLists& lists_;
  const std::string& where_;
  ProgramView view_;
};

}  // namespace

ProgramView view_program(const Program& program, nlohmann::ordered_json& document, const amp::DefaultLists& lists,
                         const std::string& where) {
  return Viewing(program, document, lists, where).run();
}

}  // namespace graft::pt2
