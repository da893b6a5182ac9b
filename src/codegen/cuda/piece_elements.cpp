// SPDX-License-Identifier: Apache-2.0
// Values that divide the index along a piece, as those of resized images do: each element of a piece has an expression
// of its own, in which quotients, phases and clamps that the element's number decides are gone.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

bool divides(const Expr& e, int variable) {
  bool found = false;
  for_each(e, [&](const Expr& node) {
    const bool divided = is_call(node, Intrinsic::kFloorDiv) || is_call(node, Intrinsic::kMod);
    found |= divided && as_integer(node->args[1]) && uses_variable(node->args[0], variable);
  });
  return found;
}

/// Rewrites indices whose variables are known to lie in ranges.
class Simplifier {
 public:
  Simplifier(const Expr& e, const std::unordered_map<int, Range>& ranges) : ranges_(ranges) {
    for_each(e, [&](const Expr& node) {
      if (node->kind == ExprKind::kVariable) variables_.emplace(node->variable, node);
    });
  }

  Expr run(const Expr& e) const {
    return transform(e, [&](const Expr& node) { return rewrite(node); });
  }

 private:
  Expr rewrite(const Expr& node) const {
    if (node->type != DType::kInt64 || node->kind != ExprKind::kCall) return {};
    if (const auto sum = affine(node); sum && sum->coefficients.empty()) {
      const auto value = sum->offset.as_constant();
      return value ? make_index(*value) : Expr();
    }
    if (is_call(node, Intrinsic::kFloorDiv) || is_call(node, Intrinsic::kMod)) return divided(node);
    if (is_call(node, Intrinsic::kMin) || is_call(node, Intrinsic::kMax)) return clamped(node);
    return {};
  }

  /// (d * i + c) / d -> i + c / d, and its remainder c mod d
  Expr divided(const Expr& node) const {
    const int64_t by = as_integer(node->args[1]).value_or(0);
    const auto sum = affine(node->args[0]);
    if (by <= 0 || !sum || !sum->offset.is_constant()) return {};
    const int64_t offset = sum->offset.constant(), rest = (offset % by + by) % by;
    Expr quotient = make_index((offset - rest) / by);
    for (const auto& [variable, coefficient] : sum->coefficients) {
      const auto named = variables_.find(variable);
      if (!coefficient.is_constant() || !coefficient.is_multiple_of(by) || named == variables_.end()) return {};
      quotient = quotient + named->second * make_index(coefficient.constant() / by);
    }
    return is_call(node, Intrinsic::kMod) ? make_index(rest) : quotient;
  }

  /// min and max of which one side never wins -> the other
  Expr clamped(const Expr& node) const {
    const Expr &a = node->args[0], &b = node->args[1];
    const Range left = range(a), right = range(b);
    const bool least = is_call(node, Intrinsic::kMin);
    if (least ? left.high <= right.low : left.low >= right.high) return a;
    if (least ? right.high <= left.low : right.low >= left.high) return b;
    return {};
  }

  Range range(const Expr& e) const {
    if (const auto value = as_integer(e)) return {*value, *value};
    if (e->kind == ExprKind::kVariable) {
      const auto found = ranges_.find(e->variable);
      return found == ranges_.end() ? Range{} : found->second;
    }
    if (e->kind != ExprKind::kCall || e->type != DType::kInt64) return {};
    std::vector<Range> operands;
    for (const Expr& arg : e->args) operands.push_back(arg->type == DType::kInt64 ? range(arg) : Range{});
    return operands.size() <= 2 ? range_of(e->intrinsic, operands) : Range{};
  }

  const std::unordered_map<int, Range>& ranges_;
  std::unordered_map<int, Expr> variables_;
};

}  // namespace

/// Whether elements of a piece are worth an expression each.
bool KernelWriter::has_phases(const tile::Map& map, int vector) const {
  constexpr int kMostNodes = 1024;
  const int last = map.axes.back().variable->variable;
  int nodes = 0;
  bool phases = false;
  for (const tile::Store& store : map.stores) {
    nodes += count_nodes(store.value);
    phases |= divides(store.value, last);
  }
  return phases && vector > 1 && nodes * vector <= kMostNodes && !reads_own_stores(map);
}

/// y[u] = the elements of the piece that begins at `start`, a multiple of `vector`
void KernelWriter::write_phases(const tile::Map& map, int vector, const std::string& start,
                                const std::vector<PointAccess>& accesses) {
  const tile::Axis& last = map.axes.back();
  const Expr number = make_variable();
  const std::string name = code_.fresh("m");
  code_.line("const int {} = {} / {};", name, start, vector);
  const int64_t bound = as_integer(last.extent).value_or(last.bound);
  bind_index(number, name, (bound + vector - 1) / vector);
  for (int j = 0; j < vector; ++j) {
    code_.open("");
    expressions_.enter();
    for (size_t s = 0; s < map.stores.size(); ++s) {
      const Expr pieces = transform(map.stores[s].value, [&](const Expr& node) -> Expr {
        for (size_t i = 0; i < accesses.size(); ++i) {
          if (!accesses[i].load || !accesses[i].wide || !equal(accesses[i].load, node)) continue;
          const Expr element = make_variable(node->type);
          names_.variables[element->variable] = fmt::format("v{}.at[{}]", i, j);
          return element;
        }
        return {};
      });
      const Expr here = number * make_index(vector) + make_index(j);
      const Expr value = substitute(pieces, {{last.variable->variable, here}});
      code_.line("y{}[u].at[{}] = {};", s, j, expressions_.value(Simplifier(value, names_.ranges).run(value)));
    }
    expressions_.leave();
    code_.close();
  }
}

}  // namespace graft::cuda
