// SPDX-License-Identifier: Apache-2.0
#include "fuse/split_step.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "fuse/attention.h"
#include "fuse/contraction.h"
#include "fuse/gathered_columns.h"
#include "fuse/step_maker.h"

namespace graft {
namespace {

/// A tensor folded to a scalar, and what is computed from that: there is no axis that could be shared.
bool is_one_scalar(const Region& region) {
  const bool scalars = std::all_of(region.forms.begin(), region.forms.end(), [](const Form& form) {
    return axes_of(form).empty() && (std::holds_alternative<Compute>(form) || std::holds_alternative<Reduce>(form));
  });
  return scalars && std::count_if(region.forms.begin(), region.forms.end(),
                                  [](const Form& form) { return std::holds_alternative<Reduce>(form); }) <= 1;
}

/// Whether the form is a product of matrices, or a convolution.
bool is_product(const Form& form) {
  const auto* reduce = std::get_if<Reduce>(&form);
  const auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  return contraction && !contraction->m.empty();
}

/// Whether the form's points are those of the product, in some order: what its strategies can walk.
bool runs_along(const Form& form, const Form& product) {
  const std::vector<Axis>&own = axes_of(form), &walked = axes_of(product);
  return own.size() == walked.size() && std::all_of(own.begin(), own.end(), [&](const Axis& axis) {
           return std::any_of(walked.begin(), walked.end(), [&](const Axis& other) {
             return other.variable->variable == axis.variable->variable;
           });
         });
}

/// Whether products stand beside reductions, or before maps over other points, and no strategy takes them together.
bool holds_products(const Region& region) {
  int reductions = 0;
  const Form* product = nullptr;
  bool elsewhere = false;
  for (const Form& form : region.forms) {
    if (!std::holds_alternative<Compute>(form) && !std::holds_alternative<Reduce>(form)) return false;
    reductions += std::holds_alternative<Reduce>(form);
    if (is_product(form)) product = &form;
    elsewhere = elsewhere || (product && !runs_along(form, *product));
  }
  if (!product || (reductions == 1 && !elsewhere)) return false;
  std::string reason;
  const bool attention = find_attention(region, reason).has_value();
  if (!attention) log(LogLevel::kReason, "{}: products and other reductions are no attention: {}", region.name, reason);
  return !attention;
}

/// A product and the maps that a kernel can compute with it.
class ProductGroup {
 public:
  explicit ProductGroup(const Form& product, bool takes_gathered)
      : product_(product), takes_gathered_(takes_gathered), along_{std::get<Reduce>(product).outputs[0]} {}

  /// Takes the form as one more map, unless it leaves the product's points.
  bool take(const Form& form) {
    const auto* map = std::get_if<Compute>(&form);
    if (!map) return false;
    if (runs_along(form, product_)) {
      const std::vector<int> read = read_tensors(form);
      const bool late = std::any_of(read.begin(), read.end(), [&](int tensor) { return gathered_.contains(tensor); });
      if (!late) along_.insert(map->output);
      return !late;
    }
    if (!takes_gathered_) return false;
    const auto columns = gathered_columns(std::get<Reduce>(product_), *map, along_, gathered_);
    if (!columns || (columns_ && columns_ != columns)) return false;
    columns_ = columns;
    gathered_.insert(map->output);
    return true;
  }

