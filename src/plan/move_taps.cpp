// SPDX-License-Identifier: Apache-2.0
#include "plan/move_taps.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "expr/form_fields.h"
#include "fuse/rewrite_region.h"
#include "fuse/step_maker.h"
#include "strategy/region_work.h"

namespace graft {
namespace {

constexpr int64_t kFewColumns = 16;    // that leave vectors and matrix units empty
constexpr int64_t kLeastChannels = 8;  // that are worth a product of their own

int variable_of(const Axis& axis) { return axis.variable->variable; }

Expr without_casts(Expr e) {
  while (is_call(e, Intrinsic::kCast)) e = e->args[0];
  return e;
}

void add_conditions(const Expr& condition, std::vector<Expr>& conditions) {
  if (is_call(condition, Intrinsic::kAnd)) {
    for (const Expr& part : condition->args) add_conditions(part, conditions);
  } else {
    conditions.push_back(condition);
  }
}

Expr guarded(const std::vector<Expr>& conditions, const Expr& value) {
  if (conditions.empty()) return value;
  Expr all = conditions[0];
  for (size_t i = 1; i < conditions.size(); ++i) all = all && conditions[i];
  return select(all, value, make_integer(value->type, 0));
}

std::set<int> variables_of(const Expr& e) {
  std::set<int> found;
  for_each(e, [&](const Expr& node) {
    if (node->kind == ExprKind::kVariable) found.insert(node->variable);
  });
  return found;
}

/// A reduced axis that the source is read along together with one axis of the result, at `position` alone.
struct Tap {
  Axis kernel, row;
  Expr position;  ///< in terms of the two
  Axis place;     ///< all that the position can be
};

class TapMoving {
 public:
  TapMoving(const FusedStep& step, const Region& region, std::vector<FusedTensor>& tensors)
      : step_(step), region_(region), tensors_(tensors) {}

  /// Whether the region is such a convolution.
  bool find() {
    reduce_ = region_.forms.empty() ? nullptr : std::get_if<Reduce>(&region_.forms[0]);
    const bool maps = std::all_of(region_.forms.begin() + (reduce_ ? 1 : 0), region_.forms.end(),
                                  [](const Form& form) { return std::holds_alternative<Compute>(form); });
    const Expr product = reduce_ && maps ? summed_product(*reduce_) : Expr();
    if (!product || product.get() != reduce_->lift[0].get()) return false;
    const bool swapped = is_constant(product->args[0]);
    weights_ = product->args[swapped ? 0 : 1];
    if (!has_plain_weights() || !divide_axes(product->args[swapped ? 1 : 0])) return false;
    read_source(product->args[swapped ? 1 : 0]);
    choose_taps();
    int64_t channels = 1;
    for (const Axis& axis : channels_) channels *= axis.extent.as_constant().value_or(kLeastChannels);
    return !taps_.empty() && channels >= kLeastChannels && split_conditions();
  }

  std::vector<FusedStep> run() {
    Region region = region_;
    const int products = declare(region, "products", shape_of(product_axes()), type());
    const int weights = declare(region, "weights", weights_shape(), without_casts(weights_)->type);
    const std::vector<Axis> sum_axes = joined(rows_, columns_);
    // One tap each is only moved, in whatever order the results are; several are summed where their columns lie.
    const bool in_order = !sums_several() || std::equal(
        sum_axes.begin(), sum_axes.end(), reduce_->axes.begin(), reduce_->axes.end(),
        [](const Axis& a, const Axis& b) { return variable_of(a) == variable_of(b); });
    const int sum = in_order ? reduce_->outputs[0] : declare(region, "taps", shape_of(sum_axes), type());
    StepMaker maker(step_, region, tensors_);
    maker.place(weights, add_weights(region.tensors[weights]));
    std::vector<FusedStep> steps;
    steps.push_back(maker.make({product(products, weights)}, {products}));
    std::vector<Form> forms{sum_of_taps(products, sum)};
    if (!in_order) {
      steps.push_back(maker.make(forms, {sum}));
      std::vector<Expr> at;
      for (const Axis& axis : sum_axes) at.push_back(axis.variable);
      forms = {Compute{reduce_->axes, make_load(sum, type(), at), reduce_->outputs[0]}};
    }
    forms.insert(forms.end(), region_.forms.begin() + 1, region_.forms.end());
    steps.push_back(maker.make(forms, region_.outputs));
    steps[0].sources = step_.sources, steps[0].checks = step_.checks;
    return steps;
  }

