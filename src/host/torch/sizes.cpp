// SPDX-License-Identifier: Apache-2.0
#include "sizes.h"

#include <algorithm>
#include <array>
#include <optional>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/symbolic_shape_analysis.h>
#include <torch/csrc/jit/runtime/operator.h>

#include "inputs.h"

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;
using Values = std::unordered_map<const jit::Value*, c10::IValue>;

const std::array<int64_t Range::*, 3> kEnds = {&Range::min, &Range::opt, &Range::max};

at::Tensor without_data(c10::IntArrayRef sizes, c10::ScalarType dtype) {
  return at::empty(sizes, at::TensorOptions().dtype(dtype).device(c10::kMeta));
}

/// Constants of tensors lose their data.
c10::IValue constant_of(const jit::Node& node) {
  const auto value = jit::toIValue(node.output());
  if (!value) return {};
  if (!value->isTensor()) return *value;
  const at::Tensor& tensor = value->toTensor();
  return tensor.defined() ? c10::IValue(without_data(tensor.sizes(), tensor.scalar_type())) : *value;
}

/// What the interpreter itself does rather than an operator, or nothing.
std::optional<std::vector<c10::IValue>> packed(jit::Node& node, std::vector<c10::IValue>& inputs) {
  switch (node.kind()) {
    case c10::prim::ListConstruct: {
      c10::impl::GenericList list(node.output()->type()->expectRef<c10::ListType>().getElementType());
      for (c10::IValue& input : inputs) list.push_back(std::move(input));
      return {{c10::IValue(std::move(list))}};
    }
    case c10::prim::TupleConstruct: return {{c10::ivalue::Tuple::create(std::move(inputs))}};
    case c10::prim::TupleUnpack: {
      const auto& elements = inputs.at(0).toTupleRef().elements();
      return std::vector<c10::IValue>(elements.begin(), elements.end());
    }
    case c10::prim::ListUnpack: {
      const auto elements = inputs.at(0).toListRef();
      return std::vector<c10::IValue>(elements.begin(), elements.end());
    }
    default: return std::nullopt;
  }
}

/// The result of an operator without a kernel for `meta`, by torch's functions of shapes; its type is that of its first
/// tensor. Nothing where there is no such function.
std::optional<c10::IValue> by_shape_function(jit::Node& node, const std::vector<c10::IValue>& inputs) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (!schema || node.outputs().size() != 1) return std::nullopt;
  std::optional<c10::ScalarType> dtype;
  std::vector<jit::SSAInput> arguments;
  for (const c10::IValue& input : inputs) {
    if (!input.isTensor() || !input.toTensor().defined()) {
      arguments.emplace_back(input);
      continue;
    }
    if (!dtype) dtype = input.toTensor().scalar_type();
    arguments.emplace_back(c10::SymbolicShape(input.toTensor().sizes()));
  }
  const auto shapes = jit::calculateSymbolicShapesOnOp(schema, arguments);
  if (!dtype || !shapes || shapes->size() != 1) return std::nullopt;
  const auto axes = (*shapes)[0].sizes();
  if (!axes) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const c10::ShapeSymbol& axis : *axes) {
    if (!axis.is_static()) return std::nullopt;
    sizes.push_back(axis.static_size());
  }
  return c10::IValue(without_data(sizes, *dtype));
}

/// Runs an operator on tensors without data.
void run_operator(jit::Node& node, std::vector<c10::IValue>& stack) {
  const std::vector<c10::IValue> inputs = stack;
  try {
    node.getOperation()(stack);
  } catch (const std::exception&) {
    auto result = by_shape_function(node, inputs);
    if (!result) throw;
    stack = {std::move(*result)};
  }
}

/// Gives whether it could be run.
bool run_node(jit::Node& node, Values& values) {
  if (!node.blocks().empty() || node.hasSideEffects()) return false;
  std::vector<c10::IValue> stack;
  for (const jit::Value* input : node.inputs()) {
    const auto known = values.find(input);
    if (known == values.end()) return false;
    stack.push_back(known->second);
  }
  if (const auto results = packed(node, stack)) {
    stack = *results;
  } else {
    run_operator(node, stack);
  }
  for (size_t i = 0; i < node.outputs().size() && i < stack.size(); ++i) values[node.outputs()[i]] = stack[i];
  return true;
}

bool is_container(const jit::Value& value) {
  return value.type()->kind() == c10::TypeKind::ListType || value.type()->kind() == c10::TypeKind::DictType;
}