 private:
  const Form& product_;
  bool takes_gathered_;
  std::set<int> along_, gathered_;  ///< what has been made at the product's points, and at those of gathering maps
  std::optional<GatheredColumns> columns_;
};

/// The forms cut at each product, which has the maps of its points behind it with it, and at what lies between two.
std::vector<std::vector<Form>> groups_at_products(const Region& region, bool takes_gathered) {
  std::vector<std::vector<Form>> groups(1);
  std::optional<ProductGroup> last;
  for (const Form& form : region.forms) {
    const bool product = is_product(form);
    const bool leaves = last && !last->take(form);
    if ((product || leaves) && !groups.back().empty()) groups.emplace_back();
    if (product) {
      last.emplace(form, takes_gathered);
    } else if (leaves) {
      last.reset();
    }
    groups.back().push_back(form);
  }
  return groups;
}

/// Whether the map reads what the maps make, and that at its own points alone.
bool continues_maps(const Form& form, const std::vector<Form>& maps) {
  bool reads = false, at_point = true;
  for (const Form& map : maps) {
    if (!std::holds_alternative<Compute>(map) || axes_of(map).size() != axes_of(form).size()) return false;
    for_each_load(form, std::get<Compute>(map).output, [&](const Expr& load) {
      reads = true;
      for (size_t d = 0; d < load->args.size(); ++d) {
        const Axis& own = axes_of(form)[d];
        at_point = at_point && own.extent == axes_of(map)[d].extent && load->args[d]->kind == ExprKind::kVariable &&
                   load->args[d]->variable == own.variable->variable;
      }
    });
  }
  return reads && at_point;
}

/// Tensors that the forms read, their own among them.
size_t read_by(const std::vector<Form>& forms) {
  std::set<int> read;
  for (const Form& form : forms) {
    const auto tensors = read_tensors(form);
    read.insert(tensors.begin(), tensors.end());
  }
  return read.size();
}

/// One group for each form, but a fold to a scalar has with it what is computed from it alone, and a map what maps
/// compute from it point by point; `takes_gathered`: a product what a kernel computes with it.
std::vector<std::vector<Form>> groups_of_forms(const Region& region, bool takes_gathered) {
  constexpr size_t kMost = 8, kMostRead = 16;  // maps in a kernel, and what they may read
  std::vector<std::vector<Form>> groups;
  std::optional<ProductGroup> product;
  for (const Form& form : region.forms) {
    if (product && product->take(form)) {
      groups.back().push_back(form);
      continue;
    }
    product.reset();
    if (takes_gathered && is_product(form)) product.emplace(form, true);
    const bool map = std::holds_alternative<Compute>(form) && !groups.empty();
    const bool of_scalar = map && axes_of(form).empty() && std::holds_alternative<Reduce>(groups.back()[0]) &&
                           axes_of(groups.back()[0]).empty();
    const bool small = map && groups.back().size() < kMost && read_by(groups.back()) + read_by({form}) <= kMostRead;
    const bool continued = small && continues_maps(form, groups.back());
    if (!of_scalar && !continued) groups.emplace_back();
    groups.back().push_back(form);
  }
  return groups;
}

}  // namespace

std::vector<FusedStep> split_groups(const FusedStep& step, const std::vector<std::vector<Form>>& groups,
                                    std::vector<FusedTensor>& tensors) {
  const Region& region = step.region;
  std::vector<int> last_reader(region.tensors.size(), -1);  // group
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const Form& form : groups[g]) {
      for (const int tensor : read_tensors(form)) last_reader[tensor] = static_cast<int>(g);
    }
  }
  for (const int tensor : region.outputs) last_reader[tensor] = static_cast<int>(groups.size());
  StepMaker maker(step, region, tensors);
  std::vector<FusedStep> steps;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<int> results;
    for (const Form& form : groups[g]) {
      for (const int tensor : defined_tensors(form)) {
        const bool is_read = last_reader[tensor] > static_cast<int>(g);
        // A compaction writes all that it makes to memory, beside the count of it.
        if (is_read || std::holds_alternative<Compact>(form)) results.push_back(tensor);
      }
    }
    steps.push_back(maker.make(groups[g], results));
  }
  steps.front().sources = step.sources;
  steps.front().checks = step.checks;
  return steps;
}

std::vector<FusedStep> split_forms(const FusedStep& step, std::vector<FusedTensor>& tensors, bool takes_gathered) {
  return split_groups(step, groups_of_forms(step.region, takes_gathered), tensors);
}

std::vector<FusedStep> split_step(FusedStep step, std::vector<FusedTensor>& tensors, const RewriteContext& context,
                                  bool takes_gathered) {
  if (step.region.forms.empty()) return {std::move(step)};
  FusedStep normalised = step;
  normalise(normalised.region, context);
  const bool apart =
      normalised.region.forms.size() > 1 && !is_one_scalar(normalised.region) && common_axes(normalised.region).empty();
  if (apart) return split_groups(normalised, groups_of_forms(normalised.region, takes_gathered), tensors);
  if (holds_products(normalised.region)) {
    return split_groups(normalised, groups_at_products(normalised.region, takes_gathered), tensors);
  }
  return {std::move(step)};
}

}  // namespace graft
