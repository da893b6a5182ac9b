// SPDX-License-Identifier: Apache-2.0
// Finds the node whose graphs are nested too deeply in a file that protobuf refuses for that reason.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace graft {

/// "node 'NAME' (OP)" of the first node that lies inside of `depth` graphs; empty when none does, or the bytes are no
/// model. Takes no more of the stack for deep files.
std::string node_inside_of_graphs(std::span<const std::byte> bytes, size_t depth);

}  // namespace graft
