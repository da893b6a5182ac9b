// SPDX-License-Identifier: Apache-2.0
// Questions that passes ask about nodes and values, and the few edits they are made of.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "passes/match.h"

namespace graft::passes {

// --- questions ---

/// The number of inputs without the left-out ones at the end.
size_t input_count(const Node& node);
/// The input, or kNoValue when it is left out.
ValueId input(const Node& node, size_t index);
/// Whether the node is one of these operators of ai.onnx.
bool is_op(const Node& node, std::initializer_list<std::string_view> ops);
/// Attributes, with ONNX's default given by the caller.
int64_t integer(const Node& node, std::string_view attribute, int64_t otherwise);
double real(const Node& node, std::string_view attribute, double otherwise);
std::string_view text(const Node& node, std::string_view attribute, std::string_view otherwise);
std::vector<int64_t> integers(const Node& node, std::string_view attribute);
/// Whether two sets of attributes have the same names and values.
bool same_attributes(const Attributes& a, const Attributes& b);
/// Whether two runs of the node may differ, so that it is neither folded nor merged.
bool is_random(const Node& node);
/// The input by which an operator's random numbers differ from run to run; nothing for other operators.
std::optional<size_t> random_state_input(const Node& node);
/// Whether the node has bodies (If, Loop, Scan, SequenceMap).
bool has_subgraph(const Node& node);
/// The node that computes the value, or null.
const Node* producer(const Graph& graph, ValueId value);
/// The constant behind a value, or null (also for kNoValue).
const TensorData* constant_of(const Graph& graph, ValueId value);
/// The value of a numeric constant with one element.
std::optional<double> scalar_of(const Graph& graph, ValueId value);
/// The value of all elements of a numeric, non-empty constant, when they agree.
std::optional<double> uniform_of(const Graph& graph, ValueId value);
/// The elements of a constant integer tensor.
std::optional<std::vector<int64_t>> integers_of(const Graph& graph, ValueId value);
/// Whether both shapes are known and equal whatever the symbols are.
bool same_shape(const Graph& graph, ValueId a, ValueId b);
/// The rank, or -1 when unknown.
int rank_of(const Graph& graph, ValueId value);
/// The shape when every size is known now.
std::optional<std::vector<int64_t>> constant_shape(const Graph& graph, ValueId value);
/// Why the definition of an operator of ai.onnx would not take these inputs, or an empty text. A recognition asks
/// before it replaces what can be run by what cannot.
std::string definition_fault(std::string_view op, const std::vector<Value>& inputs, const Attributes& attributes);
/// The axes of a reduction, non-negative and sorted; nothing when they or the rank are unknown.
std::optional<std::vector<int64_t>> reduced_axes(const Graph& graph, const Node& node);

// --- edits ---

/// Turns node `index` into another operator under the same outputs.
void replace_node(Graph& graph, int index, std::string_view op, std::vector<ValueId> inputs,
                  Attributes attributes = {});
/// Gives node `index` the name of the earliest of the matched nodes, whose place it takes in profiles.
void take_first_name(Graph& graph, int index, const std::vector<int>& matched);
/// Appends a node with one output that is named after it. The graph needs sort_nodes afterwards.
ValueId append_node(Graph& graph, std::string_view name, std::string_view op, std::vector<ValueId> inputs, DType type,
                    std::optional<Shape> shape, Attributes attributes = {});
/// Has a new node `NODE/result` make a result of node `index` in its place; nothing where the node gives none there.
void give_result(Graph& graph, int index, size_t output, std::string_view op, std::vector<ValueId> inputs,
                 Attributes attributes = {});
/// An i64 constant of rank 1.
ValueId add_integers(Graph& graph, std::string_view name, const std::vector<int64_t>& values);
/// Every reader of the node's only wanted output reads `to` instead. The names of the graph's outputs stay: when both
/// are spoken for, the node becomes an Identity. Returns whether anything changed.
bool bypass(Graph& graph, int index, ValueId to);
/// Removes nodes whose results nobody wants, and values that nothing names. Returns whether anything changed.
bool sweep(Graph& graph);

/// What a rewrite does at one node; true when it changed the graph. It may replace that node in place and append nodes.
using Rewrite = std::function<bool(Graph&, const Matcher&, int)>;
/// Applies the rewrite at every node, again and again until nothing changes, sorting and sweeping after each round.
bool rewrite_nodes(Graph& graph, const Rewrite& rewrite);
/// Applies the rewrite to the graph, then to the bodies of its nodes and to theirs; types follow what it changes.
bool rewrite_with_bodies(Graph& graph, const std::function<bool(Graph&)>& rewrite);

}  // namespace graft::passes
