// SPDX-License-Identifier: Apache-2.0
// What the recognitions of layer and RMS normalization share: from the normalized value forward, through the casts,
// the scale and the bias around it.
#pragma once

#include <string>

#include "passes/edit.h"
#include "passes/pass.h"

namespace graft::passes {

/// x ^ 2
Pattern squared(const Pattern& x);
/// 1 / sqrt(variance + epsilon) times `x`, in the spellings of exporters; names `epsilon`.
Pattern divided_by_deviation(const Pattern& x, const Pattern& variance);
/// x * (x + epsilon)^-1/2 alone: 1 / sqrt(variance + epsilon).
Pattern inverse_deviation(const Pattern& variance);

/// A normalization found so far: `root` computes the result from `x`.
struct Normalization {
  ValueId x = kNoValue;
  ValueId scale = kNoValue;
  ValueId bias = kNoValue;
  int64_t axis = -1;  ///< the first normalized axis
  double epsilon = 0;
  int root = -1;
  std::vector<int> nodes;
};

/// The first of the trailing axes that `reduction` averages over, keeping the rank; -1 when they are others.
int64_t first_trailing_axis(const Graph& graph, const Node& reduction);
/// Drops Cast(x -> f32) before and Cast(-> type of x) after, since normalizing in f32 is what the operator states.
void absorb_casts(const Graph& graph, const Matcher& matcher, Normalization& found);
/// Takes in a product with a factor, or a sum with a term, of the shape of the normalized axes, that alone reads the
/// root; gives the operand or kNoValue.
ValueId absorb_operand(const Graph& graph, const Matcher& matcher, std::string_view op, Normalization& found);
/// A constant of ones of the normalized shape, or kNoValue when that is not known.
ValueId add_ones(Graph& graph, const Normalization& found);
/// Puts the operator in the place of the root; says why not when its definition does not take the operands.
std::string replace_normalization(Graph& graph, const Normalization& found, std::string_view op);

}  // namespace graft::passes
