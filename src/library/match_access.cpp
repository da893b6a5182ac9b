// SPDX-License-Identifier: Apache-2.0
#include "library/match_parts.h"

namespace graft {
namespace {

std::vector<Size> row_major_strides(const Shape& shape) {
  std::vector<Size> strides(shape.size(), Size(1));
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

/// False when an index is not affine.
bool add_indices(const Region& region, const std::vector<Expr>& indices, TensorAccess& access) {
  const std::vector<Size> strides = row_major_strides(region.tensors[access.tensor].shape);
  for (size_t d = 0; d < indices.size(); ++d) {
    const auto index = affine(indices[d]);
    if (!index) return false;
    for (const auto& [variable, coefficient] : index->coefficients) {
      Size& stride = access.strides[variable];
      stride = stride + coefficient * strides[d];
    }
    access.offset = access.offset + index->offset * strides[d];
    access.indices.push_back(*index);
  }
  return true;
}

/// cast<f32>(x) -> x, which loses nothing of a narrower float.
Expr widened(const Expr& e) {
  const bool widens = is_call(e, Intrinsic::kCast) && e->type == DType::kFloat32 && is_float(e->args[0]->type) &&
                      bit_width(e->args[0]->type) < 32;
  return widens ? e->args[0] : e;
}

bool is_zero(const Expr& e) { return e->kind == ExprKind::kConstant && e->real == 0 && e->integer == 0; }

}  // namespace

std::optional<TensorAccess> read_access(const Region& region, const Expr& e) {
  TensorAccess access;
  Expr load = widened(e);
  if (is_call(load, Intrinsic::kSelect) && is_zero(load->args[2])) {
    access.guard = load->args[0];
    load = widened(load->args[1]);
  }
  if (load->kind != ExprKind::kLoad) return std::nullopt;
  access.tensor = load->tensor;
  if (!add_indices(region, load->args, access)) return std::nullopt;
  return access;
}

TensorAccess store_access(const Region& region, int tensor, const std::vector<Expr>& point) {
  TensorAccess access;
  access.tensor = tensor;
  add_indices(region, point, access);
  return access;
}

}  // namespace graft
