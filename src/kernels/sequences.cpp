// SPDX-License-Identifier: Apache-2.0
// The kernels of sequences and optionals.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/host_kernel.h"
#include "kernels/tensor_parts.h"

namespace graft {
namespace {

using Inputs = std::span<const DynamicValue>;
using Values = std::vector<DynamicValue>;
using Kind = DynamicValue::Kind;

TensorData scalar(DType type, int64_t value) { return TensorData::from_values<int64_t>(type, {}, {value}); }

/// The place that an input names among `places` of a sequence of `size` elements, counted from the end when negative.
size_t place_of(Inputs inputs, size_t index, size_t size, size_t places) {
  const TensorData& given = tensor_input(inputs, index);
  if (!is_integer(given.type()) || given.element_count() != 1) {
    refuse_input(fmt::format("the position is {}, not one integer", describe(given)));
  }
  const int64_t position = given.read_integer(0);
  const int64_t counted = position < 0 ? position + static_cast<int64_t>(size) : position;
  if (counted < 0 || counted >= static_cast<int64_t>(places)) {
    refuse_input(fmt::format("position {} is outside of a sequence of {}", position, size));
  }
  return static_cast<size_t>(counted);
}

bool is_given(Inputs inputs, size_t index) { return index < inputs.size() && inputs[index].kind() != Kind::kNothing; }

TensorData without_axis(const TensorData& part, size_t axis) {
  std::vector<int64_t> shape = part.shape();
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return part.reshaped(std::move(shape));
}

TensorData with_axis(const TensorData& part, int64_t axis) {
  std::vector<int64_t> shape = part.shape();
  const size_t at = counted_axis(axis, part.rank() + 1);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), 1);
  return part.reshaped(std::move(shape));
}

/// The lengths of the parts that the second input of SplitToSequence asks for.
std::vector<int64_t> lengths_of(Inputs inputs, int64_t extent) {
  std::vector<int64_t> lengths;
  if (is_given(inputs, 1) && tensor_input(inputs, 1).rank() == 1) {
    const TensorData& split = tensor_input(inputs, 1);
    int64_t left = extent;
    for (int64_t i = 0; i < split.element_count(); ++i) {
      lengths.push_back(split.read_integer(i));
      if (lengths.back() < 0 || lengths.back() > left) {
        refuse_input(fmt::format("a part of {} elements does not fit into {}", lengths.back(), left));
      }
      left -= lengths.back();
    }
    if (left != 0) refuse_input(fmt::format("its parts leave {} of {} elements over", left, extent));
    return lengths;
  }
  const int64_t length = is_given(inputs, 1) ? tensor_input(inputs, 1).read_integer(0) : 1;
  if (length < 1) refuse_input(fmt::format("parts of {} elements never end", length));
  for (int64_t left = extent; left > 0; left -= lengths.back()) lengths.push_back(std::min(left, length));
  return lengths;
}

}  // namespace

HostKernel make_sequence_empty(const Node&) {
  return [](Inputs) { return Values{DynamicValue::sequence({})}; };
}

HostKernel make_sequence_construct(const Node&) {
  return [](Inputs inputs) {
    std::vector<DynamicValue> elements;
    for (const DynamicValue& input : inputs) elements.push_back(kept(input));
    return Values{DynamicValue::sequence(std::move(elements))};
  };
}

HostKernel make_sequence_insert(const Node&) {
  return [](Inputs inputs) {
    const DynamicValue& sequence = sequence_input(inputs, 0);
    const size_t size = sequence.size();
    const size_t place = is_given(inputs, 2) ? place_of(inputs, 2, size, size + 1) : size;
    if (!is_given(inputs, 1)) refuse_input("it is given nothing to insert");
    return Values{sequence.with(place, kept(inputs[1]))};
  };
}

HostKernel make_sequence_erase(const Node&) {
  return [](Inputs inputs) {
    const DynamicValue& sequence = sequence_input(inputs, 0);
    const size_t size = sequence.size();
    if (size == 0) refuse_input("there is nothing to erase in a sequence of 0");
    return Values{sequence.without(is_given(inputs, 1) ? place_of(inputs, 1, size, size) : size - 1)};
  };
}

HostKernel make_sequence_at(const Node&) {
  return [](Inputs inputs) {
    const DynamicValue& sequence = sequence_input(inputs, 0);
    return Values{sequence[place_of(inputs, 1, sequence.size(), sequence.size())]};
  };
}

HostKernel make_sequence_length(const Node&) {
  return [](Inputs inputs) {
    return Values{scalar(DType::kInt64, static_cast<int64_t>(sequence_input(inputs, 0).size()))};
  };
}

HostKernel make_split_to_sequence(const Node& node) {
  const KernelAttributes attributes(node);
  const int64_t axis = attributes.integer("axis", 0);
  const bool keeps = attributes.integer("keepdims", 1) != 0;
  return [axis, keeps](Inputs inputs) {
    const TensorData& whole = tensor_input(inputs, 0);
    const size_t along = counted_axis(axis, whole.rank());
    std::vector<DynamicValue> parts;
    int64_t begin = 0;
    for (const int64_t length : lengths_of(inputs, whole.shape()[along])) {
      TensorData part = part_along(whole, along, begin, length);
      parts.emplace_back(keeps || is_given(inputs, 1) ? std::move(part) : without_axis(part, along));
      begin += length;
    }
    return Values{DynamicValue::sequence(std::move(parts))};
  };
}

HostKernel make_concat_from_sequence(const Node& node) {
  const KernelAttributes attributes(node);
  const int64_t axis = attributes.integer("axis", 0);
  const bool adds_axis = attributes.integer("new_axis", 0) != 0;
  return [axis, adds_axis](Inputs inputs) {
    std::vector<TensorData> parts;
    sequence_input(inputs, 0).for_each([&](const DynamicValue& element) {
      const TensorData& part = tensor_input({&element, 1}, 0);
      parts.push_back(adds_axis ? with_axis(part, axis) : part);
    });
    if (parts.empty()) refuse_input("a sequence of 0 has nothing to concatenate");
    return Values{joined_along(parts, counted_axis(axis, parts[0].rank()))};
  };
}

HostKernel make_optional(const Node&) {
  return [](Inputs inputs) { return Values{is_given(inputs, 0) ? kept(inputs[0]) : DynamicValue()}; };
}

HostKernel make_optional_has_element(const Node&) {
  return [](Inputs inputs) { return Values{scalar(DType::kBool, is_given(inputs, 0))}; };
}

HostKernel make_optional_get_element(const Node&) {
  return [](Inputs inputs) {
    if (!is_given(inputs, 0)) refuse_input("the optional is empty: ask OptionalHasElement first");
    return Values{inputs[0]};
  };
}

HostKernel make_identity(const Node&) {
  return [](Inputs inputs) { return Values{kept(inputs[0])}; };
}

}  // namespace graft
