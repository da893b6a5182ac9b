// SPDX-License-Identifier: Apache-2.0
#include "tile/enlarged_maps.h"

#include <algorithm>
#include <numeric>

#include "fuse/rewrite_region.h"
#include "tile/block_rules.h"
#include "tile/exact_indices.h"

namespace graft::tile {
namespace {

constexpr int64_t kMostLoads = 4;    // of a point
constexpr int64_t kPieceBytes = 16;  // that a thread stores at once
constexpr int64_t kRows = 2;         // of a thread, for which there should be room

std::vector<Expr> loads_of(const Expr& e) {
  std::vector<Expr> loads;
  for_each(e, [&](const Expr& node) {
    if (node->kind == ExprKind::kLoad) loads.push_back(node);
  });
  return loads;
}

bool contains(const std::vector<int>& list, int tensor) {
  return std::find(list.begin(), list.end(), tensor) != list.end();
}

/// Whether coordinates are whole numbers, as far as they are known when compiling.
bool is_exact(const Expr& e) {
  bool exact = true;
  for_each(e, [&](const Expr& node) { exact = exact && node->type != DType::kFloat64; });
  return exact;
}

/// The elements that a thread stores at once.
int64_t piece_of(const Region& region, const Compute& map) {
  return kPieceBytes * 8 / std::max(bit_width(region.tensors[map.output].type), 8);
}

/// Whether a map reads elements of `tensor` at its own point, but for the last axis, along which it enlarges the tensor
/// by a whole factor: so that pieces begin at whole elements.
bool enlarges(const Region& region, const Compute& user, const Expr& value, int tensor) {
  const graft::Axis& last = user.axes.back();
  const int64_t piece = piece_of(region, user);
  const int64_t factor = period_of(value, last.variable->variable);
  if (factor <= 1 || piece % factor != 0 || !last.extent.is_multiple_of(piece)) return false;
  for (const Expr& load : loads_of(value)) {
    if (load->tensor != tensor) continue;
    for (size_t d = 0; d + 1 < load->args.size(); ++d) {
      if (load->args[d]->kind != ExprKind::kVariable || load->args[d]->variable == last.variable->variable)
        return false;
    }
    if (period_of(load->args.back(), last.variable->variable) != factor) return false;
  }
  return true;
}

/// Whether the map is worth computing where `user` reads it.
bool is_worth_inlining(const Region& region, const Compute& map, const Compute& user) {
  if (user.axes.empty() || map.axes.size() != user.axes.size()) return false;
  const Expr made = exact_indices(map.value), value = exact_indices(user.value);
  if (!is_exact(made) || !is_exact(value) || !enlarges(region, user, value, map.output)) return false;
  const auto reads = loads_at_every_point(made), uses = loads_at_every_point(value);
  const bool inputs =
      std::all_of(reads.begin(), reads.end(), [&](const Expr& load) { return contains(region.inputs, load->tensor); });
  const auto is_use = [&](const Expr& load) { return load->tensor == map.output; };
  const auto used = std::count_if(uses.begin(), uses.end(), is_use);
  // Where only some points read it, neighbours do not see that they read the same.
  const auto all = loads_of(value);
  const bool everywhere =
      reads.size() == loads_of(made).size() && used == std::count_if(all.begin(), all.end(), is_use);
  const int64_t nodes = count_nodes(exact_indices(inlined(user.value, map)));
  return inputs && everywhere && used * static_cast<int64_t>(reads.size()) <= kMostLoads &&
         nodes * piece_of(region, user) * kRows <= kMostPieceNodes;
}

/// The only form that reads a tensor, when it is a map whose result leaves the region.
Compute* only_user(Region& region, int tensor) {
  Compute* user = nullptr;
  int users = 0;
  for (Form& form : region.forms) {
    if (!contains(read_tensors(form), tensor)) continue;
    ++users;
    user = std::get_if<Compute>(&form);
  }
  return users == 1 && user && contains(region.outputs, user->output) ? user : nullptr;
}

}  // namespace

int64_t period_of(const Expr& e, int variable) {
  constexpr int64_t kMost = 1 << 12;
  int64_t period = 1;
  for_each(e, [&](const Expr& node) {
    const bool divided = is_call(node, Intrinsic::kFloorDiv) || is_call(node, Intrinsic::kMod);
    if (!divided || period == 0 || !uses_variable(node->args[0], variable)) return;
    const int64_t by = as_integer(node->args[1]).value_or(0);
    const auto sum = affine(node->args[0]);
    const int64_t step = sum ? sum->coefficient(variable).as_constant().value_or(0) : 0;
    const int64_t own = by > 0 && step > 0 ? by / std::gcd(by, step) : 0;
    period = own > kMost || period > kMost ? 0 : std::lcm(period, own);
  });
  return period;
}

Region inline_enlarged(const Region& region) {
  Region result = region;
  for (size_t f = 0; f < result.forms.size(); ++f) {
    const auto* map = std::get_if<Compute>(&result.forms[f]);
    if (!map || contains(result.outputs, map->output)) continue;
    Compute* const user = only_user(result, map->output);
    if (user && is_worth_inlining(result, *map, *user)) user->value = inlined(user->value, *map);
  }
  remove_dead_forms(result);
  return result;
}

}  // namespace graft::tile
