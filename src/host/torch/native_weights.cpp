// SPDX-License-Identifier: Apache-2.0
#include "native_weights.h"

#include <functional>
#include <optional>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/jit/ir/constants.h>

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;

constexpr int64_t kLeastBytes = 4096;  // below, a constant costs less than the call that makes it

at::Tensor constant_tensor(const jit::Value* value) {
  const auto constant = jit::toIValue(value);
  return constant && constant->isTensor() ? constant->toTensor() : at::Tensor();
}

bool is_none(const jit::Value* value) {
  const auto constant = jit::toIValue(value);
  return constant && constant->isNone();
}

/// A convolution that is not transposed.
bool is_convolution(const jit::Node& node) {
  const c10::Symbol kind = node.kind();
  if (kind == c10::aten::conv1d || kind == c10::aten::conv2d || kind == c10::aten::conv3d) return true;
  if (kind != c10::aten::_convolution) return false;
  const auto transposed = jit::constant_as<bool>(node.inputs()[6]);
  return transposed && !*transposed;
}

/// normalise(convolve(x, W, b)) -> convolve(x, weights, bias)
struct Fold {
  jit::Node* convolution = nullptr;
  jit::Node* normalization = nullptr;
  at::Tensor weights, bias;
};

/// In double and rounded once, as the pass that does the same for engines.
std::optional<Fold> match_fold(jit::Node& node) {
  if (node.kind() != c10::aten::batch_norm) return std::nullopt;
  jit::Node& convolution = *node.inputs()[0]->node();
  const at::Tensor mean = constant_tensor(node.inputs()[3]), variance = constant_tensor(node.inputs()[4]);
  const auto training = jit::constant_as<bool>(node.inputs()[5]);
  const auto epsilon = jit::constant_as<double>(node.inputs()[7]);
  if (!is_convolution(convolution) || node.inputs()[0]->uses().size() != 1 || !mean.defined() || !variance.defined() ||
      !training || *training || !epsilon) {
    return std::nullopt;
  }
  const at::Tensor weights = constant_tensor(convolution.inputs()[1]);
  const auto parameter = [](const jit::Value* value, const at::Tensor& like, double otherwise) {
    return is_none(value) ? at::full_like(like, otherwise, at::kDouble) : constant_tensor(value);
  };
  const at::Tensor bias = parameter(convolution.inputs()[2], mean, 0), scale = parameter(node.inputs()[1], mean, 1),
                   shift = parameter(node.inputs()[2], mean, 0);
  if (!weights.defined() || !bias.defined() || !scale.defined() || !shift.defined()) return std::nullopt;
  const at::Tensor factor = scale.to(at::kDouble) / (variance.to(at::kDouble) + *epsilon).sqrt();
  std::vector<int64_t> sizes(static_cast<size_t>(weights.dim()), 1);
  sizes[0] = -1;
  const at::Tensor moved = (bias.to(at::kDouble) - mean.to(at::kDouble)) * factor + shift.to(at::kDouble);
  return Fold{&convolution, &node, (weights.to(at::kDouble) * factor.view(sizes)).to(weights.scalar_type()),
              moved.to(weights.scalar_type())};
}

bool is_large(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.is_floating_point() &&
         static_cast<int64_t>(tensor.nbytes()) >= kLeastBytes;
}

/// A call that makes the weight, in front of `reader`.
jit::Value* insert_weight(jit::Node& reader, jit::Value* engine, int64_t index) {
  const jit::WithInsertPoint before(&reader);
  jit::Graph& graph = *reader.owningGraph();
  return graph.insert(c10::Symbol::fromQualString("graft::engine_weight"), {engine, index});
}

void apply(const Fold& fold, jit::Value* engine, int64_t index) {
  fold.convolution->replaceInput(1, insert_weight(*fold.convolution, engine, index));
  const jit::WithInsertPoint before(fold.convolution);
  fold.convolution->replaceInput(2, fold.convolution->owningGraph()->insertConstant(fold.bias));
  fold.normalization->output()->replaceAllUsesWith(fold.convolution->output());
  fold.normalization->destroy();
}

void visit(jit::Block& block, const std::function<void(jit::Node&)>& each) {
  for (jit::Node* node : block.nodes()) {
    each(*node);
    for (jit::Block* inner : node->blocks()) visit(*inner, each);
  }
}

}  // namespace

void take_weights(jit::Block& block, Engine& engine, jit::Value* value) {
  std::vector<Fold> folds;
  std::vector<jit::Node*> constants;
  std::vector<at::Tensor> wanted;
  visit(block, [&](jit::Node& node) {
    auto fold = match_fold(node);
    if (fold && is_large(fold->weights)) folds.push_back(std::move(*fold));
    if (node.kind() == c10::prim::Constant && is_large(constant_tensor(node.output()))) constants.push_back(&node);
  });
  for (const Fold& fold : folds) wanted.push_back(fold.weights);
  for (const jit::Node* constant : constants) wanted.push_back(constant_tensor(constant->output()));
  const std::vector<std::optional<int64_t>> found = engine.keep_weights(wanted);
  for (size_t i = 0; i < folds.size(); ++i) {
    if (found[i]) apply(folds[i], value, *found[i]);
  }
  for (size_t i = 0; i < constants.size(); ++i) {
    const auto& index = found[folds.size() + i];
    if (index) constants[i]->output()->replaceAllUsesWith(insert_weight(*constants[i], value, *index));
  }
}

}  // namespace graft::torchscript
