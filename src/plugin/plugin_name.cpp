// SPDX-License-Identifier: Apache-2.0
#include "plugin/plugin_name.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/op_def.h"

namespace graft::plugin {
namespace {

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

void check_spelling(const std::string& name) {
  const bool good = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 && name[0] != '_' &&
                    std::all_of(name.begin(), name.end(), [](char c) { return is_letter_or_digit(c) || c == '_'; });
  GRAFT_USER_CHECK(good, kInvalidArgument,
                   fmt::format("'{}' is no name for a plugin: it is part of names in C++ and of files; use letters, "
                               "digits and _, a letter first", name), "--name");
}

}  // namespace

void check_name(const std::string& name, const ModelFile& model) {
  check_spelling(name);
  const bool in_model = std::any_of(model.nodes().begin(), model.nodes().end(),
                                    [&](const ModelNode& node) { return node.op == name; });
  const bool in_onnx =
      std::any_of(all_ops().begin(), all_ops().end(), [&](const OpDef& op) { return op.name == name; });
  GRAFT_USER_CHECK(!in_model && !in_onnx, kInvalidArgument,
                   fmt::format("'{}' is the name of an operator {}, which TensorRT would take the plugin for: choose "
                               "another, such as My{}", name, in_model ? "of the model" : "of ONNX", name), "--name");
}

std::string default_name(const ModelFile& model, const ModelCut& part, const std::set<std::string>& taken) {
  std::string stem = "graft";
  for (size_t n = part.nodes.size(); n-- > 0;) {
    const ModelNode& node = model.nodes()[n];
    if (!part.nodes[n] || node.op == "Constant") continue;
    stem += '_';
    for (const char c : node.name) {
      if (is_letter_or_digit(c) || stem.back() != '_') stem += is_letter_or_digit(c) ? c : '_';
    }
    break;
  }
  while (stem.back() == '_') stem.pop_back();
  std::string name = stem;
  for (int k = 2; taken.count(name) != 0; ++k) name = fmt::format("{}_{}", stem, k);
  return name;
}

}  // namespace graft::plugin
