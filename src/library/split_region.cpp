// SPDX-License-Identifier: Apache-2.0
#include "library/split_region.h"

#include <algorithm>
#include <unordered_map>

#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"
#include "library/match_parts.h"

namespace graft {
namespace {

/// A product and the map behind it.
struct Parts {
  const Reduce* reduce = nullptr;
  Compute map;
  Expr value;              ///< of the map, without roundings on the way
  std::vector<Expr> cuts;  ///< parts of the value through which all that is made of the product passes, it first
};

/// The maps behind the reduction as one, every value of theirs computed once; nothing when there are other forms.
std::optional<Compute> only_map(const Region& region) {
  std::vector<Compute> maps;
  for (size_t f = 1; f < region.forms.size(); ++f) {
    const auto* map = std::get_if<Compute>(&region.forms[f]);
    if (!map) return std::nullopt;
    maps.push_back(*map);
  }
  if (maps.empty() || maps.back().output != region.outputs[0]) return std::nullopt;
  for (size_t m = maps.size() - 1; m-- > 0;) maps.back().value = inlined(maps.back().value, maps[m]);
  return maps.back();
}

/// What is more than a map that follows a product is not taken apart.
constexpr int kMostNodes = 512;

Expr with_equal_nodes_once(const Expr& value) {
  std::unordered_map<int, std::vector<Expr>> known;  // by kind and intrinsic
  return transform(value, [&](const Expr& node) -> Expr {
    std::vector<Expr>& alike = known[static_cast<int>(node->kind) * 1024 + static_cast<int>(node->intrinsic)];
    for (const Expr& other : alike) {
      if (equal(other, node)) return other;
    }
    alike.push_back(node);
    return {};
  });
}

/// Nodes of `value` over the product without which nothing of the product is in it, the product first, `value` left
/// out: those that no use of an earlier node goes past.
std::vector<Expr> cuts_of(const Expr& value, int product) {
  std::vector<Expr> nodes;                          // that depend on the product, arguments before users
  std::unordered_map<const ExprNode*, size_t> place;  // in that order
  std::vector<size_t> last_use;
  for_each(value, [&](const Expr& node) {
    bool depends = node->kind == ExprKind::kLoad && node->tensor == product;
    for (const Expr& arg : node->args) {
      const auto used = place.find(arg.get());
      if (used == place.end()) continue;
      depends = true;
      last_use[used->second] = nodes.size();
    }
    if (!depends) return;
    place[node.get()] = nodes.size();
    nodes.push_back(node);
    last_use.push_back(nodes.size());
  });
  std::vector<Expr> cuts;
  size_t reach = 0;  // the last use of what comes before
  for (size_t n = 0; n + 1 < nodes.size(); ++n) {
    if (reach <= n && nodes[n]->type == DType::kFloat32) cuts.push_back(nodes[n]);
    reach = std::max(reach, last_use[n]);
  }
  return cuts;
}

std::optional<Parts> parts_of(const Region& region) {
  if (region.forms.size() < 2 || region.outputs.size() != 1) return std::nullopt;
  const auto* reduce = std::get_if<Reduce>(&region.forms[0]);
  if (!reduce || !find_contraction(*reduce)) return std::nullopt;
  auto map = only_map(region);
  if (!map) return std::nullopt;
  Parts parts{.reduce = reduce, .map = std::move(*map), .value = {}, .cuts = {}};
  parts.value = without_roundings(parts.map.value, region.tensors[region.outputs[0]].type);
  if (count_nodes(parts.value) > kMostNodes) return std::nullopt;
  parts.value = with_equal_nodes_once(parts.value);
  const int product = reduce->outputs[0];
  int loads = 0;
  for_each(parts.value, [&](const Expr& node) { loads += node->kind == ExprKind::kLoad && node->tensor == product; });
  if (loads != 1) return std::nullopt;
  parts.cuts = cuts_of(parts.value, product);
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

size_t count_cuts(const Region& region) {
  const auto parts = parts_of(region);
  return parts ? parts->cuts.size() : 0;
}

std::optional<RegionParts> split_region(const Region& region, size_t cut) {
  const auto parts = parts_of(region);
  if (!parts || cut >= parts->cuts.size()) return std::nullopt;
  const Expr& between = parts->cuts[cut];
  const TensorDecl& result = region.tensors[region.outputs[0]];
  RegionParts made{.product = region, .rest = region};
  Compute map = parts->map;
  map.value = make_cast(result.type, between);
  made.product.forms = {*parts->reduce, map};
  made.product.tensors[region.outputs[0]].name += ".product";
  const int link = static_cast<int>(region.tensors.size());
  made.rest.tensors.push_back(made.product.tensors[region.outputs[0]]);
  made.rest.inputs.push_back(link);
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
