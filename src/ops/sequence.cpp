// SPDX-License-Identifier: Apache-2.0
// Sequences and optionals: the types of what their operators give.
#include <fmt/format.h>

#include "graph/host_operator.h"

namespace graft {
namespace {

using Kind = DynamicType::Kind;

/// The type that an attribute states, as the import writes it.
DynamicType stated_type(const HostInference& h, std::string_view name) {
  const Attribute* given = h.attribute(name);
  const auto* text = given ? std::get_if<std::string>(given) : nullptr;
  return text ? parse_dynamic_type(*text) : DynamicType();
}

void infer_sequence_empty(HostInference& h) {
  DynamicType element;
  const auto type = dtype_from_onnx(static_cast<int>(h.integer("dtype")));
  if (!type) h.reject(fmt::format("its dtype {} is no element type", h.integer("dtype")));
  element.type = *type;
  element.absent = true;
  h.give(0, DynamicType::sequence_of(element));
}

/// The sequence with an element of another type in it.
DynamicType with(const HostInference& h, const DynamicType& element, const DynamicType& added) {
  const auto joined = join(element, added);
  if (!joined) h.reject(fmt::format("{} and {} cannot be in one sequence", print(element), print(added)));
  return *joined;
}

void infer_sequence_construct(HostInference& h) {
  DynamicType element = h.type(0);
  for (size_t i = 1; i < h.node().inputs.size(); ++i) element = with(h, element, h.type(i));
  if (!element.is_tensor()) h.reject(fmt::format("a sequence holds tensors, not {}", print(element)));
  h.give(0, DynamicType::sequence_of(element));
}

void infer_sequence_insert(HostInference& h) {
  h.give(0, DynamicType::sequence_of(with(h, h.element_type(0), h.type(1))));
}

void infer_sequence_erase(HostInference& h) { h.give(0, DynamicType::sequence_of(h.element_type(0))); }

void infer_sequence_at(HostInference& h) { h.give(0, h.element_type(0)); }

void infer_sequence_length(HostInference& h) {
  h.element_type(0);
  h.give(0, DType::kInt64, Shape{});
}

/// An axis of a tensor of known rank.
size_t axis_of(const HostInference& h, int64_t axis, size_t rank) {
  const auto axes = static_cast<int64_t>(rank);
  if (axis < -axes || axis >= axes) h.reject(fmt::format("axis {} is not one of a tensor of rank {}", axis, rank));
  return static_cast<size_t>(axis < 0 ? axis + axes : axis);
}

void infer_split_to_sequence(HostInference& h) {
  DynamicType part = h.type(0);
  if (!part.is_tensor()) h.reject(fmt::format("it splits a tensor, not {}", print(part)));
  if (part.shape) {
    const size_t axis = axis_of(h, h.integer("axis"), part.shape->size());
    (*part.shape)[axis].reset();
    if (!h.has_input(1)) (*part.shape)[axis] = 1;
    const bool loses_axis = !h.has_input(1) && h.integer("keepdims") == 0;
    if (loses_axis) part.shape->erase(part.shape->begin() + static_cast<std::ptrdiff_t>(axis));
  }
  h.give(0, DynamicType::sequence_of(part));
}

void infer_concat_from_sequence(HostInference& h) {
  DynamicType whole = h.element_type(0);
  const bool adds_axis = h.integer("new_axis") != 0;
  if (whole.shape) {
    const size_t axis = axis_of(h, h.integer("axis"), whole.shape->size() + (adds_axis ? 1 : 0));
    if (adds_axis) {
      whole.shape->insert(whole.shape->begin() + static_cast<std::ptrdiff_t>(axis), std::nullopt);
    } else {
      (*whole.shape)[axis].reset();
    }
  }
  h.give(0, whole);
}

void infer_optional(HostInference& h) {
  h.give(0, DynamicType::optional_of(h.has_input(0) ? h.type(0) : stated_type(h, "type")));
}

void infer_optional_has_element(HostInference& h) { h.give(0, DType::kBool, Shape{}); }

void infer_optional_get_element(HostInference& h) {
  const DynamicType given = h.type(0);
  h.give(0, given.kind == Kind::kOptional ? *given.element : given);
}

void infer_identity(HostInference& h) { h.give(0, h.type(0)); }

}  // namespace

std::vector<HostOp> sequence_host_ops() {
  return {{.domain = "", .name = "SequenceEmpty", .since = 11, .inputs = {}, .outputs = {"y"},
           .attributes = {{"dtype", int64_t{1}}}, .infer = infer_sequence_empty, .doc = "A sequence of nothing."},
          {.domain = "", .name = "SequenceConstruct", .since = 11, .inputs = {"inputs*"}, .outputs = {"y"},
           .attributes = {}, .infer = infer_sequence_construct, .doc = "The sequence of its inputs."},
          {.domain = "", .name = "SequenceInsert", .since = 11, .inputs = {"sequence", "tensor", "position?"},
           .outputs = {"y"}, .attributes = {}, .infer = infer_sequence_insert,
           .doc = "The sequence with a tensor more, before a position or at the end."},
          {.domain = "", .name = "SequenceErase", .since = 11, .inputs = {"sequence", "position?"}, .outputs = {"y"},
           .attributes = {}, .infer = infer_sequence_erase,
           .doc = "The sequence without the tensor at a position, or without the last."},
          {.domain = "", .name = "SequenceAt", .since = 11, .inputs = {"sequence", "position"}, .outputs = {"y"},
           .attributes = {}, .infer = infer_sequence_at, .doc = "The tensor at a position of a sequence."},
          {.domain = "", .name = "SequenceLength", .since = 11, .inputs = {"sequence"}, .outputs = {"y"},
           .attributes = {}, .infer = infer_sequence_length, .doc = "How many tensors a sequence has."},
          {.domain = "", .name = "SplitToSequence", .since = 24, .inputs = {"x", "split?"}, .outputs = {"y"},
           .attributes = {{"axis", int64_t{0}}, {"keepdims", int64_t{1}}}, .infer = infer_split_to_sequence,
           .doc = "The parts of a tensor along an axis, of given lengths or of one each."},
          {.domain = "", .name = "ConcatFromSequence", .since = 11, .inputs = {"sequence"}, .outputs = {"y"},
           .attributes = {{"axis"}, {"new_axis", int64_t{0}}}, .infer = infer_concat_from_sequence,
           .doc = "The tensors of a sequence one behind the other, or along an axis of their own."},
          {.domain = "", .name = "Optional", .since = 15, .inputs = {"x?"}, .outputs = {"y"},
           .attributes = {{"type", {}, true}}, .infer = infer_optional, .doc = "A value, or that there is none."},
          {.domain = "", .name = "OptionalHasElement", .since = 18, .inputs = {"x?"}, .outputs = {"y"},
           .attributes = {}, .infer = infer_optional_has_element, .doc = "Whether there is a value."},
          {.domain = "", .name = "OptionalGetElement", .since = 18, .inputs = {"x"}, .outputs = {"y"},
           .attributes = {}, .infer = infer_optional_get_element,
           .doc = "The value that is there; an error where none is."},
          {.domain = "", .name = "Identity", .since = 25, .inputs = {"x"}, .outputs = {"y"}, .attributes = {},
           .infer = infer_identity, .doc = "The same sequence or optional.", .when = has_dynamic_values}};
}

}  // namespace graft
