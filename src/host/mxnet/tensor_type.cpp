// SPDX-License-Identifier: Apache-2.0
#include "tensor_type.h"

#include <algorithm>
#include <charconv>

#include "failure.h"
#include "graft/graft_c.h"

namespace graft::extension {
namespace {

constexpr std::string_view kBatch = "batch";

constexpr ElementType kTypes[] = {
    {0, GRAFT_FLOAT32, "float32"}, {1, GRAFT_FLOAT64, "float64"}, {2, GRAFT_FLOAT16, "float16"},
    {3, GRAFT_UINT8, "uint8"},     {4, GRAFT_INT32, "int32"},     {5, GRAFT_INT8, "int8"},
    {6, GRAFT_INT64, "int64"},     {12, GRAFT_BFLOAT16, "bfloat16"},
};

[[noreturn]] void refuse(std::string_view text) {
  throw Failure("'" + std::string(text) + "' describes no tensors of an engine: was the symbol changed?");
}

int64_t parse_number(std::string_view text, std::string_view whole) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) refuse(whole);
  return value;
}

/// `3`, `batch`, `2*batch`, `2*batch+1`, `batch+-1`
Axis parse_axis(std::string_view text, std::string_view whole) {
  Axis axis;
  const size_t batch = text.find(kBatch);
  if (batch == std::string_view::npos) return {parse_number(text, whole), 0};
  axis.per_batch = batch == 0 ? 1 : parse_number(text.substr(0, batch - 1), whole);
  text.remove_prefix(batch + kBatch.size());
  if (!text.empty()) axis.fixed = parse_number(text.substr(1), whole);
  return axis;
}

/// The parts between separators; none for an empty text.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

TensorType parse_tensor_type(std::string_view text) {
  const size_t open = text.find('[');
  if (open == std::string_view::npos || text.back() != ']') refuse(text);
  const auto* row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const ElementType& each) { return each.name == text.substr(0, open); });
  if (row == std::end(kTypes)) refuse(text);
  TensorType type{.code = row->code, .axes = {}};
  for (const std::string_view axis : split(text.substr(open + 1, text.size() - open - 2), ',')) {
    type.axes.push_back(parse_axis(axis, text));
  }
  return type;
}

}  // namespace

const ElementType* element_type(int code) {
  for (const ElementType& row : kTypes) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

std::string to_text(const Axis& axis) {
  if (axis.per_batch == 0) return std::to_string(axis.fixed);
  std::string text = axis.per_batch == 1 ? "" : std::to_string(axis.per_batch) + "*";
  text += kBatch;
  return axis.fixed == 0 ? text : text + "+" + std::to_string(axis.fixed);
}

std::string to_text(const TensorType& type) {
  const ElementType* element = element_type(type.code);
  std::string text = std::string(element ? element->name : "?") + "[";
  for (size_t i = 0; i < type.axes.size(); ++i) text += (i ? "," : "") + to_text(type.axes[i]);
  return text + "]";
}

std::string to_text(const std::vector<TensorType>& types) {
  std::string text;
  for (size_t i = 0; i < types.size(); ++i) text += (i ? ";" : "") + to_text(types[i]);
  return text;
}

std::vector<TensorType> parse_tensor_types(std::string_view text) {
  std::vector<TensorType> types;
  for (const std::string_view part : split(text, ';')) types.push_back(parse_tensor_type(part));
  return types;
}

}  // namespace graft::extension
