// SPDX-License-Identifier: Apache-2.0
// Spellings for kernels all of whose results are rounded to floats of 16 bits. Each is within 2^-17 of the value
// that it stands for, the rounding of an f16 being 2^-12; the full accuracy of f32 would cost several times as many
// instructions, which is more than fit between the loads and stores of so few bytes.
#include <optional>
#include <variant>
#include <vector>

#include "codegen/cuda/expression.h"

namespace graft::cuda {
namespace {

bool is_one(const Expr& e) { return e->kind == ExprKind::kConstant && e->type == DType::kFloat32 && e->real == 1; }

/// x where `e` is 1 + erf(x), or null.
Expr argument_of_raised_erf(const Expr& e) {
  if (!is_call(e, Intrinsic::kAdd)) return {};
  for (const int one : {0, 1}) {
    const Expr& other = e->args[1 - one];
    if (is_one(e->args[one]) && is_call(other, Intrinsic::kErf)) return other->args[0];
  }
  return {};
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
  explicit Jumps(const tile::Program& program) : program_(program) { visit(program.body); }
  bool found() const { return found_; }

 private:
  /// Whether `e` is, or is made of, what a narrow spelling may have changed.
  bool is_near(const Expr& e) const {
    bool near = false;
    for_each(e, [&](const Expr& node) {
      if (!is_float(node->type)) return;
      near |= narrow_spelling(node).has_value() || node->kind == ExprKind::kVariable;
      if (node->kind != ExprKind::kLoad) return;
      const tile::Buffer& buffer = program_.buffers[node->tensor];
      near |= buffer.scope != tile::Scope::kGlobal || buffer.written;
    });
    return near;
  }
  void visit(const Expr& e) {
    if (!e) return;
    for_each(e, [&](const Expr& node) {
      if (found_ || !jumps(node)) return;
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
  bool found_ = false;
};

}  // namespace

bool has_narrow_results(const tile::Program& program) {
  bool stores = false;
  for (const tile::Buffer& buffer : program.buffers) {
    if (buffer.scope != tile::Scope::kGlobal || !buffer.written) continue;
    if (buffer.type != DType::kFloat16 && buffer.type != DType::kBFloat16) return false;
    stores = true;
  }
  return stores && !Jumps(program).found();
}

std::optional<NarrowSpelling> narrow_spelling(const Expr& e) {
  if (e->kind != ExprKind::kCall || e->type != DType::kFloat32) return std::nullopt;
  // The sum is computed as a whole: left of zero nothing is lost by its terms' being nearly opposite.
  if (const Expr x = argument_of_raised_erf(e)) return NarrowSpelling{"raised_erf", {x}};
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
