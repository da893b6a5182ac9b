// SPDX-License-Identifier: Apache-2.0
// Updates of memory in order: a block finds those that it makes with all its threads, and makes each with as many as
// have elements of their own.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

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

}  // namespace

/// for n in order, where the condition holds: y[index(n), m] = mode(y[index(n), m], u(n, m))
///   -> for each `threads` of n: all tell whether theirs holds; for those that do, in order: thread m takes element m.
/// What meets in an element is of one m, so of one thread, which goes in order.
bool KernelWriter::ordered_updates(const tile::Map& map) {
  const bool plain = map.ordered && map.stores.size() == 1 && program_.threads % 32 == 0 && !reads_own_stores(map);
  if (!plain || names_.buffer(map.stores[0].buffer).scope != tile::Scope::kGlobal) return false;
  size_t numbered = map.axes.size();
  while (numbered > 1 && lies_across(map, map.axes[numbered - 1].variable->variable)) --numbered;
  if (numbered == 0) return false;
  const auto split = map.axes.begin() + static_cast<std::ptrdiff_t>(numbered);
  const std::vector<tile::Axis> updates(map.axes.begin(), split), across(split, map.axes.end());
  const std::vector<std::string> update_extents = extents_of(updates), across_extents = extents_of(across);
  const int threads = program_.threads;
  const std::string count = code_.fresh("n"), votes = code_.fresh("votes");
  code_.line("const i64 {} = (i64){};", count, fmt::format("{}", fmt::join(update_extents, " * (i64)")));
  code_.line("u32* const {} = (u32*)(shared + {});", votes, reserve_shared(threads / 32 * 4));
  code_.open(fmt::format("for (i64 first = 0; first < {}; first += {})", count, threads));
  find_updates(map, updates, update_extents, count, votes);
  code_.open(fmt::format("for (int w = 0; w < {}; ++w)", threads / 32));
  code_.open(fmt::format("for (u32 left = {}[w]; left != 0; left &= left - 1)", votes));
  expressions_.enter();
  code_.line("const i64 p = first + w * 32 + __ffs(left) - 1;");
  decompose(updates, update_extents, "p", "i64");
  if (across.empty()) {
    code_.open("if (threadIdx.x == 0)");
  } else {
    code_.open(fmt::format("for (i64 m = threadIdx.x; m < (i64){}; m += {})", fmt::join(across_extents, " * (i64)"),
                           threads));
  }
  expressions_.enter();
  if (!across.empty()) decompose(across, across_extents, "m", "i64");
  const tile::Store& each = map.stores[0];
  store(each, expressions_.value(each.value), /*ordered=*/true);
  expressions_.leave();
  code_.close();
  expressions_.leave();
  code_.close();
  code_.close();
  barrier();  // before the next are found
  code_.close();
  return true;
}

/// Of the updates from `first` on, one for each thread: which are this block's to make.
void KernelWriter::find_updates(const tile::Map& map, const std::vector<tile::Axis>& updates,
                                const std::vector<std::string>& extents, const std::string& count,
                                const std::string& votes) {
  code_.line("bool holds = false;");
  code_.open(fmt::format("if (const i64 p = first + threadIdx.x; p < {})", count));
  expressions_.enter();
  if (map.condition) decompose(updates, extents, "p", "i64");
  code_.line("holds = {};", map.condition ? expressions_.value(map.condition) : "true");
  expressions_.leave();
  code_.close();
  code_.line("const u32 word = __ballot_sync(0xffffffffu, holds);");
  code_.line("if (lane == 0) {}[warp] = word;", votes);
  barrier();
}

}  // namespace graft::cuda
