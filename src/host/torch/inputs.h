// SPDX-License-Identifier: Apache-2.0
// What a method takes, as its caller describes it: types filled in, sizes named, values made of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/ir/ir.h>

#include "graft/torchscript.h"

namespace graft::torchscript {

/// The range of a dimension; throws for one without and for one that is none. `where` names the input.
const Range& range_of(const Spec& spec, const std::string& dimension, const std::string& where);

/// The spec with a name for each range of an axis and a type for each tensor. Throws unless the inputs are as the first
/// arguments of `graph`, behind the module. `warnings` gets what was guessed.
Spec resolve_inputs(const torch::jit::Graph& graph, const Spec& spec, std::vector<std::string>& warnings);

/// A value of an input's structure, with make(input) for each tensor.
c10::IValue value_of(const Input& input, const c10::TypePtr& type,
                     const std::function<at::Tensor(const Input&)>& make);

/// The sizes of a tensor at one end of its ranges.
std::vector<int64_t> sizes_at(const Spec& spec, const Input& input, int64_t Range::*end);

/// Random values for all arguments of a graph that are described, behind the module, the same ones each time: of the
/// usual sizes, in their domains, on the device that the options name. `spec` is resolved.
std::vector<c10::IValue> sample_inputs(const torch::jit::Graph& graph, const Spec& spec);

/// Whether some size may change.
bool has_ranges(const Spec& spec);

/// Whether a value of a graph may have the name: numbers are torch's own.
inline bool is_value_name(const std::string& name) {
  return name.find_first_not_of("0123456789") != std::string::npos;
}

}  // namespace graft::torchscript
