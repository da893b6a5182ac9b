// SPDX-License-Identifier: Apache-2.0
// TypeProto and dimensions as types, shapes and symbols.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/size.h"

namespace graft_onnx {
class TensorShapeProto;
class TypeProto;
}  // namespace graft_onnx

namespace graft {

/// A type as the graph keeps it: of a tensor, or the text of another.
struct ImportedType {
  DType type = DType::kUndefined;
  std::optional<Shape> shape;
  std::string dynamic_type;
};

/// Gives the dimensions of one model their symbols.
class TypeImporter {
 public:
  explicit TypeImporter(std::map<std::string, Size, std::less<>> replacements)
      : replacements_(std::move(replacements)) {}

  /// `value` names the value, for unknown dimensions and errors.
  ImportedType import(const graft_onnx::TypeProto& proto, std::string_view value);
  /// Notes the names that stand alone on an axis of an input: expressions of those are more than names.
  void learn_names(const graft_onnx::TypeProto& proto);
  /// Throws invalid_argument when a replacement names a dimension that the model does not have.
  void check_replacements() const;

 private:
  Shape import_shape(const graft_onnx::TensorShapeProto& proto, std::string_view value);
  Size named(const std::string& name, const std::string& fallback);
  std::string fresh_symbol(std::string_view wanted);
  std::string describe(const graft_onnx::TypeProto& proto, std::string_view value);

  std::map<std::string, Size, std::less<>> replacements_;
  std::map<std::string, Size, std::less<>> names_;
  std::set<std::string, std::less<>> symbols_;
  std::set<std::string, std::less<>> plain_;
};

}  // namespace graft
