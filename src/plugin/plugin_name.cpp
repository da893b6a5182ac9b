// SPDX-License-Identifier: Apache-2.0
#include "plugin/plugin_name.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/op_def.h"

namespace graft::plugin {
namespace {

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Words of C++ and of Python that nothing can be called.
bool is_reserved(const std::string& name) {
  static constexpr std::string_view kWords[] = {
      "False", "None", "True", "alignas", "alignof", "and", "and_eq", "as", "asm", "assert", "async", "auto",
      "await", "bitand", "bitor", "bool", "break", "case", "catch", "char", "char16_t", "char32_t", "char8_t",
      "class", "co_await", "co_return", "co_yield", "compl", "concept", "const", "const_cast", "consteval",
      "constexpr", "constinit", "continue", "decltype", "def", "default", "del", "delete", "do", "double",
      "dynamic_cast", "elif", "else", "enum", "except", "explicit", "export", "extern", "false", "finally",
      "float", "for", "friend", "from", "global", "goto", "if", "import", "in", "inline", "int", "is", "lambda",
      "long", "mutable", "namespace", "new", "noexcept", "nonlocal", "not", "not_eq", "nullptr", "operator",
      "or", "or_eq", "pass", "private", "protected", "public", "raise", "register", "reinterpret_cast",
      "requires", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct",
      "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename",
      "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "with", "xor", "xor_eq",
      "yield"};
  return std::binary_search(std::begin(kWords), std::end(kWords), name);
}

void check_spelling(const std::string& name) {
  const bool good = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 && name[0] != '_' &&
                    std::all_of(name.begin(), name.end(), [](char c) { return is_letter_or_digit(c) || c == '_'; });
  GRAFT_USER_CHECK(good, kInvalidArgument,
                   fmt::format("'{}' is no name for a plugin: it is part of names in C++ and of files; use letters, "
                               "digits and _, a letter first", name), "--name");
  GRAFT_USER_CHECK(!is_reserved(name), kInvalidArgument,
                   fmt::format("'{0}' is a word of C++ or of Python, in which the plugin has to have a name: choose "
                               "another, such as My{0}", name), "--name");
}

}  // namespace

void check_name(const std::string& name, const ModelFile& model, Consumer consumer) {
  check_spelling(name);
  // A module of Python and a registry of TensorFlow, or a program of the caller's, know no operators of ONNX.
  if (!rewrites_model(consumer)) return;
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
