// SPDX-License-Identifier: Apache-2.0
#include "export/pt2/aten_node.h"

#include <algorithm>
#include <array>

namespace graft::pt2 {
namespace {

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

bool is_narrow(DType type) {
  return type == DType::kFloat32 || type == DType::kFloat16 || type == DType::kBFloat16;
}

/// Results follow the operands unless the node says a type, or reads none of theirs.
void add_outputs(const frontend::ForeignNode& from, bool typed, const std::vector<amp::Value>& values,
                 amp::Node& node) {
  const auto type_of = [&](int value) { return values[static_cast<size_t>(value)].type; };
  bool reads = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    reads |= !node.keeps(i) && type_of(node.inputs[i]) == DType::kFloat32;
  }
  for (size_t k = 0; k < from.outputs.size(); ++k) {
    const DType type = type_of(from.outputs[k]);
    node.outputs.push_back(from.outputs[k]);
    const bool statistics = k > 0 && is_batch_norm(plain_name(from.op));
    const bool follows = is_narrow(type) && reads && !typed && !statistics;
    node.results.push_back(follows ? std::nullopt : std::optional(type));
  }
}

}  // namespace

amp::Node aten_node(const frontend::ForeignNode& from, const std::vector<NamedArgument>& arguments,
                    const std::vector<amp::Value>& values, const amp::DefaultLists& lists) {
  amp::Node node{.op = from.op, .name = from.name};
  const std::string_view op = plain_name(from.op);
  bool typed = false;
  for (const NamedArgument& each : arguments) {
    typed |= each.name == "dtype" && !each.argument->is_none();
    const size_t before = node.inputs.size();
    frontend::visit_references(*each.argument, [&](int value) { node.inputs.push_back(value); });
    for (size_t i = before; i < node.inputs.size() && i < 64; ++i) {
      if (is_kept(op, each.name)) node.kept |= uint64_t{1} << i;
    }
  }
  add_outputs(from, typed, values, node);
  const bool known = from.kept.empty() && from.op.starts_with("aten::") && lists.rule(from.op).has_value();
  if (!known || needs_f32(op)) node.kind = amp::NodeKind::kClosed;
  return node;
}

}  // namespace graft::pt2
