// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/import_type.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/free_name.h"
#include "graph/symbols.h"
#include "import/onnx/dimension_expression.h"
#include "import/onnx/onnx.pb.h"

namespace graft {
namespace {

using graft_onnx::TensorShapeProto;
using graft_onnx::TypeProto;

constexpr int kHighestRank = 64;

/// Spellings by which exporters say "unknown" rather than name a dimension.
bool is_unknown(std::string_view name) { return name.empty() || name == "?" || name == "-1" || name == "None"; }

DType element_type(int code, std::string_view value) {
  if (code == 0) return DType::kUndefined;
  const auto type = dtype_from_onnx(code);
  GRAFT_USER_CHECK(
      type, kInvalidModel,
      fmt::format("its element type is number {}, which Graft does not know; export it with another type", code),
      fmt::format("value '{}'", value));
  return *type;
}

}  // namespace

std::string TypeImporter::fresh_symbol(std::string_view wanted) {
  return take_free_name(dimension_symbol(wanted), symbols_);
}

Size TypeImporter::named(const std::string& name, const std::string& fallback) {
  if (is_unknown(name)) return Size::symbol(fresh_symbol(fallback));
  const auto it = names_.find(name);
  if (it != names_.end()) return it->second;
  const auto replaced = replacements_.find(name);
  if (replaced != replacements_.end()) {
    std::set<std::string, std::less<>> used;
    replaced->second.collect_symbols(used);
    symbols_.insert(used.begin(), used.end());
    return names_.emplace(name, replaced->second).first->second;
  }
  const auto lookup = [&](std::string_view part) -> std::optional<Size> {
    if (!plain_.contains(part)) return std::nullopt;
    return named(std::string(part), fallback);
  };
  if (!is_dimension_name(name)) {
    if (const auto expression = parse_dimension(name, lookup)) return names_.emplace(name, *expression).first->second;
  }
  return names_.emplace(name, Size::symbol(fresh_symbol(name))).first->second;
}

void TypeImporter::learn_names(const TypeProto& proto) {
  for (const auto& dim : proto.tensor_type().shape().dim()) {
    if (is_dimension_name(dim.dim_param()) && !is_unknown(dim.dim_param())) plain_.insert(dim.dim_param());
  }
}

Shape TypeImporter::import_shape(const TensorShapeProto& proto, std::string_view value) {
  const std::string where = fmt::format("value '{}'", value);
  GRAFT_USER_CHECK(proto.dim_size() <= kHighestRank, kInvalidModel,
                   fmt::format("its rank {} is too high", proto.dim_size()), where);
  Shape shape;
  int64_t elements = 1;
  bool fits = true, empty = false;
  for (int axis = 0; axis < proto.dim_size(); ++axis) {
    const auto& dim = proto.dim(axis);
    // Some exporters write -1 for an unknown dimension.
    if (dim.has_dim_value() && dim.dim_value() != -1) {
      GRAFT_USER_CHECK(dim.dim_value() >= 0, kInvalidModel,
                       fmt::format("axis {} has the negative size {}; export the model again", axis, dim.dim_value()),
                       where);
      fits = !__builtin_mul_overflow(elements, dim.dim_value(), &elements) && fits;
      empty |= dim.dim_value() == 0;
      shape.emplace_back(dim.dim_value());
    } else {
      shape.push_back(named(dim.dim_param(), fmt::format("{}_{}", value, axis)));
    }
  }
  GRAFT_USER_CHECK(fits || empty, kInvalidModel,
                   fmt::format("the number of its elements overflows 64 bits: {}; export the model again",
                               to_string(shape)),
                   where);
  return shape;
}

std::string TypeImporter::describe(const TypeProto& proto, std::string_view value) {
  switch (proto.value_case()) {
    case TypeProto::kSequenceType:
      return fmt::format("seq({})", describe(proto.sequence_type().elem_type(), value));
    case TypeProto::kOptionalType:
      return fmt::format("optional({})", describe(proto.optional_type().elem_type(), value));
    case TypeProto::kMapType:
      return fmt::format("map({}, {})", name_of(element_type(proto.map_type().key_type(), value)),
                         describe(proto.map_type().value_type(), value));
    case TypeProto::kOpaqueType:
      return "opaque";
    case TypeProto::kSparseTensorType:
      return fmt::format("sparse({})", name_of(element_type(proto.sparse_tensor_type().elem_type(), value)));
    case TypeProto::kTensorType:
      break;
    case TypeProto::VALUE_NOT_SET:
      return "?";
  }
  const std::string type(name_of(element_type(proto.tensor_type().elem_type(), value)));
  return proto.tensor_type().has_shape() ? type + to_string(import_shape(proto.tensor_type().shape(), value)) : type;
}

ImportedType TypeImporter::import(const TypeProto& proto, std::string_view value) {
  ImportedType result;
  if (proto.value_case() == TypeProto::kTensorType) {
    result.type = element_type(proto.tensor_type().elem_type(), value);
    if (proto.tensor_type().has_shape()) result.shape = import_shape(proto.tensor_type().shape(), value);
  } else if (proto.value_case() != TypeProto::VALUE_NOT_SET) {
    result.dynamic_type = describe(proto, value);
  }
  return result;
}

void TypeImporter::check_replacements() const {
  for (const auto& [name, size] : replacements_) {
    if (names_.count(name)) continue;
    std::string known;
    for (const auto& [other, unused] : names_) known += fmt::format("{}'{}'", known.empty() ? "" : ", ", other);
    throw Error(ErrorKind::kInvalidArgument,
                known.empty() ? "the model names no dimension; give the shapes of its inputs instead"
                              : fmt::format("the model has no such dimension; it has {}", known),
                fmt::format("dimension '{}'", name));
  }
}

}  // namespace graft
