// SPDX-License-Identifier: Apache-2.0
#include "lower.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/remove_dropout.h>
#include <torch/csrc/jit/passes/remove_mutation.h>

#include "functional.h"
#include "sizes.h"

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;

constexpr int64_t kMostUnrolled = 4096;  // nodes that a loop may become
constexpr int kMostRounds = 64;          // what becomes known behind what became known

/// What passes work on.
struct Lowering {
  std::shared_ptr<jit::Graph>& graph;
  const jit::Module& module;
  const Spec& spec;
  Lowered done = {};
};

/// x.size(0) -> 4
bool fold_sizes(Lowering& lowering) {
  bool changed = false;
  for (const auto& [value, constant] : fixed_sizes(*lowering.graph, lowering.spec)) {
    jit::Node* node = const_cast<jit::Node*>(value->node());
    const jit::WithInsertPoint before(node);
    node->output()->replaceAllUsesWith(lowering.graph->insertConstant(constant));
    node->destroy();
    changed = true;
  }
  lowering.done.fixed_sizes |= changed;
  return changed;
}

int64_t size_of(const jit::Block& block) {
  int64_t size = 0;
  for (const jit::Node* node : block.nodes()) {
    ++size;
    for (const jit::Block* inner : node->blocks()) size += size_of(*inner);
  }
  return size;
}

/// How often a loop runs, if that is known and not too often.
std::optional<int64_t> rounds_of(jit::Node& loop) {
  const auto rounds = jit::constant_as<int64_t>(loop.inputs()[0]);
  const auto starts = jit::constant_as<bool>(loop.inputs()[1]);
  const auto goes_on = jit::constant_as<bool>(loop.blocks()[0]->outputs()[0]);
  if (!rounds || !starts || !goes_on || !*starts || !*goes_on || *rounds < 0) return std::nullopt;
  const int64_t size = size_of(*loop.blocks()[0]) + 1;
  return *rounds > kMostUnrolled / size ? std::nullopt : rounds;
}

/// loop (n) { body } -> body; body; ...
void unroll(jit::Graph& graph, jit::Node& loop, int64_t rounds) {
  const jit::WithInsertPoint before(&loop);
  jit::Block& body = *loop.blocks()[0];
  std::vector<jit::Value*> carried(loop.inputs().begin() + 2, loop.inputs().end());
  for (int64_t round = 0; round < rounds; ++round) {
    std::unordered_map<jit::Value*, jit::Value*> copies = {{body.inputs()[0], graph.insertConstant(round)}};
    const auto copy_of = [&](jit::Value* value) {
      const auto found = copies.find(value);
      return found == copies.end() ? value : found->second;
    };
    for (size_t i = 0; i < carried.size(); ++i) copies[body.inputs()[i + 1]] = carried[i];
    for (jit::Node* node : body.nodes()) {
      jit::Node* copy = graph.insertNode(graph.createClone(node, copy_of));
      for (size_t i = 0; i < node->outputs().size(); ++i) copies[node->outputs()[i]] = copy->outputs()[i];
    }
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = copy_of(body.outputs()[i + 1]);
  }
  for (size_t i = 0; i < carried.size(); ++i) loop.outputs()[i]->replaceAllUsesWith(carried[i]);
  loop.destroy();
}

bool unroll_loops(Lowering& lowering) {
  std::vector<jit::Node*> loops;
  for (jit::Node* node : lowering.graph->nodes()) {
    if (node->kind() == c10::prim::Loop) loops.push_back(node);
  }
  bool changed = false;
  for (jit::Node* loop : loops) {
    const auto rounds = rounds_of(*loop);
    if (!rounds) continue;
    unroll(*lowering.graph, *loop, *rounds);
    changed = true;
  }
  return changed;
}

/// Whether a node puts known elements behind those of a list, as `y += [a, b]` and `y.extend([a, b])` do: those of a
/// constant, or of a list that is made for it alone.
bool joins_lists(const jit::Node& node) {
  if (!node.matches("aten::add_.t(t[](a!) self, t[] b) -> t[]") &&
      !node.matches("aten::extend.t(t[](a!) self, t[] other) -> ()")) {
    return false;
  }
  const jit::Value& other = *node.inputs()[1];
  if (other.node()->kind() == c10::prim::ListConstruct) return other.uses().size() == 1;
  const auto constant = jit::toIValue(&other);
  return constant && constant->isList();
}

/// The elements of what joins_lists found, before the node that joins them.
std::vector<jit::Value*> joined_elements(jit::Graph& graph, jit::Value& list) {
  const auto constant = jit::toIValue(&list);
  if (!constant) return {list.node()->inputs().begin(), list.node()->inputs().end()};
  std::vector<jit::Value*> elements;
  for (const c10::IValue& each : constant->toListRef()) elements.push_back(graph.insertConstant(each));
  return elements;
}

