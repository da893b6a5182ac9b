// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/import_tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/checked_size.h"
#include "base/error.h"
#include "graph/symbols.h"
#include "import/low_bytes.h"
#include "import/tensorflow/element_types.h"
#include "import/tensorflow/graph.pb.h"

namespace graft::tensorflow {
namespace {

using graft_tensorflow::TensorProto;

constexpr int kAttributes = 5, kKey = 1, kValue = 2, kTensor = 8, kContent = 4;  // on the way to a tensor's bytes
constexpr int kHighestRank = 64;
constexpr int64_t kLeastBudget = int64_t{256} << 20, kGrowth = 64;  // bytes of tensors per byte of the file

using Bytes = std::span<const std::byte>;

/// The payload of the last field of that number.
Bytes last_payload(Bytes message, int number) {
  Bytes found;
  for (const WireField& field : wire_fields(message).value_or(std::vector<WireField>{})) {
    if (field.number == number && field.has_payload) found = field.payload;
  }
  return found;
}

/// Where the file holds the elements of attribute `value`.
Bytes content_of(Bytes node) {
  for (const WireField& field : wire_fields(node).value_or(std::vector<WireField>{})) {
    if (field.number != kAttributes || text_of(last_payload(field.payload, kKey)) != "value") continue;
    return last_payload(last_payload(last_payload(field.payload, kValue), kTensor), kContent);
  }
  return {};
}

std::vector<int64_t> extents(const TensorProto& proto, const std::string& where) {
  const auto& shape = proto.tensor_shape();
  GRAFT_USER_CHECK(!shape.unknown_rank() && shape.dim_size() <= kHighestRank, kInvalidModel,
                   "the rank of its tensor is unknown or too high", where);
  std::vector<int64_t> extents;
  for (const auto& dim : shape.dim()) {
    GRAFT_USER_CHECK(dim.size() >= 0, kInvalidModel, "a size of its tensor is unknown", where);
    extents.push_back(dim.size());
  }
  return extents;
}

/// The bytes of the typed field that carries this element type.
std::vector<std::byte> typed_bytes(const TensorProto& proto, DType type) {
  switch (type) {
    case DType::kFloat32: return low_bytes(proto.float_val(), 4);
    case DType::kFloat64: return low_bytes(proto.double_val(), 8);
    case DType::kComplex64: return low_bytes(proto.scomplex_val(), 4);
    case DType::kComplex128: return low_bytes(proto.dcomplex_val(), 8);
    case DType::kInt64: return low_bytes(proto.int64_val(), 8);
    case DType::kUint64: return low_bytes(proto.uint64_val(), 8);
    case DType::kUint32: return low_bytes(proto.uint32_val(), 4);
    case DType::kBool: return low_bytes(proto.bool_val(), 1);
    case DType::kFloat16:
    case DType::kBFloat16: return low_bytes(proto.half_val(), 2);
    default: return low_bytes(proto.int_val(), static_cast<size_t>(bit_width(type) / 8));
  }
}

/// As many bytes as the tensor has, the last element repeated; zeros where there is none.
std::vector<std::byte> spread(std::vector<std::byte> given, size_t width, size_t bytes) {
  const size_t begin = given.size();
  given.resize(bytes);
  if (begin < width) return given;
  for (size_t at = begin; at < bytes; at += width) std::memcpy(&given[at], &given[begin - width], width);
  return given;
}

TensorData import_strings(const TensorProto& proto, std::vector<int64_t> shape, int64_t count,
                          const std::string& where, ConstantBudget& budget) {
  GRAFT_USER_CHECK(count <= kMostBytes / static_cast<int64_t>(sizeof(std::string)), kInvalidModel,
                   "its tensor has more bytes than memory can", where);
  const size_t longest = proto.string_val_size() > 0 ? proto.string_val(0).size() : 0;
  budget.take(checked_product(count, static_cast<int64_t>(sizeof(std::string) + longest), where), where);
  std::vector<std::string> texts(proto.string_val().begin(), proto.string_val().end());
  GRAFT_USER_CHECK(static_cast<int64_t>(texts.size()) == count || texts.size() == 1, kInvalidModel,
                   "it has not as many texts as elements", where);
  texts.resize(static_cast<size_t>(count), texts.empty() ? "" : texts.back());
  return TensorData::from_strings(std::move(shape), std::move(texts));
}

int64_t checked_count(DType type, const std::vector<int64_t>& shape, const std::string& where) {
  try {
    return checked_element_count(type, shape, where);
  } catch (const Error& error) {
    throw Error(ErrorKind::kInvalidModel, error.message(), where);
  }
}

}  // namespace

ConstantBudget::ConstantBudget(size_t file_bytes)
    : left_(std::max(kLeastBudget, kGrowth * static_cast<int64_t>(file_bytes))) {}

void ConstantBudget::take(int64_t bytes, const std::string& where) {
  GRAFT_USER_CHECK(bytes <= left_, kInvalidModel,
                   "its tensor, with those of constants before it, is far larger than what the file holds of them",
                   where);
  left_ -= bytes;
}

TensorData with_clean_bools(TensorData tensor) {
  for (std::byte& each : tensor.mutable_bytes()) each = each == std::byte{0} ? each : std::byte{1};
  return tensor;
}

TensorData import_constant(const GraphFile& file, const FileNode& node, ConstantBudget& budget) {
  if (node.tensor) return node.tensor;
  const std::string where = fmt::format("node '{}'", node.name);
  const auto* value = node.attribute("value");
  GRAFT_USER_CHECK(value && value->has_tensor(), kInvalidModel, "a Const without a tensor", where);
  const TensorProto& proto = value->tensor();
  const auto type = element_type(proto.dtype());
  if (!type) return {};
  const std::vector<int64_t> shape = extents(proto, where);
  const int64_t count = checked_count(*type, shape, where);
  if (*type == DType::kString) return import_strings(proto, shape, count, where, budget);
  const auto bytes = static_cast<size_t>(packed_bytes(*type, count));
  if (const Bytes content = content_of(node.bytes); !content.empty()) {
    GRAFT_USER_CHECK(content.size() == bytes, kInvalidModel,
                     fmt::format("its tensor needs {} bytes and has {}", bytes, content.size()), where);
    return TensorData::deferred(*type, shape, [type = *type, shape, content, owner = file.owner()] {
      const TensorData tensor = TensorData::borrow(type, shape, content, owner);
      return type == DType::kBool ? with_clean_bools(tensor) : tensor;
    });
  }
  budget.take(static_cast<int64_t>(bytes), where);
  const size_t width = static_cast<size_t>(bit_width(*type)) / 8;
  std::vector<std::byte> given = typed_bytes(proto, *type);
  GRAFT_USER_CHECK(given.size() <= bytes && given.size() % width == 0, kInvalidModel,
                   "it has more values than elements", where);
  if (given.size() == bytes) return TensorData::from_bytes(*type, shape, given);
  return TensorData::deferred(*type, shape, [type = *type, shape, given, width, bytes] {
    return TensorData::from_bytes(type, shape, spread(given, width, bytes));
  });
}

std::optional<Shape> import_shape(const graft_tensorflow::TensorShapeProto& shape, std::string_view name) {
  if (shape.unknown_rank() || shape.dim_size() > kHighestRank) return std::nullopt;
  Shape sizes;
  for (const auto& dim : shape.dim()) {
    const std::string symbol = dimension_symbol(fmt::format("{}_{}", name, sizes.size()));
    sizes.push_back(dim.size() >= 0 ? Size(dim.size()) : Size::symbol(symbol));
  }
  return sizes;
}

}  // namespace graft::tensorflow
