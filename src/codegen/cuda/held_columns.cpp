// SPDX-License-Identifier: Apache-2.0
// What takes long to compute and changes along the last axis alone, as places and weights do where an image is resized
// by any factor: a thread whose points lie below one another computes it once for all of them.
#include "codegen/cuda/held_columns.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace graft::cuda {
namespace {

constexpr int64_t kMostWords = 48;  // registers of a thread for what it holds

/// Whether an operation by itself takes many instructions.
bool is_long(const Expr& e) {
  if (e->kind != ExprKind::kCall) return false;
  if (e->type == DType::kFloat64) return true;
  const bool divides = is_call(e, Intrinsic::kFloorDiv) || is_call(e, Intrinsic::kMod);
  if (!divides) return false;
  const auto by = as_integer(e->args[1]);
  return !by || *by <= 0 || (*by & (*by - 1)) != 0;
}

/// What there is to know of a node and of all below it.
struct Nature {
  bool moves = false;    ///< it changes along the last axis
  bool differs = false;  ///< or from row to row, or it reads memory
  bool is_long = false;
};

class HeldFinder {
 public:
  explicit HeldFinder(const std::vector<tile::Axis>& axes) : axes_(axes) {}

  /// Adds the largest parts of `e` that are worth being held.
  void find(const Expr& e, std::vector<Expr>& held) {
    for_each(e, [&](const Expr& node) { natures_[node.get()] = nature_of(node); });
    add(e, held);
  }

 private:
  Nature nature_of(const Expr& node) const {
    Nature nature{.is_long = is_long(node)};
    nature.differs = node->kind == ExprKind::kLoad || is_check(*node);
    if (node->kind == ExprKind::kVariable) {
      nature.moves = node->variable == axes_.back().variable->variable;
      for (size_t i = 0; i + 1 < axes_.size(); ++i) nature.differs |= node->variable == axes_[i].variable->variable;
    }
    for (const Expr& arg : node->args) {
      const Nature& below = natures_.at(arg.get());
      nature.moves |= below.moves, nature.differs |= below.differs, nature.is_long |= below.is_long;
    }
    return nature;
  }

  void add(const Expr& e, std::vector<Expr>& held) {
    if (!seen_.insert(e.get()).second) return;
    const Nature& nature = natures_.at(e.get());
    if (!nature.moves || !nature.is_long) return;
    if (!nature.differs) return held.push_back(e);
    for (const Expr& arg : e->args) add(arg, held);
  }

  const std::vector<tile::Axis>& axes_;
  std::unordered_map<const ExprNode*, Nature> natures_;
  std::unordered_set<const ExprNode*> seen_;
};

}  // namespace

void hold_columns(const tile::Map& map, const PointDeal& dealt, KernelNames& names, CodeText& code,
                  ExpressionWriter& expressions) {
  const bool same_columns = dealt.down > 0 && dealt.turns_across == 1 && dealt.turns > 1;
  if (!same_columns || map.axes.empty()) return;
  std::vector<Expr> held;
  HeldFinder finder(map.axes);
  for (const tile::Store& store : map.stores) finder.find(store.value, held);
  int64_t words = 0;
  std::vector<std::string> arrays;
  for (const Expr& e : held) {
    words += dealt.vector * std::max(bytes_of(e->type) / 4, 1);
    if (words > kMostWords) break;
    arrays.push_back(code.fresh("h"));
    code.line("{} {}[{}];", type_name(e->type), arrays.back(), dealt.vector);
  }
  if (arrays.empty()) return;
  const std::string point = code.fresh("i");
  const int last = map.axes.back().variable->variable;
  code.line("#pragma unroll");
  code.open(fmt::format("for (int j = 0; j < {}; ++j)", dealt.vector));
  code.line("const int {} = threadIdx.x % {} * {} + j;", point, dealt.across, dealt.vector);
  names.variables[last] = point;
  names.ranges[last] = {0, dealt.pieces() * dealt.vector - 1};
  expressions.enter();
  for (size_t i = 0; i < arrays.size(); ++i) code.line("{}[j] = {};", arrays[i], expressions.value(held[i]));
  expressions.leave();
  code.close();
  const std::string own = dealt.vector > 1 ? "[j]" : "[0]";
  for (size_t i = 0; i < arrays.size(); ++i) expressions.define(held[i], arrays[i] + own);
}

}  // namespace graft::cuda
