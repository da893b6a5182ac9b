// SPDX-License-Identifier: Apache-2.0
#include "expr/expr.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <unordered_map>

#include "base/convert.h"
#include "base/derived_sizes.h"
#include "base/error.h"
#include "expr/fold.h"

namespace graft {
namespace {

constexpr IntrinsicInfo kInfos[] = {
#define GRAFT_INTRINSIC(enumerator, name, arity, result, meaning) \
  {name, arity, IntrinsicResult::result, meaning},
#include "expr/intrinsics.inc"
#undef GRAFT_INTRINSIC
};

Expr make_node(ExprNode node) { return Expr(std::make_shared<const ExprNode>(std::move(node))); }

/// Wraps an integer to the width of `type`, as stores and casts do.
int64_t wrap(DType type, int64_t value) {
  const int bits = bit_width(type);
  if (type == DType::kBool) return value != 0;
  if (bits >= 64) return value;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const uint64_t low = static_cast<uint64_t>(value) & mask;
  const bool negative = !is_unsigned(type) && (low >> (bits - 1)) != 0;
  return static_cast<int64_t>(negative ? low | ~mask : low);
}

/// The type an operand takes part in arithmetic with.
Expr promoted(const Expr& e) { return make_cast(compute_type(e->type), e); }

DType result_type(const IntrinsicInfo& row, const std::vector<Expr>& args) {
  switch (row.result) {
    case IntrinsicResult::kBool: return DType::kBool;
    case IntrinsicResult::kSecond: return args[1]->type;
    default: return args[0]->type;
  }
}

}  // namespace

const IntrinsicInfo& info(Intrinsic intrinsic) { return kInfos[static_cast<int>(intrinsic)]; }

std::optional<Intrinsic> parse_intrinsic(std::string_view name) {
  for (size_t i = 0; i < std::size(kInfos); ++i) {
    if (kInfos[i].name == name) return static_cast<Intrinsic>(i);
  }
  return std::nullopt;
}

Expr make_variable(DType type) {
  static std::atomic<int> next{0};
  ExprNode node{.kind = ExprKind::kVariable, .type = type};
  node.variable = next++;
  return make_node(std::move(node));
}

Expr make_constant(DType type, double value) {
  if (!is_float(type)) {
    // Attributes of a model may be NaN, infinite or beyond all integers.
    return make_integer(type, std::fabs(value) < 0x1p63 ? static_cast<int64_t>(value) : double_to_integer(type, value));
  }
  ExprNode node{.kind = ExprKind::kConstant, .type = type};
  node.real = type == DType::kFloat32 ? static_cast<double>(static_cast<float>(value)) : value;
  return make_node(std::move(node));
}

Expr make_integer(DType type, int64_t value) {
  if (is_float(type)) return make_constant(type, static_cast<double>(value));
  ExprNode node{.kind = ExprKind::kConstant, .type = type};
  node.integer = wrap(type, value);
  return make_node(std::move(node));
}

Expr make_size(const Size& size) {
  if (const auto value = size.as_constant()) return make_index(*value);
  ExprNode node{.kind = ExprKind::kSize, .type = DType::kInt64};
  node.size = size;
  return make_node(std::move(node));
}

Expr make_load(int tensor, DType type, std::vector<Expr> indices) {
  ExprNode node{.kind = ExprKind::kLoad, .type = type};
  node.tensor = tensor;
  node.args = std::move(indices);
  return make_node(std::move(node));
}

Expr make_call(Intrinsic intrinsic, std::vector<Expr> args) {
  const IntrinsicInfo& row = info(intrinsic);
  GRAFT_CHECK(static_cast<int>(args.size()) == row.arity,
              "wrong number of arguments for " + std::string(row.name));
  const bool selects = intrinsic == Intrinsic::kSelect;
  if (!selects) {
    for (Expr& arg : args) arg = promoted(arg);
  }
  for (size_t i = selects ? 2 : 1; i < args.size(); ++i) {
    GRAFT_CHECK(args[i]->type == args[i - 1]->type,
                "operand types of " + std::string(row.name) + " differ: " +
                    std::string(name_of(args[i - 1]->type)) + ", " + std::string(name_of(args[i]->type)));
  }
  if (Expr folded = fold_call(intrinsic, args)) return folded;
  ExprNode node{.kind = ExprKind::kCall, .type = result_type(row, args)};
  node.intrinsic = intrinsic;
  node.args = std::move(args);
  return make_node(std::move(node));
}

Expr make_cast(DType type, const Expr& value) {
  if (value->type == type) return value;
  if (value->kind == ExprKind::kConstant) {
    if (Expr folded = fold_cast(type, *value)) return folded;
  }
  ExprNode node{.kind = ExprKind::kCall, .type = type};
  node.intrinsic = Intrinsic::kCast;
  node.args = {value};
  return make_node(std::move(node));
}

Expr make_bitcast(DType type, const Expr& value) {
  if (value->type == type) return value;
  GRAFT_CHECK(bit_width(type) == bit_width(value->type), "bitcast changes the width");
  // A bool is 0 or 1 wherever it is computed with, whatever a device keeps it in.
  if (value->type == DType::kBool) return make_bitcast(type, make_cast(DType::kUint8, value));
  if (type == DType::kBool) {
    return make_call(Intrinsic::kNe, {make_bitcast(DType::kUint8, value), make_integer(DType::kUint8, 0)});
  }
  ExprNode node{.kind = ExprKind::kCall, .type = type};
  node.intrinsic = Intrinsic::kBitcast;
  node.args = {value};
  return make_node(std::move(node));
}

Expr select(const Expr& condition, const Expr& when_true, const Expr& when_false) {
  return make_call(Intrinsic::kSelect, {condition, when_true, when_false});
}

std::optional<int64_t> as_integer(const Expr& e) {
  if (!e || e->kind != ExprKind::kConstant || is_float(e->type)) return std::nullopt;
  return e->integer;
}

namespace {

/// Pairs found equal already, so that shared nodes are compared once.
using Proved = std::unordered_map<const ExprNode*, const ExprNode*>;

bool equal_below(const Expr& a, const Expr& b, Proved& proved) {
  if (a.get() == b.get()) return true;
  if (const auto it = proved.find(a.get()); it != proved.end() && it->second == b.get()) return true;
  if (!a || !b || a->kind != b->kind || a->type != b->type || a->args.size() != b->args.size()) return false;
  switch (a->kind) {
    case ExprKind::kConstant:
      if (a->integer != b->integer) return false;
      if (a->real != b->real && !(std::isnan(a->real) && std::isnan(b->real))) return false;
      if (std::signbit(a->real) != std::signbit(b->real)) return false;
      break;
    case ExprKind::kVariable: return a->variable == b->variable;
    case ExprKind::kSize: return a->size == b->size;
    case ExprKind::kLoad:
      if (a->tensor != b->tensor) return false;
      break;
    case ExprKind::kCall:
      if (a->intrinsic != b->intrinsic) return false;
      break;
  }
  for (size_t i = 0; i < a->args.size(); ++i) {
    if (!equal_below(a->args[i], b->args[i], proved)) return false;
  }
  if (!a->args.empty()) proved[a.get()] = b.get();
  return true;
}

}  // namespace

bool equal(const Expr& a, const Expr& b) {
  Proved proved;
  return equal_below(a, b, proved);
}

namespace {

/// Nodes that were seen, in one table: expressions are walked so often that a set's node for each of theirs is felt.
class SeenNodes {
 public:
  /// Whether it is new.
  bool insert(const ExprNode* node) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    const ExprNode*& place = place_of(node);
    if (place == node) return false;
    place = node;
    ++count_;
    return true;
  }

