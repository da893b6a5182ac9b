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

/// Puts the channels last of some tensors of a region.
void permute(Region& region, const std::vector<bool>& turn) {
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

/// Where the neighbours in memory of a region's tensors go: for each tensor the dimension that is innermost in memory,
/// -1 where none is. What a form defines inherits it from the loads that use most of its axes: the axis along which
/// they read neighbours.
class Neighbours {
 public:
  /// `innermost`: of the inputs, -1 for those that should not matter.
  Neighbours(const Region& region, const std::vector<int>& innermost)
      : dimension_(region.tensors.size(), -1) {
    for (size_t i = 0; i < innermost.size(); ++i) dimension_[region.inputs[i]] = innermost[i];
    for (const Form& form : region.forms) {
      const int inherited = inherit(form);
      for (const int tensor : defined_tensors(form)) dimension_[tensor] = inherited;
    }
  }

  int dimension(int tensor) const { return dimension_[tensor]; }

 private:
  int inherit(const Form& form) const {
    int most = 0, found = -1;
    for_each_load(form, [&](const Expr& load) {
      if (dimension_[load->tensor] < 0) return;
      // What is sorted or compacted has other axes than its form.
      if (static_cast<size_t>(dimension_[load->tensor]) >= load->args.size()) return;
      const int uses = count_axes(form, load);
      const int axis = axis_of(axes_of(form), load->args[dimension_[load->tensor]]);
      // Among equals the channels win: that is what a convolution wants.
      if (axis < 0 || uses < most || (uses == most && found == kChannels)) return;
      most = uses, found = axis;
    });
    return found;
  }

  /// How many axes of more than one point the load varies along.
  static int count_axes(const Form& form, const Expr& load) {
    const std::vector<Axis>& axes = axes_of(form);
    return static_cast<int>(std::count_if(axes.begin(), axes.end(), [&](const Axis& axis) {
      return !axis.extent.is(1) && uses_variable(load, axis.variable->variable);
    }));
  }

  /// The axis that an index walks in steps of one, or else the first of those that it depends on; -1 for none.
  static int axis_of(const std::vector<Axis>& axes, const Expr& index) {
    const auto sum = affine(index);
    int first = -1;
    for (size_t d = axes.size(); d-- > 0;) {
      const int variable = axes[d].variable->variable;
      if (axes[d].extent.is(1) || !uses_variable(index, variable)) continue;
      first = static_cast<int>(d);
      if (sum && sum->coefficient(variable).is(1)) return first;
    }
    return first;
  }

  static constexpr int kChannels = 1;
  std::vector<int> dimension_;
};

class LayoutAssignment {
 public:
  LayoutAssignment(FusedProgram& program, const std::vector<bool>& any_order)
      : program_(program), any_order_(any_order), turned_(program.tensors.size()), convolved_(program.tensors.size()) {}

  void run() {
    find_fixed();
    find_absorbed();
    for (const FusedStep& step : program_.steps) choose(step);
    for (size_t t = 0; t < turned_.size(); ++t) {
      FusedTensor& tensor = program_.tensors[t];
      if (turned_[t]) tensor.shape = permuted(tensor.shape, channels_last(tensor.shape.size()));
    }
    for (FusedStep& step : program_.steps) turn(step);
    absorb();
  }

 private:
  void find_fixed() {
    fixed_.assign(program_.tensors.size(), false);
    for (const int tensor : program_.inputs) fixed_[tensor] = true;
    for (size_t n = 0; n < program_.outputs.size(); ++n) {
      if (n >= any_order_.size() || !any_order_[n]) fixed_[program_.outputs[n]] = true;
    }
    for (const FusedStep& step : program_.steps) {
      for (const SymbolSource& source : step.sources) fixed_[source.tensor] = true;
      for (const int tensor : step.outputs) fixed_[tensor] = fixed_[tensor] || !is_plain(step.region);
      if (step.bodies.empty()) continue;
      for (const auto& tensors : {step.inputs, step.outputs}) {
        for (const int tensor : tensors) fixed_[tensor] = true;
      }
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

  /// What a step puts the channels last of, doing nothing else; -1 when it does not.
  static int source_of_turn(const FusedStep& step) {
    const Region& region = step.region;
    const auto* compute = region.forms.size() == 1 ? std::get_if<Compute>(&region.forms[0]) : nullptr;
    if (!compute || step.inputs.size() != 1 || !step.sources.empty() || !step.checks.empty()) return -1;
    const Expr& load = compute->value;
    if (load->kind != ExprKind::kLoad || load->args.size() < 3 || load->args.size() != compute->axes.size()) return -1;
    const std::vector<Expr> turned = permuted(load->args, channels_last(load->args.size()));
    for (size_t d = 0; d < turned.size(); ++d) {
      const bool same =
          turned[d]->kind == ExprKind::kVariable && turned[d]->variable == compute->axes[d].variable->variable;
      if (!same) return -1;
    }
    return step.inputs[0];
  }

  /// Steps that only turn what one other step makes: that step can write the turned result itself.
  void find_absorbed() {
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      const int source = source_of_turn(program_.steps[s]);
      if (source < 0 || fixed_[source] || program_.tensors[source].alias_of >= 0 || views_.contains(source)) continue;
      int readers = 0, maker = -1;
      for (size_t other = 0; other < program_.steps.size(); ++other) {
        const auto count = [&](const std::vector<int>& tensors) {
          return std::count(tensors.begin(), tensors.end(), source);
        };
        readers += static_cast<int>(count(program_.steps[other].inputs));
        if (count(program_.steps[other].outputs) > 0) maker = static_cast<int>(other);
      }
      const int result = program_.steps[s].outputs[0];
      if (readers != 1 || maker < 0 || program_.steps[maker].outputs.size() != 1) continue;
      turned_[source] = fixed_[source] = fixed_[result] = true;
      absorbed_.push_back({s, static_cast<size_t>(maker)});
    }
  }

  void absorb() {
    for (const auto& [turning, maker] : absorbed_) {
      program_.steps[maker].outputs = program_.steps[turning].outputs;
      for (const std::string& node : program_.steps[turning].nodes) program_.steps[maker].nodes.push_back(node);
      for (const std::string& name : program_.steps[turning].operators) program_.steps[maker].operators.push_back(name);
    }
    for (size_t i = absorbed_.size(); i-- > 0;) {
      program_.steps.erase(program_.steps.begin() + static_cast<std::ptrdiff_t>(absorbed_[i].first));
    }
  }

  /// A convolution's results are turned; so is what is computed from them where its channels run along the neighbours
  /// in memory of what its step reads, whichever way that came to lie so.
  void choose(const FusedStep& step) {
    const bool convolves = is_convolution(step.region);
    const bool follows =
        convolves || std::any_of(step.inputs.begin(), step.inputs.end(), [&](int t) { return convolved_[root_of(t)]; });
    if (!follows) return;
    std::vector<int> innermost;
    for (const int tensor : step.inputs) innermost.push_back(innermost_of(tensor));
    const Neighbours neighbours(step.region, innermost);
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const int tensor = step.outputs[i];
      convolved_[tensor] = true;
      if (fixed_[tensor] || (!convolves && neighbours.dimension(step.region.outputs[i]) != 1)) continue;
      turned_[tensor] = true;
      for (const int view : views_[tensor]) turned_[view] = true;
    }
  }

  int root_of(int tensor) const {
    while (program_.tensors[tensor].alias_of >= 0) tensor = program_.tensors[tensor].alias_of;
    return tensor;
  }

  /// The innermost dimension in memory that has neighbours; -1 of constants, whose order kernels choose.
  int innermost_of(int tensor) const {
    const Shape& shape = program_.tensors[tensor].shape;
    if (program_.tensors[tensor].constant) return -1;
    Order order(shape.size());
    for (size_t d = 0; d < shape.size(); ++d) order[d] = static_cast<int>(d);
    if (turned_[tensor]) order = channels_last(shape.size());
    for (size_t d = order.size(); d-- > 0;) {
      if (!shape[static_cast<size_t>(order[d])].is(1)) return order[d];
    }
    return -1;
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

  FusedProgram& program_;
  const std::vector<bool>& any_order_;
  std::vector<bool> turned_, fixed_;
  std::vector<bool> convolved_;                      ///< computed from a convolution's results
  std::map<int, std::vector<int>> views_;            ///< of a tensor, that are turned when it is
  std::vector<std::pair<size_t, size_t>> absorbed_;  ///< steps: the one that turns, the one that made what it turns
};

}  // namespace

void assign_layouts(FusedProgram& program, const std::vector<bool>& any_order) {
  LayoutAssignment(program, any_order).run();
}

namespace {

/// Whether what a region's folds read along most of their axes has the channels innermost in memory: the last index is
/// the channel that the fold is at, and nothing else is.
bool reads_channels_last(const Region& region) {
  std::ptrdiff_t most = 1;
  bool found = false;
  for (const Form& form : region.forms) {
    const std::vector<Axis>& axes = axes_of(form);
    if (!std::holds_alternative<Reduce>(form) || axes.size() < 4) continue;
    const int channel = axes[1].variable->variable;
    for_each_load(form, [&](const Expr& load) {
      if (!is_input(region, load->tensor)) return;
      const auto varied = std::count_if(axes.begin(), axes.end(), [&](const Axis& axis) {
        return !axis.extent.is(1) && uses_variable(load, axis.variable->variable);
      });
      if (varied < most) return;
      const Expr& last = load->args.back();
      bool innermost = last->kind == ExprKind::kVariable && last->variable == channel;
      for (size_t d = 0; d + 1 < load->args.size(); ++d) {
        innermost = innermost && !uses_variable(load->args[d], channel);
      }
      found = innermost && (found || varied > most);
      most = varied;
    });
  }
  return found;
}

/// Whether a window of a convolution, or one that goes over channels that lie last, stores its result with the channels
/// before the positions, and has enough of them for vectors.
bool stores_planes(const FusedStep& step) {
  constexpr int64_t kFewChannels = 16;
  const Region& region = step.region;
  if (step.outputs.size() != 1 || !is_plain(region)) return false;
  const auto slides = [](const Form& form) {
    const auto* reduce = std::get_if<Reduce>(&form);
    return reduce && std::count_if(reduce->reduced.begin(), reduce->reduced.end(),
                                   [](const Axis& axis) { return !axis.extent.is(1); }) > 1;
  };
  const Shape& shape = region.tensors[region.outputs[0]].shape;
  if (shape.size() < 4 || !std::any_of(region.forms.begin(), region.forms.end(), slides)) return false;
  const auto channels = shape[1].as_constant();
  if (!channels || *channels < kFewChannels) return false;
  const bool has_positions = std::any_of(shape.begin() + 2, shape.end(), [](const Size& size) { return !size.is(1); });
  return is_convolution(region) || (has_positions && reads_channels_last(region));
}

/// [n, c, spatial...] <- [n, spatial..., c]
Region turning_region(const TensorDecl& result) {
  const Shape turned = permuted(result.shape, channels_last(result.shape.size()));
  Region region{.name = "turn", .tensors = {{"turned", result.type, turned}, result}, .inputs = {0}, .outputs = {1}};
  Compute turn{.output = 1};
  std::vector<Expr> point;
  for (const Size& extent : result.shape) {
    turn.axes.push_back({make_variable(), extent});
    point.push_back(turn.axes.back().variable);
  }
  turn.value = make_load(0, result.type, permuted(point, channels_last(point.size())));
  region.forms.emplace_back(std::move(turn));
  return region;
}

}  // namespace

void turn_results(FusedProgram& program) {
  std::vector<FusedStep> steps;
  for (FusedStep& step : program.steps) {
    if (!stores_planes(step)) {
      steps.push_back(std::move(step));
      continue;
    }
    Region& region = step.region;
    const TensorDecl result = region.tensors[region.outputs[0]];
    std::vector<bool> turn(region.tensors.size());
    for (const Form& form : region.forms) {
      for (const int tensor : defined_tensors(form)) turn[tensor] = region.tensors[tensor].shape == result.shape;
    }
    permute(region, turn);
    FusedStep turning{.name = step.name, .nodes = step.nodes, .operators = step.operators};
    turning.region = turning_region(result);
    turning.outputs = step.outputs;
    turning.inputs = step.outputs = {static_cast<int>(program.tensors.size())};
    program.tensors.push_back({step.name + "/turned", result.type, region.tensors[region.outputs[0]].shape, {}, -1});
    steps.push_back(std::move(step));
    steps.push_back(std::move(turning));
  }
  program.steps = std::move(steps);
}

}  // namespace graft
