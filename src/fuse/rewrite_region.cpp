// SPDX-License-Identifier: Apache-2.0
#include "fuse/rewrite_region.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_set>

#include "base/error.h"

namespace graft {
namespace {

/// The form that defines each tensor, or -1.
std::vector<int> defining_forms(const Region& region) {
  std::vector<int> definer(region.tensors.size(), -1);
  for (size_t f = 0; f < region.forms.size(); ++f) {
    for (const int tensor : defined_tensors(region.forms[f])) definer[tensor] = static_cast<int>(f);
  }
  return definer;
}

std::vector<bool> output_flags(const Region& region) {
  std::vector<bool> flags(region.tensors.size());
  for (const int tensor : region.outputs) flags[tensor] = true;
  return flags;
}

bool is_variable(const Expr& e, int variable) { return e->kind == ExprKind::kVariable && e->variable == variable; }

}  // namespace

std::vector<Axis>& axes_of(Form& form) {
  return std::visit([](auto& f) -> std::vector<Axis>& { return f.axes; }, form);
}

const std::vector<Axis>& axes_of(const Form& form) {
  return std::visit([](const auto& f) -> const std::vector<Axis>& { return f.axes; }, form);
}

std::vector<Axis> inner_axes_of(const Form& form) {
  if (const auto* reduce = std::get_if<Reduce>(&form)) return reduce->reduced;
  if (const auto* scan = std::get_if<Scan>(&form)) return {scan->axis};
  if (const auto* sort = std::get_if<Sort>(&form)) return {sort->axis};
  return {};
}

bool is_view(const Expr& e) {
  if (is_call(e, Intrinsic::kCast)) return is_view(e->args[0]);
  return e->kind == ExprKind::kLoad || e->kind == ExprKind::kConstant;
}

int cost_of(const Expr& e) {
  int cost = 0;
  for_each(e, [&](const Expr& node) {
    if (node->kind == ExprKind::kLoad) cost += 1;
    if (node->kind != ExprKind::kCall || node->type == DType::kInt64) return;
    switch (node->intrinsic) {
      case Intrinsic::kDiv:
      case Intrinsic::kSqrt:
        cost += is_float(node->type) ? 5 : 15;
        break;
      case Intrinsic::kCast:
        break;
      default: {
        const bool cheap = node->intrinsic < Intrinsic::kPow || node->intrinsic == Intrinsic::kFma ||
                           node->intrinsic == Intrinsic::kNeg || node->intrinsic == Intrinsic::kAbs ||
                           node->intrinsic >= Intrinsic::kFloor;
        cost += cheap ? 1 : 20;
      }
    }
  });
  return cost;
}

namespace {

/// Whether a load may be replaced by the expression that computes it, given how often that would repeat the work.
bool worth_inlining(const Region& region, const Compute& compute, const std::vector<int>& users) {
  if (is_view(compute.value)) return true;
  const int cost = cost_of(compute.value);
  if (cost <= 3) return true;
  if (users.size() > 1) return false;
  const Form& user = region.forms[users[0]];
  if (std::holds_alternative<Scan>(user) || std::holds_alternative<Sort>(user)) return false;
  // A consumer that visits more points than the tensor has elements would repeat the work.
  const Size points = [&] {
    Size count = 1;
    for (const Axis& axis : axes_of(user)) count = count * axis.extent;
    for (const Axis& axis : inner_axes_of(user)) count = count * axis.extent;
    return count;
  }();
  return points == element_count(region.tensors[compute.output].shape);
}

}  // namespace

Expr inlined(const Expr& e, const Compute& compute) {
  std::vector<std::pair<Expr, Expr>> done;  // load -> value: equal loads share one expression
  return transform(e, [&](const Expr& node) -> Expr {
    if (node->kind != ExprKind::kLoad || node->tensor != compute.output) return {};
    for (const auto& [load, value] : done) {
      if (equal(load, node)) return value;
    }
    std::vector<std::pair<int, Expr>> replacements;
    for (size_t i = 0; i < compute.axes.size(); ++i) {
      replacements.emplace_back(compute.axes[i].variable->variable, node->args[i]);
    }
    done.emplace_back(node, substitute(compute.value, replacements));
    return done.back().second;
  });
}

void inline_computes(Region& region) {
  const std::vector<bool> is_output = output_flags(region);
  std::vector<std::set<int>> reads(region.forms.size());  // by form: many forms each read many tensors
  const auto read_again = [&](size_t u) {
    const std::vector<int> tensors = read_tensors(region.forms[u]);
    reads[u] = std::set<int>(tensors.begin(), tensors.end());
  };
  for (size_t u = 0; u < reads.size(); ++u) read_again(u);
  for (size_t f = 0; f < region.forms.size(); ++f) {
    const auto* compute = std::get_if<Compute>(&region.forms[f]);
    if (!compute) continue;
    std::vector<int> users;
    bool direct = false;
    for (size_t u = f + 1; u < region.forms.size(); ++u) {
      if (reads[u].contains(compute->output)) users.push_back(static_cast<int>(u));
      const auto* scatter = std::get_if<Scatter>(&region.forms[u]);
      direct |= scatter && scatter->base == compute->output;
    }
    if (users.empty() || direct || !worth_inlining(region, *compute, users)) continue;
    if (is_output[compute->output] && cost_of(compute->value) > 3 && !is_view(compute->value)) continue;
    const Compute producer = *compute;
    for (const int u : users) {
      region.forms[u] = map_exprs(region.forms[u], [&](const Expr& e) { return inlined(e, producer); });
      read_again(static_cast<size_t>(u));
    }
  }
}

namespace {

/// Whether the form counts what a wanted tensor has the size of.
bool counts_for(const Region& region, const Form& form, const std::vector<bool>& wanted) {
  const auto* compact = std::get_if<Compact>(&form);
  if (!compact) return false;
  std::set<std::string, std::less<>> symbols;
  for (size_t t = 0; t < wanted.size(); ++t) {
    if (!wanted[t]) continue;
    for (const Size& size : region.tensors[t].shape) size.collect_symbols(symbols);
  }
  return symbols.contains(compact->count);
}

}  // namespace

void remove_dead_forms(Region& region) {
  std::vector<bool> wanted = output_flags(region);
  std::vector<Form> kept;
  for (size_t f = region.forms.size(); f-- > 0;) {
    const auto defined = defined_tensors(region.forms[f]);
    const bool is_read = std::any_of(defined.begin(), defined.end(), [&](int t) { return wanted[t]; });
    if (!is_read && !counts_for(region, region.forms[f], wanted)) continue;
    for (const int tensor : read_tensors(region.forms[f])) wanted[tensor] = true;
    kept.push_back(std::move(region.forms[f]));
  }
  std::reverse(kept.begin(), kept.end());
  region.forms = std::move(kept);
}

namespace {

/// The dimensions of each tensor that have extent 1 (never the row dimension of a scan or sort).
std::vector<std::vector<bool>> unit_dimensions(const Region& region) {
  std::vector<std::vector<bool>> unit(region.tensors.size());
  for (size_t t = 0; t < unit.size(); ++t) {
    for (const Size& size : region.tensors[t].shape) unit[t].push_back(size.is(1));
  }
  for (const Form& form : region.forms) {
    const bool has_row = std::holds_alternative<Scan>(form) || std::holds_alternative<Sort>(form);
    const bool any_row = has_row || std::holds_alternative<Compact>(form);
    for (const int tensor : defined_tensors(form)) {
      if (any_row) unit[tensor].back() = false;
    }
  }
  return unit;
}

template <class T>
std::vector<T> without(const std::vector<T>& items, const std::vector<bool>& dropped) {
  std::vector<T> kept;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i >= dropped.size() || !dropped[i]) kept.push_back(items[i]);
  }
  return kept;
}

}  // namespace

