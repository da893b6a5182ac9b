// SPDX-License-Identifier: Apache-2.0
// Names of tensors as names of entries in an archive. A program that unpacks the archive makes files of these names, so
// that none may lead out of the folder, or hold what a name of a file cannot.
#pragma once

#include <string>
#include <string_view>

namespace graft {

/// The name, with what is unsafe as `%2E`: a leading slash, parts that are empty, `.` or `..`, backslashes, drives,
/// characters that do not show, bytes that are no UTF-8, and `%` itself. Different names give different entries.
std::string entry_name(std::string_view name);

/// The name behind an entry; an entry that entry_name does not give is its own name.
std::string name_of_entry(std::string_view entry);

}  // namespace graft
