// SPDX-License-Identifier: Apache-2.0
#include "fuse/assign_layouts.h"

#include <algorithm>
#include <map>

#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"

namespace graft {
namespace {

/// Axis k of the tensor in memory is axis order[k] of the tensor as the model sees it.
using Order = std::vector<int>;

Order channels_last(size_t rank) {
  Order order = {0};
  for (size_t axis = 2; axis < rank; ++axis) order.push_back(static_cast<int>(axis));
  order.push_back(1);
  return order;
}

template <class T>
std::vector<T> permuted(const std::vector<T>& items, const Order& order) {
  std::vector<T> result;
  for (const int axis : order) result.push_back(items[axis]);
  return result;
}

/// A sum of products over channels and at least one spatial axis, or with spatial axes beside it: a convolution whose
/// weights do not vary over the batch.
bool is_convolution(const Region& region) {
  for (const Form& form : region.forms) {
    const auto* reduce = std::get_if<Reduce>(&form);
    if (!reduce || reduce->axes.size() < 4) continue;
    const auto contraction = find_contraction(*reduce);
    if (!contraction || !contraction->batch.empty()) continue;
    // The output channels, axis 1, belong to one operand and everything else to the other.
    const int channel = reduce->axes[1].variable->variable;
    const auto& alone = uses_variable(contraction->a, channel) ? contraction->m : contraction->n;
    if (alone.size() == 1) return true;
  }
  return false;
}

/// Every tensor that the region defines is defined axis by axis.
bool is_plain(const Region& region) {
  return std::all_of(region.forms.begin(), region.forms.end(), [](const Form& form) {
    const auto* reduce = std::get_if<Reduce>(&form);
    return std::holds_alternative<Compute>(form) || (reduce && reduce->outputs.size() == 1);
  });
}

class LayoutAssignment {
 public:
  explicit LayoutAssignment(FusedProgram& program) : program_(program), turned_(program.tensors.size()) {}

  void run() {
    find_fixed();
    for (const FusedStep& step : program_.steps) choose(step);
    for (size_t t = 0; t < turned_.size(); ++t) {
      FusedTensor& tensor = program_.tensors[t];
      if (turned_[t]) tensor.shape = permuted(tensor.shape, channels_last(tensor.shape.size()));
    }
    for (FusedStep& step : program_.steps) turn(step);
  }

 private:
  void find_fixed() {
    fixed_.assign(program_.tensors.size(), false);
    for (const int tensor : program_.inputs) fixed_[tensor] = true;
    for (const int tensor : program_.outputs) fixed_[tensor] = true;
    for (const FusedStep& step : program_.steps) {
      for (const SymbolSource& source : step.sources) fixed_[source.tensor] = true;
      for (const int tensor : step.outputs) fixed_[tensor] = fixed_[tensor] || !is_plain(step.region);
    }
    for (size_t t = 0; t < program_.tensors.size(); ++t) {
      const FusedTensor& tensor = program_.tensors[t];
      const int root = tensor.alias_of;
      if (root < 0) {
        fixed_[t] = fixed_[t] || tensor.constant || tensor.shape.size() < 4;
      } else if (fixed_[t] || !keeps_channels(tensor, program_.tensors[root])) {
        fixed_[root] = true;
      } else {
        views_[root].push_back(static_cast<int>(t));
      }
    }
  }

  /// Whether a view joins or divides nothing but what lies behind the channels: then it is turned with its tensor.
  static bool keeps_channels(const FusedTensor& view, const FusedTensor& of) {
    return of.alias_of < 0 && view.shape.size() >= 3 && of.shape.size() >= 3 && view.shape[0] == of.shape[0] &&
           view.shape[1] == of.shape[1];
  }

  /// A convolution's results are turned; so are those of a step that reads a turned tensor of their rank.
  void choose(const FusedStep& step) {
    bool follows = is_convolution(step.region);
    for (const int tensor : step.inputs) follows |= turned_[tensor];
    if (!follows) return;
    for (const int tensor : step.outputs) {
      turned_[tensor] = !fixed_[tensor];
      for (const int view : views_[tensor]) turned_[view] = turned_[tensor];
    }
  }

  void turn(FusedStep& step) {
    Region& region = step.region;
    std::vector<bool> turn(region.tensors.size());
    for (size_t i = 0; i < step.inputs.size(); ++i) turn[region.inputs[i]] = turned_[step.inputs[i]];
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      if (!turned_[step.outputs[i]]) continue;
      const Shape shape = region.tensors[region.outputs[i]].shape;
      // What leads to the result runs over the same axes in the same order.
      for (const Form& form : region.forms) {
        for (const int tensor : defined_tensors(form)) {
          const bool is_output =
              std::find(region.outputs.begin(), region.outputs.end(), tensor) != region.outputs.end();
          if (tensor == region.outputs[i] || (!is_output && region.tensors[tensor].shape == shape)) turn[tensor] = true;
        }
      }
    }
    if (std::find(turn.begin(), turn.end(), true) != turn.end()) permute(region, turn);
  }

  static void permute(Region& region, const std::vector<bool>& turn) {
    for (Form& form : region.forms) {
      form = map_exprs(form, [&](const Expr& e) {
        return transform(e, [&](const Expr& node) -> Expr {
          if (node->kind != ExprKind::kLoad || !turn[node->tensor]) return {};
          return make_load(node->tensor, node->type, permuted(node->args, channels_last(node->args.size())));
        });
      });
      if (turn[defined_tensors(form)[0]]) axes_of(form) = permuted(axes_of(form), channels_last(axes_of(form).size()));
    }
    for (size_t t = 0; t < turn.size(); ++t) {
      Shape& shape = region.tensors[t].shape;
      if (turn[t]) shape = permuted(shape, channels_last(shape.size()));
    }
  }

  FusedProgram& program_;
  std::vector<bool> turned_, fixed_;
  std::map<int, std::vector<int>> views_;  ///< of a tensor, that are turned when it is
};

}  // namespace

void assign_layouts(FusedProgram& program) { LayoutAssignment(program).run(); }

}  // namespace graft
