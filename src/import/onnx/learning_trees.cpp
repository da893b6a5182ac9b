// SPDX-License-Identifier: Apache-2.0
// Ensembles of decision trees of ai.onnx.ml: the leaf of each tree, and what the leaves say together.
#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "base/import_budget.h"
#include "import/onnx/learning_call.h"
#include "import/onnx/tree_tables.h"

namespace graft {
namespace {

constexpr int64_t kMostWeights = int64_t{1} << 28;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How the values of several trees become one.
struct Aggregate {
  std::string_view name, reduction;
  double nothing;  ///< what a leaf says of a target that it has no weight for
};
constexpr std::array<Aggregate, 4> kAggregates = {{{"AVERAGE", "ReduceMean", 0},
                                                   {"SUM", "ReduceSum", 0},
                                                   {"MIN", "ReduceMin", kInfinity},
                                                   {"MAX", "ReduceMax", -kInfinity}}};
constexpr const Aggregate& kSum = kAggregates[1];

const Aggregate& aggregate_of(ContribCall& call, const std::string& name) {
  const auto at = std::ranges::find_if(kAggregates, [&](const Aggregate& each) { return each.name == name; });
  if (at == kAggregates.end()) call.reject("its aggregate_function is none of ONNX's; export the model again");
  return *at;
}

/// The values of each row for each target, [rows, targets].
ValueId values_of(ContribCall& call, ValueId x, const TreeTables& trees, int64_t targets, const Aggregate& aggregate) {
  if (targets < 1 || trees.leaves < 1 || trees.roots.empty()) call.reject("it has no tree, no leaf or no target");
  if (targets > kMostWeights / trees.leaves) call.unsupported("so many leaves and targets");
  take_import(static_cast<size_t>(trees.leaves * targets) * sizeof(double), "the weights of leaves");
  std::vector<double> table(static_cast<size_t>(trees.leaves * targets), aggregate.nothing);
  std::vector<bool> known(table.size(), false);
  for (const LeafWeight& weight : trees.weights) {
    if (weight.target < 0 || weight.target >= targets) {
      call.reject(fmt::format("a leaf has a weight for target {} of {}; export the model again", weight.target,
                              targets));
    }
    const auto at = static_cast<size_t>(weight.leaf * targets + weight.target);
    table[at] = known[at] ? table[at] + weight.weight : weight.weight;
    known[at] = true;
  }
  const DType type = call.type(x) == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const ValueId weights = floats_of(call, "weights", table, {trees.leaves, targets}, type);
  const ValueId each = call.emit("Gather", {weights, leaves_of(call, x, trees)}, {{"axis", int64_t{0}}});
  const ValueId all = call.emit(aggregate.reduction, {each, call.integers({1})}, {{"keepdims", int64_t{0}}});
  if (aggregate.nothing == 0) return all;
  return call.emit("Where", {call.emit("IsInf", {all}), call.scalar_like(0, all), all});
}

/// Rows of floats, of f64 where they are.
ValueId floating_rows(ContribCall& call) {
  return rows_of(call, call.type(call.in(0)) == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
}

std::vector<double> base_values(ContribCall& call) {
  const TensorData* tensor = call.tensor("base_values_as_tensor");
  if (!tensor) return call.reals("base_values");
  std::vector<double> values(static_cast<size_t>(tensor->element_count()));
  tensor->read_doubles(0, values);
  return values;
}

ValueId with_base(ContribCall& call, ValueId values, const std::vector<double>& base) {
  if (base.empty()) return values;
  const auto count = static_cast<int64_t>(base.size());
  return call.emit("Add", {values, floats_of(call, "base_values", base, {count}, call.type(values))});
}

void expand_ensemble(ContribCall& call) {
  static constexpr std::array<std::string_view, 5> kTransforms = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                                                  "PROBIT"};
  const int64_t aggregate = call.integer("aggregate_function", 1), transform = call.integer("post_transform", 0);
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4) {
    call.reject("its aggregate_function or post_transform is none of ONNX's; export the model again");
  }
  const TreeTables trees = read_trees(call);
  int64_t targets = call.integer("n_targets", 0);
  for (const LeafWeight& weight : trees.weights) {
    if (!call.has("n_targets")) targets = std::max(targets, weight.target + 1);
  }
  const ValueId values = values_of(call, floating_rows(call), trees, targets,
                                   kAggregates[static_cast<size_t>(aggregate)]);
  const ValueId y = transformed(call, values, kTransforms[static_cast<size_t>(transform)]);
  call.out(0, call.cast(y, call.type(call.in(0))));
}

void expand_regressor(ContribCall& call) {
  const TreeTables trees = read_older_trees(call, "target");
  const Aggregate& aggregate = aggregate_of(call, call.text("aggregate_function", "SUM"));
  const ValueId values = values_of(call, floating_rows(call), trees, call.integer("n_targets", 1), aggregate);
  call.out(0, call.cast(transformed(call, with_base(call, values, base_values(call))), DType::kFloat32));
}

/// The scores of two classes whose trees know only one, and its label.
void give_binary(ContribCall& call, const Labels& labels, ValueId score, bool all_positive) {
  constexpr double kHalf = 0.5;
  const ValueId bound = call.scalar_like(all_positive ? kHalf : 0, score);
  call.out(0, label_if(call, labels, call.emit("Greater", {score, bound})));
  const ValueId narrow = call.cast(score, DType::kFloat32);
  const std::string transform = call.text("post_transform", "NONE");
  if (transform == "PROBIT") return call.out(1, transformed(call, narrow));
  if (transform == "LOGISTIC") return call.out(1, complement(call, transformed(call, narrow)));
  call.out(1, all_positive ? complement(call, narrow) : transformed(call, opposites(call, narrow)));
}

void expand_classifier(ContribCall& call) {
  TreeTables trees = read_older_trees(call, "class");
  const Labels labels = labels_of(call, "classlabels_int64s", "classlabels_strings");
  const std::vector<double> base = base_values(call);
  std::set<int64_t> classes;
  bool all_positive = true;
  for (const LeafWeight& weight : trees.weights) {
    classes.insert(weight.target);
    all_positive = all_positive && weight.weight >= 0;
  }
  const ValueId x = floating_rows(call);
  if (labels.size() <= 2 && classes.size() == 1 && base.size() <= 1) {
    for (LeafWeight& weight : trees.weights) weight.target = 0;
    const ValueId score = with_base(call, values_of(call, x, trees, 1, kSum), base);
    return give_binary(call, labels, score, all_positive);
  }
  const ValueId sums = values_of(call, x, trees, static_cast<int64_t>(labels.size()), kSum);
  const ValueId scores = with_base(call, sums, base);
  call.out(0, best_label(call, labels, scores));
  call.out(1, transformed(call, call.cast(scores, DType::kFloat32)));
}

std::vector<std::string_view> older_attributes(std::initializer_list<std::string_view> more) {
  std::vector<std::string_view> all = {"base_values", "base_values_as_tensor", "nodes_falsenodeids", "nodes_featureids",
                                       "nodes_hitrates", "nodes_hitrates_as_tensor", "nodes_missing_value_tracks_true",
                                       "nodes_modes", "nodes_nodeids", "nodes_treeids", "nodes_truenodeids",
                                       "nodes_values", "nodes_values_as_tensor", "post_transform"};
  all.insert(all.end(), more);
  return all;
}

}  // namespace

std::vector<ContribOperator> learning_trees() {
  return {{"TreeEnsemble",
           1,
           {"aggregate_function", "leaf_targetids", "leaf_weights", "membership_values", "n_targets",
            "nodes_falseleafs", "nodes_falsenodeids", "nodes_featureids", "nodes_hitrates",
            "nodes_missing_value_tracks_true", "nodes_modes", "nodes_splits", "nodes_trueleafs", "nodes_truenodeids",
            "post_transform", "tree_roots"},
           expand_ensemble,
           "What the leaves of several decision trees say together.",
           kMachineLearning},
          {"TreeEnsembleRegressor", 1,
           older_attributes({"aggregate_function", "n_targets", "target_ids", "target_nodeids", "target_treeids",
                             "target_weights", "target_weights_as_tensor"}),
           expand_regressor, "The same, as older versions write it.", kMachineLearning},
          {"TreeEnsembleClassifier", 1,
           older_attributes({"class_ids", "class_nodeids", "class_treeids", "class_weights", "class_weights_as_tensor",
                             "classlabels_int64s", "classlabels_strings"}),
           expand_classifier, "The class that the leaves of several decision trees favour, and the scores of all.",
           kMachineLearning}};
}

}  // namespace graft