 private:
  DType type() const { return reduce_->lift[0]->type; }

  const FusedTensor* tensor_of(const Expr& operand) const {
    const Expr load = without_casts(operand);
    if (load->kind != ExprKind::kLoad) return nullptr;
    const auto input = std::find(region_.inputs.begin(), region_.inputs.end(), load->tensor);
    if (input == region_.inputs.end()) return nullptr;
    return &tensors_[step_.inputs[static_cast<size_t>(input - region_.inputs.begin())]];
  }
  bool is_constant(const Expr& operand) const {
    const FusedTensor* tensor = tensor_of(operand);
    return tensor && tensor->constant && bit_width(tensor->type) >= 8;
  }

  /// The weights are read at one plain axis in each dimension.
  bool has_plain_weights() const {
    if (!is_constant(weights_)) return false;
    const Expr load = without_casts(weights_);
    std::set<int> used;
    for (const Expr& index : load->args) {
      if (index->kind != ExprKind::kVariable || !used.insert(index->variable).second) return false;
    }
    return true;
  }

  /// Rows belong to the source and columns to the weights; what is summed over belongs to both.
  bool divide_axes(const Expr& source) {
    for (const Axis& axis : reduce_->axes) {
      const bool in_source = uses_variable(source, variable_of(axis));
      if (in_source == uses_variable(weights_, variable_of(axis))) return false;
      (in_source ? rows_ : columns_).push_back(axis);
    }
    return std::all_of(reduce_->reduced.begin(), reduce_->reduced.end(), [&](const Axis& axis) {
      return axis.extent.is_constant() && uses_variable(source, variable_of(axis)) &&
             uses_variable(weights_, variable_of(axis));
    });
  }

  void read_source(const Expr& source) {
    value_ = source;
    if (!is_call(source, Intrinsic::kSelect)) return;
    const Expr& otherwise = source->args[2];
    if (otherwise->kind != ExprKind::kConstant || otherwise->real != 0 || otherwise->integer != 0) return;
    add_conditions(source->args[0], conditions_);
    value_ = source->args[1];
  }

  std::optional<Tap> tap_of(const Axis& kernel) const {
    Tap tap{.kernel = kernel};
    bool one = true;
    for_each(value_, [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad) return;
      for (size_t d = 0; d < node->args.size(); ++d) {
        if (!uses_variable(node->args[d], variable_of(kernel))) continue;
        const Size& extent = region_.tensors[node->tensor].shape[d];
        if (!tap.position) tap.position = node->args[d], tap.place = {make_variable(), extent};
        one = one && equal(tap.position, node->args[d]) && tap.place.extent == extent;
      }
    });
    if (!tap.position || !one) return std::nullopt;
    std::set<int> others = variables_of(tap.position);
    others.erase(variable_of(kernel));
    const auto row = std::find_if(rows_.begin(), rows_.end(),
                                  [&](const Axis& axis) { return others.contains(variable_of(axis)); });
    if (others.size() != 1 || row == rows_.end()) return std::nullopt;
    tap.row = *row;
    const Expr rest = at_places(value_, {tap});
    const bool alone =
        !uses_variable(rest, variable_of(tap.kernel)) && !uses_variable(rest, variable_of(tap.row));
    return alone ? std::optional(tap) : std::nullopt;
  }

  static Expr at_places(const Expr& value, const std::vector<Tap>& taps) {
    return transform(value, [&](const Expr& node) -> Expr {
      for (const Tap& tap : taps) {
        if (equal(node, tap.position)) return tap.place.variable;
      }
      return {};
    });
  }

  /// Those that meet a place only now and then; or, of few columns, the last.
  void choose_taps() {
    std::vector<Tap> all;
    for (const Axis& axis : reduce_->reduced) {
      if (auto tap = tap_of(axis)) all.push_back(std::move(*tap));
    }
    for (const Tap& tap : all) {
      if (!affine(tap.position)) taps_.push_back(tap);
    }
    int64_t columns = 1;
    for (const Axis& axis : columns_) columns *= axis.extent.as_constant().value_or(kFewColumns);
    if (taps_.empty() && !all.empty() && columns < kFewColumns) taps_ = {all.back()};
    for (const Axis& axis : reduce_->reduced) {
      if (!is_moved(axis)) channels_.push_back(axis);
    }
  }

