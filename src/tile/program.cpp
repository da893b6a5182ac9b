// SPDX-License-Identifier: Apache-2.0
#include "tile/program.h"

#include "base/error.h"

namespace graft::tile {
namespace {

constexpr int64_t kScratchAlignment = 64;

/// Elements from the first to the last of a buffer, the gaps of its strides included.
Size spanned_elements(const Buffer& buffer) {
  Size span = 1;
  for (size_t i = 0; i < buffer.shape.size(); ++i) {
    if (buffer.shape[i].is(0)) return 0;
    span = span + (buffer.shape[i] - 1) * buffer.strides[i];
  }
  // A run-time size may be zero: a row-major span is then a product, which cannot become negative.
  if (span.is_constant() || span == element_count(buffer.shape)) return span;
  return max(span, 0);
}

}  // namespace

Size grid_size(const Program& program) {
  Size points = 1;
  for (const graft::Axis& axis : program.grid) points = points * axis.extent;
  return points;
}

std::vector<Size> scratch_offsets(const Program& program) {
  std::vector<Size> offsets;
  Size end = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.scope == Scope::kGlobal) {
      offsets.push_back(0);
      continue;
    }
    offsets.push_back(end);
    const Size bits = spanned_elements(buffer) * bit_width(buffer.type);
    end = end + ceil_div(bits, 8 * kScratchAlignment) * kScratchAlignment;
  }
  offsets.push_back(end);
  return offsets;
}

}  // namespace graft::tile
