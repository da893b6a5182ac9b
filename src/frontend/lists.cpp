// SPDX-License-Identifier: Apache-2.0
// Lists of tensors: elements, and runs of what loops put in, which are tensors with an axis of elements in front.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "frontend/conversion.h"

namespace graft::frontend {

const List* Conversion::list_of(Reference value) const {
  const auto found = lists_.find(value.value);
  return found == lists_.end() ? nullptr : &found->second;
}

List Conversion::list(std::string_view name) {
  const Argument& given = argument(name);
  if (const auto* reference = std::get_if<Reference>(&given.is)) {
    if (const List* known = list_of(*reference)) return *known;
  }
  const auto* elements = std::get_if<Arguments>(&given.is);
  if (!elements) refuse(fmt::format("its argument '{}' is no list of tensors", name));
  List made;
  for (const Argument& each : *elements) made.parts.push_back({value_of(each, name)});
  return made;
}

bool Conversion::is_list(std::string_view name) const {
  const Argument& given = argument(name);
  const auto* reference = std::get_if<Reference>(&given.is);
  return reference ? lists_.contains(reference->value) : std::holds_alternative<Arguments>(given.is);
}

std::vector<ValueId> Conversion::elements(const List& list) const {
  if (list.begun >= 0) refuse("it reads a list that a loop or a branch adds to");
  std::vector<ValueId> values;
  for (const ListPart& part : list.parts) {
    if (part.run) refuse("a list whose length is known only while running");
    values.push_back(part.value);
  }
  return values;
}

std::vector<ValueId> Conversion::tensors(std::string_view name) { return elements(list(name)); }

ValueId Conversion::joined(const List& list) {
  if (list.begun >= 0) refuse("it reads a list that a loop or a branch adds to");
  std::vector<ValueId> runs;
  for (const ListPart& part : list.parts) {
    runs.push_back(part.run ? part.value : add("Unsqueeze", {part.value, integers_constant({0})}));
    if (type_of(runs.back()) != type_of(runs[0])) refuse("a list of tensors of different types");
    if (rank_of(runs.back()) != rank_of(runs[0])) refuse("a list of tensors of different numbers of axes");
  }
  if (runs.size() < 2) return runs.empty() ? kNoValue : runs[0];
  return add("Concat", std::move(runs), {{"axis", int64_t{0}}});
}

void Conversion::give_list(std::vector<ValueId> elements) {
  if (node_.outputs.size() != 1 || foreign_.values[node_.outputs[0]].tensor) return give(std::move(elements));
  List made;
  for (const ValueId each : elements) made.parts.push_back({each});
  give_list(0, std::move(made));
}

void Conversion::give_list(size_t result, List list) {
  if (result < node_.outputs.size()) lists_.insert_or_assign(node_.outputs[result], std::move(list));
}

}  // namespace graft::frontend
