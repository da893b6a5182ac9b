// SPDX-License-Identifier: Apache-2.0
#include "plan/spread_reduction.h"

#include <algorithm>

#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"
#include "fuse/split_step.h"
#include "fuse/step_maker.h"
#include "plan/repeat_in_parts.h"

namespace graft {
namespace {

constexpr int64_t kBlocks = 4;             // for each multiprocessor
constexpr int64_t kColumnBytes = 128;      // of what one block reads side by side
constexpr int64_t kLeastPart = 512;        // elements of one part
constexpr int64_t kLeastElements = 1 << 18;  // to be folded at all
constexpr int64_t kMostParts = 1024;
constexpr int64_t kBytesOfLaunch = 1 << 17;  // what one block reads while a kernel is launched: 50 GB/s for 2.5 us
constexpr int64_t kBytesAgain = 1 << 13;  // that each block may read again to save a launch
constexpr int64_t kAligned = 16;           // a part's length is a multiple of this

int64_t at(const Size& size, const Bindings& typical) { return std::max<int64_t>(1, size.evaluate(typical)); }

int64_t product(const std::vector<Axis>& axes, const Bindings& typical) {
  int64_t points = 1;
  for (const Axis& axis : axes) points *= at(axis.extent, typical);
  return points;
}

/// Whether what is folded lies side by side along the last kept axis rather than along the last folded one.
bool runs_down_columns(const Reduce& reduce) {
  if (reduce.axes.empty() || reduce.reduced.empty()) return false;
  const int column = reduce.axes.back().variable->variable, row = reduce.reduced.back().variable->variable;
  bool columns = false, rows = false;
  for (const Expr& lift : reduce.lift) {
    for_each(lift, [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad || node->args.empty()) return;
      const auto last = affine(node->args.back());
      columns |= last && last->coefficient(column).is(1);
      rows |= last && last->coefficient(row).is(1);
    });
  }
  return columns && !rows;
}

/// A reduction as a device runs it: blocks, and what each reads.
struct Work {
  int64_t kept, folded;
  bool columns;
  int64_t bytes;   ///< of the widest element that is read
  int64_t blocks;  ///< rows, or columns that are read side by side

  int64_t elements() const { return kept * folded; }
  int64_t bytes_of_block() const { return elements() * bytes / blocks; }
  bool fills(const Target& target) const { return 4 * blocks >= wanted_blocks(target); }
  static int64_t wanted_blocks(const Target& target) { return kBlocks * std::max(target.multiprocessors, 1); }
};

Work work_of(const Region& region, const Reduce& reduce, const Bindings& typical) {
  Work work{product(reduce.axes, typical), product(reduce.reduced, typical), runs_down_columns(reduce), 1, 1};
  for (const int tensor : region.inputs) {
    work.bytes = std::max<int64_t>(work.bytes, bit_width(region.tensors[tensor].type) / 8);
  }
  const int64_t together = kColumnBytes / std::min<int64_t>(work.bytes, 4);
  work.blocks = work.columns ? (work.kept + together - 1) / together : work.kept;
  return work;
}

/// Into how many parts the first folded axis is cut; 1: not at all.
int64_t parts_of(const Region& region, const Reduce& reduce, const Bindings& typical, const Target& target) {
  if (reduce.reduced.empty() || find_contraction(reduce)) return 1;
  const Work work = work_of(region, reduce, typical);
  if (!reduce.monoid.associative || work.elements() < kLeastElements || work.fills(target)) return 1;
  const int64_t first = at(reduce.reduced[0].extent, typical);
  const int64_t most = std::min(first / 2, work.columns ? work.folded / 32 : work.folded / kLeastPart);
  return std::clamp<int64_t>(std::min(Work::wanted_blocks(target) / work.blocks, most), 1, kMostParts);
}

/// The forms of a region that reads its inputs several times, as a normalisation does, cut before each reduction and
/// behind the last one, before what is computed for each element. Empty where that is left alone: what few blocks read
/// in turn takes no longer than more launches would.
std::vector<std::vector<Form>> groups_at_reductions(const Region& region, const Bindings& typical,
                                                    const Target& target) {
  std::vector<std::vector<Form>> groups;
  int64_t kept = 0;     // results of the last reduction
  int64_t in_turn = 0;  // bytes that one block reads
  int64_t launches = -1;  // beside the one that there is
  for (const Form& form : region.forms) {
    if (const auto* reduce = std::get_if<Reduce>(&form)) {
      if (parts_of(region, *reduce, typical, target) == 1) return {};
      const Work work = work_of(region, *reduce, typical);
      kept = work.kept, in_turn += work.bytes_of_block(), launches += 2;
      groups.emplace_back();
    } else if (!std::holds_alternative<Compute>(form) || groups.empty()) {
      return {};
    } else if (kept > 0 && product(axes_of(form), typical) > kept) {
      in_turn += in_turn / static_cast<int64_t>(groups.size()), launches += 1;  // it is read once more
      kept = 0;
      groups.emplace_back();
    }
    groups.back().push_back(form);
  }
  return groups.size() > 1 && in_turn > launches * kBytesOfLaunch ? groups : std::vector<std::vector<Form>>{};
}

/// Whether each part of a reduction may fold the parts of the one before it again: that takes a fraction of a launch.
bool is_quick(const FusedStep& fold, const Bindings& typical) {
  const auto* reduce = fold.region.forms.empty() ? nullptr : std::get_if<Reduce>(&fold.region.forms[0]);
  if (!reduce) return false;
  const Work work = work_of(fold.region, *reduce, typical);
  return work.elements() * work.bytes / work.blocks <= kBytesAgain;
}

/// Spreads each of the steps that `whole` was cut into.
std::vector<FusedStep> spread_groups(const FusedStep& whole, std::vector<FusedStep> groups,
                                     std::vector<FusedTensor>& tensors, const Bindings& typical,
                                     const Target& target) {
  const auto is_result = [&](int tensor) {
    return std::find(whole.outputs.begin(), whole.outputs.end(), tensor) != whole.outputs.end();
  };
  std::vector<FusedStep> steps;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<FusedStep> parts = spread_reduction(std::move(groups[g]), tensors, typical, target);
    const bool folds = g > 0 && parts.size() > 1 && is_quick(steps.back(), typical) &&
                       std::none_of(steps.back().outputs.begin(), steps.back().outputs.end(), is_result);
    if (folds) {
      std::vector<FusedStep*> others;
      for (size_t i = 1; i < parts.size(); ++i) others.push_back(&parts[i]);
      for (size_t i = g + 1; i < groups.size(); ++i) others.push_back(&groups[i]);
      if (repeat_in_parts(steps.back(), parts[0], others, tensors)) steps.pop_back();
    }
    std::move(parts.begin(), parts.end(), std::back_inserter(steps));
  }
  return steps;
}

}  // namespace

