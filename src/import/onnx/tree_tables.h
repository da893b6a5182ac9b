// SPDX-License-Identifier: Apache-2.0
// Decision trees out of the attributes of ai.onnx.ml, as tables: inner nodes first, then leaves.
#pragma once

#include <cstdint>
#include <vector>

#include "import/onnx/contrib_call.h"

namespace graft {

/// A node. A leaf leads to itself, so that going on from it changes nothing.
struct TreeNode {
  int64_t feature = 0;
  int64_t relations = 0;  ///< of a value and the split, that lead to `yes`: bits of <, ==, > and none of these
  double split = 0;
  int64_t yes = 0, no = 0;
};

/// What a leaf adds to a target.
struct LeafWeight {
  int64_t leaf = 0, target = 0;  ///< the leaf counted from the first one
  double weight = 0;
};

struct TreeTables {
  std::vector<TreeNode> inner = {};
  int64_t leaves = 0;
  std::vector<int64_t> roots = {};
  std::vector<LeafWeight> weights = {};
};

/// TreeEnsemble of version 5. Rejects what does not fit together.
TreeTables read_trees(ContribCall& call);
/// TreeEnsembleRegressor and TreeEnsembleClassifier, whose leaves' attributes start with `target` or `class`.
TreeTables read_older_trees(ContribCall& call, const std::string& leaf);

/// The leaf of each row in each tree, counted from the first one: [rows, trees].
ValueId leaves_of(ContribCall& call, ValueId x, const TreeTables& trees);

}  // namespace graft
