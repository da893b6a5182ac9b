// SPDX-License-Identifier: Apache-2.0
// Where a network is quantised: which nodes compute on 8 bits, and which activations have a range.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "quantize/format.h"
#include "quantize/ranges.h"

namespace graft::quantize {

/// A node whose operands are to be quantised.
struct Place {
  int node = -1;
  std::vector<size_t> activations;  ///< numbers of the inputs that are computed
  bool weighted = false;            ///< a Conv, MatMul or Gemm with constant weights, or a Gather of a constant table
  size_t weights = 1;               ///< the number of the input that is constant; of weighted ones
};

/// A candidate that stays f32, and why.
struct Kept {
  std::string node, op, reason;
};

struct Places {
  std::vector<Place> nodes;
  /// By activation that is quantised: the value whose range it takes. Movement and the largest of windows change no
  /// range, so that both sides have one quantiser, which the pass merge_quantizers removes.
  std::map<ValueId, ValueId> ranges;
  std::vector<Kept> kept;
};

/// The node of weights that is quantised gives back its axis of results in them: 0 of Conv's and Gather's, 1 of
/// MatMul's.
int64_t result_axis(const Node& node);

/// Whether each element of a node's result is one of its first input.
bool keeps_range(const Node& node);

/// Nodes that keep their floats by name, with the reason.
using LeftOut = std::map<std::string, std::string, std::less<>>;

/// Finds the places in a graph of inferred types, but for nodes that are left out:
/// - Conv, MatMul and Gemm of f32 with constant weights;
/// - between these, sums of two activations of convolutional networks, poolings, Concat and movement, so that values
///   stay 8 bits from product to product.
/// Without ranges of samples (dynamic activations, or floats) it is MatMul and Gemm, and Gather of rows of a large
/// constant matrix of f32.
/// Constants of the graph are not read.
Places find_places(const Graph& graph, const LeftOut& left_out = {}, const Format& format = {});

}  // namespace graft::quantize
