// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <torch/csrc/jit/ir/constants.h>

#include "functional.h"

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;

bool is_view(const jit::Node& node) {
  return node.matches("aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, "
                      "SymInt step=1) -> Tensor(a)") ||
         node.matches("aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)");
}

/// What holds no tensor.
bool is_number(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::DeviceObjType: return true;
    default: return false;
  }
}

/// Whether a node's result may share memory with what it is given, or be kept where its type does not show it.
bool may_alias(const jit::Node& node) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (!schema || !node.blocks().empty() || node.hasSideEffects() || schema->is_mutable()) return true;
  if (node.kind() == c10::aten::type_as || node.kind() == c10::aten::dropout) return true;  // not by their schemas
  return std::any_of(schema->returns().begin(), schema->returns().end(), [](const c10::Argument& each) {
    return each.alias_info() || !(is_number(*each.type()) || each.type()->kind() == c10::TypeKind::TensorType);
  });
}

/// A write into a part of a tensor that its block made.
struct PartWrite {
  jit::Node* write = nullptr;
  std::vector<jit::Node*> views;  ///< from the part to the tensor
  jit::Value* tensor() const { return views.back()->inputs()[0]; }
};

/// Whether an operator made the tensor, and nothing else has its memory: schemas do not tell of all that hand their
/// operand on, so that those that make one are named.
bool is_fresh(const jit::Value& tensor) {
  static const std::set<std::string> kMakers = {
      "zeros",     "ones",     "empty",     "full",  "zeros_like", "ones_like", "empty_like",    "full_like",
      "new_zeros", "new_ones", "new_empty", "clone", "new_full",   "copy",      "slice_scatter", "select_scatter"};
  return tensor.node()->kind().is_aten() && kMakers.count(tensor.node()->kind().toUnqualString()) > 0;
}

/// Whether nobody behind the write reads the memory by another name than the tensor's: its views from before, or what
/// kept it.
bool is_seen_by_name_alone(const PartWrite& part) {
  std::vector<jit::Value*> names = {part.tensor()};
  for (size_t i = 0; i < names.size(); ++i) {
    for (const jit::Use& use : names[i]->uses()) {
      const jit::Node& user = *use.user;
      if (user.owningBlock() != part.write->owningBlock()) return false;
      if (&user == part.write) continue;
      if (part.write->isBefore(&user)) {
        if (i > 0) return false;
      } else if (is_view(user)) {
        names.push_back(use.user->output());
      } else if (may_alias(user)) {
        return false;
      }
    }
  }
  return true;
}

std::optional<PartWrite> match(jit::Node& node) {
  static const char* const kWrites[] = {
      "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)",
      "aten::fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)",
      "aten::zero_(Tensor(a!) self) -> Tensor(a!)",
      "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"};
  const bool known = std::any_of(std::begin(kWrites), std::end(kWrites),
                                 [&](const char* schema) { return node.matches(schema); });
  if (!known || node.output()->hasUses()) return std::nullopt;
  PartWrite part{.write = &node, .views = {}};
  for (jit::Value* at = node.inputs()[0]; is_view(*at->node()); at = at->node()->inputs()[0]) {
    part.views.push_back(at->node());
  }
  if (part.views.empty() || part.tensor()->node()->owningBlock() != node.owningBlock()) return std::nullopt;
  if (!is_fresh(*part.tensor()) || !is_seen_by_name_alone(part)) return std::nullopt;
  return part;
}

/// v.op_(..) of v = view(t) -> t' = view_scatter(t, op(v, ..)), which is read instead of t from then on
void rewrite(jit::Graph& graph, const PartWrite& part) {
  const jit::WithInsertPoint before(part.write);
  const std::string written = part.write->kind().toUnqualString();
  std::vector<jit::NamedValue> arguments(part.write->inputs().begin(), part.write->inputs().end());
  jit::Value* changed = graph.insert(c10::Symbol::aten(written.substr(0, written.size() - 1)), arguments);
  changed->node()->copyMetadata(part.write);
  for (jit::Node* view : part.views) {
    std::vector<jit::NamedValue> whole = {view->inputs()[0], changed};
    for (size_t i = 1; i < view->inputs().size(); ++i) whole.emplace_back(view->inputs()[i]);
    const bool slice = view->kind() == c10::aten::slice;
    changed = graph.insert(slice ? c10::aten::slice_scatter : c10::aten::select_scatter, whole);
    changed->node()->copyMetadata(part.write);
  }
  jit::Value* tensor = part.tensor();
  changed->setType(tensor->type());
  tensor->replaceAllUsesAfterNodeWith(part.write, changed);
  part.write->destroy();
}

}  // namespace

bool functional_views(jit::Graph& graph) {
  std::vector<jit::Node*> nodes(graph.nodes().begin(), graph.nodes().end());
  bool changed = false;
  for (jit::Node* node : nodes) {
    const auto part = match(*node);
    if (!part) continue;
    rewrite(graph, *part);
    changed = true;
  }
  return changed;
}

}  // namespace graft::torchscript
