// SPDX-License-Identifier: Apache-2.0
#include "plan/spread_scatter.h"

#include <algorithm>

#include "fuse/rewrite_region.h"
#include "fuse/step_maker.h"

namespace graft {
namespace {

constexpr int64_t kLeastUpdates = 16;  // that are not made one after the other

/// How the updates of a scatter meet its output. Axes of the output at which an update lies at its own index are
/// `across`; updates meet only along the others.
struct Meeting {
  std::vector<int> across;    ///< by axis of the output: the domain's axis that gives its index, or -1
  std::vector<bool> numbers;  ///< by axis of the domain: updates differ in it that may meet
  std::vector<size_t> cells;  ///< axes of the output by which it is told who writes last
};

bool is_variable(const Expr& e, const Axis& axis) {
  return e->kind == ExprKind::kVariable && e->variable == axis.variable->variable;
}

Meeting find_meeting(const Scatter& form) {
  Meeting meeting{.across = std::vector<int>(form.indices.size(), -1),
                  .numbers = std::vector<bool>(form.axes.size(), true),
                  .cells = {}};
  for (size_t d = 0; d < form.indices.size(); ++d) {
    for (size_t k = 0; k < form.axes.size(); ++k) {
      if (!is_variable(form.indices[d], form.axes[k]) || !meeting.numbers[k]) continue;
      meeting.across[d] = static_cast<int>(k);
      meeting.numbers[k] = false;
      break;
    }
  }
  for (size_t d = 0; d < form.indices.size(); ++d) {
    const int k = meeting.across[d];
    const auto decides = [&](const Expr& e) { return e && uses_variable(e, form.axes[k].variable->variable); };
    bool is_cell = k < 0 || decides(form.condition);
    for (size_t other = 0; other < form.indices.size() && !is_cell; ++other) {
      is_cell = other != d && decides(form.indices[other]);
    }
    if (is_cell) meeting.cells.push_back(d);
  }
  return meeting;
}

/// Makes the two steps of one scatter.
class ScatterSpreader {
 public:
  ScatterSpreader(const FusedStep& step, Region region, std::vector<FusedTensor>& tensors)
      : region_(std::move(region)),
        form_(std::get<Scatter>(region_.forms[0])),
        meeting_(find_meeting(form_)),
        numbers_(count_numbers()),
        type_(numbers_.is_constant() && numbers_.constant() <= INT32_MAX ? DType::kInt32 : DType::kInt64) {
    Shape shape;
    for (const size_t d : meeting_.cells) shape.push_back(region_.tensors[form_.output].shape[d]);
    for (int* const tensor : {&nobody_, &last_}) {
      *tensor = static_cast<int>(region_.tensors.size());
      region_.tensors.push_back({tensor == &nobody_ ? "nobody" : "last", type_, shape});
    }
    StepMaker maker(step, region_, tensors);
    steps_.push_back(maker.make({nobody(), find_last()}, {last_}));
    steps_.push_back(maker.make({gather()}, {form_.output}));
    steps_.front().sources = step.sources, steps_.front().checks = step.checks;
  }

  std::vector<FusedStep> take() { return std::move(steps_); }

 private:
  Size count_numbers() const {
    Size count = 1;
    for (size_t k = 0; k < form_.axes.size(); ++k) {
      if (meeting_.numbers[k]) count = count * form_.axes[k].extent;
    }
    return count;
  }

  Compute nobody() const {
    Compute fill{.axes = {}, .value = make_integer(type_, -1), .output = nobody_};
    for (const Size& extent : region_.tensors[nobody_].shape) fill.axes.push_back({make_variable(), extent});
    return fill;
  }

