// SPDX-License-Identifier: Apache-2.0
// What importing a model may take beside its files: one budget for constants, texts and nodes, whichever front end
// makes them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace graft {

/// Runs the import of the model called `where` within a budget of 768 MiB and 16 times the bytes of the files that it
/// maps: so a file cannot make more than in proportion to itself, however many parts that are small each it has.
/// Throws out_of_memory where the import wants more, and `cancelled` where `cancelled`, which may be null, says so.
void within_import_budget(const std::function<bool()>& cancelled, const std::string& where,
                          const std::function<void()>& import);

/// Within an import: bytes of a file that was mapped.
void allow_import(size_t bytes);
/// Within an import: bytes that are no memory of a tensor, which is counted by itself. Asks whether to stop.
void take_import(size_t bytes, std::string_view what);
/// Within an import: what a node or value of a graph takes beside its name.
inline constexpr size_t kImportedPartBytes = 128;

}  // namespace graft
