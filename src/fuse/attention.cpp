// SPDX-License-Identifier: Apache-2.0
#include "fuse/attention.h"

#include <algorithm>

#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"

namespace graft {
namespace {

bool reduces_with(const Reduce& form, Intrinsic combine) { return form.monoid.intrinsic() == combine; }

/// The tensor when `e` is a plain load, else -1.
int loaded(const Expr& e) { return e->kind == ExprKind::kLoad ? e->tensor : -1; }

/// The load that an operand is, or widens from a narrower float; null for anything else.
Expr operand_load(const Expr& e) {
  if (loaded(e) >= 0) return e;
  if (!is_call(e, Intrinsic::kCast) || loaded(e->args[0]) < 0) return {};
  const Expr& load = e->args[0];
  const bool widens = is_float(load->type) && is_float(e->type) && bit_width(load->type) < bit_width(e->type);
  return widens ? load : Expr{};
}

bool last_index_is(const Expr& load, const Expr& variable) {
  return !load->args.empty() && equal(load->args.back(), variable);
}

class Finder {
 public:
  explicit Finder(const Region& region) : region_(region) {}

  /// Empty when found, else the reason.
  std::string run(AttentionForms& f) {
    for (const Form& form : region_.forms) {
      if (!std::holds_alternative<Compute>(form) && !std::holds_alternative<Reduce>(form))
        return "a form is neither a map nor a reduction";
    }
    if (!find_weighted(f)) return "there is no sum of exponentials times values";
    if (!find_softmax(f)) return "the exponentials are not a softmax over the keys";
    if (!find_scores(f)) return "the scores are not a product of queries and keys";
    f.common = common_axes(region_);
    if (f.common.empty()) return "the forms share no axis";
    // In the order of the scores, whatever that of the results is: the queries come last.
    const auto place = [&](const Axis& axis) {
      const auto same = [&](const Axis& other) { return other.variable->variable == axis.variable->variable; };
      return std::find_if(f.scores->axes.begin(), f.scores->axes.end(), same) - f.scores->axes.begin();
    };
    std::sort(f.common.begin(), f.common.end(), [&](const Axis& a, const Axis& b) { return place(a) < place(b); });
    return check_axes(f);
  }

 private:
  template <class T>
  const T* definer(int tensor) const {
    for (const Form& form : region_.forms) {
      const auto defined = defined_tensors(form);
      if (std::find(defined.begin(), defined.end(), tensor) != defined.end()) return std::get_if<T>(&form);
    }
    return nullptr;
  }

  bool find_weighted(AttentionForms& f) const {
    for (const Form& form : region_.forms) {
      const auto* reduce = std::get_if<Reduce>(&form);
      if (!reduce || !reduces_with(*reduce, Intrinsic::kAdd) || !is_call(reduce->lift[0], Intrinsic::kMul)) continue;
      for (int side = 0; side < 2; ++side) {
        const Expr& e = reduce->lift[0]->args[side];
        const auto* exponentials = loaded(e) >= 0 ? definer<Compute>(e->tensor) : nullptr;
        if (!exponentials || !is_call(exponentials->value, Intrinsic::kExp) || reduce->reduced.size() != 1) continue;
        if (!last_index_is(e, reduce->reduced[0].variable)) continue;
        f.weighted = reduce;
        f.exponentials = exponentials;
        f.values = operand_load(reduce->lift[0]->args[1 - side]);
        return static_cast<bool>(f.values);
      }
    }
    return false;
  }

  bool find_softmax(AttentionForms& f) const {
    const Expr& shifted = f.exponentials->value->args[0];
    if (!is_call(shifted, Intrinsic::kSub)) return false;
    f.shift = shifted->args[1];
    for_each(f.shift, [&](const Expr& node) {
      if (loaded(node) >= 0) f.largest = definer<Reduce>(node->tensor);
    });
    f.logits = shifted->args[0];
    f.logits_key = f.exponentials->axes.back().variable;
    if (!f.largest || !reduces_with(*f.largest, Intrinsic::kMax) || f.largest->reduced.size() != 1) return false;
    if (uses_variable(shifted->args[1], f.logits_key->variable)) return false;
    const Expr same = substitute(f.largest->lift[0], {{f.largest->reduced[0].variable->variable, f.logits_key}});
    if (!equal(same, f.logits)) return false;
    for (const Form& form : region_.forms) {
      const auto* reduce = std::get_if<Reduce>(&form);
      if (reduce && reduces_with(*reduce, Intrinsic::kAdd) && loaded(reduce->lift[0]) == f.exponentials->output) {
        f.sum = reduce;
      }
    }
    if (const Expr load = operand_load(f.logits)) {
      // The logits are a form of their own, perhaps of narrower floats: look through it.
      f.biased = definer<Compute>(load->tensor);
      if (f.biased) {
        f.logits = make_cast(f.logits->type, f.biased->value);
        f.logits_key = f.biased->axes.back().variable;
      }
    }
    return f.sum && f.sum->reduced.size() == 1;
  }