/// y += [a, b] -> y.append(a); y.append(b), also in blocks
bool append_elements(jit::Graph& graph, jit::Block& block) {
  std::vector<jit::Node*> joins;
  bool changed = false;
  for (jit::Node* node : block.nodes()) {
    for (jit::Block* inner : node->blocks()) changed |= append_elements(graph, *inner);
    if (joins_lists(*node)) joins.push_back(node);
  }
  for (jit::Node* node : joins) {
    const jit::WithInsertPoint before(node);
    for (jit::Value* element : joined_elements(graph, *node->inputs()[1])) {
      graph.insert(c10::aten::append, {node->inputs()[0], element});
    }
    if (!node->outputs().empty()) node->output()->replaceAllUsesWith(node->inputs()[0]);
    node->destroy();
  }
  return changed || !joins.empty();
}

bool functional_lists(Lowering& lowering) {
  const bool appended = append_elements(*lowering.graph, *lowering.graph->block());
  const bool changed = functional_containers(*lowering.graph);
  jit::LowerSimpleTuples(lowering.graph);  // what a list of pairs held
  return appended || changed;
}

bool functional_tensors(Lowering& lowering) {
  bool changed = jit::RemoveTensorMutation(lowering.graph);
  while (functional_views(*lowering.graph)) changed = true;
  return changed;
}

bool inline_calls(Lowering& lowering) {
  jit::Inline(*lowering.graph);
  return false;
}

/// What an attribute of the frozen module is, by the chain of its names.
std::optional<c10::IValue> attribute_of(const Lowering& lowering, const jit::Value* value) {
  if (value == lowering.graph->inputs()[0]) return c10::IValue(lowering.module._ivalue());
  if (value->node()->kind() != c10::prim::GetAttr) return std::nullopt;
  const auto holder = attribute_of(lowering, value->node()->inputs()[0]);
  if (!holder || !holder->isObject()) return std::nullopt;
  const std::string& name = value->node()->s(c10::attr::name);
  return holder->toObject()->type()->findAttributeSlot(name) ? std::optional(holder->toObject()->getAttr(name))
                                                             : std::nullopt;
}

bool sets_attributes(const jit::Block& block) {
  return std::any_of(block.nodes().begin(), block.nodes().end(), [](const jit::Node* node) {
    return node->kind() == c10::prim::SetAttr ||
           std::any_of(node->blocks().begin(), node->blocks().end(), [](const jit::Block* inner) {
             return sets_attributes(*inner);
           });
  });
}

/// The attributes that a graph writes to: counters, histories, caches.
struct Written {
  std::set<const c10::TensorImpl*> tensors;
  bool others = false;  ///< what a list, a branch or an argument hands on is written to, too
};

/// The value whose memory a view shows, as far as views tell.
const jit::Value* shown_by(const jit::Value* value) {
  for (;;) {
    const jit::Node& node = *value->node();
    const c10::FunctionSchema* schema = node.maybeSchema();
    const bool view = schema && !node.inputs().empty() && schema->returns().size() == 1 &&
                      schema->returns()[0].alias_info();
    if (!view || node.inputs()[0]->type()->kind() != c10::TypeKind::TensorType) return value;
    value = node.inputs()[0];
  }
}

void collect_written(const Lowering& lowering, const jit::Block& block, Written& written) {
  for (const jit::Node* node : block.nodes()) {
    for (const jit::Block* inner : node->blocks()) collect_written(lowering, *inner, written);
    const c10::FunctionSchema* schema = node->maybeSchema();
    if (!schema || !schema->is_mutable()) continue;
    for (size_t i = 0; i < node->inputs().size() && i < schema->arguments().size(); ++i) {
      const c10::AliasInfo* alias = schema->arguments()[i].alias_info();
      if (!alias || !alias->isWrite()) continue;
      const jit::Value* shown = shown_by(node->inputs()[i]);
      const auto attribute = attribute_of(lowering, shown);
      if (attribute && attribute->isTensor() && attribute->toTensor().defined()) {
        written.tensors.insert(attribute->toTensor().unsafeGetTensorImpl());
      } else if (!shown->node()->kind().is_aten()) {
        written.others = true;
      }
    }
  }
}

