// SPDX-License-Identifier: Apache-2.0
#include "signature.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace graft::triton {
namespace {

Port port_of(const ValueInfo& value, const char* what) {
  const ElementType* type = value.type.empty() ? element_type(static_cast<int32_t>(value.dtype)) : nullptr;
  if (!type) {
    throw Error(ErrorKind::kUnsupported,
                std::string(what) + " '" + value.name + "' is " +
                    (value.type.empty() ? "of an element type" : "a " + value.type) +
                    " that Triton does not have: convert it inside of the model");
  }
  return {value.name, type, value.axes};
}

/// Whether the text of a size is one name, so that it can be a batch by itself.
bool is_symbol(std::string_view text) {
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         text.find_first_of(" +-*/()") == std::string_view::npos;
}

/// Whether a name is a word of the text of a size: `batch` of `2*batch`.
bool mentions(std::string_view text, std::string_view name) {
  const auto part_of_name = [&](size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_' || text[i] == '.');
  };
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    if ((at == 0 || !part_of_name(at - 1)) && !part_of_name(at + name.size())) return true;
  }
  return false;
}

}  // namespace

Signature signature_of(const Engine& engine) {
  Signature signature;
  for (const ValueInfo& value : engine.inputs()) signature.inputs.push_back(port_of(value, "input"));
  for (const ValueInfo& value : engine.outputs()) signature.outputs.push_back(port_of(value, "output"));
  if (signature.inputs.empty() || signature.inputs[0].axes.empty()) return signature;
  const Axis& batch = signature.inputs[0].axes[0];
  if (batch.size != -1 || !is_symbol(batch.text) || batch.min > 1) return signature;
  for (const auto* ports : {&signature.inputs, &signature.outputs}) {
    for (const Port& port : *ports) {
      if (port.axes.empty() || port.axes[0].size != -1 || port.axes[0].text != batch.text) return signature;
      for (size_t i = 1; i < port.axes.size(); ++i) {
        if (port.axes[i].size == -1 && mentions(port.axes[i].text, batch.text)) return signature;
      }
    }
  }
  signature.batches = true;
  signature.most_rows = batch.max;
  return signature;
}

}  // namespace graft::triton
