// SPDX-License-Identifier: Apache-2.0
#include "observe.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include "inputs.h"

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;

/// What was seen of a value; `varies` when it had two types or ranks.
struct Seen {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> sizes;
  bool varies = false;

  void add(const at::Tensor& tensor) {
    const bool first = dtype == c10::ScalarType::Undefined;
    varies |= !first && (tensor.scalar_type() != dtype || static_cast<size_t>(tensor.dim()) != sizes.size());
    dtype = tensor.scalar_type(), sizes = tensor.sizes().vec();
  }
};
using Observed = std::unordered_map<const jit::Value*, Seen>;

bool is_tensor(const jit::Value& value) { return value.type()->isSubtypeOf(*c10::TensorType::get()); }

/// Whether a run writes to a constant, which the module shares with copies of it.
bool writes_constants(const jit::Block& block, const jit::AliasDb& aliases) {
  return std::any_of(block.nodes().begin(), block.nodes().end(), [&](const jit::Node* node) {
    if (node->kind() == c10::prim::Constant) return is_tensor(*node->output()) && aliases.hasWriters(node->output());
    return std::any_of(node->blocks().begin(), node->blocks().end(),
                       [&](const jit::Block* inner) { return writes_constants(*inner, aliases); });
  });
}

bool speaks(const jit::Node& node) { return node.kind() == c10::prim::Print || node.kind() == c10::aten::warn; }

/// Has each tensor of a copied block, whose original is `original`, note itself when it is there.
class Watching {
 public:
  Watching(jit::Graph& copy, Observed& observed) : copy_(copy), observed_(observed) {}

  void watch(jit::Block& original, jit::Block& copied) {
    const std::vector<jit::Node*> nodes(copied.nodes().begin(), copied.nodes().end());  // before watchers come between
    for (size_t i = 0; i < original.inputs().size(); ++i) {
      watch(*original.inputs()[i], copied.inputs()[i], **copied.nodes().begin());
    }
    size_t at = 0;
    for (jit::Node* node : original.nodes()) {
      jit::Node* mine = nodes.at(at++);
      for (size_t i = 0; i < node->blocks().size(); ++i) watch(*node->blocks()[i], *mine->blocks()[i]);
      for (size_t i = 0; i < node->outputs().size(); ++i) {
        watch(*node->outputs()[i], mine->outputs()[i], *mine->next());
      }
      if (speaks(*node)) mine->destroy();
    }
  }

 private:
  void watch(const jit::Value& original, jit::Value* copied, jit::Node& before) {
    if (!is_tensor(original) || original.node()->kind() == c10::prim::Constant) return;
    const auto note = [&observed = observed_, &original](jit::Stack& stack) {
      stack.pop_back();  // the number of the call
      const c10::IValue value = std::move(stack.back());
      stack.pop_back();
      if (value.isTensor() && value.toTensor().defined()) observed[&original].add(value.toTensor());
    };
    jit::Node* watcher = copy_.insertNode(new jit::ProfileIValueOp(&copy_, note));
    watcher->addInput(copied);
    watcher->moveBefore(&before);
  }

  jit::Graph& copy_;
  Observed& observed_;
};

Observed observe(const jit::Module& module, const std::shared_ptr<jit::Graph>& graph, const Spec& spec) {
  Observed observed;
  const std::shared_ptr<jit::Graph> copy = graph->copy();
  Watching(*copy, observed).watch(*graph->block(), *copy->block());
  const at::NoGradGuard no_gradients;
  jit::Stack stack = sample_inputs(*graph, spec);
  stack.insert(stack.begin(), module.deepcopy()._ivalue());  // it may set attributes
  stack.resize(graph->inputs().size());  // arguments with defaults, which are constants by now
  jit::InterpreterState(jit::Code(copy, "graft_observe")).run(stack);
  return observed;
}

}  // namespace

bool observe_types(const jit::Module& module, const std::shared_ptr<jit::Graph>& graph, const Spec& spec,
                   KnownSizes& known) {
  if (writes_constants(*graph->block(), jit::AliasDb(graph))) return false;
  bool found = false;
  for (const auto& [value, seen] : observe(module, graph, spec)) {
    if (seen.varies || known.tensors.contains(value)) continue;
    KnownTensor tensor{.dtype = seen.dtype, .sizes = {}, .symbols = {}};
    for (size_t axis = 0; axis < seen.sizes.size(); ++axis) {
      const std::string name = value->debugName() + "_" + std::to_string(axis);
      tensor.sizes.push_back(-1), tensor.symbols.push_back(name);
      known.ranges[name] = {0, seen.sizes[axis], 0};
    }
    known.tensors[value] = std::move(tensor);
    found = true;
  }
  return found;
}

}  // namespace graft::torchscript
