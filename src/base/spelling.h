// SPDX-License-Identifier: Apache-2.0
// What somebody meant who misspelt a name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft {

/// The name nearest to the word by letters that are wrong, missing, extra or exchanged with their neighbour; empty when
/// none is near.
std::string nearest_name(std::string_view word, const std::vector<std::string>& names);

/// `; did you mean 'batch'?`, or nothing when no name is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace graft
