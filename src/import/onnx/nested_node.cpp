// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/nested_node.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "import/onnx/onnx.pb.h"

namespace graft {
namespace {

using graft_onnx::AttributeProto;
using graft_onnx::FunctionProto;
using graft_onnx::GraphProto;
using graft_onnx::ModelProto;
using graft_onnx::NodeProto;

enum class Message { kModel, kFunction, kGraph, kNode, kAttribute };

/// One field of a message: its number, and its bytes where it has a length.
struct Field {
  uint64_t number;
  std::string_view bytes;
};

/// Reads the fields of a message one by one.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}

  /// The next field; none at the end, or where the bytes are no message.
  std::optional<Field> next() {
    const auto tag = varint();
    if (!tag) return std::nullopt;
    switch (*tag & 7) {
      case 0:
        if (!varint()) return std::nullopt;
        return Field{*tag >> 3, {}};
      case 1:
        return bytes(*tag >> 3, 8);
      case 2: {
        const auto length = varint();
        return length ? bytes(*tag >> 3, *length) : std::nullopt;
      }
      case 5:
        return bytes(*tag >> 3, 4);
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::optional<Field> bytes(uint64_t number, uint64_t length) {
    if (length > rest_.size()) return std::nullopt;
    const Field field{number, rest_.substr(0, length)};
    rest_.remove_prefix(length);
    return field;
  }

  std::string_view rest_;
};

/// What a field of a message holds, when graphs may be in it.
std::optional<Message> message_of(Message around, uint64_t number) {
  switch (around) {
    case Message::kModel:
      if (number == ModelProto::kGraphFieldNumber) return Message::kGraph;
      if (number == ModelProto::kFunctionsFieldNumber) return Message::kFunction;
      break;
    case Message::kFunction:
      if (number == FunctionProto::kNodeFieldNumber) return Message::kNode;
      break;
    case Message::kGraph:
      if (number == GraphProto::kNodeFieldNumber) return Message::kNode;
      break;
    case Message::kNode:
      if (number == NodeProto::kAttributeFieldNumber) return Message::kAttribute;
      break;
    case Message::kAttribute:
      if (number == AttributeProto::kGFieldNumber) return Message::kGraph;
      break;
  }
  return std::nullopt;
}

std::string describe(std::string_view node) {
  std::string name, op;
  FieldReader reader(node);
  while (const auto field = reader.next()) {
    if (field->number == NodeProto::kNameFieldNumber) name = field->bytes;
    if (field->number == NodeProto::kOpTypeFieldNumber) op = field->bytes;
  }
  return fmt::format("node '{}' ({})", name.empty() ? op : name, op);
}

}  // namespace

std::string node_inside_of_graphs(std::span<const std::byte> bytes, size_t depth) {
  struct Level {
    Message kind;
    FieldReader reader;
  };
  const std::string_view whole(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<Level> levels = {{Message::kModel, FieldReader(whole)}};
  size_t graphs = 0;
  while (!levels.empty()) {
    const auto field = levels.back().reader.next();
    if (!field) {
      graphs -= levels.back().kind == Message::kGraph ? 1 : 0;
      levels.pop_back();
      continue;
    }
    const auto inner = message_of(levels.back().kind, field->number);
    if (!inner) continue;
    if (*inner == Message::kNode && graphs >= depth) return describe(field->bytes);
    graphs += *inner == Message::kGraph ? 1 : 0;
    levels.push_back({*inner, FieldReader(field->bytes)});
  }
  return {};
}

}  // namespace graft
