// SPDX-License-Identifier: Apache-2.0
// Compactions, and updates of memory in order: a block finds those that it makes with all its threads, and makes each
// with as many as have elements of their own.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int kPoints = 8;  // of a thread, that are looked at together: their loads are on their way at the same time
constexpr int64_t kMostNumbers = int64_t{1} << 30;

bool is_variable(const Expr& e, int variable) {
  return e->kind == ExprKind::kVariable && e->variable == variable;
}

/// Whether points that differ in the axis never meet: it is one of the indices of the store, and in no other nor in the
/// condition.
bool lies_across(const tile::Map& map, int variable) {
  size_t own = 0, others = 0;
  for (const Expr& index : map.stores[0].indices) {
    if (is_variable(index, variable)) {
      ++own;
    } else if (uses_variable(index, variable)) {
      ++others;
    }
  }
  return own > 0 && others == 0 && !(map.condition && uses_variable(map.condition, variable));
}

/// The elements of the axes where that is known when compiling, and few enough for an int; else 0.
int64_t points_of(const std::vector<tile::Axis>& axes) {
  int64_t points = 1;
  for (const tile::Axis& axis : axes) {
    const int64_t extent = as_integer(axis.extent).value_or(0);
    if (extent <= 0 || extent > kMostNumbers / points) return 0;
    points *= extent;
  }
  return points;
}

std::string number_type(const std::vector<tile::Axis>& axes) { return points_of(axes) > 0 ? "int" : "i64"; }

bool uses_any(const Expr& e, const std::vector<tile::Axis>& axes) {
  return std::any_of(axes.begin(), axes.end(),
                     [&](const tile::Axis& axis) { return uses_variable(e, axis.variable->variable); });
}

/// The parts of a block that make updates side by side, each with a thread for each element `across`: warps are whole.
int groups_of(const std::vector<tile::Axis>& across, int threads) {
  const int64_t elements = across.empty() ? 0 : points_of(across);
  return elements > 0 && elements % 32 == 0 && threads % elements == 0 ? static_cast<int>(threads / elements) : 1;
}

/// Whether the map's last store counts the points at which the condition holds, and all else goes to the place that is
/// counted: what a compaction is lowered to.
bool is_compaction(const tile::Map& map) {
  if (map.stores.empty() || !map.condition) return false;
  const tile::Store& counting = map.stores.back();
  if (counting.mode != ScatterMode::kAdd || as_integer(counting.value) != 1) return false;
  const auto is_count = [&](const Expr& e) { return e->kind == ExprKind::kLoad && e->tensor == counting.buffer; };
  const auto reads = [&](const Expr& e) {
    bool found = false;
    for_each(e, [&](const Expr& node) {
      for (const tile::Store& store : map.stores) {
        found = found || (node->kind == ExprKind::kLoad && node->tensor == store.buffer);
      }
    });
    return found;
  };
  for (size_t k = 0; k + 1 < map.stores.size(); ++k) {
    const tile::Store& store = map.stores[k];
    const bool placed = store.mode == ScatterMode::kSet && store.indices.size() == 1 && is_count(store.indices[0]);
    if (!placed || reads(store.value)) return false;
  }
  return !reads(map.condition);
}

}  // namespace

/// for n in order, where the condition holds: y[count] = v(n), count += 1
///   -> for some n of each thread: all tell which hold; those that do know their places from how many hold before.
bool KernelWriter::compaction(const tile::Map& map) {
  if (!map.ordered || map.axes.empty() || program_.threads % 32 != 0 || !is_compaction(map)) return false;
  for (const tile::Store& store : map.stores) {
    if (bit_width(names_.buffer(store.buffer).type) < 8) return false;  // threads would share bytes
  }
  const int threads = program_.threads, warps = threads / 32, words = kPoints * warps;
  const std::vector<std::string> extents = extents_of(map.axes);
  const std::string count = code_.fresh("n"), votes = code_.fresh("votes"), ahead = code_.fresh("ahead");
  const std::string type = number_type(map.axes), kept = code_.fresh("kept");
  code_.line("const {0} {1} = ({0}){2};", type, count,
             fmt::format("{}", fmt::join(extents, " * (" + type + ")")));
  code_.line("u32* const {} = (u32*)(shared + {});", votes, reserve_shared(words * 4));
  code_.line("u32* const {} = (u32*)(shared + {});", ahead, reserve_shared((words + 1) * 4));
  code_.line("i64 {} = 0;", kept);
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for ({0} first = 0; first < {1}; first += {2})", type, count, kPoints * threads));
  find_updates(map, map.axes, extents, count, votes);
  code_.open("if (warp == 0)");
  code_.line("u32 sum = 0;");
  code_.open(fmt::format("for (int s = 0; s < {}; s += 32)", words));
  code_.line("const u32 own = s + lane < {0} ? __popc({1}[least(s + lane, {0} - 1)]) : 0;", words, votes);
  code_.line("u32 upto = own;");
  code_.open("for (int distance = 1; distance < 32; distance *= 2)");
  code_.line("const u32 earlier = __shfl_up_sync(0xffffffffu, upto, distance);");
  code_.line("if (lane >= distance) upto += earlier;");
  code_.close();
  code_.line("if (s + lane < {}) {}[s + lane] = sum + upto - own;", words, ahead);
  code_.line("sum += __shfl_sync(0xffffffffu, upto, 31);");
  code_.close();
  code_.line("if (lane == 0) {}[{}] = sum;", ahead, words);
  code_.close();
  barrier();
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int k = 0; k < {}; ++k)", kPoints));
  code_.line("if (!holds[k]) continue;");
  expressions_.enter();
  code_.line("const {0} p = first + k * {1} + ({0})threadIdx.x;", type, threads);
  decompose(map.axes, extents, "p", type);
  const std::string place = code_.fresh("place");
  code_.line("const i64 {0} = {1} + {2}[k * {3} + warp] + __popc({4}[k * {3} + warp] & ((1u << lane) - 1));", place,
             kept, ahead, warps, votes);
  for (size_t k = 0; k + 1 < map.stores.size(); ++k) {
    const tile::Store& each = map.stores[k];
    expressions_.define(each.indices[0], place);
    store(each, expressions_.value(each.value), /*ordered=*/true);
  }
  expressions_.leave();
  code_.close();
  code_.line("{} += {}[{}];", kept, ahead, words);
  barrier();
  code_.close();
  const tile::Store& counted = map.stores.back();
  code_.line("if (threadIdx.x == 0) {} = {};", expressions_.element(counted.buffer, counted.indices), kept);
  return true;
}

