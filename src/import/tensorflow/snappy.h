// SPDX-License-Identifier: Apache-2.0
// The format of Snappy (google/snappy, format_description.txt), which blocks of checkpoints may be compressed with.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace graft::tensorflow {

/// The bytes that were compressed, at most `most`; nothing where the bytes are none of the format's.
std::optional<std::string> expand_snappy(std::span<const std::byte> compressed, size_t most);

}  // namespace graft::tensorflow
