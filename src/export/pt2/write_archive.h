// SPDX-License-Identifier: Apache-2.0
// Zip archives as torch reads them: stored entries that begin at multiples of 64 bytes, below one folder.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "import/pt2/archive.h"

namespace graft::pt2 {

/// By name: the bytes that an entry has now; nothing: there is none any more.
using ChangedEntries = std::map<std::string, std::optional<std::string>>;

/// Writes an archive's entries, those in `changed` instead of its own, and those that only `changed` has. Throws
/// unsupported for more than 4 GiB.
void write_archive(const std::string& path, const Archive& archive, const ChangedEntries& changed);

}  // namespace graft::pt2
