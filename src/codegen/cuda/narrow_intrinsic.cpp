// SPDX-License-Identifier: Apache-2.0
// Spellings for kernels all of whose results are rounded to floats of 16 or 8 bits or to integers of 8. Each is within
// 2^-17 of the value that it stands for, the rounding of an f16 being 2^-12; the full accuracy of f32 would cost
// several times as many instructions, which is more than fit between the loads and stores of so few bytes. Integers of
// 8 bits are exact where sums, products and quotients make them: only functions that are approximated anyhow are
// cheaper.
#include <cmath>
#include <optional>
#include <unordered_set>
#include <variant>
#include <vector>

#include "codegen/cuda/expression.h"
#include "expr/composites.h"

namespace graft::cuda {
namespace {

/// Whether a function is among what the value is made of that no device computes exactly.
bool is_approximated(const Expr& e) {
  bool found = false;
  for_each(e, [&](const Expr& node) {
    if (node->kind != ExprKind::kCall || !is_float(node->type)) return;
    switch (node->intrinsic) {
      case Intrinsic::kExp:
      case Intrinsic::kExp2:
      case Intrinsic::kExpm1:
      case Intrinsic::kErf:
      case Intrinsic::kLog:
      case Intrinsic::kLog1p:
      case Intrinsic::kPow:
      case Intrinsic::kTanh:
        found = true;
        break;
      default:
        break;
    }
  });
  return found;
}

/// Whether it jumps somewhere: then a value that is nearly right may give a result that is not.
bool jumps(const Expr& e) {
  if (e->kind != ExprKind::kCall || !is_float(e->args[0]->type)) return false;
  switch (e->intrinsic) {
    case Intrinsic::kFloorDiv:
    case Intrinsic::kRem:
    case Intrinsic::kMod:
    case Intrinsic::kFloor:
    case Intrinsic::kCeil:
    case Intrinsic::kTrunc:
    case Intrinsic::kRound:
    case Intrinsic::kBitcast:
      return true;
    default:
      return !is_float(e->type);  // comparisons, and casts to integers
  }
}

/// Looks through a program for what asks for exact values.
class Jumps {
 public:
  Jumps(const tile::Program& program, NarrowResults results) : program_(program), results_(results) {
    visit(program.body);
  }
  bool found() const { return found_; }

 private:
  /// Whether `e` is, or is made of, what a narrow spelling may have changed.
  bool is_near(const Expr& e) const {
    bool near = false;
    for_each(e, [&](const Expr& node) {
      if (!is_float(node->type)) return;
      near |= narrow_spelling(node, results_).has_value() || node->kind == ExprKind::kVariable;
      if (node->kind != ExprKind::kLoad) return;
      const tile::Buffer& buffer = program_.buffers[node->tensor];
      near |= buffer.scope != tile::Scope::kGlobal || buffer.written;
    });
    return near;
  }
  void visit(const Expr& e) {
    if (!e) return;
    std::unordered_set<const ExprNode*> may_be_near;  // a quantizer's rounding and cast: one step off at most
    for_each(e, [&](const Expr& node) {
      if (results_ != NarrowResults::kBytes || !quantized_value(node)) return;
      may_be_near.insert(node.get());
      const Expr& sum = node->args[0];
      if (is_call(sum, Intrinsic::kRound)) may_be_near.insert(sum.get());
      for (const Expr& term : sum->args) {
        if (is_call(term, Intrinsic::kRound)) may_be_near.insert(term.get());
      }
    });
    for_each(e, [&](const Expr& node) {
      if (found_ || !jumps(node) || may_be_near.contains(node.get())) return;
      for (const Expr& arg : node->args) found_ |= is_near(arg);
    });
  }
  void visit(const std::vector<Expr>& all) {
    for (const Expr& e : all) visit(e);
  }
  void visit(const std::vector<tile::Store>& stores) {
    for (const tile::Store& store : stores) visit(store.value), visit(store.indices);
  }
  void visit(const tile::Body& body) {
    for (const tile::Statement& each : body) std::visit([&](const auto& node) { visit_node(node); }, each.node);
  }
  void visit_node(const tile::For& node) { visit(node.body); }
  void visit_node(const tile::If& node) { visit(node.condition), visit(node.body); }
  void visit_node(const tile::Map& node) { visit(node.condition), visit(node.stores); }
  void visit_node(const tile::Reduce& node) { visit(node.lift), visit(node.monoid.combine); }
  void visit_node(const tile::Contract& node) { visit(node.a), visit(node.b); }
  void visit_node(const tile::SortRow&) { found_ = true; }
  void visit_node(const tile::Scan& node) { visit(node.initial), visit(node.step), visit(node.stores); }
  void visit_node(const tile::Select&) { found_ = true; }

