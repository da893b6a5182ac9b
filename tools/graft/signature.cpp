// SPDX-License-Identifier: Apache-2.0
#include "signature.h"

#include <algorithm>

#include <fmt/format.h>

namespace graft {
namespace {

EngineTensor tensor_of(const Value& value) {
  EngineTensor tensor{.name = value.name, .type = value.type, .shape = value.shape.value_or(Shape{})};
  if (value.type == DType::kString) tensor.handles = "str";
  if (!value.dynamic_type.empty()) tensor.handles = value.dynamic_type, tensor.shape.clear();
  if (!tensor.handles.empty()) tensor.type = DType::kUint64;
  return tensor;
}

bool is_plain(const Value& value) {
  if (!value.dynamic_type.empty()) return true;
  if (value.type == DType::kUndefined || !value.shape) return false;
  return std::all_of(value.shape->begin(), value.shape->end(),
                     [](const Size& size) { return size.is_constant() || size.as_symbol().has_value(); });
}

}  // namespace

EngineOptions fixed_sizes(const CompileOptions& options) {
  EngineOptions rows;
  for (const auto& [name, range] : options.dims) {
    if (range.min == range.max) rows.emplace_back("dim", fmt::format("{}={}", name, range.min));
  }
  return rows;
}

std::optional<Engine> signature_of(const Graph& graph, const EngineOptions& options) {
  Engine signature;
  signature.options = options;
  signature.name = graph.name;
  for (const ValueId input : graph.inputs) {
    if (!is_plain(graph.value(input))) return std::nullopt;
    signature.inputs.push_back(static_cast<int>(signature.tensors.size()));
    signature.tensors.push_back(tensor_of(graph.value(input)));
  }
  for (const ValueId output : graph.outputs) {
    signature.outputs.push_back(static_cast<int>(signature.tensors.size()));
    signature.tensors.push_back(tensor_of(graph.value(output)));
  }
  for (const auto& [name, range] : graph.symbol_ranges) signature.symbols[name] = {range.min, range.opt, range.max};
  return signature;
}

}  // namespace graft
