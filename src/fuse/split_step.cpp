// SPDX-License-Identifier: Apache-2.0
#include "fuse/split_step.h"

#include <algorithm>

#include "fuse/rewrite_region.h"

namespace graft {
namespace {

class Splitter {
 public:
  Splitter(const FusedStep& step, std::vector<FusedTensor>& tensors)
      : step_(step), tensors_(tensors), memory_(step.region.tensors.size(), -1) {
    for (size_t i = 0; i < step.inputs.size(); ++i) memory_[step.region.inputs[i]] = step.inputs[i];
    for (size_t i = 0; i < step.outputs.size(); ++i) memory_[step.region.outputs[i]] = step.outputs[i];
  }

  std::vector<FusedStep> run() {
    std::vector<FusedStep> steps;
    for (const Form& form : step_.region.forms) steps.push_back(step_of(form));
    steps.front().sources = step_.sources;
    steps.front().checks = step_.checks;
    return steps;
  }

 private:
  int memory_of(int tensor) {
    if (memory_[tensor] < 0) {
      const TensorDecl& decl = step_.region.tensors[tensor];
      memory_[tensor] = static_cast<int>(tensors_.size());
      tensors_.push_back({step_.name + "/" + decl.name, decl.type, decl.shape, {}, -1});
    }
    return memory_[tensor];
  }

  FusedStep step_of(const Form& form) {
    FusedStep step;
    step.name = step_.name;
    step.nodes = step_.nodes;
    step.operators = step_.operators;
    step.region.name = step_.region.name;
    step.region.tensors = step_.region.tensors;
    step.region.inputs = read_tensors(form);
    step.region.outputs = defined_tensors(form);
    step.region.forms = {form};
    for (const int tensor : step.region.inputs) step.inputs.push_back(memory_of(tensor));
    for (const int tensor : step.region.outputs) step.outputs.push_back(memory_of(tensor));
    if (const auto* compact = std::get_if<Compact>(&form)) step.count_symbol = compact->count;
    keep_named_tensors(step.region);
    return step;
  }

  /// Tensors of the other forms go.
  static void keep_named_tensors(Region& region) {
    std::vector<int> mapped(region.tensors.size(), -1);
    std::vector<TensorDecl> kept;
    const auto keep = [&](int& tensor) {
      if (mapped[tensor] < 0) {
        mapped[tensor] = static_cast<int>(kept.size());
        kept.push_back(region.tensors[tensor]);
      }
      tensor = mapped[tensor];
    };
    for (int& tensor : region.inputs) keep(tensor);
    for (int& tensor : region.outputs) keep(tensor);
    region.forms[0] = renumber_tensors(region.forms[0], mapped);
    region.tensors = std::move(kept);
  }

  const FusedStep& step_;
  std::vector<FusedTensor>& tensors_;
  std::vector<int> memory_;
};

/// A tensor folded to a scalar, and what is computed from that: there is no axis that could be shared.
bool is_one_scalar(const Region& region) {
  const bool scalars = std::all_of(region.forms.begin(), region.forms.end(), [](const Form& form) {
    return axes_of(form).empty() && (std::holds_alternative<Compute>(form) || std::holds_alternative<Reduce>(form));
  });
  return scalars && std::count_if(region.forms.begin(), region.forms.end(), [](const Form& form) {
                      return std::holds_alternative<Reduce>(form);
                    }) <= 1;
}

}  // namespace

std::vector<FusedStep> split_step(FusedStep step, std::vector<FusedTensor>& tensors) {
  if (step.region.forms.empty()) return {std::move(step)};
  FusedStep normalised = step;
  normalise(normalised.region);
  const bool apart =
      normalised.region.forms.size() > 1 && !is_one_scalar(normalised.region) && common_axes(normalised.region).empty();
  if (!apart) return {std::move(step)};
  return Splitter(normalised, tensors).run();
}

}  // namespace graft