/// Lists and dicts that a node which did not run may have changed are unknown from then on, by all of their names.
void forget_changed(const jit::Node& node, Values& values) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    const jit::Value* input = node.inputs()[i];
    const auto known = values.find(input);
    if (known == values.end() || !is_container(*input)) continue;
    const bool written = !schema || (i < schema->arguments().size() && schema->arguments()[i].alias_info() &&
                                     schema->arguments()[i].alias_info()->isWrite());
    if (!written && node.blocks().empty()) continue;
    const c10::IValue changed = known->second;
    std::erase_if(values, [&](const auto& each) { return each.second.is(changed); });
  }
  for (const jit::Block* block : node.blocks()) {
    for (const jit::Node* inner : block->nodes()) forget_changed(*inner, values);
  }
}

/// The graph's values at one end of the ranges.
Values run_graph(const jit::Graph& graph, const Spec& spec, int64_t Range::*end) {
  const at::NoGradGuard no_gradients;
  Values values;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const jit::Value* input = graph.inputs()[i + 1];
    values[input] = value_of(spec.inputs[i], input->type(), [&](const Input& tensor) {
      return without_data(sizes_at(spec, tensor, end), tensor.dtype);
    });
  }
  for (const jit::Node* each : graph.nodes()) {
    auto& node = const_cast<jit::Node&>(*each);
    bool ran = node.kind() == c10::prim::Constant;
    try {
      if (ran) {
        values[node.output()] = constant_of(node);
      } else {
        ran = run_node(node, values);
      }
    } catch (const std::exception&) {  // it needs data, or sizes that are none of these: its results stay unknown
    }
    if (!ran) forget_changed(node, values);
  }
  return values;
}

/// Names of changing sizes: those that the caller gave, and new ones.
class Symbols {
 public:
  explicit Symbols(const Spec& spec) {
    for (const auto& [name, range] : spec.dims) {
      if (range.min == range.max) continue;
      ranges_[name] = range;
      const auto [known, added] = by_sizes_.emplace(Sizes{range.min, range.opt, range.max}, name);
      if (!added) known->second.clear();  // two dimensions of the same ranges cannot be told apart
    }
  }
  using Sizes = std::array<int64_t, 3>;

  std::string name_of(const Sizes& sizes, const jit::Value& value, size_t axis) {
    const auto known = by_sizes_.find(sizes);
    if (known != by_sizes_.end() && !known->second.empty()) return known->second;
    const std::string name = value.debugName() + "_" + std::to_string(axis);
    const bool rising = sizes[0] <= sizes[1] && sizes[1] <= sizes[2];
    ranges_[name] = rising ? Range{sizes[0], sizes[1], sizes[2]} : Range{0, sizes[1], 0};
    return name;
  }
  std::map<std::string, Range> take_ranges() { return std::move(ranges_); }

 private:
  std::map<Sizes, std::string> by_sizes_;
  std::map<std::string, Range> ranges_;
};

/// A tensor's sizes at the three ends; nothing where its rank changes or an end is unknown.
std::optional<KnownTensor> compare(const jit::Value& value, const std::array<Values, 3>& at, Symbols& symbols) {
  std::array<at::Tensor, 3> tensors;
  for (size_t end = 0; end < at.size(); ++end) {
    const auto found = at[end].find(&value);
    if (found == at[end].end() || !found->second.isTensor() || !found->second.toTensor().defined()) return {};
    tensors[end] = found->second.toTensor();
    if (tensors[end].dim() != tensors[0].dim() || tensors[end].scalar_type() != tensors[0].scalar_type()) return {};
  }
  KnownTensor known{.dtype = tensors[0].scalar_type(), .sizes = {}, .symbols = {}};
  for (int64_t axis = 0; axis < tensors[0].dim(); ++axis) {
    const Symbols::Sizes sizes = {tensors[0].size(axis), tensors[1].size(axis), tensors[2].size(axis)};
    const bool fixed = sizes[0] == sizes[1] && sizes[1] == sizes[2];
    known.sizes.push_back(fixed ? sizes[0] : -1);
    known.symbols.push_back(fixed ? "" : symbols.name_of(sizes, value, static_cast<size_t>(axis)));
  }
  return known;
}

/// The caller names the axes of inputs itself, whatever their ranges.
KnownTensor of_input(const Spec& spec, size_t index) {
  KnownTensor known{.dtype = spec.inputs[index].dtype, .sizes = {}, .symbols = {}};
  for (const Axis& axis : spec.inputs[index].shape) {
    const Range* range = axis.dimension.empty() ? nullptr : &range_of(spec, axis.dimension, std::to_string(index));
    const bool fixed = !range || range->min == range->max;
    known.sizes.push_back(!fixed ? -1 : range ? range->min : axis.size);
    known.symbols.push_back(fixed ? "" : axis.dimension);
  }
  return known;
}

}  // namespace

