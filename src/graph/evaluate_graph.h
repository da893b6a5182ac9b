// SPDX-License-Identifier: Apache-2.0
// Computes a graph node by node with the interpreter: the reference for passes, plans and tests.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace graft {

/// Tensors by the name of a graph's input.
using TensorsByName = std::map<std::string, TensorData, std::less<>>;

/// The node's outputs (an empty tensor for one left out) for inputs that are all known (empty: left out). Shapes come
/// from the inputs, so nothing is symbolic. Throws what `define` and `interpret` throw.
std::vector<TensorData> evaluate_node(const Node& node, std::span<const TensorData> inputs);

/// The graph's outputs, in order. Throws invalid_argument naming an input that is missing or does not fit its declared
/// type and shape; unsupported naming a node without definition.
std::vector<TensorData> evaluate(const Graph& graph, const TensorsByName& inputs);

/// The same with the inputs in the graph's order, as for the body of an If.
std::vector<TensorData> evaluate_ordered(const Graph& graph, std::span<const TensorData> inputs);

/// Inputs for a trial: symbols take the middle of their range, floats lie in [-1, 1], integers and bools are 0 or 1.
TensorsByName random_inputs(const Graph& graph, uint64_t seed);
/// The same with these sizes.
TensorsByName random_inputs(const Graph& graph, const Bindings& symbols, uint64_t seed);

/// The first element where `actual` departs from `expected` by more than `tolerance` times the largest magnitude
/// expected, as a sentence; nothing when they agree. NaN agrees with NaN, and equal infinities agree.
std::optional<std::string> first_difference(const TensorData& expected, const TensorData& actual, double tolerance);
/// What rounding in the type may add up to in a network of moderate depth, for first_difference.
double usual_tolerance(DType type);

}  // namespace graft
