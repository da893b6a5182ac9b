// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/operand_address.h"

#include <algorithm>
#include <numeric>

namespace graft::cuda {
namespace {

constexpr int64_t kUnbounded = int64_t{1} << 62;

bool uses_any(const Expr& e, const std::vector<int>& variables) {
  return std::any_of(variables.begin(), variables.end(), [&](int each) { return uses_variable(e, each); });
}

Expr named(const Expr& value, Hoisted& hoisted) {
  for (const auto& [variable, known] : hoisted.named) {
    if (equal(known, value)) return variable;
  }
  hoisted.named.emplace_back(make_variable(value->type), value);
  return hoisted.named.back().first;
}

}  // namespace

std::optional<GuardedLoad> guarded_load(const Expr& operand) {
  if (operand->kind == ExprKind::kLoad) return GuardedLoad{operand, {}};
  if (!is_call(operand, Intrinsic::kSelect) || operand->args[1]->kind != ExprKind::kLoad) return std::nullopt;
  const Expr& otherwise = operand->args[2];
  if (otherwise->kind != ExprKind::kConstant || otherwise->real != 0 || otherwise->integer != 0) return std::nullopt;
  return GuardedLoad{operand->args[1], operand->args[0]};
}

int64_t divisor_of(const Size& size, int64_t most) {
  while (most > 1 && !size.is_multiple_of(most)) most /= 2;
  return most;
}

int64_t divisor_of(const Expr& value, int variable, int64_t most) {
  if (value->kind == ExprKind::kVariable) return value->variable == variable ? most : 1;
  if (value->kind == ExprKind::kConstant) return divisor_of(Size(value->integer), most);
  if (value->kind == ExprKind::kSize) return divisor_of(value->size, most);
  if (value->kind != ExprKind::kCall || value->args.size() != 2) return 1;
  const auto argument = [&](size_t i) { return divisor_of(value->args[i], variable, most); };
  switch (value->intrinsic) {
    case Intrinsic::kAdd:
    case Intrinsic::kSub:
    case Intrinsic::kMod:
    case Intrinsic::kMin:
    case Intrinsic::kMax:
      return std::min(argument(0), argument(1));
    case Intrinsic::kMul:
      return std::min(most, argument(0) * argument(1));
    default:
      return 1;
  }
}

std::optional<Size> step_in_run(const Expr& index, int variable, int run) {
  if (!uses_variable(index, variable)) return Size(0);
  if (index->kind == ExprKind::kVariable) return Size(1);
  if (index->kind != ExprKind::kCall || index->args.size() != 2) return std::nullopt;
  const Expr &left = index->args[0], &right = index->args[1];
  const auto a = step_in_run(left, variable, run), b = step_in_run(right, variable, run);
  if (!a || !b) return std::nullopt;
  const auto constant = [](const Expr& e) -> std::optional<Size> {
    const auto value = affine(e);
    return value && value->coefficients.empty() ? std::optional(value->offset) : std::nullopt;
  };
  switch (index->intrinsic) {
    case Intrinsic::kAdd:
      return *a + *b;
    case Intrinsic::kSub:
      return *a - *b;
    case Intrinsic::kMul:
      if (const auto scale = constant(right)) return *a * *scale;
      if (const auto scale = constant(left)) return *b * *scale;
      return std::nullopt;
    case Intrinsic::kFloorDiv:
    case Intrinsic::kMod: {
      const auto divisor = as_integer(right);
      const bool whole =
          divisor && *divisor > 0 && *divisor % run == 0 && a->is(1) && divisor_of(left, variable, run) == run;
      if (!whole) return std::nullopt;
      return index->intrinsic == Intrinsic::kMod ? Size(1) : Size(0);
    }
    default:
      return std::nullopt;
  }
}

int64_t magnitude_of(const Expr& value, const std::unordered_map<int, int64_t>& bounds) {
  if (value->kind == ExprKind::kConstant) return std::abs(value->integer) + 1;
  if (value->kind == ExprKind::kVariable) {
    const auto bound = bounds.find(value->variable);
    return bound == bounds.end() || bound->second <= 0 ? kUnbounded : bound->second;
  }
  if (value->kind != ExprKind::kCall || value->args.size() != 2) return kUnbounded;
  const int64_t a = magnitude_of(value->args[0], bounds), b = magnitude_of(value->args[1], bounds);
  switch (value->intrinsic) {
    case Intrinsic::kAdd:
    case Intrinsic::kSub:
      return std::min(kUnbounded, a + b);
    case Intrinsic::kMul:
      return a >= int64_t{1} << 31 || b >= int64_t{1} << 31 ? kUnbounded : a * b;
    case Intrinsic::kMod:
      return b;
    case Intrinsic::kFloorDiv:
      return a;
    default:
      return kUnbounded;
  }
}

bool name_atoms(Expr& index, const std::vector<int>& loops, Hoisted& hoisted) {
  if (affine(index)) return true;
  const bool is_sum = is_call(index, Intrinsic::kAdd) || is_call(index, Intrinsic::kSub);
  if (is_sum || is_call(index, Intrinsic::kMul)) {
    std::vector<Expr> args = index->args;
    Hoisted tried = hoisted;
    bool separable = true;
    for (Expr& arg : args) separable = separable && name_atoms(arg, loops, tried);
    const Expr rebuilt = make_call(index->intrinsic, args);
    if (separable && affine(rebuilt)) {
      hoisted = std::move(tried), index = rebuilt;
      return true;
    }
  }
  if (uses_any(index, loops)) return false;
  index = named(index, hoisted);
  return true;
}

Expr name_invariants(const Expr& e, const std::vector<int>& loops, Hoisted& hoisted) {
  if (e->kind == ExprKind::kConstant || e->kind == ExprKind::kSize) return e;
  if (!uses_any(e, loops)) return named(e, hoisted);
  if (e->kind != ExprKind::kCall) return e;
  std::vector<Expr> args;
  for (const Expr& arg : e->args) args.push_back(name_invariants(arg, loops, hoisted));
  return make_call(e->intrinsic, std::move(args));
}

namespace {

std::string_view operator_of(Intrinsic intrinsic) {
  switch (intrinsic) {
    case Intrinsic::kAdd:
      return "+";
    case Intrinsic::kSub:
      return "-";
    case Intrinsic::kMul:
      return "*";
    case Intrinsic::kAnd:
      return "&";
    case Intrinsic::kOr:
      return "|";
    case Intrinsic::kEq:
      return "==";
    case Intrinsic::kNe:
      return "!=";
    case Intrinsic::kLt:
      return "<";
    case Intrinsic::kLe:
      return "<=";
    case Intrinsic::kGt:
      return ">";
    case Intrinsic::kGe:
      return ">=";
    default:
      return "";
  }
}

}  // namespace

bool is_plain(const Expr& e) {
  if (e->type != DType::kInt64 && e->type != DType::kBool) return false;
  if (e->kind != ExprKind::kCall) return e->kind != ExprKind::kLoad;
  return !operator_of(e->intrinsic).empty() && is_plain(e->args[0]) && is_plain(e->args[1]);
}

std::string plain_text(const Expr& e, const KernelNames& names, bool narrow) {
  const std::string_view type = e->type == DType::kBool ? "bool" : narrow ? "int" : "i64";
  if (e->kind == ExprKind::kVariable) return fmt::format("({}){}", type, names.variables.at(e->variable));
  if (e->kind == ExprKind::kConstant) return fmt::format("({}){}", type, e->integer);
  if (e->kind == ExprKind::kSize) return fmt::format("({}){}", type, names.size(e->size));
  return fmt::format("({} {} {})", plain_text(e->args[0], names, narrow), operator_of(e->intrinsic),
                     plain_text(e->args[1], names, narrow));
}

}  // namespace graft::cuda
