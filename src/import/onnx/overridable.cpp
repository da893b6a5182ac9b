// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/overridable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace graft {

std::set<std::string_view> overridden_of(const graft_onnx::GraphProto& proto, const std::vector<std::string>& names) {
  std::set<std::string_view> initialized, found;
  for (const auto& tensor : proto.initializer()) initialized.insert(tensor.name());
  for (const auto& input : proto.input()) {
    if (initialized.count(input.name())) found.insert(input.name());
  }
  for (const std::string& name : names) {
    GRAFT_USER_CHECK(found.count(name), kInvalidArgument,
                     fmt::format("'{}' is no input with an initializer; the model has {}", name,
                                 found.empty() ? "none" : fmt::format("{}", fmt::join(found, ", "))), "overridable");
  }
  return {names.begin(), names.end()};
}

}  // namespace graft