KnownSizes known_sizes(const jit::Graph& graph, const Spec& spec) {
  std::array<Values, 3> at;
  for (size_t end = 0; end < at.size(); ++end) {
    at[end] = end > 0 && !has_ranges(spec) ? at[0] : run_graph(graph, spec, kEnds[end]);
  }
  Symbols symbols(spec);
  KnownSizes known;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (spec.inputs[i].kind == Input::Kind::kTensor) known.tensors[graph.inputs()[i + 1]] = of_input(spec, i);
  }
  for (const jit::Node* node : graph.nodes()) {
    if (node->kind() == c10::prim::Constant) continue;
    for (const jit::Value* output : node->outputs()) {
      if (auto tensor = compare(*output, at, symbols)) known.tensors[output] = std::move(*tensor);
    }
  }
  known.ranges = symbols.take_ranges();
  return known;
}

namespace {

/// x.dim(), len(x.size())
bool asks_rank(const jit::Node& node) {
  if (node.kind() == c10::aten::dim) return true;
  return node.kind() == c10::aten::len && node.inputs()[0]->node()->kind() == c10::aten::size;
}

/// Whether a number is the same at the ends of the ranges.
bool is_same(const std::array<Values, 2>& ends, const jit::Value& value, const c10::IValue& number) {
  return std::all_of(ends.begin(), ends.end(), [&](const Values& at) {
    const auto found = at.find(&value);
    return found != at.end() && found->second.isInt() && number.isInt() && found->second.toInt() == number.toInt();
  });
}

/// Whether all ranges begin at 1: an axis of size 1, which squeeze() takes away, is then one of the ends.
bool never_empty(const Spec& spec) {
  return std::all_of(spec.dims.begin(), spec.dims.end(), [](const auto& each) { return each.second.min > 0; });
}

/// Whether a node asks for what the spec fixes: any size where all are fixed, else those of an argument itself.
bool is_fixed(const jit::Graph& graph, const jit::Node& node, const Spec& spec, bool all_fixed) {
  if (all_fixed) return true;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const Input& input = spec.inputs[i];
    if (node.inputs().at(0) != graph.inputs()[i + 1] || input.kind != Input::Kind::kTensor) continue;
    if (node.kind() == c10::aten::dim || node.kind() == c10::prim::dtype) return true;
    const auto axis = node.inputs().size() > 1 ? jit::constant_as<int64_t>(node.inputs()[1]) : std::nullopt;
    if (node.kind() != c10::aten::size || !axis) return false;
    const int64_t rank = static_cast<int64_t>(input.shape.size()), at = *axis < 0 ? *axis + rank : *axis;
    if (at < 0 || at >= rank) return false;
    const std::string& dimension = input.shape[static_cast<size_t>(at)].dimension;
    return dimension.empty() || range_of(spec, dimension, "").min == range_of(spec, dimension, "").max;
  }
  return false;
}

}  // namespace

std::vector<std::pair<const jit::Value*, c10::IValue>> fixed_sizes(const jit::Graph& graph, const Spec& spec) {
  bool all_fixed = !has_ranges(spec);
  for (const Input& input : spec.inputs) all_fixed &= input.kind == Input::Kind::kTensor;
  const Values values = run_graph(graph, spec, &Range::opt);
  std::array<Values, 2> ends;
  if (!all_fixed) ends = {run_graph(graph, spec, &Range::min), run_graph(graph, spec, &Range::max)};
  std::vector<std::pair<const jit::Value*, c10::IValue>> fixed;
  for (const jit::Node* node : graph.nodes()) {
    const c10::Symbol kind = node->kind();
    const bool asks = kind == c10::aten::size || kind == c10::aten::dim || kind == c10::aten::len ||
                      kind == c10::Symbol::fromQualString("aten::numel") || kind == c10::prim::dtype;
    if (!asks) continue;
    const auto known = values.find(node->outputs()[0]);
    if (known == values.end()) continue;
    const bool same = asks_rank(*node) && is_same(ends, *node->outputs()[0], known->second) && never_empty(spec);
    if (!same && !is_fixed(graph, *node, spec, all_fixed)) continue;
    if (known->second.isInt() || known->second.isIntList()) fixed.emplace_back(node->outputs()[0], known->second);
  }
  return fixed;
}

}  // namespace graft::torchscript
