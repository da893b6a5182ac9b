// SPDX-License-Identifier: Apache-2.0
// Choices as Python's pairs of texts, for the C interface.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graft/graft_c.h"

namespace graft_python {

using Options = std::vector<std::pair<std::string, std::string>>;

/// The same as the C interface takes them; they point into `options`.
inline std::vector<graft_option> as_options(const Options& options) {
  std::vector<graft_option> list;
  for (const auto& [key, value] : options) list.push_back({key.c_str(), value.c_str()});
  return list;
}

}  // namespace graft_python
