// SPDX-License-Identifier: Apache-2.0
#include "plan/choose_schedule.h"

#include <algorithm>

#include "fuse/attention.h"
#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"

namespace graft {
namespace {

int64_t typical_extent(const std::vector<Axis>& axes, const Bindings& typical) {
  int64_t extent = 1;
  for (const Axis& axis : axes) extent *= std::max<int64_t>(1, axis.extent.evaluate(typical));
  return extent;
}

const Reduce* only_reduction(const Region& region) {
  const Reduce* found = nullptr;
  for (const Form& form : region.forms) {
    if (const auto* reduce = std::get_if<Reduce>(&form)) {
      if (found) return nullptr;
      found = reduce;
    }
  }
  return found;
}

/// Rows of the register tile of the micro-kernel: what row tiles should be multiples of.
int64_t register_rows(const Target& target) { return target.vector_registers >= 32 ? 14 : 6; }

/// The panel layout for a constant right operand whose lane axis is a plain index of one dimension.
std::optional<tile::PanelLayout> panel_layout(Contraction c, const std::vector<bool>& constant, int64_t lanes) {
  const Expr& b = c.b;
  if (b->kind != ExprKind::kLoad || !constant[b->tensor]) return std::nullopt;
  const int lane = c.n.back().variable->variable;
  tile::PanelLayout layout{.dim = -1, .lanes = lanes, .keep = 0, .rest = {}};
  for (size_t d = 0; d < b->args.size(); ++d) {
    if (!affine(b->args[d])) return std::nullopt;
    if (!uses_variable(b->args[d], lane)) continue;
    const bool plain = b->args[d]->kind == ExprKind::kVariable && layout.dim < 0;
    if (!plain) return std::nullopt;
    layout.dim = static_cast<int>(d);
  }
  if (layout.dim < 0) return std::nullopt;
  // Leading dimensions fixed by batch axes stay outermost.
  for (const Expr& index : b->args) {
    bool batch = index->kind == ExprKind::kConstant;
    for (const Axis& axis : c.batch) batch |= equal(index, axis.variable);
    if (!batch || layout.keep == layout.dim) break;
    ++layout.keep;
  }
  // The rest lies in the order in which the reduced axes run.
  order_reduced_axes(c);
  std::vector<std::pair<int, int>> rest;
  for (int d = layout.keep; d < static_cast<int>(b->args.size()); ++d) {
    if (d == layout.dim) continue;
    int rank = -1;
    for (size_t k = 0; k < c.k.size(); ++k) {
      if (uses_variable(b->args[d], c.k[k].variable->variable)) rank = static_cast<int>(k);
    }
    rest.emplace_back(rank, d);
  }
  std::stable_sort(rest.begin(), rest.end());
  for (const auto& [rank, d] : rest) layout.rest.push_back(d);
  return layout;
}

std::optional<Choice> contract_choice(const Region& region, const std::vector<bool>& constant, const Bindings& typical,
                                      const Target& target) {
  const Reduce* reduce = only_reduction(region);
  const auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  if (!contraction || contraction->m.empty()) return std::nullopt;
  const DType type = reduce->lift[0]->type;
  const int64_t vector = target.vector_bits / bit_width(type);
  const int64_t rows = typical_extent({contraction->m.back()}, typical);
  const int64_t columns = typical_extent(contraction->n, typical);
  const int64_t depth = typical_extent(contraction->k, typical);
  tile::ContractSchedule schedule;
  schedule.panel = 2 * vector;
  schedule.m = register_rows(target) * (target.vector_registers >= 32 ? 4 : 8);
  schedule.n = std::max<int64_t>(64, schedule.panel);
  if (rows <= 2) schedule.n = 4 * schedule.panel;
  // The rows that a convolution copies together serve more columns.
  if (contraction->k.size() > 1 && contraction->m.size() > 1) schedule.n = 4 * schedule.panel;
  // All rows of a column tile first while the left operand stays in the second-level cache.
  const int64_t bytes = bit_width(type) / 8;
  schedule.columns_outer = rows * depth * bytes <= target.l2_bytes / 2;
  Choice choice{schedule, tile::Layouts(region.tensors.size())};
  const auto layout = panel_layout(*contraction, constant, schedule.panel);
  if (layout) {
    choice.layouts[contraction->b->tensor] = layout;
  } else {
    // A packed right operand should serve many rows, but every thread needs work.
    const int64_t tiles = std::max<int64_t>(1, columns / schedule.n) * typical_extent(contraction->batch, typical);
    const bool enough = tiles >= 2 * target.threads;
    schedule.m_chunk = enough ? rows : (rows + target.threads - 1) / target.threads;
    schedule.m_chunk = std::max(schedule.m_chunk, schedule.m);
    const int64_t first = std::max<int64_t>(1, contraction->k[0].extent.evaluate(typical));
    const int64_t rest = depth / first;
    const int64_t fits = target.l2_bytes / 4 / bytes / std::max<int64_t>(1, schedule.n * rest);
    if (first > std::max<int64_t>(fits, 1)) schedule.k = std::max<int64_t>(1, fits);
  }
  choice.schedule = schedule;
  return choice;
}

}  // namespace

std::vector<Choice> schedule_candidates(const Region& region, const std::vector<bool>& constant,
                                        const Bindings& typical, const Target& target) {
  std::vector<Choice> candidates;
  std::string reason;
  if (const auto attention = find_attention(region, reason)) {
    // Few keys: all at once, so that nothing has to be rescaled. Many query rows share one copy of a key tile, as long
    // as every thread has several tiles.
    tile::AttentionSchedule schedule;
    const int64_t keys = attention->weighted->reduced[0].extent.evaluate(typical);
    const std::vector<Axis> outer(attention->common.begin(), attention->common.end() - 1);
    schedule.keys = keys <= 64 ? 64 : 128;
    schedule.queries = typical_extent(outer, typical) >= 4 * target.threads ? 128 : 56;
    candidates.push_back({schedule, tile::Layouts(region.tensors.size())});
  }
  if (auto choice = contract_choice(region, constant, typical, target)) candidates.push_back(std::move(*choice));
  candidates.push_back({tile::NestSchedule{}, tile::Layouts(region.tensors.size())});
  return candidates;
}

}  // namespace graft
