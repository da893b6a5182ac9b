// SPDX-License-Identifier: Apache-2.0
#include "library/split_region.h"

#include <algorithm>

#include "fuse/rewrite_region.h"
#include "library/match_parts.h"

namespace graft {
namespace {

/// A product and the one map behind it.
struct Parts {
  const Reduce* reduce = nullptr;
  const Compute* map = nullptr;
  Expr value;  ///< of the map, without roundings on the way
  std::vector<MatchedPost> posts;
};

std::optional<Parts> parts_of(const Region& region) {
  if (region.forms.size() != 2 || region.outputs.size() != 1) return std::nullopt;
  Parts parts{.reduce = std::get_if<Reduce>(&region.forms[0]), .map = std::get_if<Compute>(&region.forms[1])};
  if (!parts.reduce || !parts.map || parts.map->output != region.outputs[0]) return std::nullopt;
  const DType type = region.tensors[region.outputs[0]].type;
  parts.value = without_roundings(parts.map->value, type);
  Expr product;
  for_each(parts.value, [&](const Expr& node) {
    if (node->kind == ExprKind::kLoad && node->tensor == parts.reduce->outputs[0]) product = node;
  });
  if (!product || !match_posts(region, type, parts.value, product, parts.posts).empty()) return std::nullopt;
  return parts;
}

/// Leaves out the tensors, and the inputs, that no form names. Returns the places of the inputs that stay.
std::vector<size_t> keep_used(Region& region) {
  std::vector<bool> used(region.tensors.size());
  for (const Form& form : region.forms) {
    for (const int tensor : read_tensors(form)) used[tensor] = true;
    for (const int tensor : defined_tensors(form)) used[tensor] = true;
  }
  std::vector<int> mapped(region.tensors.size(), -1);
  std::vector<TensorDecl> kept;
  for (size_t t = 0; t < used.size(); ++t) {
    if (!used[t]) continue;
    mapped[t] = static_cast<int>(kept.size());
    kept.push_back(region.tensors[t]);
  }
  std::vector<size_t> places;
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    if (used[region.inputs[i]]) places.push_back(i);
  }
  std::erase_if(region.inputs, [&](int tensor) { return !used[tensor]; });
  for (int& tensor : region.inputs) tensor = mapped[tensor];
  for (int& tensor : region.outputs) tensor = mapped[tensor];
  for (Form& form : region.forms) form = renumber_tensors(form, mapped);
  region.tensors = std::move(kept);
  return places;
}

}  // namespace

std::optional<size_t> count_posts(const Region& region) {
  const auto parts = parts_of(region);
  return parts ? std::optional(parts->posts.size()) : std::nullopt;
}

std::optional<RegionParts> split_region(const Region& region, size_t posts) {
  const auto parts = parts_of(region);
  if (!parts || posts >= parts->posts.size() || !parts->posts[posts].before) return std::nullopt;
  const Expr& between = parts->posts[posts].before;
  const TensorDecl& result = region.tensors[region.outputs[0]];
  RegionParts made{.product = region, .rest = region};
  std::get<Compute>(made.product.forms[1]).value = make_cast(result.type, between);
  made.product.tensors[region.outputs[0]].name += ".product";
  const int link = static_cast<int>(region.tensors.size());
  made.rest.tensors.push_back(made.product.tensors[region.outputs[0]]);
  made.rest.inputs.push_back(link);
  Compute map = *parts->map;
  std::vector<Expr> point;
  for (const Axis& axis : map.axes) point.push_back(axis.variable);
  const Expr load = make_cast(between->type, make_load(link, result.type, point));
  map.value = make_cast(
      result.type, transform(parts->value, [&](const Expr& node) { return equal(node, between) ? load : Expr(); }));
  made.rest.forms = {map};
  made.product_inputs = keep_used(made.product);
  made.rest_inputs = keep_used(made.rest);
  made.rest_inputs.pop_back();
  return made;
}

}  // namespace graft
