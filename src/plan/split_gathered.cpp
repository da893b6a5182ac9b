// SPDX-License-Identifier: Apache-2.0
#include "plan/split_gathered.h"

#include "base/checked_size.h"
#include "fuse/contraction.h"
#include "fuse/gathered_columns.h"
#include "fuse/split_step.h"

namespace graft {
namespace {

constexpr int64_t kFewRows = 64;  // those of one tile

/// Whether a block's tile has all rows of the product, and matrix units multiply it.
bool is_one_tile(const Reduce& product, const Bindings& typical) {
  const auto contraction = find_contraction(product);
  if (!contraction || bit_width(unwidened(contraction->b)->type) != 16) return false;
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < product.axes.size(); ++i) {
    rows = checked_product(rows, product.axes[i].extent.evaluate(typical), "the rows of a product");
  }
  return rows <= kFewRows;
}

}  // namespace

std::vector<FusedStep> split_gathered(FusedStep step, std::vector<FusedTensor>& tensors, const Bindings& typical,
                                      const RewriteContext& context) {
  if (!gathered_columns(step.region)) return {std::move(step)};
  for (const Form& form : step.region.forms) {
    const auto* product = std::get_if<Reduce>(&form);
    if (product && is_one_tile(*product, typical)) return {std::move(step)};
  }
  return split_step(std::move(step), tensors, context);
}

}  // namespace graft
