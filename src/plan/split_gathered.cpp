// SPDX-License-Identifier: Apache-2.0
#include "plan/split_gathered.h"

#include "base/checked_size.h"
#include "fuse/gathered_columns.h"
#include "fuse/split_step.h"

namespace graft {
namespace {

constexpr int64_t kFewRows = 64;  // those of one tile

int64_t rows_of_product(const Region& region, const Bindings& typical) {
  int64_t rows = 1;
  for (const Form& form : region.forms) {
    const auto* product = std::get_if<Reduce>(&form);
    for (size_t i = 0; product && i + 1 < product->axes.size(); ++i) {
      rows = checked_product(rows, product->axes[i].extent.evaluate(typical), "the rows of a product");
    }
  }
  return rows;
}

}  // namespace

std::vector<FusedStep> split_gathered(FusedStep step, std::vector<FusedTensor>& tensors, const Bindings& typical,
                                      const RewriteContext& context) {
  const bool stays = !gathered_columns(step.region) || rows_of_product(step.region, typical) <= kFewRows;
  if (stays) return {std::move(step)};
  return split_step(std::move(step), tensors, context);
}

}  // namespace graft
