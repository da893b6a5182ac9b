// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/tree_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "import/onnx/learning_call.h"

namespace graft {
namespace {

constexpr int64_t kMember = 6;
constexpr int64_t kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8;

/// The relations of a value and the split of a node by which it goes the way of `yes`, by ONNX's number of its mode:
/// <=, <, >=, >, ==, !=. Where missing values go this way too, NaN does.
int64_t relations_of(int64_t mode, bool missing) {
  constexpr std::array<int64_t, 6> kRelations = {kLess | kEqual, kLess,  kEqual | kGreater,
                                                 kGreater,       kEqual, kLess | kGreater | kUnordered};
  return kRelations[static_cast<size_t>(mode)] | (missing ? kUnordered : 0);
}
constexpr int64_t kDeepest = 4096;

template <class List>
void require_count(ContribCall& call, const List& list, size_t count, std::string_view name) {
  if (list.size() == count) return;
  call.reject(fmt::format("its attribute '{}' has {} elements, {} are expected; export the model again", name,
                          list.size(), count));
}

/// A tensor among the attributes as numbers.
std::vector<double> numbers_of(ContribCall& call, const std::string& name) {
  const TensorData* tensor = call.tensor(name);
  std::vector<double> values(tensor ? static_cast<size_t>(tensor->element_count()) : 0);
  if (tensor) tensor->read_doubles(0, values);
  return values;
}

/// The numbers of an attribute, which as a tensor has another name.
std::vector<double> reals_or_tensor(ContribCall& call, const std::string& name) {
  const std::vector<double> values = numbers_of(call, name + "_as_tensor");
  return values.empty() ? call.reals(name) : values;
}

/// A node that asks for one of several values becomes a chain of nodes that ask for one each.
void ask_for_each(std::vector<TreeNode>& inner, size_t node, const std::vector<double>& members) {
  TreeNode asked = inner[node];
  asked.relations = kEqual | (asked.relations & kUnordered);
  if (members.empty()) asked.yes = asked.no;  // nothing is one of none
  for (size_t k = 0; k < members.size(); ++k) {
    asked.split = members[k];
    const bool last = k + 1 == members.size();
    TreeNode link = asked;
    if (!last) link.no = static_cast<int64_t>(inner.size());
    if (k == 0) {
      inner[node] = link;
    } else {
      inner.back() = link;
    }
    if (!last) inner.emplace_back();
  }
  if (members.empty()) inner[node] = asked;
}

/// Leaves are numbered behind the inner nodes, which grow: so long they are ~leaf.
void number_leaves(TreeTables& trees) {
  const auto count = static_cast<int64_t>(trees.inner.size());
  const auto place = [&](int64_t& node) { node = node < 0 ? count + ~node : node; };
  for (TreeNode& node : trees.inner) place(node.yes), place(node.no);
  for (int64_t& root : trees.roots) place(root);
}

/// The most steps from a root to a leaf; rejects nodes that are not there, and cycles.
int64_t depth_of(ContribCall& call, const TreeTables& trees) {
  const auto inner = static_cast<int64_t>(trees.inner.size());
  std::vector<int64_t> depths(trees.inner.size(), -1);  // to the farthest leaf
  std::vector<bool> open(trees.inner.size(), false);
  const auto check = [&](int64_t node) {
    if (node < 0 || node >= inner + trees.leaves) call.reject("a node of its trees does not exist; export it again");
  };
  int64_t deepest = 0;
  for (const int64_t root : trees.roots) {
    check(root);
    std::vector<int64_t> path = {root};
    while (!path.empty()) {
      const int64_t node = path.back();
      if (node >= inner) {
        path.pop_back();
        continue;
      }
      const auto at = static_cast<size_t>(node);
      int64_t below = 0;
      bool waits = false;
      for (const int64_t child : {trees.inner[at].yes, trees.inner[at].no}) {
        check(child);
        if (child >= inner) continue;
        const auto next = static_cast<size_t>(child);
        if (open[next]) call.reject("its trees have a cycle; export the model again");
        if (depths[next] < 0) path.push_back(child), waits = true;
        below = std::max(below, depths[next]);
        if (waits) break;
      }
      open[at] = waits;
      if (waits) continue;
      depths[at] = below + 1;
      path.pop_back();
    }
    deepest = std::max(deepest, root >= inner ? 0 : depths[static_cast<size_t>(root)]);
  }
  if (deepest > kDeepest) call.unsupported(fmt::format("trees of {} levels, more than {}", deepest, kDeepest));
  return deepest;
}

int64_t mode_of(ContribCall& call, const std::string& name) {
  static constexpr std::array<std::string_view, 6> kNames = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                                             "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) call.reject("its mode '" + name + "' is none of ONNX's; export the model again");
  return at - kNames.begin();
}

}  // namespace

TreeTables read_trees(ContribCall& call) {
  const std::vector<int64_t> features = call.integers("nodes_featureids"), yes = call.integers("nodes_truenodeids"),
                             no = call.integers("nodes_falsenodeids"), yes_leaf = call.integers("nodes_trueleafs"),
                             no_leaf = call.integers("nodes_falseleafs"), targets = call.integers("leaf_targetids"),
                             missing = call.integers("nodes_missing_value_tracks_true");
  const std::vector<double> modes = numbers_of(call, "nodes_modes"), splits = numbers_of(call, "nodes_splits"),
                            weights = numbers_of(call, "leaf_weights"), values = numbers_of(call, "membership_values");
  const size_t count = features.size();
  require_count(call, yes, count, "nodes_truenodeids");
  require_count(call, no, count, "nodes_falsenodeids");
  require_count(call, yes_leaf, count, "nodes_trueleafs");
  require_count(call, no_leaf, count, "nodes_falseleafs");
  require_count(call, modes, count, "nodes_modes");
  require_count(call, splits, count, "nodes_splits");
  require_count(call, weights, targets.size(), "leaf_weights");
  if (!missing.empty()) require_count(call, missing, count, "nodes_missing_value_tracks_true");
  TreeTables trees{.leaves = static_cast<int64_t>(targets.size()), .roots = call.integers("tree_roots")};
  const auto child = [&](int64_t node, int64_t is_leaf) {
    const auto limit = is_leaf ? trees.leaves : static_cast<int64_t>(count);
    if (node < 0 || node >= limit) call.reject("a node of its trees does not exist; export the model again");
    return is_leaf ? ~node : node;
  };
  for (size_t k = 0; k < count; ++k) {
    if (!(modes[k] >= 0 && modes[k] <= kMember)) call.reject("a mode of its nodes is none of ONNX's");
    const bool member = modes[k] == kMember, missed = !missing.empty() && missing[k] != 0;
    trees.inner.push_back({.feature = features[k],
                           .relations = relations_of(member ? 4 : static_cast<int64_t>(modes[k]), missed),
                           .split = splits[k], .yes = child(yes[k], yes_leaf[k]), .no = child(no[k], no_leaf[k])});
  }
  size_t next = 0;
  for (size_t k = 0; k < count; ++k) {
    if (modes[k] != kMember) continue;
    std::vector<double> members;
    while (next < values.size() && !std::isnan(values[next])) members.push_back(values[next++]);
    if (next++ >= values.size()) call.reject("its 'membership_values' end too early; export the model again");
    ask_for_each(trees.inner, k, members);
  }
  for (size_t k = 0; k < targets.size(); ++k) {
    trees.weights.push_back({static_cast<int64_t>(k), targets[k], weights[k]});
  }
  number_leaves(trees);
  return trees;
}

TreeTables read_older_trees(ContribCall& call, const std::string& leaf) {
  const std::vector<int64_t> tree = call.integers("nodes_treeids"), id = call.integers("nodes_nodeids"),
                             features = call.integers("nodes_featureids"), yes = call.integers("nodes_truenodeids"),
                             no = call.integers("nodes_falsenodeids"),
                             missing = call.integers("nodes_missing_value_tracks_true");
  const std::vector<std::string> modes = call.texts("nodes_modes");
  const std::vector<double> splits = reals_or_tensor(call, "nodes_values");
  const size_t count = id.size();
  require_count(call, tree, count, "nodes_treeids");
  require_count(call, features, count, "nodes_featureids");
  require_count(call, yes, count, "nodes_truenodeids");
  require_count(call, no, count, "nodes_falsenodeids");
  require_count(call, modes, count, "nodes_modes");
  require_count(call, splits, count, "nodes_values");
  if (!missing.empty()) require_count(call, missing, count, "nodes_missing_value_tracks_true");
  TreeTables trees;
  std::map<std::pair<int64_t, int64_t>, int64_t> places;  // ~leaf for leaves
  int64_t inner = 0;
  for (size_t k = 0; k < count; ++k) {
    const int64_t place = modes[k] == "LEAF" ? ~trees.leaves++ : inner++;
    if (!places.emplace(std::pair{tree[k], id[k]}, place).second) call.reject("its trees have a node twice");
  }
  const auto find = [&](int64_t of, int64_t node) {
    const auto found = places.find({of, node});
    if (found == places.end()) call.reject("a node of its trees does not exist; export the model again");
    return found->second;
  };
  std::set<int64_t> children;
  for (size_t k = 0; k < count; ++k) {
    if (modes[k] == "LEAF") continue;
    const bool missed = !missing.empty() && missing[k] != 0;
    trees.inner.push_back({.feature = features[k], .relations = relations_of(mode_of(call, modes[k]), missed),
                           .split = splits[k], .yes = find(tree[k], yes[k]), .no = find(tree[k], no[k])});
    children.insert({trees.inner.back().yes, trees.inner.back().no});
  }
  std::set<int64_t> rooted;
  for (size_t k = 0; k < count; ++k) {
    const int64_t place = find(tree[k], id[k]);
    if (children.contains(place)) continue;
    trees.roots.push_back(place);
    if (!rooted.insert(tree[k]).second) call.reject("a tree has several roots, or a cycle; export the model again");
  }
  if (rooted != std::set<int64_t>(tree.begin(), tree.end())) call.reject("a tree is a cycle; export the model again");
  const std::vector<int64_t> leaf_tree = call.integers(leaf + "_treeids"), leaf_id = call.integers(leaf + "_nodeids"),
                             targets = call.integers(leaf + "_ids");
  const std::vector<double> weights = reals_or_tensor(call, leaf + "_weights");
  require_count(call, leaf_tree, targets.size(), leaf + "_treeids");
  require_count(call, leaf_id, targets.size(), leaf + "_nodeids");
  require_count(call, weights, targets.size(), leaf + "_weights");
  for (size_t k = 0; k < targets.size(); ++k) {
    const int64_t place = find(leaf_tree[k], leaf_id[k]);
    if (place < 0) trees.weights.push_back({~place, targets[k], weights[k]});
  }
  number_leaves(trees);
  return trees;
}

ValueId leaves_of(ContribCall& call, ValueId x, const TreeTables& trees) {
  const int64_t depth = depth_of(call, trees);
  const auto inner = static_cast<int64_t>(trees.inner.size());
  std::vector<TreeNode> nodes = trees.inner;
  for (int64_t k = inner; k < inner + trees.leaves; ++k) nodes.push_back({.yes = k, .no = k});
  const auto column = [&](auto member) {
    std::vector<int64_t> values;
    for (const TreeNode& node : nodes) values.push_back(static_cast<int64_t>(node.*member));
    return call.integers(values);
  };
  std::vector<double> splits;
  for (const TreeNode& node : nodes) splits.push_back(node.split);
  const DType type = call.type(x) == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const auto count = static_cast<int64_t>(splits.size());
  const ValueId leaf = call.emit_own(
      1, "TreeLeaves",
      {x, call.integers(trees.roots), column(&TreeNode::feature), column(&TreeNode::relations),
       floats_of(call, "splits", splits, {count}, type), column(&TreeNode::yes), column(&TreeNode::no)},
      {{"depth", depth}})[0];
  return call.emit("Sub", {leaf, call.integer(inner)});
}

}  // namespace graft