std::vector<FusedStep> spread_reduction(FusedStep step, std::vector<FusedTensor>& tensors, const Bindings& typical,
                                        const Target& target) {
  FusedStep normalised = step;
  normalise(normalised.region);
  Region region = normalised.region;
  if (region.forms.empty()) return {std::move(step)};  // all of it is dead
  if (const auto groups = groups_at_reductions(region, typical, target); !groups.empty()) {
    return spread_groups(step, split_groups(normalised, groups, tensors), tensors, typical, target);
  }
  const auto* whole = std::get_if<Reduce>(&region.forms[0]);
  const bool maps = std::all_of(region.forms.begin() + 1, region.forms.end(),
                                [](const Form& form) { return std::holds_alternative<Compute>(form); });
  const int64_t parts = whole && maps ? parts_of(region, *whole, typical, target) : 1;
  if (parts <= 1) return {std::move(step)};

  Reduce first = *whole, second = *whole;
  const Axis axis = whole->reduced[0];
  // Parts begin where vectors do.
  const Size length = ceil_div(ceil_div(axis.extent, parts), kAligned) * Size(kAligned);
  const Expr part = make_variable(), within = make_variable();
  const Expr element = part * make_size(length) + within;
  const bool exact = axis.extent == length * Size(parts);
  first.axes.insert(first.axes.begin(), {part, Size(parts)});
  first.reduced[0] = {within, length};
  second.reduced = {{make_variable(), Size(parts)}};
  for (size_t i = 0; i < whole->lift.size(); ++i) {
    const Expr lift = substitute(whole->lift[i], {{axis.variable->variable, element}});
    first.lift[i] = exact ? lift : select(lt(element, make_size(axis.extent)), lift, whole->monoid.identity[i]);
    const int tensor = static_cast<int>(region.tensors.size());
    TensorDecl decl{.name = "part", .type = lift->type, .shape = {Size(parts)}};
    std::vector<Expr> indices{second.reduced[0].variable};
    for (const Axis& kept : whole->axes) decl.shape.push_back(kept.extent), indices.push_back(kept.variable);
    region.tensors.push_back(std::move(decl));
    first.outputs[i] = tensor;
    second.lift[i] = make_load(tensor, lift->type, std::move(indices));
  }
  std::vector<Form> rest{second};
  rest.insert(rest.end(), region.forms.begin() + 1, region.forms.end());
  StepMaker maker(normalised, region, tensors);
  std::vector<FusedStep> steps;
  steps.push_back(maker.make({first}, first.outputs));
  steps.push_back(maker.make(rest, normalised.region.outputs));
  steps[0].sources = step.sources, steps[0].checks = step.checks;
  return steps;
}

}  // namespace graft