 private:
  static constexpr size_t kFirst = 64;  // a power of two, as all sizes of the table

  const ExprNode*& place_of(const ExprNode* node) {
    const auto bits = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(node)) * 0x9e3779b97f4a7c15u;
    size_t at = static_cast<size_t>(bits >> 32) & (slots_.size() - 1);
    while (slots_[at] && slots_[at] != node) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void grow() {
    const std::vector<const ExprNode*> before = std::move(slots_);
    slots_.assign(std::max(kFirst, 2 * before.size()), nullptr);
    for (const ExprNode* node : before) {
      if (node) place_of(node) = node;
    }
  }

  std::vector<const ExprNode*> slots_;
  size_t count_ = 0;
};

void visit_once(const Expr& e, const std::function<void(const Expr&)>& visit, SeenNodes& seen) {
  if (!e || !seen.insert(e.get())) return;
  for (const Expr& arg : e->args) visit_once(arg, visit, seen);
  visit(e);
}

Expr rebuild(const Expr& e, std::vector<Expr> args) {
  if (e->kind == ExprKind::kLoad) return make_load(e->tensor, e->type, std::move(args));
  if (e->intrinsic == Intrinsic::kCast) return make_cast(e->type, args[0]);
  if (e->intrinsic == Intrinsic::kBitcast) return make_bitcast(e->type, args[0]);
  return make_call(e->intrinsic, std::move(args));
}

/// Whether folding made `result` of a call with these arguments: one of them, or a constant or size.
bool is_folded(const Expr& result, const std::vector<Expr>& args) {
  return result->args.empty() ||
         std::any_of(args.begin(), args.end(), [&](const Expr& arg) { return arg.get() == result.get(); });
}

Expr transform_once(const Expr& e, const std::function<Expr(const Expr&)>& rewrite,
                    std::unordered_map<const ExprNode*, Expr>& done) {
  if (!e) return e;
  if (const auto it = done.find(e.get()); it != done.end()) return it->second;
  std::vector<Expr> args;
  bool changed = false;
  args.reserve(e->args.size());
  for (const Expr& arg : e->args) {
    args.push_back(transform_once(arg, rewrite, done));
    changed |= args.back().get() != arg.get();
  }
  Expr result = changed ? rebuild(e, args) : e;
  // What folding left has been rewritten as an argument: a second time would renumber or substitute twice.
  if (!changed || !is_folded(result, args)) {
    if (Expr replaced = rewrite(result)) result = replaced;
  }
  done.emplace(e.get(), result);
  return result;
}

}  // namespace

