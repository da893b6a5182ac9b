// SPDX-License-Identifier: Apache-2.0
#include "plan/choose_schedule.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "fuse/attention.h"
#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"
#include "plan/block_schedule.h"
#include "plan/product_schedules.h"
#include "tile/lower_decoded.h"
#include "tile/lower_window.h"

namespace graft {
namespace {

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

/// Whether the region reads the load's tensor in no other way.
bool is_read_once(const Region& region, const Expr& load) {
  bool once = !is_scatter_base(region, load->tensor);
  for (const Form& form : region.forms) {
    for_each_load(form, load->tensor, [&](const Expr& other) { once = once && equal(other, load); });
  }
  return once;
}

/// The panel layout for a constant right operand whose lane axis is a plain index of one dimension.
std::optional<tile::PanelLayout> panel_layout(const Region& region, Contraction c, const std::vector<bool>& constant,
                                              int64_t lanes) {
  const Expr& b = c.b;
  if (b->kind != ExprKind::kLoad || !constant[b->tensor] || !is_read_once(region, b)) return std::nullopt;
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

/// The dimension of a tensor along which the region's last common axis goes in every load of it, or -1.
int dimension_of_neighbours(const Region& region, int tensor, int variable) {
  int found = -1;
  bool everywhere = true;
  for (const Form& form : region.forms) {
    for_each_load(form, tensor, [&](const Expr& load) {
      int here = -1;
      for (size_t d = 0; d < load->args.size(); ++d) {
        const Expr& index = load->args[d];
        if (index->kind == ExprKind::kVariable && index->variable == variable)
          here = static_cast<int>(d);
        else if (uses_variable(index, variable))
          everywhere = false;
      }
      everywhere = everywhere && here >= 0 && (found < 0 || here == found);
      found = here;
    });
  }
  return everywhere ? found : -1;
}

/// Weights of single channels lie so that what neighbouring threads, or the lanes of a vector, read lies side by side.
/// Constants of which a whole row is read at once stay as they are: neighbours go along the row.
void lay_along_neighbours(const Region& region, const std::vector<bool>& constant, tile::Layouts& layouts) {
  constexpr int64_t kMostLanes = 4096, kMostWindow = 64;
  const std::vector<Axis> common = common_axes(region);
  if (common.empty()) return;
  const bool folds = std::any_of(region.forms.begin(), region.forms.end(),
                                 [](const Form& form) { return std::holds_alternative<Reduce>(form); });
  for (size_t t = 0; folds && t < region.tensors.size() && t < constant.size(); ++t) {
    const Shape& shape = region.tensors[t].shape;
    if (!constant[t] || shape.size() < 2 || bit_width(region.tensors[t].type) < 8) continue;
    const int d = dimension_of_neighbours(region, static_cast<int>(t), common.back().variable->variable);
    if (d < 0 || d + 1 == static_cast<int>(shape.size())) continue;
    const auto lanes = shape[static_cast<size_t>(d)].as_constant();
    if (!lanes || *lanes < 1 || *lanes > kMostLanes) continue;
    const auto elements = element_count(shape).as_constant();
    if (!elements || *elements > *lanes * kMostWindow) continue;
    tile::PanelLayout layout{.dim = d, .lanes = *lanes, .keep = 0, .rest = {}};
    for (int other = 0; other < static_cast<int>(shape.size()); ++other) {
      if (other != d) layout.rest.push_back(other);
    }
    layouts[t] = std::move(layout);
  }
}

/// All that a right operand of codes is made of lies in panels.
void lay_codes(const Region& region, Contraction contraction, const std::vector<bool>& constant, int64_t lanes,
               tile::Layouts& layouts) {
  const Expr whole = contraction.b;
  for_each(whole, [&](const Expr& e) {
    if (e->kind != ExprKind::kLoad) return;
    contraction.b = e;
    layouts[static_cast<size_t>(e->tensor)] = panel_layout(region, contraction, constant, lanes);
  });
}

/// The layouts that a schedule asks for: constant right operands of contractions lie in panels.
tile::Layouts layouts_for(const Region& region, const std::vector<bool>& constant, const tile::Schedule& schedule) {
  tile::Layouts layouts(region.tensors.size());
  const bool nest =
      std::holds_alternative<tile::BlockSchedule>(schedule) || std::holds_alternative<tile::NestSchedule>(schedule) ||
      std::holds_alternative<tile::WindowSchedule>(schedule);
  if (nest) lay_along_neighbours(region, constant, layouts);
  const auto* contract = std::get_if<tile::ContractSchedule>(&schedule);
  const auto* product = std::get_if<tile::ProductSchedule>(&schedule);
  const auto* decode = std::get_if<tile::DecodeSchedule>(&schedule);
  const int64_t panel = contract ? contract->panel : product ? product->panel : decode ? decode->n : 0;
  const Reduce* reduce = panel > 0 ? only_reduction(region) : nullptr;
  auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  if (!contraction || contraction->n.empty()) return layouts;
  if (product) contraction->b = unwidened(contraction->b);
  if (decode) {
    lay_codes(region, *contraction, constant, decode->n, layouts);
    return layouts;
  }
  const ContractUnit* unit = contract ? contract->unit : nullptr;
  if (unit) contraction->b = unwidened(contraction->b);
  auto layout = panel_layout(region, *contraction, constant, panel);
  if (layout && unit) layout->pack = unit->pack, layout->step = unit->k;
  if (layout) layouts[contraction->b->tensor] = layout;
  return layouts;
}

/// Chunks and pieces for a right operand that is copied: it should serve many rows, but every thread needs work.
void share_copies(tile::ContractSchedule& schedule, const ContractionSizes& sizes, const Target& target) {
  const int64_t tiles = std::max<int64_t>(1, sizes.columns / schedule.n) * sizes.batch;
  const bool enough = tiles >= 2 * target.threads;
  schedule.m_chunk = enough ? sizes.rows : (sizes.rows + target.threads - 1) / target.threads;
  schedule.m_chunk = std::max(schedule.m_chunk, schedule.m);
  const int64_t rest = sizes.depth / sizes.first_depth;
  const int64_t row_bytes = std::max<int64_t>(1, schedule.n * rest) * sizes.element_bytes;
  const int64_t fits = target.l2_bytes / 4 / row_bytes;
  if (sizes.first_depth > std::max<int64_t>(fits, 1)) schedule.k = std::max<int64_t>(1, fits);
}

/// Schedules for a contraction, the cost model's favourite first.
std::vector<tile::ContractSchedule> contract_schedules(const ContractionSizes& sizes, int64_t vector,
                                                       const Target& target) {
  tile::ContractSchedule schedule;
  schedule.panel = 2 * vector;
  schedule.m = register_rows(target) * (target.vector_registers >= 32 ? 4 : 8);
  schedule.n = std::max<int64_t>(64, schedule.panel);
  if (sizes.rows <= 2) schedule.n = 4 * schedule.panel;
  // The rows that a convolution copies together serve more columns.
  if (sizes.is_window) schedule.n = 4 * schedule.panel;
  // All rows of a column tile first while the left operand stays in the second-level cache; but a result that does not
  // stay there is written by whole rows when the right operand does.
  const auto stays = [&](int64_t a, int64_t b) { return a * b * sizes.element_bytes <= target.l2_bytes / 2; };
  const bool streams = !stays(sizes.rows, sizes.columns) && stays(sizes.columns, sizes.depth);
  schedule.columns_outer = stays(sizes.rows, sizes.depth) && !streams;
  std::vector<tile::ContractSchedule> schedules;
  const auto add = [&](tile::ContractSchedule variant) {
    if (!sizes.is_packed) share_copies(variant, sizes, target);
    if (std::find(schedules.begin(), schedules.end(), variant) == schedules.end()) schedules.push_back(variant);
  };
  add(schedule);
  for (const int64_t panels : {int64_t{2}, int64_t{4}, int64_t{8}}) {
    if (panels * schedule.panel > 2 * std::max(sizes.columns, schedule.panel)) continue;
    tile::ContractSchedule variant = schedule;
    variant.n = panels * schedule.panel;
    add(variant);
    variant.columns_outer = !variant.columns_outer;
    add(variant);
  }
  for (const int64_t rows : {schedule.m / 2, schedule.m * 2}) {
    tile::ContractSchedule variant = schedule;
    variant.m = rows;
    add(variant);
  }
  return schedules;
}

/// Schedules of a product of weights by the units that take the operands' own types, the fastest first. Slower ones
/// waste less where sums are short; of floats they give nothing where there is a faster one.
void add_unit_contractions(std::vector<tile::Schedule>& schedules, const Region& region, Contraction contraction,
                           ContractionSizes sizes, const std::vector<bool>& constant, const Target& target) {
  const DType sum = only_reduction(region)->lift[0]->type;
  contraction.a = unwidened(contraction.a), contraction.b = unwidened(contraction.b);
  const ContractUnit* best = best_unit(target, contraction.a->type, contraction.b->type, sum);
  const int64_t panel = 2 * std::max<int64_t>(16, target.vector_bits / bit_width(sum));
  if (!best || !panel_layout(region, contraction, constant, panel)) return;
  sizes.element_bytes = bit_width(best->b) / 8;
  for (const ContractUnit& unit : contract_units()) {
    const bool fits = unit.a == best->a && unit.b == best->b && unit.sum == sum && has_unit(target, unit);
    if (!fits || (&unit != best && is_float(sum))) continue;
    const bool tiles = unit.scope == ContractUnit::Scope::kTile;
    for (const auto& [rows, panels] : {std::pair{4, 4}, {2, 4}, {8, 4}, {4, 8}, {4, 2}, {8, 8}}) {
      tile::ContractSchedule schedule;
      schedule.unit = &unit;
      schedule.panel = panel;
      schedule.m = tiles ? 32 * rows : register_rows(target) * rows;
      schedule.n = panels * panel;
      schedule.columns_outer = sizes.rows * sizes.depth * sizes.element_bytes <= target.l2_bytes / 2;
      schedule.window = sizes.is_window ? 1 : 0;
      schedules.emplace_back(schedule);
    }
    if (!sizes.is_window) continue;
    auto rows_apart = std::get<tile::ContractSchedule>(schedules.back());
    rows_apart.window = 0;
    schedules.emplace_back(rows_apart);
  }
}

void add_contractions(std::vector<tile::Schedule>& schedules, const Region& region, const std::vector<bool>& constant,
                      const Bindings& typical, const Target& target) {
  const Reduce* reduce = only_reduction(region);
  auto contraction = reduce ? find_contraction(*reduce) : std::nullopt;
  const bool is_gpu = target.kind == TargetKind::kCuda;
  if (!contraction || (contraction->m.empty() && !is_gpu)) return;
  const DType type = reduce->lift[0]->type;
  const int64_t vector = target.vector_bits / bit_width(type);
  ContractionSizes sizes = sizes_of(*contraction, type, typical);
  if (is_gpu) {
    Contraction operands = *contraction;
    operands.b = unwidened(operands.b);
    sizes.is_packed = operands.n.size() == 1 && panel_layout(region, operands, constant, 32).has_value();
    return add_products(schedules, region, *contraction, sizes, constant, typical, target);
  }
  sizes.is_packed = panel_layout(region, *contraction, constant, 2 * vector).has_value();
  add_unit_contractions(schedules, region, *contraction, sizes, constant, target);
  for (const tile::ContractSchedule& schedule : contract_schedules(sizes, vector, target)) {
    schedules.emplace_back(schedule);
  }
}

/// Bytes of a block's memory that attention takes on a GPU at most: the queries, two tiles each of keys and values,
/// lines 16 bytes further apart than they are long, and the weights where they leave the registers, or ones that are
/// multiplied with them.
int64_t attention_bytes(const tile::AttentionSchedule& schedule, int64_t width, int64_t element_bytes) {
  const int64_t line = width * element_bytes + 16;
  const int64_t weights = element_bytes > 2 ? schedule.queries * (schedule.keys * 4 + 16) : schedule.keys * 48;
  return schedule.queries * line + 4 * schedule.keys * line + weights;
}

void add_block_attention(std::vector<tile::Schedule>& schedules, const AttentionForms& attention,
                         const Bindings& typical, const Target& target) {
  const int64_t keys = attention.weighted->reduced[0].extent.evaluate(typical);
  const int64_t points = typical_extent(attention.common, typical);
  const int64_t values = attention.weighted->axes.back().extent.evaluate(typical);
  const int64_t width = std::max(values, attention.scores->reduced[0].extent.evaluate(typical));
  const int64_t element_bytes = std::max(1, bit_width(attention.queries->type) / 8);
  const bool many = points >= 2 * 128 * target.multiprocessors;
  const auto add = [&](const tile::AttentionSchedule& schedule) {
    const bool fits = attention_bytes(schedule, width, element_bytes) <= target.shared_bytes;
    const bool known = std::find(schedules.begin(), schedules.end(), tile::Schedule(schedule)) != schedules.end();
    if (fits && !known) schedules.emplace_back(schedule);
  };
  // Of 16-bit values a multiprocessor holds two blocks with rows of 64, one with rows of 128: two overlap the products
  // of one with the exponentials of the other, and one alone wants longer products.
  const bool longer = element_bytes > 2 ? values <= 64 && keys > 64 : values > 64 && values <= 128;
  add({.queries = many ? 128 : 64, .keys = longer ? 128 : 64});
  for (const int64_t queries : {64, 128, 32, 16}) {
    for (const int64_t width_of_keys : {64, 128, 32, 16}) add({.queries = queries, .keys = width_of_keys});
  }
}

void add_attention(std::vector<tile::Schedule>& schedules, const Region& region, const Bindings& typical,
                   const Target& target) {
  std::string reason;
  const auto attention = find_attention(region, reason);
  if (!attention) return;
  if (target.kind == TargetKind::kCuda) return add_block_attention(schedules, *attention, typical, target);
  // Few keys: all at once, so that nothing has to be rescaled. Many query rows share one copy of a key tile, as long
  // as every thread has several tiles.
  tile::AttentionSchedule schedule;
  const int64_t keys = attention->weighted->reduced[0].extent.evaluate(typical);
  const std::vector<Axis> outer(attention->common.begin(), attention->common.end() - 1);
  schedule.keys = keys <= 64 ? 64 : 128;
  schedule.queries = typical_extent(outer, typical) >= 4 * target.threads ? 128 : 56;
  schedules.emplace_back(schedule);
  for (const int64_t queries : {56, 128, 256}) {
    for (const int64_t width : {64, 128, 256}) {
      const tile::AttentionSchedule variant{.queries = queries, .keys = width};
      if (!(variant == schedule) && width <= 2 * keys) schedules.emplace_back(variant);
    }
  }
}

}  // namespace

Choice choice_of(const Region& region, const std::vector<bool>& constant, const tile::Schedule& schedule) {
  return {schedule, layouts_for(region, constant, schedule)};
}

std::vector<Choice> schedule_candidates(const Region& region, const std::vector<bool>& constant,
                                        const Bindings& typical, const Target& target) {
  std::vector<tile::Schedule> schedules;
  add_attention(schedules, region, typical, target);
  const auto add = [&](const auto& found) { schedules.insert(schedules.end(), found.begin(), found.end()); };
  add(tile::decode_candidates(region, constant, target));
  add_contractions(schedules, region, constant, typical, target);
  if (schedules.empty()) add(tile::window_candidates(region, target));
  const bool has_strategy = !schedules.empty();
  if (target.kind == TargetKind::kCuda && !has_strategy) {
    if (const auto blocks = block_schedule(region, typical)) schedules.emplace_back(*blocks);
  }
  schedules.emplace_back(tile::NestSchedule{});
  if (!has_strategy) {
    schedules.emplace_back(tile::NestSchedule{.chunk = 1024, .lanes = 16});
    schedules.emplace_back(tile::NestSchedule{.chunk = 16384, .lanes = 128});
  }
  std::vector<Choice> candidates;
  for (const tile::Schedule& schedule : schedules) candidates.push_back(choice_of(region, constant, schedule));
  return candidates;
}

}  // namespace graft
