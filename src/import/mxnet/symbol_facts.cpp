// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/symbol_facts.h"

#include <charconv>
#include <variant>

#include <fmt/format.h>

#include "base/error.h"
#include "import/mxnet/attributes.h"
#include "import/mxnet/params_file.h"
#include "import/mxnet/precision_lists.h"

namespace graft::mxnet {

DType stated_type(const SymbolNode& variable) {
  const auto stated = variable.attributes.find("__dtype__");
  if (stated == variable.attributes.end()) return DType::kUndefined;
  const std::string& text = stated->second;
  int code = -1;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), code);
  const bool whole = fault == std::errc() && end == text.data() + text.size();
  const DType type = whole ? type_of_code(code) : type_of_name(text);
  GRAFT_USER_CHECK(type != DType::kUndefined || (whole && code == -1), kInvalidModel,
                   fmt::format("there is no element type '{}' (__dtype__)", text), variable.name);
  return type;
}

std::optional<std::vector<int64_t>> stated_shape(const SymbolNode& variable) {
  const auto stated = variable.attributes.find("__shape__");
  if (stated == variable.attributes.end()) return std::nullopt;
  const frontend::Argument given = parse_attribute(stated->second);
  if (given.is_none()) return std::nullopt;
  const auto* sizes = std::get_if<frontend::Arguments>(&given.is);
  const auto fault = [&] { return fmt::format("'{}' is no shape (__shape__)", stated->second); };
  GRAFT_USER_CHECK(sizes, kInvalidModel, fault(), variable.name);
  if (sizes->empty()) return std::nullopt;  // before MXNet's numpy shapes () is one that nobody knows
  std::vector<int64_t> shape;
  for (const frontend::Argument& each : *sizes) {
    const auto* size = std::get_if<int64_t>(&each.is);
    GRAFT_USER_CHECK(each.is_none() || (size && *size >= -1), kInvalidModel, fault(), variable.name);
    shape.push_back(size && *size > 0 ? *size : -1);
  }
  return shape;
}

bool numbers_results(const SymbolNode& node, int output) {
  return output > 0 || (node.output_count > 1 && operand_row(node.op).result != ResultType::kFirstOnly);
}

std::string output_name(const SymbolNode& node, int output) {
  if (node.is_variable()) return node.name;
  return numbers_results(node, output) ? fmt::format("{}_output{}", node.name, output) : node.name + "_output";
}

}  // namespace graft::mxnet