void drop_unit_axes(Region& region) {
  const auto unit = unit_dimensions(region);
  for (Form& form : region.forms) {
    std::vector<std::pair<int, Expr>> zeros;
    for (const auto& axes : {axes_of(form), inner_axes_of(form)}) {
      for (const Axis& axis : axes) {
        if (axis.extent.is(1)) zeros.emplace_back(axis.variable->variable, make_index(0));
      }
    }
    form = map_exprs(form, [&](const Expr& e) {
      return transform(substitute(e, zeros), [&](const Expr& node) -> Expr {
        if (node->kind != ExprKind::kLoad) return {};
        return make_load(node->tensor, node->type, without(node->args, unit[node->tensor]));
      });
    });
    const auto is_unit = [](const Axis& axis) { return axis.extent.is(1); };
    if (auto* reduce = std::get_if<Reduce>(&form)) std::erase_if(reduce->reduced, is_unit);
    if (auto* scatter = std::get_if<Scatter>(&form)) {
      scatter->indices = without(scatter->indices, unit[scatter->output]);
    }
    std::erase_if(axes_of(form), is_unit);
  }
  for (size_t t = 0; t < region.tensors.size(); ++t) {
    region.tensors[t].shape = without(region.tensors[t].shape, unit[t]);
  }
}

