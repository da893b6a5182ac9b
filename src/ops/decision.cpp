// SPDX-License-Identifier: Apache-2.0
// Searches through tables, which operators of ai.onnx.ml are composed of: a key among sorted ones, a leaf of a tree.
// Each is a chain of so many choices, without branches, that every lane of a vector takes.
#include <cmath>

#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// The place of x among ascending keys; their number where it is none of them. NaN finds the NaN at `nan_place`.
void define_key_place(Definition& d) {
  const Tensor x = d.in(0), keys = d.in(1);
  if (keys.rank() != 1) d.reject("its keys should be a list");
  const auto count = keys.size(0).as_constant();
  if (!count) d.unsupported("a number of keys that only a run knows");
  const int64_t nan_place = d.integer("nan_place");
  d.out(0, d.compute("place", DType::kInt64, Shape(x.shape()), [&](const Indices& i) {
    const Expr value = x.wide(i);
    Expr below = make_index(0);  // so many keys are known to be less
    int64_t step = 1;
    while (step * 2 <= *count) step *= 2;
    for (; step > 0 && *count > 0; step /= 2) {
      const Expr next = below + make_index(step), at = min(next, make_index(*count)) - make_index(1);
      const Expr goes_on = le(next, make_index(*count)) && lt(keys.wide({at}), value);
      below = select(goes_on, next, below);
    }
    const Expr none = make_index(*count);
    if (*count == 0) return none;
    const Expr place = select(lt(below, none) && eq(keys.wide({min(below, none - make_index(1))}), value), below, none);
    return is_float(x.type()) && nan_place >= 0 ? select(is_nan(value), make_index(nan_place), place) : place;
  }));
}

struct Trees {
  Tensor x, features, relations, splits, yes, no;
};

/// Where a row goes from a node. Without branches: what stands in one would be computed anew for each of its users.
Expr next_node(const Trees& t, const Expr& row, const Expr& node) {
  const Expr feature = check_index(t.features({node}), make_size(t.x.size(1)));
  const DType type = compute_type(is_float(t.x.type()) ? t.x.type() : t.splits.type());
  const Expr value = make_cast(type, t.x.wide({row, feature})), split = make_cast(type, t.splits({node}));
  const auto one_if = [](const Expr& holds) { return make_cast(DType::kInt64, holds); };
  const Expr relation = make_index(8) - make_index(7) * one_if(lt(value, split)) -
                        make_index(6) * one_if(eq(value, split)) - make_index(4) * one_if(gt(value, split));
  const Expr yes = t.yes({node}), no = t.no({node});
  const Expr next = no + (yes - no) * min(t.relations({node}) & relation, make_index(1));
  return check_index(next, make_size(t.yes.size(0)));
}

/// Leaves lead to themselves, so that each row takes `depth` steps in each tree.
void define_tree_leaves(Definition& d) {
  const Trees t{.x = d.in(0), .features = d.in(2), .relations = d.in(3), .splits = d.in(4), .yes = d.in(5),
                .no = d.in(6)};
  const Tensor roots = d.in(1);
  if (t.x.rank() != 2) d.reject("its input should be a matrix: [batch, features]");
  if (roots.rank() != 1 || t.features.rank() != 1) d.reject("its tables should be lists");
  for (const Tensor& table : {t.relations, t.splits, t.yes, t.no}) {
    d.require_shape(table, t.features.shape(), "its tables differ in length");
  }
  const int64_t depth = d.integer("depth");
  if (depth < 0 || depth > 4096) d.reject("its attribute 'depth' is out of range");
  const Shape shape = {t.x.size(0), roots.size(0)};
  const auto root = [&](const Expr& tree) { return check_index(roots({tree}), make_size(t.features.size(0))); };
  const auto root_of_tree = [&](const Indices& i) { return root(i[1]); };
  if (depth == 0) return d.out(0, d.compute("root", DType::kInt64, shape, root_of_tree));
  const Tensor nodes = d.scan("nodes", shape, Size(depth), [&](Scan& scan, const Indices& i, const Expr&) {
    const Expr node = make_variable(DType::kInt64);
    scan.state = {node};
    scan.initial = {root(i[1])};
    scan.step = {next_node(t, i[0], node)};
    scan.emit = {node};
  })[0];
  const Tensor at = d.compute("leaf", DType::kInt64, shape, [&](const Indices& i) {
    return nodes({i[0], i[1], make_index(depth - 1)});
  });
  d.out(0, at);
}

std::vector<Sample> key_samples() {
  return {{.name = "integers", .inputs = {i64({3, 5}, -9, 9), list({-7, -3, 0, 1, 4, 8})}},
          {.name = "floats_with_nan", .inputs = {values(DType::kFloat32, {5}, {1, std::nan(""), 2.5, -1, 3}),
                                                 values(DType::kFloat32, {3}, {-1, 1, 3})},
           .attributes = {{"nan_place", int64_t{2}}}},
          {.name = "one_key", .inputs = {of(DType::kInt32, {4}, 0, 2), values(DType::kInt32, {1}, {1})}}};
}

/// x0 <= 0 ? (x1 > 1 ? A : B) : C, and x2 < 0.5 ? D : E, if these are the relations; nodes 3 to 7 are the leaves.
std::vector<SampleInput> small_trees(const std::vector<double>& relations) {
  return {f32({6, 3}), list({0, 2}), list({0, 1, 2, 0, 0, 0, 0, 0}), values(DType::kInt64, {8}, relations),
          values(DType::kFloat32, {8}, {0, 1, 0.5, 0, 0, 0, 0, 0}), list({1, 3, 6, 3, 4, 5, 6, 7}),
          list({5, 4, 7, 3, 4, 5, 6, 7})};
}
std::vector<Sample> tree_samples() {
  std::vector<SampleInput> missing = small_trees({11, 4, 9, 0, 0, 0, 0, 0});
  std::vector<SampleInput> whole = small_trees({2, 13, 6, 0, 0, 0, 0, 0});
  missing[0] = values(DType::kFloat32, {2, 3}, {std::nan(""), 2, std::nan(""), 0, std::nan(""), 0.25});
  whole[0] = of(DType::kInt32, {9, 3}, -1, 2);
  const Attributes depth = {{"depth", int64_t{2}}};
  return {{.name = "below_above", .inputs = small_trees({3, 4, 1, 0, 0, 0, 0, 0}), .attributes = depth},
          {.name = "missing_values", .inputs = missing, .attributes = depth},
          {.name = "integers", .inputs = whole, .attributes = depth},
          {.name = "more_steps_than_levels", .inputs = small_trees({3, 5, 6, 0, 0, 0, 0, 0}),
           .attributes = {{"depth", int64_t{19}}}}};
}

}  // namespace

std::vector<OpDef> decision_ops() {
  return {{.domain = "graft", .name = "KeyPlace", .since = 1, .inputs = {"x", "keys"}, .outputs = {"place"},
           .attributes = {{"nan_place", int64_t{-1}}}, .define = define_key_place, .samples = key_samples,
           .doc = "The place of each element among ascending keys, their number where it is none."},
          {.domain = "graft", .name = "TreeLeaves", .since = 1,
           .inputs = {"x", "roots", "features", "relations", "splits", "yes", "no"}, .outputs = {"leaf"},
           .attributes = {{"depth"}}, .define = define_tree_leaves, .samples = tree_samples,
           .doc = "The leaf that each row comes to in each of several decision trees."}};
}

}  // namespace graft