void fold_attributes(Lowering& lowering, jit::Block& block, const Written& written, const jit::AliasDb& aliases) {
  for (jit::Node* node : std::vector<jit::Node*>(block.nodes().begin(), block.nodes().end())) {
    for (jit::Block* inner : node->blocks()) fold_attributes(lowering, *inner, written, aliases);
    if (node->kind() != c10::prim::GetAttr) continue;
    const auto value = attribute_of(lowering, node->output());
    const jit::WithInsertPoint before(node);
    const bool tensor = value && value->isTensor() && value->toTensor().defined();
    if (tensor && written.tensors.contains(value->toTensor().unsafeGetTensorImpl())) continue;
    if (tensor && written.others && aliases.hasWriters(node->output())) continue;
    const c10::IValue plain = tensor ? c10::IValue(value->toTensor().detach()) : value.value_or(c10::IValue());
    const auto constant = value ? jit::tryInsertConstant(*lowering.graph, plain) : std::nullopt;
    if (constant) node->output()->replaceAllUsesWith(*constant);
  }
}

/// Attributes that freezing left, as an object of the module is handed around -> constants. Those that the method
/// writes to stay, and are read anew in each run.
bool fold_frozen(Lowering& lowering) {
  if (sets_attributes(*lowering.graph->block())) return false;
  Written written;
  collect_written(lowering, *lowering.graph->block(), written);
  fold_attributes(lowering, *lowering.graph->block(), written, jit::AliasDb(lowering.graph));
  jit::EliminateDeadCode(lowering.graph);
  return false;
}

/// `cpu`, `cuda`: where the module and all that it is given lie.
std::string device_type(const Spec& spec) {
  std::string device = "cpu";
  for (const auto& [key, value] : spec.options) {
    if (key == "device") device = value.substr(0, value.find(':'));
  }
  return device;
}

/// The answer to a question that data do not decide: no where it asks for autocast, gradients or tensors of several
/// sizes, yes whether a value is itself, and of what type a tensor's device is; nothing for other nodes.
std::optional<c10::IValue> answer_to(const jit::Node& node, const std::string& device) {
  using c10::Symbol;
  static const std::array<Symbol, 4> kNever = {Symbol::fromQualString("aten::is_autocast_enabled"),
                                               Symbol::fromQualString("aten::is_autocast_cpu_enabled"),
                                               Symbol::fromQualString("aten::is_grad_enabled"),
                                               Symbol::fromQualString("prim::is_nested")};
  if (std::find(kNever.begin(), kNever.end(), node.kind()) != kNever.end()) return c10::IValue(false);
  if (node.kind() == Symbol::fromQualString("prim::type") &&
      node.inputs()[0]->node()->kind() == Symbol::fromQualString("prim::device")) {
    return c10::IValue(device);
  }
  const bool is = node.kind() == c10::aten::__is__, isnt = node.kind() == c10::aten::__isnot__;
  if ((is || isnt) && node.inputs()[0] == node.inputs()[1]) return c10::IValue(is);
  return std::nullopt;
}

/// Gives whether there were any.
bool answer(jit::Graph& graph, jit::Block& block, const std::string& device) {
  bool changed = false;
  for (jit::Node* node : std::vector<jit::Node*>(block.nodes().begin(), block.nodes().end())) {
    for (jit::Block* inner : node->blocks()) changed |= answer(graph, *inner, device);
    const auto known = answer_to(*node, device);
    if (!known) continue;
    const jit::WithInsertPoint before(node);
    node->output()->replaceAllUsesWith(graph.insertConstant(*known));
    node->destroy();
    changed = true;
  }
  return changed;
}

bool answer_modes(Lowering& lowering) {
  return answer(*lowering.graph, *lowering.graph->block(), device_type(lowering.spec));
}

bool drop_dropout(Lowering& lowering) {
  jit::removeDropout(lowering.graph);
  return false;
}

/// A constant tensor of that many axes, or none.
at::Tensor constant_tensor(const jit::Value* value, int64_t axes) {
  const auto constant = jit::toIValue(value);
  if (!constant || !constant->isTensor() || !constant->toTensor().defined()) return {};
  return constant->toTensor().dim() == axes ? constant->toTensor() : at::Tensor();
}

bool is_one(const jit::Value* value) {
  const auto constant = jit::toIValue(value);
  return constant && constant->isScalar() && constant->toScalar().equal(1);
}

/// What a node multiplies and adds, if it is a linear layer: its operand, weights and bias.
struct Linear {
  jit::Value* operand = nullptr;
  at::Tensor weights, bias;
};

std::optional<Linear> match_linear(const jit::Node& node) {
  Linear found;
  if (node.matches("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")) {
    if (!is_one(node.inputs()[3]) || !is_one(node.inputs()[4])) return std::nullopt;
    found = {const_cast<jit::Value*>(node.inputs()[1]), constant_tensor(node.inputs()[2], 2),
             constant_tensor(node.inputs()[0], 1)};
  } else if (node.matches("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")) {
    const jit::Node& product = *node.inputs()[0]->node();
    if (product.kind() != c10::aten::matmul || product.output()->uses().size() != 1 || !is_one(node.inputs()[2])) {
      return std::nullopt;
    }
    found = {const_cast<jit::Value*>(product.inputs()[0]), constant_tensor(product.inputs()[1], 2),
             constant_tensor(node.inputs()[1], 1)};
  }
  if (!found.weights.defined() || !found.bias.defined() || found.bias.size(0) != found.weights.size(1) ||
      found.bias.scalar_type() != found.weights.scalar_type()) {
    return std::nullopt;
  }
  return found;
}

