// SPDX-License-Identifier: Apache-2.0
// Shapes as MXNet writes them into attributes: `[[2,3],None,[]]`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace graft::extension {

using Sizes = std::vector<int64_t>;

/// The integers of `[2,3]` or `(2, 3)`.
Sizes read_sizes(const std::string& text);
/// A list of shapes, of which some are not known as a whole or by an axis.
std::vector<std::optional<Sizes>> read_shapes(const std::string& text);

}  // namespace graft::extension