  const Tap* tap_with(const Axis& axis) const {
    const auto found = std::find_if(taps_.begin(), taps_.end(), [&](const Tap& tap) {
      return variable_of(tap.kernel) == variable_of(axis) || variable_of(tap.row) == variable_of(axis);
    });
    return found == taps_.end() ? nullptr : &*found;
  }
  bool is_moved(const Axis& axis) const { return tap_with(axis) != nullptr; }

  /// Conditions on moved taps go with them.
  bool split_conditions() {
    std::set<int> moved;
    for (const Tap& tap : taps_) moved.insert({variable_of(tap.kernel), variable_of(tap.row)});
    for (const Expr& condition : conditions_) {
      const std::set<int> used = variables_of(condition);
      const auto count = std::count_if(used.begin(), used.end(), [&](int v) { return moved.contains(v); });
      const bool stays_whole = count == static_cast<std::ptrdiff_t>(used.size()) && !has_load(condition);
      if (count > 0 && !stays_whole) return false;
      (count > 0 ? moved_conditions_ : kept_conditions_).push_back(condition);
    }
    return true;
  }

  static std::vector<Axis> joined(std::vector<Axis> first, const std::vector<Axis>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  static Shape shape_of(const std::vector<Axis>& axes) {
    Shape shape;
    for (const Axis& axis : axes) shape.push_back(axis.extent);
    return shape;
  }

  static int declare(Region& region, std::string name, Shape shape, DType type) {
    region.tensors.push_back({std::move(name), type, std::move(shape)});
    return static_cast<int>(region.tensors.size()) - 1;
  }

  /// The taps, then the columns: the axes of one column of the product.
  std::vector<Axis> parts_of_column() const {
    std::vector<Axis> parts;
    for (const Tap& tap : taps_) parts.push_back(tap.kernel);
    return joined(parts, columns_);
  }

  /// Places, then columns.
  std::vector<Axis> product_axes() const {
    std::vector<Axis> axes;
    for (const Axis& row : rows_) {
      const Tap* tap = tap_with(row);
      axes.push_back(tap ? tap->place : row);
    }
    Size columns = 1;
    for (const Axis& axis : parts_of_column()) columns = columns * axis.extent;
    axes.push_back({make_variable(), columns});
    return axes;
  }

  Shape weights_shape() const {
    Shape shape = shape_of(channels_);
    shape.push_back(product_axes().back().extent);
    return shape;
  }

  Reduce product(int products, int weights) const {
    Reduce form = *reduce_;
    form.axes = product_axes();
    form.reduced = channels_;
    std::vector<Expr> at;
    for (const Axis& axis : channels_) at.push_back(axis.variable);
    at.push_back(form.axes.back().variable);
    const Expr load = make_load(weights, without_casts(weights_)->type, at);
    form.lift = {guarded(kept_conditions_, at_places(value_, taps_)) * make_cast(type(), load)};
    form.outputs = {products};
    return form;
  }

  /// Of a tap that meets a place every few results: those that meet the place before a result, and ones further back.
  struct Phase {
    Axis turn;              ///< how many places back
    Expr kernel, position;  ///< in terms of the result and the turn
    Expr test;              ///< the condition that holds by itself now
  };

  std::optional<Phase> phase_of(const Tap& tap) const {
    if (!is_call(tap.position, Intrinsic::kFloorDiv)) return std::nullopt;
    const Expr& reach = tap.position->args[0];
    const auto stride = as_integer(tap.position->args[1]);
    const auto steps = affine(reach);
    const bool goes = steps && steps->coefficient(variable_of(tap.row)).is(1) &&
                      steps->coefficient(variable_of(tap.kernel)).is(-1);
    if (!goes || !stride || *stride < 2) return std::nullopt;
    Phase phase;
    for (const Expr& condition : moved_conditions_) {
      const bool tests = is_call(condition, Intrinsic::kEq) && is_call(condition->args[0], Intrinsic::kMod) &&
                         equal(condition->args[0]->args[0], reach) && as_integer(condition->args[1]) == 0 &&
                         as_integer(condition->args[0]->args[1]) == stride;
      if (tests) phase.test = condition;
    }
    if (!phase.test) return std::nullopt;
    const Expr first = substitute(reach, {{variable_of(tap.kernel), make_index(0)}});
    phase.turn = {make_variable(), ceil_div(tap.kernel.extent, *stride)};
    phase.kernel = mod(first, make_index(*stride)) + phase.turn.variable * make_index(*stride);
    phase.position = floor_div(first, make_index(*stride)) - phase.turn.variable;
    return phase;
  }

  /// Whether more than one tap meets a result.
  bool sums_several() const {
    return std::any_of(taps_.begin(), taps_.end(), [&](const Tap& tap) {
      const std::optional<Phase> phase = phase_of(tap);
      return !(phase ? phase->turn : tap.kernel).extent.is(1);
    });
  }

  Form sum_of_taps(int products, int sum) const {
    Reduce form = *reduce_;
    form.axes = joined(rows_, columns_);
    form.reduced.clear();
    std::vector<Expr> at, conditions = moved_conditions_;
    for (const Axis& row : rows_) {
      const Tap* tap = tap_with(row);
      at.push_back(tap ? tap->position : row.variable);
    }
    Expr column = make_index(0);
    for (const Axis& axis : parts_of_column()) column = column * make_size(axis.extent) + axis.variable;
    at.push_back(column);
    for (const Tap& tap : taps_) {
      const std::optional<Phase> phase = phase_of(tap);
      form.reduced.push_back(phase ? phase->turn : tap.kernel);
      if (!phase) continue;
      std::erase_if(conditions, [&](const Expr& condition) { return equal(condition, phase->test); });
      const auto in_phase = [&](const Expr& e) {
        const Expr placed = transform(
            e, [&](const Expr& node) { return equal(node, tap.position) ? phase->position : Expr(); });
        return substitute(placed, {{variable_of(tap.kernel), phase->kernel}});
      };
      for (Expr& condition : conditions) condition = in_phase(condition);
      for (Expr& index : at) index = in_phase(index);
      const int64_t stride = *as_integer(tap.position->args[1]);
      if (tap.kernel.extent.is_multiple_of(stride)) continue;
      conditions.push_back(lt(phase->kernel, make_size(tap.kernel.extent)));
    }
    const Expr value = guarded(conditions, make_load(products, type(), at));
    if (!sums_several()) {
      std::vector<std::pair<int, Expr>> first;
      for (const Axis& axis : form.reduced) first.emplace_back(variable_of(axis), make_index(0));
      return Compute{reduce_->axes, substitute(value, first), sum};
    }
    form.lift = {value};
    form.outputs = {sum};
    return form;
  }

  /// Appends the constant of the new weights to the program.
  int add_weights(const TensorDecl& decl) {
    const FusedTensor& old = *tensor_of(weights_);
    const Expr load = without_casts(weights_);
    const std::vector<Axis> order = joined(channels_, parts_of_column());
    std::vector<int64_t> strides(order.size());
    int64_t stride = 1;
    for (size_t d = load->args.size(); d-- > 0;) {
      for (size_t i = 0; i < order.size(); ++i) {
        if (load->args[d]->variable == variable_of(order[i])) strides[i] = stride;
      }
      stride *= region_.tensors[load->tensor].shape[d].constant();
    }
    TensorData data = TensorData::zeros(decl.type, concrete(decl.shape));
    const std::span<const std::byte> from = old.constant->bytes();
    const std::span<std::byte> to = data.mutable_bytes();
    const auto width = static_cast<size_t>(bit_width(decl.type) / 8);
    for (int64_t element = 0; element < data.element_count(); ++element) {
      int64_t rest = element, source = 0;
      for (size_t i = order.size(); i-- > 0;) {
        const int64_t extent = order[i].extent.constant();
        source += rest % extent * strides[i];
        rest /= extent;
      }
      std::memcpy(to.data() + static_cast<size_t>(element) * width, from.data() + static_cast<size_t>(source) * width,
                  width);
    }
    const std::string name = old.name + "/by_taps";
    tensors_.push_back({name, decl.type, decl.shape, std::move(data), -1});
    return static_cast<int>(tensors_.size()) - 1;
  }

  const FusedStep& step_;
  const Region& region_;
  std::vector<FusedTensor>& tensors_;
  const Reduce* reduce_ = nullptr;
  Expr value_, weights_;                 ///< the source without its guard
  std::vector<Axis> rows_, columns_;     ///< of the result
  std::vector<Axis> channels_;           ///< summed over in the product
  std::vector<Tap> taps_;                ///< summed over afterwards
  std::vector<Expr> conditions_, kept_conditions_, moved_conditions_;
};

}  // namespace

std::vector<FusedStep> move_taps(FusedStep step, std::vector<FusedTensor>& tensors) {
  if (step.region.forms.empty()) return {std::move(step)};
  FusedStep normalised = step;
  normalise(normalised.region);
  const Region region = normalised.region;
  TapMoving moving(normalised, region, tensors);
  if (!moving.find()) return {std::move(step)};
  return moving.run();
}

}  // namespace graft