void for_each(const Expr& e, const std::function<void(const Expr&)>& visit) {
  SeenNodes seen;
  visit_once(e, visit, seen);
}

Expr transform(const Expr& e, const std::function<Expr(const Expr&)>& rewrite) {
  std::unordered_map<const ExprNode*, Expr> done;
  return transform_once(e, rewrite, done);
}

Expr substitute(const Expr& e, const std::vector<std::pair<int, Expr>>& replacements) {
  if (replacements.empty()) return e;
  return transform(e, [&](const Expr& node) -> Expr {
    if (node->kind != ExprKind::kVariable) return {};
    for (const auto& [variable, replacement] : replacements) {
      if (variable == node->variable) return replacement;
    }
    return {};
  });
}

Expr substitute_sizes(const Expr& e, const std::map<std::string, Size, std::less<>>& replacements) {
  if (replacements.empty()) return e;
  return transform(e, [&](const Expr& node) -> Expr {
    return node->kind == ExprKind::kSize ? make_size(node->size.substitute(replacements)) : Expr();
  });
}

bool uses_variable(const Expr& e, int variable) {
  bool found = false;
  for_each(e, [&](const Expr& node) {
    found |= node->kind == ExprKind::kVariable && node->variable == variable;
  });
  return found;
}

int count_nodes(const Expr& e) {
  int count = 0;
  for_each(e, [&](const Expr&) { ++count; });
  return count;
}

namespace {

Affine scaled(Affine a, const Size& factor) {
  for (auto& [variable, coefficient] : a.coefficients) coefficient = coefficient * factor;
  std::erase_if(a.coefficients, [](const auto& entry) { return entry.second.is(0); });
  a.offset = a.offset * factor;
  return a;
}

Affine sum(Affine a, const Affine& b) {
  for (const auto& [variable, coefficient] : b.coefficients) {
    Size& total = a.coefficients.try_emplace(variable, 0).first->second;
    total = total + coefficient;
  }
  std::erase_if(a.coefficients, [](const auto& entry) { return entry.second.is(0); });
  a.offset = a.offset + b.offset;
  return a;
}

/// Forms of shared nodes, each found once; a node without one ends the search.
using KnownForms = std::unordered_map<const ExprNode*, Affine>;
std::optional<Affine> affine_below(const Expr& e, KnownForms& known);

std::optional<Affine> affine_call(const ExprNode& node, KnownForms& known) {
  std::vector<Affine> args;
  for (const Expr& arg : node.args) {
    auto a = affine_below(arg, known);
    if (!a) return std::nullopt;
    args.push_back(std::move(*a));
  }
  auto constant = [](const Affine& a) { return a.coefficients.empty(); };
  switch (node.intrinsic) {
    case Intrinsic::kAdd: return sum(args[0], args[1]);
    case Intrinsic::kSub: return sum(args[0], scaled(args[1], -1));
    case Intrinsic::kNeg: return scaled(args[0], -1);
    case Intrinsic::kMul:
      if (constant(args[0])) return scaled(args[1], args[0].offset);
      if (constant(args[1])) return scaled(args[0], args[1].offset);
      return std::nullopt;
    case Intrinsic::kFloorDiv:
    case Intrinsic::kMod:
    case Intrinsic::kMin:
    case Intrinsic::kMax: {
      if (!constant(args[0]) || !constant(args[1]) || args[1].offset.is(0)) return std::nullopt;
      const Size &a = args[0].offset, &b = args[1].offset;
      const bool divides = node.intrinsic == Intrinsic::kFloorDiv || node.intrinsic == Intrinsic::kMod;
      if (divides && !b.is_constant()) return std::nullopt;  // a zero divisor means 0 for Expr only
      if (node.intrinsic == Intrinsic::kFloorDiv) return Affine{{}, floor_div(a, b)};
      if (node.intrinsic == Intrinsic::kMod) return Affine{{}, mod(a, b)};
      return Affine{{}, node.intrinsic == Intrinsic::kMin ? min(a, b) : max(a, b)};
    }
    default: return std::nullopt;
  }
}

std::optional<Affine> affine_below(const Expr& e, KnownForms& known) {
  if (!e || e->type != DType::kInt64) return std::nullopt;
  switch (e->kind) {
    case ExprKind::kConstant: return Affine{{}, e->integer};
    case ExprKind::kSize: return Affine{{}, e->size};
    case ExprKind::kVariable: return Affine{{{e->variable, Size(1)}}, 0};
    case ExprKind::kLoad: return std::nullopt;
    case ExprKind::kCall: break;
  }
  if (const auto it = known.find(e.get()); it != known.end()) return it->second;
  auto form = affine_call(*e, known);
  if (form && is_longer(form->offset, kShortInIndices)) form.reset();
  if (form) known.emplace(e.get(), *form);
  return form;
}

}  // namespace

std::optional<Affine> affine(const Expr& e) {
  KnownForms known;
  return affine_below(e, known);
}

}  // namespace graft
