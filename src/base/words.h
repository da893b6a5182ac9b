// SPDX-License-Identifier: Apache-2.0
// Lists of names in a text, as options and tables have them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft {

/// `a,b,,c` -> a, b, c: what stands between commas, without what is empty.
std::vector<std::string> words_of(std::string_view list);

}  // namespace graft
