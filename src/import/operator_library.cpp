// SPDX-License-Identifier: Apache-2.0
#include "import/operator_library.h"

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

void add_definitions(OperatorLibrary& library, std::string_view text, const std::string& where) {
  for (CustomOperator& op : parse_custom_operators(text, where)) {
    GRAFT_USER_CHECK(!library.find(op.domain, op.name), kInvalidArgument,
                     fmt::format("{}::{} is defined by another of the given files too", op.domain, op.name), where);
    library.definitions.push_back(std::move(op));
  }
}

}  // namespace

const CustomOperator* OperatorLibrary::find(std::string_view domain, std::string_view name) const {
  for (const CustomOperator& op : definitions) {
    if (op.domain == domain && op.name == name) return &op;
  }
  return nullptr;
}

OperatorLibrary read_operator_library(const std::vector<std::string>& sources) {
  OperatorLibrary library;
  for (const std::string& source : sources) {
    if (source.find('\n') != source.npos) {
      add_definitions(library, source, "operators");
      continue;
    }
    auto file = MappedFile::open(source);
    if (source.ends_with(".onnx")) {
      library.functions.push_back(std::move(file));
      continue;
    }
    const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
    add_definitions(library, text, source);
  }
  return library;
}

}  // namespace graft
