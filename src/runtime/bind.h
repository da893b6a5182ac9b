// SPDX-License-Identifier: Apache-2.0
// Symbols of a run: from the shapes and small integer inputs of a request to the sizes of everything.
#pragma once

#include <span>
#include <vector>

#include "runtime/session.h"

namespace graft {

/// Follows kAlias to the tensor that owns the memory.
int root_of(const Engine& engine, int tensor);
/// Binds every symbol that is alone on an axis of an input, and checks types, ranks, extents and ranges; throws
/// invalid_argument naming the input, the axis, the value and what was expected.
Bindings bind_inputs(const Engine& engine, std::span<const BufferView> inputs);
/// Checks extents that are expressions, once all symbols are known.
void check_inputs(const Engine& engine, std::span<const BufferView> inputs, const Bindings& bindings);
/// Gives a symbol its value; throws invalid_argument when it has another one already.
void bind_symbol(Bindings& bindings, const std::string& symbol, int64_t value, const std::string& where);
/// Throws invalid_argument when a check of the step fails.
void run_checks(const EngineStep& step, const Bindings& bindings);
/// The concrete shape; throws invalid_argument naming the tensor for negative sizes, out_of_memory for those that no
/// machine has.
std::vector<int64_t> concrete_shape(const EngineTensor& tensor, const Bindings& bindings);
/// The shape that an output gets from inputs of these types and shapes, whose data is not read; -1 for an axis that the
/// values of tensors decide. Throws invalid_argument as a run of such inputs would.
std::vector<int64_t> output_shape(const Engine& engine, std::span<const BufferView> inputs, int output);
/// The value of a size that becomes memory; throws out_of_memory naming `what` for one that no machine has.
int64_t evaluate_bytes(const Size& size, const Bindings& bindings, const std::string& what);
/// The bytes of a tensor in memory; throws out_of_memory naming it.
int64_t concrete_bytes(const EngineTensor& tensor, const Bindings& bindings);
/// One integer element of a tensor in memory.
int64_t read_element(const void* data, DType type, int64_t element);

}  // namespace graft