  bool find_scores(AttentionForms& f) const {
    for_each(f.logits, [&](const Expr& node) {
      const auto* reduce = loaded(node) >= 0 ? definer<Reduce>(node->tensor) : nullptr;
      if (reduce && last_index_is(node, f.logits_key)) f.scores = reduce;
    });
    if (!f.scores || f.scores->reduced.size() != 1) return false;
    const auto contraction = find_contraction(*f.scores);
    if (!contraction) return false;
    f.keys = operand_load(contraction->b);
    f.queries = operand_load(contraction->a);
    return f.queries && f.keys && f.queries->type == f.keys->type;
  }

  /// Scores are overwritten tile by tile: a result may read only what stays, the weighted sum and the divisor.
  bool reads_only_results(const AttentionForms& f, const Compute& compute) const {
    bool good = true;
    for_each(compute.value, [&](const Expr& node) {
      const int tensor = loaded(node);
      good &= tensor < 0 || is_input(region_, tensor) || tensor == f.weighted->outputs[0] ||
              tensor == f.sum->outputs[0];
    });
    return good;
  }

  std::string check_axes(AttentionForms& f) const {
    const size_t common = f.common.size();
    const std::vector<const std::vector<Axis>*> with_column = {&f.scores->axes, &f.exponentials->axes,
                                                               &f.weighted->axes};
    for (const auto* axes : with_column) {
      if (axes->size() != common + 1) return "a form has more than one axis beside the common ones";
      for (const Axis& axis : f.common) {
        if (axes->back().variable->variable == axis.variable->variable) return "a key or value axis is shared";
      }
    }
    if (f.largest->axes.size() != common || f.sum->axes.size() != common) return "a row statistic has other axes";
    const int row = f.common.back().variable->variable;
    if (uses_variable(f.keys, row) || uses_variable(f.values, row)) return "keys or values depend on the query";
    if (!uses_variable(f.queries, row)) return "queries do not depend on the query";
    for (const Form& form : region_.forms) {
      const auto* compute = std::get_if<Compute>(&form);
      if (!compute || compute == f.exponentials || compute == f.biased) continue;
      if (compute->axes.size() != common + 1) return "a result has other axes";
      if (!reads_only_results(f, *compute)) return "a result needs the scores themselves";
      f.results.push_back(compute);
    }
    const size_t known = 5 + (f.biased ? 1 : 0) + f.results.size();
    if (known != region_.forms.size()) return "there are other forms";
    const auto is_internal = [&](int tensor) {
      return std::find(region_.outputs.begin(), region_.outputs.end(), tensor) == region_.outputs.end();
    };
    for (const int tensor : {f.scores->outputs[0], f.largest->outputs[0], f.sum->outputs[0], f.weighted->outputs[0],
                             f.exponentials->output, f.biased ? f.biased->output : f.exponentials->output}) {
      if (!is_internal(tensor)) return "an intermediate result is wanted outside";
    }
    const int lane = f.weighted->axes.back().variable->variable;
    for (size_t d = 0; d < f.values->args.size(); ++d) {
      const auto index = affine(f.values->args[d]);
      const bool last = d + 1 == f.values->args.size();
      if (!index || !index->coefficient(lane).is(last ? 1 : 0)) return "the values are not contiguous";
    }
    for (const Expr& operand : {f.queries, f.keys, f.values}) {
      for (const Expr& index : operand->args) {
        if (!affine(index)) return "an operand is not addressed by sums of axes";
      }
    }
    return "";
  }

  const Region& region_;
};

}  // namespace

std::optional<AttentionForms> find_attention(const Region& region, std::string& reason) {
  AttentionForms forms;
  reason = Finder(region).run(forms);
  return reason.empty() ? std::optional(forms) : std::nullopt;
}

}  // namespace graft
