// SPDX-License-Identifier: Apache-2.0
#include "fuse/step_maker.h"

#include <set>
#include <unordered_map>

namespace graft {

StepMaker::StepMaker(const FusedStep& step, const Region& region, std::vector<FusedTensor>& tensors)
    : step_(step), region_(region), tensors_(tensors), memory_(region.tensors.size(), -1) {
  for (size_t i = 0; i < step.inputs.size(); ++i) memory_[step.region.inputs[i]] = step.inputs[i];
  for (size_t i = 0; i < step.outputs.size(); ++i) memory_[step.region.outputs[i]] = step.outputs[i];
}

int StepMaker::memory_of(int tensor) {
  if (memory_[tensor] < 0) {
    const TensorDecl& decl = region_.tensors[tensor];
    memory_[tensor] = static_cast<int>(tensors_.size());
    tensors_.push_back({step_.name + "/" + decl.name, decl.type, decl.shape, {}, -1});
  }
  return memory_[tensor];
}

FusedStep StepMaker::make(const std::vector<Form>& forms, const std::vector<int>& outputs) {
  FusedStep made;
  made.name = step_.name, made.nodes = step_.nodes, made.operators = step_.operators;
  made.region.name = region_.name;
  made.region.tf32 = region_.tf32, made.region.fma = region_.fma;
  std::unordered_map<int, int> mapped;
  const auto keep = [&](int tensor) {
    const auto next = static_cast<int>(made.region.tensors.size());
    if (mapped.emplace(tensor, next).second) made.region.tensors.push_back(region_.tensors[tensor]);
  };
  std::set<int> defined;
  for (const Form& form : forms) {
    for (const int tensor : read_tensors(form)) {
      if (defined.contains(tensor) || mapped.contains(tensor)) continue;
      keep(tensor);
      made.region.inputs.push_back(mapped.at(tensor));
      made.inputs.push_back(memory_of(tensor));
    }
    for (const int tensor : defined_tensors(form)) keep(tensor), defined.insert(tensor);
    if (const auto* compact = std::get_if<Compact>(&form)) made.count_symbol = compact->count;
  }
  for (const int tensor : outputs) {
    made.region.outputs.push_back(mapped.at(tensor));
    made.outputs.push_back(memory_of(tensor));
  }
  for (const Form& form : forms)
    made.region.forms.push_back(renumber_tensors(form, [&](int tensor) { return mapped.at(tensor); }));
  return made;
}

}  // namespace graft