/// for n in order, where the condition holds: y[index(n), m] = mode(y[index(n), m], u(n, m))
///   -> for some n of each thread: all tell which hold; for those that do, in order: thread m takes element m.
/// What meets in an element is of one m and of one index, so of one thread, which goes in order: where a block has more
/// threads than elements m, its groups share out the indices.
bool KernelWriter::ordered_updates(const tile::Map& map) {
  const bool plain = map.ordered && map.stores.size() == 1 && program_.threads % 32 == 0 && !reads_own_stores(map);
  if (!plain || names_.buffer(map.stores[0].buffer).scope != tile::Scope::kGlobal) return false;
  size_t numbered = map.axes.size();
  while (numbered > 1 && lies_across(map, map.axes[numbered - 1].variable->variable)) --numbered;
  if (numbered == 0) return false;
  const auto split = map.axes.begin() + static_cast<std::ptrdiff_t>(numbered);
  const std::vector<tile::Axis> updates(map.axes.begin(), split), across(split, map.axes.end());
  const std::vector<std::string> update_extents = extents_of(updates), across_extents = extents_of(across);
  const int threads = program_.threads, words = kPoints * threads / 32, groups = groups_of(across, threads);
  const std::string lane_type = number_type(across);
  const std::string count = code_.fresh("n"), votes = code_.fresh("votes"), type = number_type(updates);
  code_.line("const {0} {1} = ({0}){2};", type, count,
             fmt::format("{}", fmt::join(update_extents, " * (" + type + ")")));
  code_.line("u32* const {} = (u32*)(shared + {});", votes, reserve_shared(words * 4));
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for ({0} first = 0; first < {1}; first += {2})", type, count, kPoints * threads));
  find_updates(map, updates, update_extents, count, votes);
  code_.open(fmt::format("for (int s = 0; s < {}; s += 32)", words));
  code_.line("u32 some = __ballot_sync(0xffffffffu, s + lane < {} && {}[least(s + lane, {})] != 0);", words, votes,
             words - 1);
  code_.open("for (; some != 0; some &= some - 1)");
  code_.line("const int w = s + __ffs(some) - 1;");
  code_.open(fmt::format("for (u32 left = {}[w]; left != 0; left &= left - 1)", votes));
  expressions_.enter();
  code_.line("const {} p = first + w * 32 + __ffs(left) - 1;", type);
  decompose(updates, update_extents, "p", type);
  const tile::Store& update = map.stores[0];
  std::vector<std::string> places;
  for (const Expr& index : update.indices) {
    if (groups > 1 && !uses_any(index, across)) places.push_back("(u32)" + expressions_.value(index));
  }
  if (across.empty()) {
    code_.open("if (threadIdx.x == 0)");
  } else if (!places.empty()) {
    code_.open(fmt::format("if (({}) % {}u == threadIdx.x / {}u)", fmt::join(places, " + "), groups, threads / groups));
    code_.line("const int m = threadIdx.x % {};", threads / groups);
  } else {
    code_.open(fmt::format("for ({0} m = threadIdx.x; m < ({0}){1}; m += {2})", lane_type,
                           fmt::join(across_extents, " * (" + lane_type + ")"), threads));
  }
  expressions_.enter();
  if (!across.empty()) decompose(across, across_extents, "m", lane_type);
  store(update, expressions_.value(update.value), /*ordered=*/true);
  expressions_.leave();
  code_.close();
  expressions_.leave();
  for (int i = 0; i < 3; ++i) code_.close();
  barrier();  // before the next are found
  code_.close();
  return true;
}

/// Of the updates from `first` on, some for each thread: which are this block's to make.
void KernelWriter::find_updates(const tile::Map& map, const std::vector<tile::Axis>& updates,
                                const std::vector<std::string>& extents, const std::string& count,
                                const std::string& votes) {
  const std::string type = number_type(updates);
  code_.line("bool holds[{}];", kPoints);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int k = 0; k < {}; ++k)", kPoints));
  expressions_.enter();
  // The last of them in place of those behind it: no branch stands between the loads of one and of the next.
  code_.line("const {0} own = first + k * {1} + ({0})threadIdx.x, p = least(own, {2} - 1);", type, program_.threads,
             count);
  code_.line("(void)p;");
  if (map.condition) decompose(updates, extents, "p", type);
  code_.line("holds[k] = own < {} && {};", count, map.condition ? expressions_.value(map.condition) : "true");
  expressions_.leave();
  code_.close();
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int k = 0; k < {}; ++k)", kPoints));
  code_.line("const u32 word = __ballot_sync(0xffffffffu, holds[k]);");
  code_.line("if (lane == 0) {}[k * {} + warp] = word;", votes, program_.threads / 32);
  code_.close();
  barrier();
}

}  // namespace graft::cuda
