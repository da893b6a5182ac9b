// SPDX-License-Identifier: Apache-2.0
#include "plan/choose_schedule.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "fuse/attention.h"
#include "fuse/contraction.h"
#include "fuse/gathered_columns.h"
#include "fuse/rewrite_region.h"
#include "plan/block_schedule.h"
#include "tile/lower_decoded.h"
#include "tile/lower_window.h"

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

/// What the cost model sees of a contraction, at typical sizes.
struct ContractionSizes {
  int64_t rows = 1, columns = 1, batch = 1, depth = 1;
  int64_t first_depth = 1;  ///< of the first reduced axis
  int64_t element_bytes = 4;
  bool is_window = false;  ///< a convolution: several reduced axes over several row axes
  bool is_packed = false;  ///< its right operand is constant and lies in panels
};

ContractionSizes sizes_of(const Contraction& contraction, DType type, const Bindings& typical) {
  ContractionSizes sizes;
  sizes.rows = typical_extent({contraction.m.back()}, typical);
  sizes.columns = typical_extent(contraction.n, typical);
  sizes.batch = typical_extent(contraction.batch, typical);
  sizes.depth = typical_extent(contraction.k, typical);
  sizes.first_depth = std::max<int64_t>(1, contraction.k[0].extent.evaluate(typical));
  sizes.element_bytes = bit_width(type) / 8;
  sizes.is_window = contraction.k.size() > 1 && contraction.m.size() > 1;
  return sizes;
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

/// Seconds that a product takes, roughly: rounds of blocks, each bound by its products, by what it copies or by
/// waiting. The rates are those measured on an H200.
double product_cost(const tile::ProductSchedule& schedule, const ContractionSizes& sizes, bool is_half,
                    const Target& target) {
  const auto tiles = [](int64_t extent, int64_t step) { return (extent + step - 1) / step; };
  const auto blocks =
      static_cast<double>(tiles(sizes.rows, schedule.m) * tiles(sizes.columns, schedule.n) * sizes.batch);
  const auto area = static_cast<double>(schedule.m * schedule.n);
  const auto steps = static_cast<double>(tiles(sizes.depth, schedule.k));
  // Of one multiprocessor, per second: multiplications, and bytes that its threads copy.
  const double rate = is_half ? 3.4e12 : area >= 64 * 64 ? 0.19e12 : 0.13e12;
  constexpr double kCopyRate = 62e9, kLeastStep = 0.15e-6, kStart = 1.5e-6, kStore = 0.08e-9;
  const int64_t step_bytes = (schedule.m + schedule.n) * schedule.k * sizes.element_bytes;
  const double products = area * static_cast<double>(schedule.k) / rate;
  const double copies = static_cast<double>(step_bytes) / kCopyRate;
  const int64_t registers = static_cast<int64_t>(area) / schedule.threads * 5 / 4 + 56;
  const double resident = static_cast<double>(
      std::max<int64_t>(1, std::min<int64_t>({target.shared_bytes / (step_bytes * schedule.stages),
                                              65536 / (registers * schedule.threads), 2048 / schedule.threads})));
  const double share = blocks / target.multiprocessors;
  const double at_once = std::max(1.0, std::min(resident, std::ceil(share)));
  // Blocks of one multiprocessor share its units and hide each other's waiting, beginning and end.
  const double rounds = std::ceil(share / at_once);
  const double step = std::max(at_once * std::max(products, copies), kLeastStep + products / 2);
  return rounds * (steps * step + kStart + area * kStore);
}

using Rated = std::vector<std::pair<double, tile::ProductSchedule>>;

/// Bytes of a block's memory that a product with producers takes: tiles on their way, and parts of sums.
int64_t role_bytes(const tile::ProductSchedule& schedule) {
  constexpr int64_t kBarriers = 1 << 10;
  const int64_t tiles = (schedule.m + schedule.n) * schedule.k * 2 * schedule.stages;
  return tiles + (schedule.split - 1) * schedule.m * schedule.n * 4 + kBarriers;
}

/// Seconds that a product takes in blocks whose warps have roles. The rates are those measured on an H200.
double role_cost(const tile::ProductSchedule& schedule, const ContractionSizes& sizes, const Target& target) {
  const auto tiles = [](int64_t extent, int64_t step) { return (extent + step - 1) / step; };
  constexpr double kMost = 3.3e12;  // multiplications of one multiprocessor in a second
  constexpr double kStart = 1.5e-6, kStore = 20e-9, kSum = 1e-6;
  const int64_t points = tiles(sizes.rows, schedule.m) * tiles(sizes.columns, schedule.n) * sizes.batch;
  const auto area = static_cast<double>(schedule.m * schedule.n);
  // Narrow tiles are bound by what they read of shared memory, others far from square by what they copy.
  constexpr int64_t kLarge = 128 * 128, kUses = 72;
  const bool copies_much =
      schedule.m * schedule.n >= kLarge && schedule.m * schedule.n < kUses * (schedule.m + schedule.n);
  const double rate = schedule.n <= 64 ? 2e12 : copies_much ? 2.7e12 : 3e12;
  const int64_t of_thread = schedule.m * schedule.n / schedule.threads + 104;
  const int64_t registers = of_thread * schedule.threads * schedule.teams + 5120;
  const auto resident = static_cast<double>(
      std::max<int64_t>(1, std::min(target.shared_bytes / role_bytes(schedule), 65536 / registers)));
  const double share = static_cast<double>(points * schedule.split) / target.multiprocessors;
  const double at_once = std::max(1.0, std::min(resident, std::ceil(share)));
  const double products = area * static_cast<double>(schedule.k);
  const double step = std::max(products / rate, at_once * products / kMost);
  const double loop = static_cast<double>(tiles(sizes.depth, schedule.k * schedule.split)) * step;
  const double maps = area / static_cast<double>(schedule.threads) * kStore;
  const double sum = schedule.split > 1 ? kSum : 0;
  const double rounds = std::ceil(share / at_once);
  if (schedule.teams == 1) return kStart + sum + rounds * (loop + maps);
  return kStart + rounds * std::max(loop, (loop + maps) / static_cast<double>(schedule.teams)) + maps;
}

/// Schedules with producers for 16-bit operands and sums that are long: large tiles, by teams too where there are many,
/// and small ones of which several blocks may share the sum where there are few.
void add_roles(Rated& rated, const ContractionSizes& sizes, bool is_packed, const Target& target) {
  struct Shape {
    int64_t m, n, threads, teams, stages;
  };
  constexpr Shape kShapes[] = {{128, 256, 256, 1, 4}, {128, 192, 256, 1, 5}, {128, 128, 256, 1, 6},
                               {128, 128, 128, 2, 6}, {64, 192, 128, 2, 6},  {64, 256, 128, 2, 5},
                               {64, 128, 128, 1, 8},  {64, 64, 128, 1, 12}};
  constexpr int64_t kDepth = 64, kPanel = 64, kLeastDepth = 256, kGroup = 16, kLeastSteps = 4;
  if (sizes.is_window || sizes.depth < kLeastDepth) return;
  const int64_t steps = (sizes.depth + kDepth - 1) / kDepth;
  for (const Shape& shape : kShapes) {
    const int64_t rows = (sizes.rows + shape.m - 1) / shape.m, columns = (sizes.columns + shape.n - 1) / shape.n;
    const int64_t points = rows * columns * sizes.batch;
    if (shape.n >= 2 * sizes.columns || shape.m >= 2 * sizes.rows) continue;
    if (shape.teams > 1 && points <= target.multiprocessors) continue;
    for (const int64_t split : {1, 2, 4}) {
      if (split > 1 && (shape.m > 64 || points * split > target.multiprocessors || steps < kLeastSteps * split)) break;
      tile::ProductSchedule schedule{.m = shape.m,
                                     .n = shape.n,
                                     .k = kDepth,
                                     .threads = shape.threads,
                                     .stages = std::clamp<int64_t>(steps / split, kLeastSteps, shape.stages),
                                     .panel = is_packed ? kPanel : 0,
                                     .producers = 128,
                                     .teams = shape.teams,
                                     .group = rows > 1 && columns > 1 && split == 1 ? kGroup : 1,
                                     .split = split};
      if (role_bytes(schedule) > target.shared_bytes) continue;
      rated.emplace_back(role_cost(schedule, sizes, target), schedule);
    }
  }
}

/// Schedules with producers for many rows with short sums, which memory bounds: whole rows of few columns by teams, one
/// of which stores while tiles of another come.
void add_streams(Rated& rated, const ContractionSizes& sizes, bool is_packed, const Target& target) {
  constexpr int64_t kMostDepth = 256, kMostColumns = 192, kWide = 128, kTeams = 2, kStages = 4;
  if (sizes.is_window || sizes.depth >= kMostDepth || sizes.depth % 8 != 0 || sizes.columns % 16 != 0) return;
  int64_t n = sizes.columns;
  for (int64_t parts = 2; n > kMostColumns || n % 16 != 0; ++parts) n = (sizes.columns + parts - 1) / parts;
  const int64_t m = n > kWide ? 64 : 128;
  const int64_t points = sizes.rows / m * (sizes.columns / n) * sizes.batch;
  if (points < 2 * kTeams * target.multiprocessors) return;
  const tile::ProductSchedule schedule{.m = m,
                                       .n = n,
                                       .k = std::min<int64_t>(64, (sizes.depth + 15) / 16 * 16),
                                       .threads = 128,
                                       .stages = kStages,
                                       .panel = !is_packed ? 0 : n % 64 == 0 ? 64 : n % 32 == 0 ? 32 : 16,
                                       .producers = 128,
                                       .teams = kTeams};
  rated.emplace_back(role_cost(schedule, sizes, target), schedule);
}

/// Schedules for the blocks of a GPU, the cost model's favourite first.
std::vector<tile::ProductSchedule> product_schedules(const ContractionSizes& sizes, bool is_half, bool is_packed,
                                                     const Target& target) {
  struct Shape {
    int64_t m, n, threads;
  };
  constexpr Shape kHalf[] = {{256, 128, 256}, {128, 256, 256}, {128, 192, 256}, {128, 128, 256},
                             {128, 64, 128},  {64, 128, 128},  {64, 64, 128},   {64, 32, 128}};
  constexpr Shape kSingle[] = {{128, 128, 256}, {128, 64, 128}, {64, 128, 128}, {64, 64, 128},
                               {64, 32, 64},    {32, 64, 64},   {32, 32, 64},   {16, 32, 32}};
  const int64_t depth = is_half ? 64 : 16, line = 128 / sizes.element_bytes;
  Rated rated;
  for (const Shape& shape : is_half ? std::span<const Shape>(kHalf) : std::span<const Shape>(kSingle)) {
    // A tile may be twice as large as the product, not more.
    if (shape.m >= 2 * std::max<int64_t>(sizes.rows, 16) && shape.m > 64) continue;
    if (shape.n >= 2 * std::max<int64_t>(sizes.columns, 32)) continue;
    for (const int64_t stages : {4, 3, 6}) {
      tile::ProductSchedule schedule{.m = shape.m,
                                     .n = shape.n,
                                     .k = depth,
                                     .threads = shape.threads,
                                     .stages = stages,
                                     .panel = is_packed ? std::min(line, shape.n) : 0};
      const int64_t bytes = (shape.m + shape.n) * depth * sizes.element_bytes * stages;
      if (bytes > target.shared_bytes - (8 << 10)) continue;
      rated.emplace_back(product_cost(schedule, sizes, is_half, target), schedule);
    }
  }
  const bool has_roles = is_half && target.features.find("+wgmma") != std::string::npos;
  // What product_cost leaves out of blocks whose threads all copy and multiply: large products take this much longer.
  constexpr double kWithoutRoles = 1.5;
  for (auto& [cost, schedule] : rated) cost *= has_roles ? kWithoutRoles : 1;
  if (has_roles) add_roles(rated, sizes, is_packed, target);
  if (has_roles) add_streams(rated, sizes, is_packed, target);
  std::stable_sort(rated.begin(), rated.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<tile::ProductSchedule> schedules;
  for (const auto& [cost, schedule] : rated) schedules.push_back(schedule);
  return schedules;
}

/// Schedules for a product of few rows whose columns are gathered: all tiles of a block are on their way at once where
/// they have room, since those of weights come before earlier kernels have ended.
std::vector<tile::ProductSchedule> gathering_schedules(const ContractionSizes& sizes, const GatheredColumns& columns,
                                                       const Target& target) {
  constexpr int64_t kRows = 64, kThreads = 128, kDepth = 64;
  constexpr int64_t kMostColumns = 256, kOverlap = 2, kMostStages = 16, kReserved = 8 << 10;
  const int64_t rounds = (sizes.depth + kDepth - 1) / kDepth;
  Rated rated;
  for (const int64_t lanes : {8, 16, 32}) {
    const int64_t n = columns.parts * lanes;
    if (n > kMostColumns || columns.extent % lanes != 0) continue;
    const int64_t slot = (kRows + n) * kDepth * sizes.element_bytes;
    const int64_t room = (target.shared_bytes - kReserved - kRows * (n * 4 + 16)) / slot;
    const int64_t whole = std::min({rounds + kOverlap, room, kMostStages});
    for (const int64_t stages : {whole, int64_t{4}}) {
      if (stages < 2 || stages > room) continue;
      const tile::ProductSchedule schedule{
          .m = kRows, .n = n, .k = kDepth, .threads = kThreads, .stages = stages, .panel = 0};
      rated.emplace_back(product_cost(schedule, sizes, true, target), schedule);
    }
  }
  std::stable_sort(rated.begin(), rated.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<tile::ProductSchedule> schedules;
  for (const auto& [cost, schedule] : rated) schedules.push_back(schedule);
  return schedules;
}

/// Whether all that an operand reads is constant.
bool is_constant(const Expr& operand, const std::vector<bool>& constant) {
  bool any = false, all = true;
  for_each(operand, [&](const Expr& node) {
    if (node->kind != ExprKind::kLoad) return;
    any = true, all = all && constant[static_cast<size_t>(node->tensor)];
  });
  return any && all;
}

/// Whether tiles of constants should be on their way before earlier kernels have ended. Loops over windows that have
/// many rounds win less by that than they lose by the registers of two beginnings.
bool copies_early(const Contraction& contraction, const std::vector<bool>& constant,
                  const tile::ProductSchedule& schedule, const Bindings& typical) {
  constexpr int64_t kFewRounds = 24;
  if (!is_constant(contraction.a, constant) && !is_constant(contraction.b, constant)) return false;
  const std::vector<Axis> outer(contraction.k.begin(), contraction.k.end() - 1);
  const int64_t last = typical_extent({contraction.k.back()}, typical);
  const int64_t rounds = typical_extent(outer, typical) * ((last + schedule.k - 1) / schedule.k);
  return outer.empty() || rounds <= kFewRounds;
}

/// Schedules of a product for a GPU.
void add_products(std::vector<tile::Schedule>& schedules, const Region& region, Contraction contraction,
                  ContractionSizes sizes, const std::vector<bool>& constant, const Bindings& typical,
                  const Target& target) {
  contraction.a = unwidened(contraction.a), contraction.b = unwidened(contraction.b);
  const DType operand = contraction.b->type;
  sizes.rows = typical_extent(contraction.m, typical);
  sizes.element_bytes = std::max(1, bit_width(operand) / 8);
  const auto columns = gathered_columns(region);
  const bool is_packed = panel_layout(region, contraction, constant, 32).has_value() && contraction.n.size() == 1;
  std::vector<tile::ProductSchedule> products =
      columns ? gathering_schedules(sizes, *columns, target)
              : product_schedules(sizes, bit_width(operand) == 16, is_packed, target);
  order_reduced_axes(contraction);
  for (tile::ProductSchedule& schedule : products) {
    schedule.early = copies_early(contraction, constant, schedule, typical);
    schedules.emplace_back(schedule);
  }
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
  if (!contraction || contraction->m.empty()) return;
  const DType type = reduce->lift[0]->type;
  const int64_t vector = target.vector_bits / bit_width(type);
  ContractionSizes sizes = sizes_of(*contraction, type, typical);
  if (target.kind == TargetKind::kCuda) {
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
