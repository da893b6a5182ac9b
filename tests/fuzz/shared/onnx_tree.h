// SPDX-License-Identifier: Apache-2.0
// ONNX models as trees of protobuf fields, and changes to them that leave them models.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"

namespace graft::fuzz {

/// A field of a message as the wire has it, with the fields of its own message where the schema says that it is one.
struct OnnxField {
  int message = 0;  ///< kind of the message that it is in, as onnx_tree.cpp numbers them
  int number = 0;
  int wire = 0;           ///< 0: varint, 1: 64 bits, 2: bytes, 5: 32 bits
  uint64_t value = 0;     ///< wire 0, 1 and 5
  std::string bytes;      ///< wire 2, when it is not a message
  int child_message = 0;  ///< kind of its own message, 0 when it is none
  std::vector<OnnxField> children;
};

/// The fields of a ModelProto; what is no protobuf ends them.
std::vector<OnnxField> parse_model(std::string_view bytes);
std::string print_model(const std::vector<OnnxField>& model);

/// One change: a field is removed, doubled, moved, replaced by one of the same kind from here or the donor, or has
/// another value; or an operator of the donor reads values of the model.
void mutate_model(std::vector<OnnxField>& model, const std::vector<OnnxField>& donor, Random& random);

}  // namespace graft::fuzz
