// SPDX-License-Identifier: Apache-2.0
// How a step runs in a library: the record that is tuned and stored in plans. The call itself follows from the step's
// region and this record, so that a plan holds no library's call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace graft {

/// What threads share out, beside batch axes: rows (images, then output rows of a convolution), or columns.
enum class LibraryCut : uint8_t { kRows, kColumns };

struct LibrarySchedule {
  std::string library = "onednn";
  // Libraries of CPUs.
  LibraryCut cut = LibraryCut::kRows;
  int64_t pieces = 2;  ///< slices per thread; more even out threads that are held up
  // Libraries of GPUs.
  int64_t choice = 0;  ///< which of the library's own ways for the sizes at hand, 0 the one that it would take itself
  // All.
  int64_t panel = 0;  ///< constant weights lie in panels of so many columns; 0: as the model has them
  bool operator==(const LibrarySchedule&) const = default;
};

/// `onednn cut=rows pieces=2 panel=32`, `cudnn choice=0 panel=1`; parse_library_schedule reads it back and throws
/// invalid_argument naming an unknown library or an unknown or out-of-range field.
std::string print(const LibrarySchedule& schedule);
LibrarySchedule parse_library_schedule(std::string_view text);

}  // namespace graft