namespace {

/// The loads of the tensors that a form defines, each with the number of the form that reads it.
std::vector<std::pair<int, Expr>> loads_of(const Region& region, const Form& form,
                                           const std::map<int, std::vector<int>>& readers) {
  std::vector<std::pair<int, Expr>> loads;
  for (const int tensor : defined_tensors(form)) {
    const auto found = readers.find(tensor);
    if (found == readers.end()) continue;
    for (const int reader : found->second) {
      for_each_load(region.forms[static_cast<size_t>(reader)], tensor,
                    [&](const Expr& load) { loads.emplace_back(reader, load); });
    }
  }
  return loads;
}

/// By tensor: the forms that read it, in order.
std::map<int, std::vector<int>> readers_of(const Region& region) {
  std::map<int, std::vector<int>> readers;
  for (size_t f = 0; f < region.forms.size(); ++f) {
    for (const int tensor : read_tensors(region.forms[f])) {
      std::vector<int>& known = readers[tensor];
      if (known.empty() || known.back() != static_cast<int>(f)) known.push_back(static_cast<int>(f));
    }
  }
  return readers;
}

/// The loads of each tensor that the region defines, over all forms.
std::map<int, std::vector<std::pair<int, Expr>>> internal_loads(const Region& region) {
  const std::vector<int> definer = defining_forms(region);
  std::map<int, std::vector<std::pair<int, Expr>>> loads;
  for (size_t f = 0; f < region.forms.size(); ++f) {
    for_each_load(region.forms[f], [&](const Expr& load) {
      if (definer[load->tensor] >= 0) loads[load->tensor].emplace_back(static_cast<int>(f), load);
    });
  }
  return loads;
}

void rename_axis(Form& form, size_t position, const Expr& variable) {
  const int old = axes_of(form)[position].variable->variable;
  if (old == variable->variable) return;
  form = map_exprs(form, [&](const Expr& e) { return substitute(e, {{old, variable}}); });
  axes_of(form)[position].variable = variable;
}

bool has_axis(const Form& form, int variable) {
  const auto& axes = axes_of(form);
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.variable->variable == variable; });
}

const Axis* find_axis(const Form& form, const Expr& variable) {
  for (const Axis& axis : axes_of(form)) {
    if (axis.variable->variable == variable->variable) return &axis;
  }
  return nullptr;
}

/// The variable that every load of the tensor uses for dimension `d`, when it is a parallel axis of the loading form.
Expr agreed_variable(const Region& region, const std::vector<std::pair<int, Expr>>& loads, size_t d,
                     const Size& extent) {
  Expr agreed;
  for (const auto& [form, load] : loads) {
    const Expr& index = load->args[d];
    if (index->kind != ExprKind::kVariable) return {};
    const Axis* axis = find_axis(region.forms[form], index);
    if (!axis || !(axis->extent == extent)) return {};
    if (agreed && agreed->variable != index->variable) return {};
    agreed = index;
  }
  return agreed;
}

}  // namespace

