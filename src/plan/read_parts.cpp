// SPDX-License-Identifier: Apache-2.0
#include "plan/read_parts.h"

#include <algorithm>

namespace graft {
namespace {

constexpr int64_t kLine = 64;  // bytes at whose multiples parts begin

/// The first indices that all loads of the tensor have in common, as far as they are constants.
std::vector<int64_t> common_indices(const Region& region, int tensor) {
  if (is_scatter_base(region, tensor)) return {};
  std::vector<int64_t> common;
  bool any = false;
  for (const Form& form : region.forms) {
    for_each_load(form, tensor, [&](const Expr& load) {
      std::vector<int64_t> own;
      for (const Expr& index : load->args) {
        const auto value = as_integer(index);
        if (!value) break;
        own.push_back(*value);
      }
      if (any) own.resize(std::mismatch(own.begin(), own.end(), common.begin(), common.end()).first - own.begin());
      common = std::move(own);
      any = true;
    });
  }
  return common;
}

}  // namespace

ReadParts read_parts(const Region& region, const tile::Layouts& layouts) {
  ReadParts parts{.region = region, .offsets = std::vector<int64_t>(region.inputs.size())};
  std::vector<size_t> dropped(region.tensors.size());  // axes, by tensor
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    const int tensor = region.inputs[i];
    const auto used = static_cast<size_t>(tensor);
    if ((used < layouts.size() && layouts[used]) || bit_width(region.tensors[used].type) < 8) continue;
    Shape& shape = parts.region.tensors[used].shape;
    for (const int64_t index : common_indices(region, tensor)) {
      const Size bytes =
          element_count({shape.begin() + 1, shape.end()}) * Size(bit_width(region.tensors[used].type) / 8);
      const auto known = bytes.as_constant(), extent = shape[0].as_constant();
      if (!known || *known % kLine != 0 || !extent || index < 0 || index >= *extent) break;
      parts.offsets[i] += index * *known;
      shape.erase(shape.begin());
      ++dropped[used];
    }
  }
  const auto part_of = [&](const Expr& node) -> Expr {
    if (node->kind != ExprKind::kLoad) return {};
    const auto first = static_cast<std::ptrdiff_t>(dropped[static_cast<size_t>(node->tensor)]);
    if (first == 0) return {};
    return make_load(node->tensor, node->type, std::vector<Expr>(node->args.begin() + first, node->args.end()));
  };
  for (Form& form : parts.region.forms) {
    form = map_exprs(form, [&](const Expr& e) { return transform(e, part_of); });
  }
  return parts;
}

}  // namespace graft
