// SPDX-License-Identifier: Apache-2.0
// Where a model is.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace graft {

/// A model in a file, or in memory when `bytes` is given (then `path` is the folder of its external data, or empty).
struct ModelSource {
  std::string path;
  std::optional<std::span<const std::byte>> bytes;
};

}  // namespace graft
