// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/join_sequence.h"

namespace graft {
namespace {

int64_t integer_of(const Node& node, std::string_view name) {
  const auto it = node.attributes.find(name);
  const auto* value = it == node.attributes.end() ? nullptr : std::get_if<int64_t>(&it->second);
  return value ? *value : 0;
}

}  // namespace

bool join_sequence(NodeWriter& writer, const Node& node) {
  if (!node.domain.empty() || node.op != "ConcatFromSequence" || node.inputs.size() != 1) return false;
  const int producer = writer.graph().value(node.inputs[0]).producer;
  if (producer < 0) return false;
  const Node& sequence = writer.graph().nodes[static_cast<size_t>(producer)];
  if (!sequence.domain.empty() || sequence.op != "SequenceConstruct" || !node.attributes.count("axis")) return false;
  Node concat = node;
  concat.op = "Concat";
  concat.inputs = sequence.inputs;
  concat.attributes = {{"axis", integer_of(node, "axis")}};
  if (integer_of(node, "new_axis") != 0) {
    const ValueId axes = writer.integers({integer_of(node, "axis")});
    for (ValueId& tensor : concat.inputs) tensor = writer.emit("Unsqueeze", {tensor, axes});
  }
  writer.add(std::move(concat));
  return true;
}

}  // namespace graft
