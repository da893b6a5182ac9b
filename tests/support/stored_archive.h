// SPDX-License-Identifier: Apache-2.0
// Archives as torch writes them, for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace graft::test {

/// A zip archive whose entries (name, content) are stored as they are.
std::string stored_archive(const std::vector<std::pair<std::string, std::string>>& entries);

}  // namespace graft::test