  /// Over the updates that may meet and the axes of cells that they lie across.
  Scatter find_last() const {
    Scatter found{.axes = {}, .base = nobody_, .indices = {}, .value = {}, .condition = form_.condition};
    found.mode = ScatterMode::kMax, found.output = last_;
    Expr number = make_index(0);
    for (size_t k = 0; k < form_.axes.size(); ++k) {
      const bool is_cell = std::any_of(meeting_.cells.begin(), meeting_.cells.end(),
                                       [&](size_t d) { return meeting_.across[d] == static_cast<int>(k); });
      if (is_cell || meeting_.numbers[k]) found.axes.push_back(form_.axes[k]);
      if (meeting_.numbers[k]) number = number * make_size(form_.axes[k].extent) + form_.axes[k].variable;
    }
    for (const size_t d : meeting_.cells) found.indices.push_back(form_.indices[d]);
    found.value = make_cast(type_, number);
    return found;
  }

  Compute gather() const {
    const TensorDecl& decl = region_.tensors[form_.output];
    Compute result{.axes = {}, .value = {}, .output = form_.output};
    std::vector<Expr> at, cell;
    for (const Size& extent : decl.shape) {
      result.axes.push_back({make_variable(), extent});
      at.push_back(result.axes.back().variable);
    }
    for (const size_t d : meeting_.cells) cell.push_back(at[d]);
    const Expr number = make_cast(DType::kInt64, make_load(last_, type_, cell));
    Expr is_updated = ge(number, make_index(0)), rest = number;
    std::vector<std::pair<int, Expr>> update;
    for (size_t d = 0; d < at.size(); ++d) {
      if (meeting_.across[d] < 0) continue;
      const Axis& axis = form_.axes[static_cast<size_t>(meeting_.across[d])];
      update.emplace_back(axis.variable->variable, at[d]);
      const bool is_cell = std::find(meeting_.cells.begin(), meeting_.cells.end(), d) != meeting_.cells.end();
      if (!is_cell && !(axis.extent == decl.shape[d])) is_updated = is_updated && lt(at[d], make_size(axis.extent));
    }
    for (size_t k = form_.axes.size(), left = count_axes(); k-- > 0;) {
      if (!meeting_.numbers[k]) continue;
      const Expr extent = make_size(form_.axes[k].extent);
      --left;
      update.emplace_back(form_.axes[k].variable->variable, left == 0 ? rest : mod(rest, extent));
      rest = floor_div(rest, extent);
    }
    result.value = select(is_updated, substitute(form_.value, update), make_load(form_.base, decl.type, at));
    return result;
  }

  size_t count_axes() const {
    return static_cast<size_t>(std::count(meeting_.numbers.begin(), meeting_.numbers.end(), true));
  }

  Region region_;
  const Scatter form_;
  const Meeting meeting_;
  const Size numbers_;  ///< of updates that may meet
  const DType type_;
  int nobody_ = -1, last_ = -1;
  std::vector<FusedStep> steps_;
};

/// Whether there are many updates that set elements of a kind that any step can store.
bool is_worth_spreading(const Region& region, const Bindings& typical) {
  if (region.forms.size() != 1) return false;
  const auto* scatter = std::get_if<Scatter>(&region.forms[0]);
  if (!scatter || scatter->mode != ScatterMode::kSet) return false;
  const DTypeKind kind = kind_of(scatter->value->type);
  const bool plain = kind != DTypeKind::kOpaque && kind != DTypeKind::kComplex;
  if (!plain || bit_width(scatter->value->type) < 8) return false;
  int64_t updates = 1;
  for (const Axis& axis : scatter->axes) updates *= std::max<int64_t>(1, axis.extent.evaluate(typical));
  return updates >= kLeastUpdates;
}

}  // namespace

std::vector<FusedStep> spread_scatter(FusedStep step, std::vector<FusedTensor>& tensors, const Bindings& typical) {
  if (step.region.forms.empty()) return {std::move(step)};
  FusedStep normalised = step;
  normalise(normalised.region);
  if (!is_worth_spreading(normalised.region, typical)) return {std::move(step)};
  return ScatterSpreader(normalised, normalised.region, tensors).take();
}

}  // namespace graft
