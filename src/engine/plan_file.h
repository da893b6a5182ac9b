// SPDX-License-Identifier: Apache-2.0
// The plan file: an engine without its machine code, in a form that is checked, not believed, when it is read.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace graft {

/// The plan as the bytes of a file. Equal engines give equal bytes; code objects are left out.
std::vector<std::byte> print_plan(const Engine& engine);
/// Writes the plan; a reader sees the old file or the whole new one. Throws a device error naming path and remedy, and
/// then leaves nothing behind.
void save_plan(const Engine& engine, const std::string& path);

/// Maps a plan; constants lie in the mapping, which lives as long as they do. `objects` is empty: EngineKernel::object
/// says which kernels were one compilation unit, and the caller obtains their code from `program` after checking that
/// it is a tile program that fits its step (this layer does not know tile programs). Everything else that a run could
/// follow out of its memory is checked here. Throws invalid_model naming the section and the remedy.
Engine load_plan(const std::string& path);
/// The same from memory that `keep_alive` owns, at an address that is a multiple of 64; `where` names it in errors.
Engine parse_plan(std::span<const std::byte> file, std::shared_ptr<const void> keep_alive, const std::string& where);
/// Whether the bytes begin like a plan, whatever follows.
bool looks_like_plan(std::span<const std::byte> file);

}  // namespace graft
