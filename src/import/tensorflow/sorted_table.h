// SPDX-License-Identifier: Apache-2.0
// Tables of LevelDB (google/leveldb, doc/table_format.md), which the index of a checkpoint is: keys in order, in blocks
// with checksums, with an index of the blocks at the end.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace graft::tensorflow {

using SortedTable = std::map<std::string, std::string, std::less<>>;

/// All entries of a table. Throws invalid_model naming `where` for bytes that are none, that were cut short, and whose
/// checksums are wrong.
SortedTable read_sorted_table(std::span<const std::byte> file, const std::string& where);

}  // namespace graft::tensorflow