void unify_axes(Region& region) {
  if (region.forms.empty()) return;
  const auto readers = readers_of(region);
  for (size_t f = region.forms.size(); f-- > 0;) {
    Form& form = region.forms[f];
    if (std::holds_alternative<Scatter>(form) || std::holds_alternative<Compact>(form)) continue;
    const std::vector<std::pair<int, Expr>> uses = loads_of(region, form, readers);
    const size_t rank = axes_of(form).size();
    for (size_t d = 0; d < rank; ++d) {
      Expr variable;
      if (!uses.empty()) {
        variable = agreed_variable(region, uses, d, axes_of(form)[d].extent);
      } else if (f + 1 < region.forms.size()) {
        // Another root: runs along with the last form where their leading axes are equal.
        const auto& last = axes_of(region.forms.back());
        if (d >= last.size() || !(last[d].extent == axes_of(form)[d].extent)) break;
        variable = last[d].variable;
      }
      if (variable && !has_axis(form, variable->variable)) rename_axis(form, d, variable);
    }
  }
}

std::vector<Axis> common_axes(const Region& region) {
  if (region.forms.empty()) return {};
  std::vector<Axis> common;
  const auto loads = internal_loads(region);
  for (const Axis& axis : axes_of(region.forms.back())) {
    const int v = axis.variable->variable;
    bool everywhere = !axis.extent.is(1);
    for (const Form& form : region.forms) {
      everywhere &=
          has_axis(form, v) && !std::holds_alternative<Scatter>(form) && !std::holds_alternative<Compact>(form);
    }
    // The tensors of the region are read at the point itself.
    const std::vector<int> definer = defining_forms(region);
    for (const auto& [tensor, uses] : loads) {
      if (!everywhere) break;
      const auto& axes = axes_of(region.forms[definer[tensor]]);
      for (size_t d = 0; d < axes.size(); ++d) {
        if (axes[d].variable->variable != v) continue;
        for (const auto& [form, load] : uses) everywhere &= is_variable(load->args[d], v);
      }
    }
    if (everywhere) common.push_back(axis);
  }
  return common;
}

namespace {

/// Where two axes stand next to each other in every list of axes and every tensor access, or not at all.
class Mergeable {
 public:
  explicit Mergeable(const Region& region) : region_(region) {}

  bool operator()(int u, int v) const {
    for (const Form& form : region_.forms) {
      if (!std::holds_alternative<Compute>(form) && !std::holds_alternative<Reduce>(form)) return false;
      if (!lists_agree(axes_of(form), u, v) || !lists_agree(inner_axes_of(form), u, v)) return false;
      bool good = true;
      std::unordered_set<const ExprNode*> seen;
      for_each_expr(form, [&](const Expr& e) { good = good && expression_agrees(e, u, v, seen); });
      if (!good) return false;
    }
    return true;
  }

 private:
  static bool lists_agree(const std::vector<Axis>& axes, int u, int v) {
    for (size_t i = 0; i < axes.size(); ++i) {
      const int variable = axes[i].variable->variable;
      if (variable == u && (i + 1 == axes.size() || axes[i + 1].variable->variable != v)) return false;
      if (variable == v && (i == 0 || axes[i - 1].variable->variable != u)) return false;
    }
    return true;
  }

  /// u and v appear only as neighbouring plain indices of loads whose dimension for v has v's extent. Nodes of `seen`
  /// agree, or the answer is known already.
  bool expression_agrees(const Expr& e, int u, int v, std::unordered_set<const ExprNode*>& seen) const {
    if (e->kind == ExprKind::kVariable) return e->variable != u && e->variable != v;
    if (!seen.insert(e.get()).second) return true;
    if (e->kind != ExprKind::kLoad) {
      return std::all_of(e->args.begin(), e->args.end(),
                         [&](const Expr& arg) { return expression_agrees(arg, u, v, seen); });
    }
    for (size_t d = 0; d < e->args.size(); ++d) {
      if (is_variable(e->args[d], u)) {
        if (d + 1 == e->args.size() || !is_variable(e->args[d + 1], v)) return false;
        if (!(region_.tensors[e->tensor].shape[d + 1] == extent_of(v))) return false;
        ++d;
      } else if (!expression_agrees(e->args[d], u, v, seen)) {
        return false;
      }
    }
    return true;
  }

