// SPDX-License-Identifier: Apache-2.0
#include "export/onnx/write_type.h"

#include <algorithm>

#include "graph/symbols.h"
#include "graph/text_reader.h"
#include "import/onnx/dimension_expression.h"
#include "import/onnx/onnx.pb.h"

namespace graft {
namespace {

using graft_onnx::TypeProto;

void write_tensor_type(DType type, const std::optional<Shape>& shape, TypeProto::Tensor& proto) {
  proto.set_elem_type(type == DType::kUndefined ? 0 : onnx_code(type));
  if (!shape) return;
  proto.mutable_shape();
  for (const Size& size : *shape) write_dimension(size, *proto.mutable_shape()->add_dim());
}

DType element_type(TextReader& reader, std::string_view word) {
  if (word.empty() && reader.accept("?")) return DType::kUndefined;
  const auto type = parse_dtype(word);
  if (!type) reader.fail("no element type has this name");
  return *type;
}

/// The sizes of an element; `?` is one that says nothing.
void write_sizes(TextReader& reader, graft_onnx::TensorShapeProto& proto) {
  reader.expect("[");
  while (!reader.accept("]")) {
    if (proto.dim_size() > 0) reader.expect(",");
    const std::string_view text = reader.size_text();
    if (text.empty()) reader.fail("a size is missing");
    auto& size = *proto.add_dim();
    if (text != "?") write_dimension(parse_size(text), size);
  }
}

/// One type and what it is made of.
void write_next_type(TextReader& reader, TypeProto& proto) {
  const std::string_view word = reader.word();
  if (word == "opaque") {
    proto.mutable_opaque_type();
  } else if (word == "seq" || word == "optional") {
    reader.expect("(");
    auto& sequence = word == "seq" ? *proto.mutable_sequence_type() : *proto.mutable_optional_type();
    write_next_type(reader, *sequence.mutable_elem_type());
    reader.expect(")");
  } else if (word == "map") {
    reader.expect("(");
    proto.mutable_map_type()->set_key_type(onnx_code(element_type(reader, reader.word())));
    reader.expect(",");
    write_next_type(reader, *proto.mutable_map_type()->mutable_value_type());
    reader.expect(")");
  } else if (word == "sparse") {
    reader.expect("(");
    proto.mutable_sparse_tensor_type()->set_elem_type(onnx_code(element_type(reader, reader.word())));
    reader.expect(")");
  } else if (word.empty() && reader.accept("?")) {
    return;  // a type that says nothing
  } else {
    const DType type = element_type(reader, word);
    proto.mutable_tensor_type()->set_elem_type(type == DType::kUndefined ? 0 : onnx_code(type));
    if (!reader.accept("!") && reader.peek() == '[') write_sizes(reader, *proto.mutable_tensor_type()->mutable_shape());
  }
}

}  // namespace

void write_dimension(const Size& size, graft_onnx::TensorShapeProto_Dimension& proto) {
  if (const auto constant = size.as_constant()) {
    proto.set_dim_value(*constant);
  } else if (reserved_symbol_of({size}).empty()) {
    proto.set_dim_param(dimension_text(size));
  }
}

bool write_type(const Value& value, TypeProto& proto) {
  if (!value.dynamic_type.empty()) {
    write_type(value.dynamic_type, proto);
    return true;
  }
  if (value.type == DType::kUndefined && !value.shape) return false;
  write_tensor_type(value.type, value.shape, *proto.mutable_tensor_type());
  return true;
}

void write_type(std::string_view text, TypeProto& proto) {
  TextReader reader(text);
  write_next_type(reader, proto);
  if (!reader.at_end()) reader.fail("a type ends here");
}

}  // namespace graft
