// SPDX-License-Identifier: Apache-2.0
#include "graph/dynamic_type.h"

#include <fmt/format.h>

#include "graph/text_reader.h"

namespace graft {
namespace {

constexpr int kDeepestType = 16;

std::vector<std::optional<int64_t>> parse_sizes(TextReader& reader) {
  std::vector<std::optional<int64_t>> sizes;
  reader.expect("[");
  while (!reader.accept("]")) {
    if (!sizes.empty()) reader.expect(",");
    const std::string_view text = reader.size_text();
    const bool is_number = !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == text.npos;
    if (text.empty()) reader.fail("a size is missing");
    sizes.push_back(is_number ? std::optional<int64_t>(std::stoll(std::string(text))) : std::nullopt);
    if (sizes.size() > static_cast<size_t>(kHighestRank)) reader.fail("the rank is too high");
  }
  return sizes;
}

DType parse_element(TextReader& reader, std::string_view word) {
  if (word.empty() && reader.accept("?")) return DType::kUndefined;
  const auto type = parse_dtype(word);
  if (!type) reader.fail("no element type has this name");
  return *type;
}

DynamicType parse(TextReader& reader, int depth) {
  if (depth > kDeepestType) reader.fail("the type is nested too deep");
  const std::string_view word = reader.word();
  const auto element = [&] { return std::make_shared<const DynamicType>(parse(reader, depth + 1)); };
  DynamicType type;
  if (word == "seq" || word == "optional") {
    type.kind = word == "seq" ? DynamicType::Kind::kSequence : DynamicType::Kind::kOptional;
    reader.expect("(");
    type.element = element();
    reader.expect(")");
  } else if (word == "map") {
    type.kind = DynamicType::Kind::kMap;
    reader.expect("(");
    type.type = parse_element(reader, reader.word());
    reader.expect(",");
    type.element = element();
    reader.expect(")");
  } else if (word == "opaque") {
    type.kind = DynamicType::Kind::kOther;
  } else if (word == "sparse") {
    type.kind = DynamicType::Kind::kOther;
    reader.expect("(");
    parse_element(reader, reader.word());
    reader.expect(")");
  } else {
    type.type = parse_element(reader, word);
    type.absent = reader.accept("!");
    if (!type.absent && reader.peek() == '[') type.shape = parse_sizes(reader);
  }
  return type;
}

DynamicType holder(DynamicType::Kind kind, DynamicType element) {
  DynamicType type;
  type.kind = kind;
  type.element = std::make_shared<const DynamicType>(std::move(element));
  return type;
}

bool is_open(const DynamicType& type) {
  return type.is_tensor() && type.type == DType::kUndefined && !type.shape;
}

std::optional<DynamicType> join_tensors(const DynamicType& a, const DynamicType& b) {
  if (a.type != b.type && a.type != DType::kUndefined && b.type != DType::kUndefined) return std::nullopt;
  if (a.absent || b.absent) return a.absent ? b : a;
  DynamicType joined;
  joined.type = a.type == DType::kUndefined ? b.type : a.type;
  if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) return joined;
  joined.shape = a.shape;
  for (size_t axis = 0; axis < a.shape->size(); ++axis) {
    if ((*a.shape)[axis] != (*b.shape)[axis]) (*joined.shape)[axis].reset();
  }
  return joined;
}

}  // namespace

DynamicType DynamicType::sequence_of(DynamicType element) { return holder(Kind::kSequence, std::move(element)); }
DynamicType DynamicType::optional_of(DynamicType element) { return holder(Kind::kOptional, std::move(element)); }
DynamicType DynamicType::map_of(DType keys, DynamicType value) {
  DynamicType type = holder(Kind::kMap, std::move(value));
  type.type = keys;
  return type;
}

std::string print(const DynamicType& type) {
  switch (type.kind) {
    case DynamicType::Kind::kSequence:
      return fmt::format("seq({})", print(*type.element));
    case DynamicType::Kind::kOptional:
      return fmt::format("optional({})", print(*type.element));
    case DynamicType::Kind::kMap:
      return fmt::format("map({}, {})", name_of(type.type), print(*type.element));
    case DynamicType::Kind::kOther:
      return "opaque";
    case DynamicType::Kind::kTensor:
      break;
  }
  std::string text(type.type == DType::kUndefined ? "?" : name_of(type.type));
  if (!type.shape) return type.absent ? text + "!" : text;
  std::string sizes;
  for (const auto& size : *type.shape) {
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", size ? std::to_string(*size) : "?");
  }
  return text + "[" + sizes + "]";
}

DynamicType parse_dynamic_type(std::string_view text) {
  TextReader reader(text);
  DynamicType type = parse(reader, 0);
  if (!reader.at_end()) reader.fail("a type ends here");
  return type;
}

DynamicType type_of(const Value& value) {
  if (!value.dynamic_type.empty()) return parse_dynamic_type(value.dynamic_type);
  DynamicType type;
  type.type = value.type;
  if (!value.shape) return type;
  type.shape.emplace();
  for (const Size& size : *value.shape) type.shape->push_back(size.as_constant());
  return type;
}

std::optional<DynamicType> join(const DynamicType& a, const DynamicType& b) {
  using Kind = DynamicType::Kind;
  if (is_open(a)) return b;
  if (is_open(b)) return a;
  // What may be missing takes what is there.
  if (a.kind == Kind::kOptional && b.kind != Kind::kOptional) return join(a, DynamicType::optional_of(b));
  if (b.kind == Kind::kOptional && a.kind != Kind::kOptional) return join(DynamicType::optional_of(a), b);
  if (a.kind != b.kind || a.kind == Kind::kOther) return std::nullopt;
  if (a.is_tensor()) return join_tensors(a, b);
  if (a.kind == Kind::kMap && a.type != b.type) return std::nullopt;
  const auto element = join(*a.element, *b.element);
  if (!element) return std::nullopt;
  DynamicType joined = holder(a.kind, *element);
  joined.type = a.type;
  return joined;
}

}  // namespace graft
