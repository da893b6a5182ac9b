// SPDX-License-Identifier: Apache-2.0
// Values that divide the index along a piece, as those of resized images do: each element of a piece has an expression
// of its own, in which quotients, phases and clamps that the element's number decides are gone. What several elements
// have in common is computed once, and what they read side by side is loaded at once.
#include <algorithm>
#include <map>
#include <tuple>

#include "codegen/cuda/kernel_writer.h"
#include "tile/enlarged_maps.h"

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
    if (const auto sum = affine(node)) return spelled(*sum);
    if (const Range all = range(node); all.low == all.high) return make_index(all.low);
    if (is_call(node, Intrinsic::kFloorDiv) || is_call(node, Intrinsic::kMod)) return divided(node);
    if (is_call(node, Intrinsic::kMin) || is_call(node, Intrinsic::kMax)) return clamped(node);
    return {};
  }

  /// The same sum in one spelling, whatever it was made of.
  Expr spelled(const Affine& sum) const {
    const auto offset = sum.offset.as_constant();
    if (!offset) return {};
    Expr result = make_index(0);
    for (const auto& [variable, coefficient] : sum.coefficients) {
      const auto named = variables_.find(variable);
      if (!coefficient.is_constant() || named == variables_.end()) return {};
      result = result + named->second * make_index(coefficient.constant());
    }
    return result + make_index(*offset);
  }

  /// (d * i + c) / d -> i + c / d, and its remainder c mod d
  Expr divided(const Expr& node) const {
    const int64_t by = as_integer(node->args[1]).value_or(0);
    const auto sum = affine(node->args[0]);
    if (by <= 0 || !sum || !sum->offset.is_constant()) return {};
    const int64_t offset = sum->offset.constant(), rest = (offset % by + by) % by;
    Affine quotient{.coefficients = {}, .offset = (offset - rest) / by};
    for (const auto& [variable, coefficient] : sum->coefficients) {
      if (!coefficient.is_constant() || !coefficient.is_multiple_of(by)) return {};
      quotient.coefficients[variable] = coefficient.constant() / by;
    }
    return is_call(node, Intrinsic::kMod) ? make_index(rest) : spelled(quotient);
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
    if (const auto found = known_.find(e.get()); found != known_.end()) return found->second.second;
    std::vector<Range> operands;
    for (const Expr& arg : e->args) operands.push_back(arg->type == DType::kInt64 ? range(arg) : Range{});
    const Range all = operands.size() <= 2 ? range_of(e->intrinsic, operands) : Range{};
    known_.emplace(e.get(), std::pair(e, all));
    return all;
  }

  mutable std::unordered_map<const ExprNode*, std::pair<Expr, Range>> known_;  ///< the nodes are kept alive

  const std::unordered_map<int, Range>& ranges_;
  std::unordered_map<int, Expr> variables_;
};

/// Makes equal expressions one node.
class Unifier {
 public:
  Expr run(const Expr& e) {
    return transform(e, [&](const Expr& node) {
      std::vector<Expr>& alike = known_[key(node)];
      const auto same = std::find_if(alike.begin(), alike.end(), [&](const Expr& each) { return equal(each, node); });
      if (same != alike.end()) return *same;
      return alike.emplace_back(node);
    });
  }

 private:
  /// Arguments are unified already: nodes whose arguments differ do so themselves.
  using Key = std::tuple<ExprKind, DType, Intrinsic, int, int, int64_t, std::vector<const ExprNode*>>;
  static Key key(const Expr& node) {
    std::vector<const ExprNode*> args;
    for (const Expr& arg : node->args) args.push_back(arg.get());
    return {node->kind, node->type, node->intrinsic, node->tensor, node->variable, node->integer, std::move(args)};
  }

  std::map<Key, std::vector<Expr>> known_;
};

}  // namespace

/// Whether elements of a piece are worth an expression each; more so where their phases are the same in all pieces.
bool KernelWriter::has_phases(const tile::Map& map, int vector) const {
  constexpr int kMostNodes = 1024;
  const int last = map.axes.back().variable->variable;
  int nodes = 0;
  bool phases = false, repeat = true;
  for (const tile::Store& store : map.stores) {
    nodes += count_nodes(store.value);
    phases |= divides(store.value, last);
    const int64_t period = tile::period_of(store.value, last);
    repeat = repeat && period > 0 && vector % period == 0;
  }
  const int most = repeat ? tile::kMostPieceNodes : kMostNodes;
  return phases && vector > 1 && nodes * vector <= most && !reads_own_stores(map);
}

/// The expressions of the elements of pieces; wide loads among the accesses are made before them.
PiecePhases KernelWriter::plan_phases(const tile::Map& map, int vector,
                                      const std::vector<PointAccess>& accesses) const {
  PiecePhases phases{.number = make_variable(), .elements = {}, .taken = {}, .neighbours = {}};
  std::unordered_map<int, Range> ranges = names_.ranges;
  const auto bound = [&](const Expr& variable, int64_t points) {
    ranges[variable->variable] = {0, std::max<int64_t>(points - 1, 0)};
  };
  for (const tile::Axis& axis : map.axes) bound(axis.variable, bound_of(axis));
  for (const Axis& axis : program_.grid) {
    if (const auto points = axis.extent.as_constant()) bound(axis.variable, *points);
  }
  bound(phases.number, ceil_quotient(bound_of(map.axes.back()), vector));
  const int last = map.axes.back().variable->variable;
  Unifier unifier;
  for (const tile::Store& store : map.stores) {
    std::vector<Expr>& elements = phases.elements.emplace_back();
    for (int j = 0; j < vector; ++j) {
      const Expr pieces = transform(store.value, [&](const Expr& node) -> Expr {
        for (size_t i = 0; i < accesses.size(); ++i) {
          if (accesses[i].load && accesses[i].wide && equal(accesses[i].load, node)) return phases.take(i, j, node);
        }
        return {};
      });
      const Expr here = phases.number * make_index(vector) + make_index(j);
      const Expr value = substitute(pieces, {{last, here}});
      elements.push_back(unifier.run(Simplifier(value, ranges).run(value)));
    }
  }
  phases.neighbours = neighbours_among(phases.elements);
  return phases;
}

Expr PiecePhases::take(size_t access, int element, const Expr& load) {
  for (const Taken& each : taken) {
    if (each.access == access && each.element == element) return each.variable;
  }
  return taken.emplace_back(Taken{make_variable(load->type), access, element}).variable;
}

/// y[u] = the elements of the piece that begins at `start`, a multiple of the piece's length
void KernelWriter::write_phases(const tile::Map& map, int vector, const std::string& start,
                                const std::vector<PointAccess>& accesses) {
  const PiecePhases phases = plan_phases(map, vector, accesses);
  const std::string name = code_.fresh("m");
  code_.line("const int {} = {} / {};", name, start, vector);
  bind_index(phases.number, name, ceil_quotient(bound_of(map.axes.back()), vector));
  for (const PiecePhases::Taken& each : phases.taken) {
    names_.variables[each.variable->variable] = fmt::format("v{}.at[{}]", each.access, each.element);
  }
  expressions_.enter();
  load_neighbours(phases.neighbours);
  for (size_t s = 0; s < phases.elements.size(); ++s) {
    for (size_t j = 0; j < phases.elements[s].size(); ++j) {
      code_.line("y{}[u].at[{}] = {};", s, j, expressions_.value(phases.elements[s][j]));
    }
  }
  expressions_.leave();
}

}  // namespace graft::cuda
