// SPDX-License-Identifier: Apache-2.0
// The layout of packed weights.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/size.h"
#include "base/tensor_data.h"
#include "expr/region.h"

namespace graft::tile {

/// How a tensor lies in memory when not row-major: dimension `dim` is cut into panels of `lanes` consecutive elements
/// (the last padded with zeros); memory order is [other dimensions before `keep`...][panel][the rest][lane].
/// Used for constant right-hand operands of contractions: weights [k, n] become [n / lanes][k][lanes].
/// A unit that multiplies several elements of k at once has `pack` of the last of `rest` together, padded with zeros to
/// a multiple of `step`: [n / lanes][k / pack][lanes][pack].
struct PanelLayout {
  int dim = 0;
  int64_t lanes = 32;
  int keep = 0;           ///< leading dimensions that stay outermost (batch)
  std::vector<int> rest;  ///< the other dimensions, in memory order
  int64_t pack = 1, step = 1;
  int64_t parts = 1;  ///< kParts: of f32, split for a unit; words of [n / lanes][k / 2][parts][lanes] (split_words.h)
  bool operator==(const PanelLayout&) const = default;
};

/// By region tensor; empty means row-major.
using Layouts = std::vector<std::optional<PanelLayout>>;

/// `panels dim=1 lanes=32 keep=0 rest=0,2 pack=4 step=64` (the last two where pack is not 1), with ` parts=3` where
/// there are parts; parse_panel_layout reads it back and throws invalid_argument on any other text.
std::string print(const PanelLayout& layout);
PanelLayout parse_panel_layout(std::string_view text);

/// Whether the layout places every dimension of a tensor of this rank once.
bool fits(const PanelLayout& layout, size_t rank);
/// The indices in memory of the element of a packed tensor that has these in a tensor of `shape`; for pack = 1.
std::vector<Expr> packed_indices(const PanelLayout& layout, const Shape& shape, const std::vector<Expr>& indices);
/// The shape in memory of a tensor of `shape`.
Shape physical_shape(const PanelLayout& layout, const Shape& shape);
/// The region that computes the packed form: input 0 is the row-major tensor, output 0 the packed one.
Region packing_region(const PanelLayout& layout, DType type, const Shape& shape);
/// The packed form of a row-major tensor of `shape`, of elements of whole bytes, made without a kernel.
TensorData pack(const PanelLayout& layout, const TensorData& row_major, const std::vector<int64_t>& shape);
/// The row-major tensor of `shape` behind a packed one, of elements of whole bytes.
TensorData unpack(const PanelLayout& layout, const TensorData& packed, const std::vector<int64_t>& shape);

}  // namespace graft::tile
