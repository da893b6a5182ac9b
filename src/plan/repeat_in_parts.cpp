// SPDX-License-Identifier: Apache-2.0
#include "plan/repeat_in_parts.h"

#include <algorithm>

#include "fuse/rewrite_region.h"

namespace graft {
namespace {

/// The tensor of the step's region that stands for a tensor of the program which it reads, or -1.
int read_as(const FusedStep& step, int tensor) {
  const auto it = std::find(step.inputs.begin(), step.inputs.end(), tensor);
  return it == step.inputs.end() ? -1 : step.region.inputs[static_cast<size_t>(it - step.inputs.begin())];
}

/// The form with an index more in front of each load of the tensors that `widened` names.
template <class Widened>
Form with_index(const Form& form, const Expr& index, const Widened& widened) {
  return map_exprs(form, [&](const Expr& e) {
    return transform(e, [&](const Expr& node) -> Expr {
      if (node->kind != ExprKind::kLoad || !widened(node->tensor)) return {};
      std::vector<Expr> indices{index};
      indices.insert(indices.end(), node->args.begin(), node->args.end());
      return make_load(node->tensor, node->type, std::move(indices));
    });
  });
}

void widen(Shape& shape, const Size& parts) { shape.insert(shape.begin(), parts); }

/// Whether each load of the tensor is at the point of the form that these axes lead, the first of them aside.
bool reads_own_point(const Form& form, int tensor, const std::vector<Axis>& axes) {
  bool own = true;
  for_each_load(form, tensor, [&](const Expr& load) {
    own = own && load->args.size() + 1 == axes.size();
    for (size_t d = 0; own && d < load->args.size(); ++d) {
      const Expr& index = load->args[d];
      own = index->kind == ExprKind::kVariable && index->variable == axes[d + 1].variable->variable;
    }
  });
  return own;
}

bool fits(const FusedStep& small, const FusedStep& reader) {
  const auto* reduce = reader.region.forms.size() == 1 ? std::get_if<Reduce>(&reader.region.forms[0]) : nullptr;
  if (!reduce || reduce->axes.empty()) return false;
  for (const Form& form : small.region.forms) {
    const std::vector<Axis>& axes = axes_of(form);
    const bool same = std::equal(axes.begin(), axes.end(), reduce->axes.begin() + 1, reduce->axes.end(),
                                 [](const Axis& a, const Axis& b) { return a.extent == b.extent; });
    if (!same || std::holds_alternative<Scatter>(form) || std::holds_alternative<Compact>(form)) return false;
  }
  bool reads = false;
  for (const int tensor : small.outputs) {
    const int read = read_as(reader, tensor);
    reads = reads || read >= 0;
    if (read >= 0 && !reads_own_point(reader.region.forms[0], read, reduce->axes)) return false;
  }
  return reads;
}

}  // namespace

bool repeat_in_parts(const FusedStep& small, FusedStep& reader, const std::vector<FusedStep*>& others,
                     std::vector<FusedTensor>& tensors) {
  if (!fits(small, reader)) return false;
  Region& region = reader.region;
  const Axis part = axes_of(region.forms[0])[0];
  std::vector<int> mapped(small.region.tensors.size(), -1);  // to the reader's tensors
  const auto append = [&](int tensor) {
    mapped[tensor] = static_cast<int>(region.tensors.size());
    region.tensors.push_back(small.region.tensors[tensor]);
  };
  for (size_t i = 0; i < small.inputs.size(); ++i) {
    const int tensor = small.region.inputs[i];
    mapped[tensor] = read_as(reader, small.inputs[i]);
    if (mapped[tensor] >= 0) continue;
    append(tensor);
    region.inputs.push_back(mapped[tensor]);
    reader.inputs.push_back(small.inputs[i]);
  }
  for (size_t i = 0; i < small.outputs.size(); ++i) {
    const int tensor = small.region.outputs[i];
    mapped[tensor] = read_as(reader, small.outputs[i]);
    if (mapped[tensor] < 0) {
      append(tensor);
    } else {
      std::erase(region.inputs, mapped[tensor]);
      std::erase(reader.inputs, small.outputs[i]);
    }
    region.outputs.push_back(mapped[tensor]);
    reader.outputs.push_back(small.outputs[i]);
  }
  std::vector<bool> is_made(small.region.tensors.size(), false);
  for (const Form& form : small.region.forms) {
    for (const int tensor : defined_tensors(form)) is_made[tensor] = true;
  }
  std::vector<bool> is_wide(region.tensors.size() + small.region.tensors.size(), false);
  for (size_t tensor = 0; tensor < is_made.size(); ++tensor) {
    if (!is_made[tensor]) continue;
    if (mapped[tensor] < 0) append(static_cast<int>(tensor));
    widen(region.tensors[mapped[tensor]].shape, part.extent);
    is_wide[mapped[tensor]] = true;
  }
  std::vector<Form> forms;
  for (const Form& form : small.region.forms) {
    const Axis own{make_variable(), part.extent};
    const Form wide = with_index(form, own.variable, [&](int tensor) { return is_made[tensor]; });
    forms.push_back(renumber_tensors(wide, mapped));
    axes_of(forms.back()).insert(axes_of(forms.back()).begin(), own);
  }
  forms.push_back(with_index(region.forms[0], part.variable, [&](int tensor) { return is_wide[tensor]; }));
  region.forms = std::move(forms);
  for (const int tensor : small.outputs) {
    widen(tensors[tensor].shape, part.extent);
    for (FusedStep* other : others) {
      const int read = read_as(*other, tensor);
      if (read < 0) continue;
      widen(other->region.tensors[read].shape, part.extent);
      for (Form& form : other->region.forms) form = with_index(form, make_index(0), [&](int t) { return t == read; });
    }
  }
  return true;
}

}  // namespace graft
