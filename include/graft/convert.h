// SPDX-License-Identifier: Apache-2.0
// Models of mixed precision in C++ (docs/AMP.md): graft_convert and graft_convert_symbol of graft_c.h.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/graft.h"

namespace graft {
inline namespace api {

/// Makes a model's file one of mixed precision, in the format that it came in; see graft_convert, for the options by
/// their keys. Gives what `graft convert --json` writes. Throws Error.
inline std::string convert(const std::string& model, const std::string& output,
                           const std::vector<std::pair<std::string, std::string>>& options = {}) {
  std::vector<graft_option> list;
  for (const auto& [key, value] : options) list.push_back({key.c_str(), value.c_str()});
  std::string report;
  const auto take = [](void* context, const char* text) { *static_cast<std::string*>(context) = text; };
  graft_error error;
  detail::check(graft_convert(model.c_str(), output.c_str(), list.data(), list.size(), &report, take, &error), error);
  return report;
}

/// Makes a symbol of MXNet, given as its JSON, one of mixed precision; see graft_convert_symbol. Gives the new symbol
/// and what was done, both as JSON. Throws Error.
inline std::pair<std::string, std::string> convert_symbol(const std::string& symbol, const std::string& request = "{}",
                                                          std::span<const TensorView> parameters = {}) {
  std::pair<std::string, std::string> result;
  const auto take = [](void* context, const char* made, const char* report) {
    *static_cast<std::pair<std::string, std::string>*>(context) = {made, report};
  };
  std::vector<graft_tensor> tensors;
  for (const TensorView& parameter : parameters) tensors.push_back(detail::describe(parameter));
  graft_error error;
  detail::check(graft_convert_symbol(symbol.c_str(), request.c_str(), tensors.empty() ? nullptr : tensors.data(),
                                     tensors.size(), &result, take, &error), error);
  return result;
}

}  // namespace api
}  // namespace graft
