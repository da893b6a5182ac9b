// SPDX-License-Identifier: Apache-2.0
// What a region stores, as an expression over its one reduction: the maps between them written out.
#include <algorithm>
#include <set>

#include "library/match_parts.h"

namespace graft {
namespace {

using Replacements = std::vector<std::pair<int, Expr>>;

/// A tensor of the region: its element at `point` (indices over the reduction's variables) is `value`.
struct KnownTensor {
  int tensor = -1;
  std::vector<Expr> point;
  Expr value;
};

class ValueMatcher {
 public:
  ValueMatcher(const Region& region, StoredValue& stored) : region_(region), stored_(stored) {}

  std::string run() {
    if (region_.outputs.size() != 1) return "it has several outputs";
    if (std::string reason = find_reduction(); !reason.empty()) return reason;
    for (const Form& form : region_.forms) {
      const auto* compute = std::get_if<Compute>(&form);
      if (compute && !add(*compute)) return "a map reads the result at another point";
    }
    const KnownTensor& last = known_.back();
    if (last.tensor != region_.outputs[0]) return "the last map is not the output";
    stored_.value = last.value;
    stored_.result = store_access(region_, last.tensor, last.point);
    return "";
  }

 private:
  std::string find_reduction() {
    for (const Form& form : region_.forms) {
      if (const auto* reduce = std::get_if<Reduce>(&form)) {
        if (stored_.reduce) return "there is more than one reduction";
        stored_.reduce = reduce;
      } else if (!std::holds_alternative<Compute>(form)) {
        return "a form is neither a map nor a contraction";
      } else if (!stored_.reduce) {
        return "a map runs before the contraction";
      }
    }
    if (!stored_.reduce) return "there is no contraction";
    std::vector<Expr> point;
    for (const Axis& axis : stored_.reduce->axes) point.push_back(axis.variable);
    const int sum = stored_.reduce->outputs[0];
    stored_.product = make_load(sum, region_.tensors[sum].type, point);
    known_.push_back({sum, point, stored_.product});
    return "";
  }

  const KnownTensor* find(int tensor) const {
    const auto it = std::find_if(known_.begin(), known_.end(), [&](const auto& k) { return k.tensor == tensor; });
    return it == known_.end() ? nullptr : &*it;
  }

  /// Follows a map whose points are those of the reduction, one for one.
  bool add(const Compute& compute) {
    Replacements axes;
    bool good = true;
    for_each(compute.value, [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad) return;
      if (const KnownTensor* known = find(node->tensor)) good &= place(*known, node, axes);
    });
    if (!good || axes.size() != compute.axes.size()) return false;
    const Expr written_out = transform(compute.value, [&](const Expr& node) -> Expr {
      if (node->kind != ExprKind::kLoad) return {};
      const KnownTensor* known = find(node->tensor);
      return known ? known->value : Expr();
    });
    KnownTensor made{compute.output, {}, substitute(written_out, axes)};
    for (const Axis& axis : compute.axes) made.point.push_back(replacement(axes, axis.variable->variable));
    if (!covers(compute, made.point)) return false;
    known_.push_back(std::move(made));
    return true;
  }

  static Expr replacement(const Replacements& axes, int variable) {
    for (const auto& [own, e] : axes) {
      if (own == variable) return e;
    }
    return {};
  }

  static bool set(Replacements& axes, const Expr& variable, const Expr& e) {
    if (variable->kind != ExprKind::kVariable) return false;
    if (const Expr before = replacement(axes, variable->variable)) return equal(before, e);
    axes.emplace_back(variable->variable, e);
    return true;
  }

  /// load[v] at point [p] -> v = p; load[floor_div(v, c), mod(v, c)] at [p, q] of extent c -> v = p * c + q.
  bool place(const KnownTensor& known, const Expr& load, Replacements& axes) const {
    const Shape& shape = region_.tensors[known.tensor].shape;
    for (size_t d = 0; d < load->args.size(); ++d) {
      const Expr& index = load->args[d];
      if (!is_call(index, Intrinsic::kFloorDiv)) {
        if (!set(axes, index, known.point[d])) return false;
        continue;
      }
      if (d + 1 == load->args.size() || !is_call(load->args[d + 1], Intrinsic::kMod)) return false;
      const Expr& rest = load->args[d + 1];
      const Expr inner = make_size(shape[d + 1]);
      const bool splits =
          equal(index->args[1], inner) && equal(rest->args[1], inner) && equal(index->args[0], rest->args[0]);
      if (!splits || !set(axes, index->args[0], known.point[d] * inner + known.point[d + 1])) return false;
      ++d;
    }
    return true;
  }

  /// Whether the map has as many points as the reduction and uses each of its variables in one axis.
  bool covers(const Compute& compute, const std::vector<Expr>& point) const {
    std::set<int> used;
    size_t uses = 0;
    for (const Expr& e : point) {
      for_each(e, [&](const Expr& node) {
        if (node->kind == ExprKind::kVariable) used.insert(node->variable), ++uses;
      });
    }
    Size points = 1, needed = 1;
    for (const Axis& axis : compute.axes) points = points * axis.extent;
    for (const Axis& axis : stored_.reduce->axes) needed = needed * axis.extent;
    return uses == used.size() && uses == stored_.reduce->axes.size() && points == needed;
  }

  const Region& region_;
  StoredValue& stored_;
  std::vector<KnownTensor> known_;
};

}  // namespace

std::string match_value(const Region& region, StoredValue& stored) { return ValueMatcher(region, stored).run(); }

}  // namespace graft
