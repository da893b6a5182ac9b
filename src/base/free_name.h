// SPDX-License-Identifier: Apache-2.0
// Names that differ from those that are there.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace graft {

/// `base`, or `base_K` with the least K from 1 on that `taken`, a set of strings, has not; it has it then.
template <class Set>
std::string take_free_name(std::string_view base, Set& taken) {
  std::string name(base);
  for (int k = 1; !taken.insert(name).second; ++k) name = fmt::format("{}_{}", base, k);
  return name;
}

}  // namespace graft
