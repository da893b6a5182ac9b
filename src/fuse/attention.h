// SPDX-License-Identifier: Apache-2.0
// Recognition of attention among the forms of a region.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "expr/region.h"

namespace graft {

/// softmax(q k^T with scale and mask) v, as forms of one region:
///   scores = sum over depth of q * k;  logits = f(scores);  largest = max over keys of logits;
///   exponentials = exp(logits - shift(largest));  sum = sum over keys;  weighted = sum over keys of exponentials * v;
///   results = maps over weighted and sum.
struct AttentionForms {
  const Reduce* scores = nullptr;
  const Compute* biased = nullptr;  ///< logits as a form of its own, or null
  const Reduce* largest = nullptr;
  const Compute* exponentials = nullptr;
  const Reduce* sum = nullptr;
  const Reduce* weighted = nullptr;
  std::vector<const Compute*> results;
  std::vector<Axis> common;    ///< axes shared by all forms; the last one runs over queries
  /// Loads, of floats that may be narrower than the scores: over common and depth, key axis and depth, key axis and
  /// value axis.
  Expr queries, keys, values;
  Expr shift;                  ///< what is subtracted before exp, over `largest`
  Expr logits, logits_key;     ///< over the scores; the variable of its key axis
};

/// The attention that the normalised region is, or nothing with the reason.
std::optional<AttentionForms> find_attention(const Region& region, std::string& reason);

}  // namespace graft