/// x W + b, addmm(b, x, W) -> linear(x, W transposed, b)
bool join_linear(Lowering& lowering) {
  std::vector<jit::Node*> nodes(lowering.graph->nodes().begin(), lowering.graph->nodes().end());
  for (jit::Node* node : nodes) {
    const auto linear = match_linear(*node);
    if (!linear) continue;
    const jit::WithInsertPoint before(node);
    jit::Value* joined = lowering.graph->insert(
        c10::aten::linear, {linear->operand, lowering.graph->insertConstant(linear->weights.t()),
                            lowering.graph->insertConstant(linear->bias)});
    joined->node()->copyMetadata(node);
    node->output()->replaceAllUsesWith(joined);
    node->destroy();
  }
  jit::EliminateDeadCode(lowering.graph);
  return false;
}

/// Nodes that compute something or have blocks, without those within these.
int64_t computations(const jit::Graph& graph) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [](const jit::Node* node) { return node->kind() != c10::prim::Constant; });
}

/// A list of tensors that is known, which no argument of an engine can be -> one that is made of known tensors.
void construct_lists(jit::Graph& graph, jit::Block& block) {
  for (jit::Node* node : std::vector<jit::Node*>(block.nodes().begin(), block.nodes().end())) {
    for (jit::Block* inner : node->blocks()) construct_lists(graph, *inner);
    if (node->kind() != c10::prim::Constant || node->output()->uses().empty()) continue;
    const auto list = jit::toIValue(node->output());
    if (!list || !list->isTensorList()) continue;
    const jit::WithInsertPoint before(node);
    std::vector<jit::Value*> elements;
    for (const at::Tensor& element : list->toTensorVector()) elements.push_back(graph.insertConstant(element));
    jit::Node* made = graph.insertNode(graph.createList(c10::TensorType::get(), elements));
    node->output()->replaceAllUsesWith(made->output());
  }
}

/// Gives whether something went: branches, or what made a size behind it known.
bool fold_constants(Lowering& lowering) {
  const int64_t before = computations(*lowering.graph);
  jit::ConstantPropagation(lowering.graph);
  construct_lists(*lowering.graph, *lowering.graph->block());
  return computations(*lowering.graph) != before;
}

bool drop_dead_code(Lowering& lowering) {
  jit::EliminateDeadCode(lowering.graph);
  return false;
}

/// A rewrite of the whole graph; run gives whether something changed.
struct Pass {
  const char* name;
  bool (*run)(Lowering&);
};

// Checks that raise stay: they are control flow, which runs in torch between the engines. GELU, batch normalisation and
// log_softmax have converters of their own, so that no pass takes them apart.
constexpr Pass kPasses[] = {
    {"inline-calls", inline_calls},              // calls hide operators
    {"fold-attributes", fold_frozen},            // parameters that freezing left are constants all the same
    {"answer-modes", answer_modes},              // is autocast on, are gradients wanted, is it nested? -> no
    {"drop-dropout", drop_dropout},              // which does nothing in inference
    {"join-linear", join_linear},                // matmul and add -> one operator with its weights
    {"fold-sizes", fold_sizes},                  // what asks for fixed sizes -> numbers: bounds of loops, conditions
    {"fold-constants", fold_constants},          // branches whose condition is known
    {"unroll-loops", unroll_loops},              // so that engines reach over their rounds
    {"functional-lists", functional_lists},      // lists and dicts become what they hold, which engines read through
    {"functional-tensors", functional_tensors},  // writes in place that nobody else sees become results
    {"drop-dead-code", drop_dead_code},
};

}  // namespace

Lowered lower(std::shared_ptr<jit::Graph>& graph, const jit::Module& module, const Spec& spec,
              const std::function<void(const std::string&)>& observe) {
  Lowering lowering{.graph = graph, .module = module, .spec = spec};
  bool again = true;  // what a loop, a branch, a list or a write hid may be known now
  for (int round = 0; again && round < kMostRounds; ++round) {
    again = false;
    for (const Pass& pass : kPasses) {
      const bool changed = pass.run(lowering);
      again |= changed && pass.run != fold_sizes;
      if (observe) observe(pass.name);
    }
  }
  graph->lint();
  return lowering.done;
}

}  // namespace graft::torchscript