  Size extent_of(int variable) const {
    for (const Form& form : region_.forms) {
      for (const auto& axes : {axes_of(form), inner_axes_of(form)}) {
        for (const Axis& axis : axes) {
          if (axis.variable->variable == variable) return axis.extent;
        }
      }
    }
    return 0;
  }

  const Region& region_;
};

/// Which dimensions of which tensors are merged with the one after them, decided by every access.
bool tensors_agree(const Region& region, int u, std::map<int, size_t>& merged) {
  std::map<int, bool> untouched;  // tensors accessed somewhere without u, v
  bool good = true;
  const auto note = [&](int tensor, std::optional<size_t> d) {
    const auto it = merged.find(tensor);
    if (!d) {
      untouched[tensor] = true;
    } else if (it == merged.end()) {
      merged[tensor] = *d;
    } else {
      good &= it->second == *d;
    }
  };
  for (const Form& form : region.forms) {
    for_each_load(form, [&](const Expr& load) {
      std::optional<size_t> at;
      for (size_t d = 0; d < load->args.size(); ++d) {
        if (is_variable(load->args[d], u)) at = d;
      }
      note(load->tensor, at);
    });
    std::optional<size_t> at;
    const auto& axes = axes_of(form);
    for (size_t d = 0; d < axes.size(); ++d) {
      if (axes[d].variable->variable == u) at = d;
    }
    for (const int tensor : defined_tensors(form)) note(tensor, at);
  }
  for (const auto& [tensor, d] : merged) good &= !untouched.contains(tensor);
  return good;
}

std::vector<Axis> merged_axes(std::vector<Axis> axes, int u, int v, const Axis& both) {
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    if (axes[i].variable->variable == u && axes[i + 1].variable->variable == v) {
      axes[i] = both;
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }
  return axes;
}

void merge(Region& region, const Axis& u, const Axis& v, const std::map<int, size_t>& merged) {
  const Axis both{make_variable(), u.extent * v.extent};
  for (const auto& [tensor, d] : merged) {
    Shape& shape = region.tensors[tensor].shape;
    shape[d] = shape[d] * shape[d + 1];
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1);
  }
  for (Form& form : region.forms) {
    form = map_exprs(form, [&](const Expr& e) {
      return transform(e, [&](const Expr& node) -> Expr {
        if (node->kind != ExprKind::kLoad || !merged.contains(node->tensor)) return {};
        const size_t d = merged.at(node->tensor);
        std::vector<Expr> indices = node->args;
        if (!is_variable(indices[d], u.variable->variable)) return {};
        indices[d] = both.variable;
        indices.erase(indices.begin() + static_cast<std::ptrdiff_t>(d) + 1);
        return make_load(node->tensor, node->type, std::move(indices));
      });
    });
    axes_of(form) = merged_axes(axes_of(form), u.variable->variable, v.variable->variable, both);
    if (auto* reduce = std::get_if<Reduce>(&form)) {
      reduce->reduced = merged_axes(reduce->reduced, u.variable->variable, v.variable->variable, both);
    }
  }
}

/// Merges the first pair that can be; false when there is none.
bool merge_one(Region& region) {
  const Mergeable mergeable(region);
  for (const Form& form : region.forms) {
    for (const auto& axes : {axes_of(form), inner_axes_of(form)}) {
      for (size_t i = 0; i + 1 < axes.size(); ++i) {
        const int u = axes[i].variable->variable, v = axes[i + 1].variable->variable;
        std::map<int, size_t> merged;
        if (!mergeable(u, v) || !tensors_agree(region, u, merged)) continue;
        merge(region, Axis(axes[i]), Axis(axes[i + 1]), merged);
        return true;
      }
    }
  }
  return false;
}

}  // namespace

void collapse_axes(Region& region) {
  while (merge_one(region)) {
  }
}

}  // namespace graft