  const tile::Program& program_;
  const NarrowResults results_;
  bool found_ = false;
};

}  // namespace

std::optional<QuantizedValue> quantized_value(const Expr& e) {
  const bool to_byte = is_call(e, Intrinsic::kCast) && (e->type == DType::kInt8 || e->type == DType::kUint8);
  if (!to_byte || e->args[0]->type != DType::kFloat32) return std::nullopt;
  const Expr& sum = e->args[0];
  if (is_call(sum, Intrinsic::kRound)) return QuantizedValue{sum->args[0], {}};
  if (!is_call(sum, Intrinsic::kAdd)) return std::nullopt;
  for (const int at : {0, 1}) {
    const Expr &rounded = sum->args[at], &zero = sum->args[1 - at];
    if (!is_call(rounded, Intrinsic::kRound)) continue;
    // A zero point is an integer that the type holds.
    const bool nothing = zero->kind == ExprKind::kConstant && zero->real == 0;
    if (nothing) return QuantizedValue{rounded->args[0], {}};
    const bool is_code = is_call(zero, Intrinsic::kCast) && zero->args[0]->type == e->type;
    if (is_code) return QuantizedValue{rounded->args[0], zero};
  }
  return std::nullopt;
}

std::optional<BoundedCode> bounded_code(const Expr& e) {
  if (e->type != DType::kInt8 && e->type != DType::kUint8) return std::nullopt;
  if (quantized_value(e)) return BoundedCode{e, lowest_code(e->type), lowest_code(e->type) + 255};
  if (!is_call(e, Intrinsic::kMax) && !is_call(e, Intrinsic::kMin)) return std::nullopt;
  for (const int at : {0, 1}) {
    const auto bound = as_integer(e->args[1 - at]);
    auto inner = bound ? bounded_code(e->args[at]) : std::nullopt;
    if (!inner) continue;
    const bool raises = is_call(e, Intrinsic::kMax);
    const auto apply = [&](int64_t x) { return raises ? std::max(x, *bound) : std::min(x, *bound); };
    return BoundedCode{inner->code, apply(inner->low), apply(inner->high)};
  }
  return std::nullopt;
}

Expr short_integer(const Expr& e) {
  if (!is_call(e, Intrinsic::kCast) || e->type != DType::kFloat32) return {};
  Expr integer = e->args[0];
  while (is_call(integer, Intrinsic::kCast) && is_integer(integer->type) && is_integer(integer->args[0]->type) &&
         bit_width(integer->args[0]->type) < bit_width(integer->type) && !is_unsigned(integer->type)) {
    integer = integer->args[0];
  }
  const bool is_short = is_integer(integer->type) && bit_width(integer->type) >= 8 && bit_width(integer->type) <= 16;
  return is_short ? integer : Expr();
}

Expr on_integers(const Expr& e, DType type) {
  if (const Expr integer = short_integer(e)) return integer->type == type ? integer : Expr();
  if (!is_call(e, Intrinsic::kMax) && !is_call(e, Intrinsic::kMin)) return {};
  for (const int at : {0, 1}) {
    const Expr& bound = e->args[1 - at];
    const Expr integer = on_integers(e->args[at], type);
    if (!integer || bound->kind != ExprKind::kConstant) continue;
    const double low = is_unsigned(type) ? 0 : -128, high = is_unsigned(type) ? 255 : 127;
    if (bound->real != std::trunc(bound->real) || bound->real < low || bound->real > high) continue;
    const Expr limit = make_integer(type, static_cast<int64_t>(bound->real));
    return is_call(e, Intrinsic::kMax) ? max(integer, limit) : min(integer, limit);
  }
  return {};
}

NarrowResults narrow_results(const tile::Program& program) {
  NarrowResults results = NarrowResults::kNone;
  for (const tile::Buffer& buffer : program.buffers) {
    if (buffer.scope != tile::Scope::kGlobal || !buffer.written) continue;
    const bool is_byte = buffer.type == DType::kInt8 || buffer.type == DType::kUint8;
    const bool is_float8 = is_float(buffer.type) && bit_width(buffer.type) == 8;
    if (!is_byte && !is_float8 && !is_half(buffer.type)) return NarrowResults::kNone;
    if (is_byte || results == NarrowResults::kNone) results = is_byte ? NarrowResults::kBytes : NarrowResults::kHalves;
  }
  return results == NarrowResults::kNone || Jumps(program, results).found() ? NarrowResults::kNone : results;
}

std::optional<NarrowSpelling> narrow_spelling(const Expr& e, NarrowResults results) {
  if (results == NarrowResults::kNone || e->kind != ExprKind::kCall || e->type != DType::kFloat32) return std::nullopt;
  const bool is_exact = e->intrinsic == Intrinsic::kDiv || e->intrinsic == Intrinsic::kSqrt;
  if (results == NarrowResults::kBytes && is_exact && !is_approximated(e)) return std::nullopt;
  // The sum is computed as a whole: left of zero nothing is lost by its terms' being nearly opposite.
  if (const Expr x = argument_of_raised_erf(*e)) return NarrowSpelling{"raised_erf", {x}};
  switch (e->intrinsic) {
    case Intrinsic::kExp:
      return NarrowSpelling{"near_exp", e->args};
    case Intrinsic::kDiv:
      return NarrowSpelling{"near_quotient", e->args};
    case Intrinsic::kSqrt:
      return NarrowSpelling{"near_sqrt", e->args};
    case Intrinsic::kPow:
      return NarrowSpelling{"powf", e->args};
    default:
      return std::nullopt;
  }
}

}  // namespace graft::cuda
