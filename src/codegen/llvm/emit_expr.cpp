// SPDX-License-Identifier: Apache-2.0
// Expressions to values: each node once, at the outermost level where everything it uses is known.
#include <algorithm>

#include "base/error.h"
#include "codegen/llvm/emitter.h"
#include "expr/composites.h"

#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

namespace graft::codegen {

const Emitter::NodeFacts& Emitter::facts(const ExprNode& node) {
  const auto found = facts_.find(&node);
  if (found != facts_.end()) return found->second;
  NodeFacts result;
  if (node.kind == ExprKind::kVariable) result.variables.push_back(node.variable);
  result.loads = node.kind == ExprKind::kLoad || is_check(node);
  for (const Expr& arg : node.args) {
    const NodeFacts& below = facts(*arg);
    result.loads |= below.loads;
    result.variables.insert(result.variables.end(), below.variables.begin(), below.variables.end());
  }
  std::sort(result.variables.begin(), result.variables.end());
  result.variables.erase(std::unique(result.variables.begin(), result.variables.end()), result.variables.end());
  return facts_.emplace(&node, std::move(result)).first->second;
}

int Emitter::required_level(const ExprNode& node, int load_floor) {
  const NodeFacts& known = facts(node);
  int level = known.loads ? load_floor : 0;
  for (const int variable : known.variables) {
    const auto it = bindings_.find(variable);
    GRAFT_CHECK(it != bindings_.end(), "a variable is used outside its loop in " + program_.name);
    level = std::max(level, it->second.level);
  }
  return level;
}

/// Whether the value differs between lanes.
bool Emitter::varies(const Expr& e) {
  for (const int variable : facts(*e).variables) {
    const auto it = bindings_.find(variable);
    if (it != bindings_.end() && it->second.value->getType()->isVectorTy()) return true;
  }
  return false;
}

llvm::Value* Emitter::emit(const Expr& e) {
  GRAFT_CHECK(e.get(), "a missing expression in " + program_.name);
  if (e->kind == ExprKind::kConstant) return emit_constant(*e);
  if (e->kind == ExprKind::kVariable) {
    required_level(*e, load_floor_);
    return bindings_.at(e->variable).value;
  }
  const auto required = static_cast<size_t>(required_level(*e, load_floor_));
  // A branch of a select writes nothing: what was read around it is still so.
  const auto known = floor_around_ < 0 ? required : static_cast<size_t>(required_level(*e, floor_around_));
  for (size_t n = levels_.size(); n-- > known;) {
    const auto it = levels_[n].values.find(e.get());
    if (it != levels_[n].values.end()) return it->second;
  }
  size_t level = required;
  while (!levels_[level].open) ++level;
  return emit_at(level, e);
}

/// Emits the expression at a level and keeps its value there.
llvm::Value* Emitter::emit_at(size_t level, const Expr& e) {
  Value* value = nullptr;
  at_level(level, [&] {
    value = emit_node(*e);
    top().values.emplace(e.get(), value);
  });
  return value;
}

/// Runs `body` with `level` as the top of the stack; the levels above wait aside.
void Emitter::at_level(size_t level, const std::function<void()>& body) {
  std::vector<Level> above(std::make_move_iterator(levels_.begin() + static_cast<ptrdiff_t>(level) + 1),
                           std::make_move_iterator(levels_.end()));
  levels_.resize(level + 1);
  Value* const mask = mask_;
  const bool lazy = lazy_;
  if (static_cast<size_t>(mask_level_) > level) {
    mask_ = nullptr;
    lazy_ = false;
  }
  at_top();
  body();
  mask_ = mask;
  lazy_ = lazy;
  std::move(above.begin(), above.end(), std::back_inserter(levels_));
  at_top();
}

llvm::Value* Emitter::emit_node(const ExprNode& node) {
  switch (node.kind) {
    case ExprKind::kSize:
      return emit_size(node.size);
    case ExprKind::kLoad:
      return load_memory(node.tensor, analyze(node.tensor, node.args));
    case ExprKind::kCall:
      return emit_call(node);
    default:
      GRAFT_CHECK(false, "constants and variables are not computed");
  }
}

llvm::Value* Emitter::emit_constant(const ExprNode& node) {
  if (node.type == DType::kFloat16 || node.type == DType::kBFloat16) {
    Value* wide = llvm::ConstantFP::get(builder_.getFloatTy(), node.real);
    return cast(DType::kFloat32, node.type, wide);
  }
  llvm::Type* type = register_type(node.type);
  if (is_float(node.type)) return llvm::ConstantFP::get(type, node.real);
  return llvm::ConstantInt::get(type, static_cast<uint64_t>(node.integer));
}

llvm::Value* Emitter::splat(Value* scalar, int lanes) {
  if (scalar->getType()->isVectorTy() || lanes == 1) return scalar;
  return builder_.CreateVectorSplat(static_cast<unsigned>(lanes), scalar);
}

/// Widens the scalars among `values` when one of them is a vector.
void Emitter::unify(Values& values) {
  unsigned lanes = 1;
  for (const Value* v : values) {
    if (const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v->getType())) lanes = type->getNumElements();
  }
  for (Value*& v : values) v = splat(v, static_cast<int>(lanes));
}

llvm::Value* Emitter::emit_call(const ExprNode& node) {
  if (node.intrinsic == Intrinsic::kSelect) return emit_select(node);
  if (node.intrinsic == Intrinsic::kCheckIndex) return emit_check_index(node);
  if (node.intrinsic == Intrinsic::kCheckDivisor) return emit_check_divisor(node);
  if (const Expr x = argument_of_raised_erf(node); x && x->type == DType::kFloat32) {
    Value* argument = emit(x);
    at_top();
    return raised_erf_f32(argument);
  }
  Values values;
  for (const Expr& arg : node.args) values.push_back(emit(arg));
  at_top();
  unify(values);
  const DType from = node.args[0]->type;
  if (node.intrinsic == Intrinsic::kCast) return cast(from, node.type, values[0]);
  if (node.intrinsic == Intrinsic::kBitcast) {
    return builder_.CreateBitCast(values[0], widened(register_type(node.type), values[0]));
  }
  return arithmetic(node.intrinsic, from, values);
}

/// Lazy only where a branch reads memory; arithmetic is cheaper than a branch.
llvm::Value* Emitter::emit_select(const ExprNode& node) {
  Value* condition = emit(node.args[0]);
  at_top();
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(condition)) return emit(node.args[constant->isZero() ? 2 : 1]);
  Values values{nullptr, nullptr};
  for (size_t n = 0; n < 2; ++n) {
    const Expr& branch = node.args[n + 1];
    if (!facts(*branch).loads) {
      values[n] = emit(branch);
      continue;
    }
    at_top();
    values[n] = emit_lazily(branch, n == 0 ? condition : builder_.CreateNot(condition));
  }
  at_top();
  Values all{condition, values[0], values[1]};
  if (!condition->getType()->isVectorTy()) {
    unify(values);
    return builder_.CreateSelect(condition, values[0], values[1]);
  }
  unify(all);
  return builder_.CreateSelect(all[0], all[1], all[2]);
}

/// Emits `e` with memory touched only where `condition` holds.
llvm::Value* Emitter::emit_lazily(const Expr& e, Value* condition) {
  Value* const mask = mask_;
  const int mask_level = mask_level_, floor = load_floor_;
  const int around = floor_around_;
  const bool lazy = lazy_;
  if (floor_around_ < 0) floor_around_ = floor;
  push_scope();
  if (mask) {
    Values both{mask, condition};
    unify(both);
    mask_ = builder_.CreateAnd(both[0], both[1]);
  } else {
    mask_ = condition;
  }
  mask_level_ = load_floor_ = top_index();
  lazy_ = true;
  Value* value = emit(e);
  floor_around_ = around;
  mask_ = mask;
  mask_level_ = mask_level;
  load_floor_ = floor;
  lazy_ = lazy;
  pop_scope();
  return value;
}

/// i if 0 <= i < n; otherwise the run fails, and the index is 0.
llvm::Value* Emitter::emit_check_index(const ExprNode& node) {
  Values v{emit(node.args[0]), emit(node.args[1])};
  at_top();
  unify(v);
  Value* good = builder_.CreateICmpULT(v[0], v[1]);
  fail_where(builder_.CreateNot(good), ElementFault::kIndex, v[0]);
  // For lanes that nobody needs.
  return builder_.CreateSelect(good, v[0], llvm::Constant::getNullValue(v[0]->getType()));
}

llvm::Value* Emitter::emit_check_divisor(const ExprNode& node) {
  Value* divisor = emit(node.args[0]);
  at_top();
  fail_where(builder_.CreateIsNull(divisor), ElementFault::kDivisor, divisor);
  return divisor;
}

/// Where a lane that is needed is bad, the status is set in a block off the fast path, with `value` of one that is.
void Emitter::fail_where(Value* bad, ElementFault fault, Value* value) {
  if (mask_) {
    Values both{bad, mask_};
    unify(both);
    bad = builder_.CreateAnd(both[0], both[1]);
  }
  Value* any = lane_count_any(bad);
  auto* weights = llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20);
  llvm::Instruction* cold = llvm::SplitBlockAndInsertIfThen(any, top().at->getIterator(), true, weights);
  builder_.SetInsertPoint(cold);
  Value* wrong = value;
  if (bad->getType()->isVectorTy()) {
    Value* wide = splat(value, lanes_);
    auto* type = llvm::cast<llvm::FixedVectorType>(wide->getType());
    Value* least = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(type->getScalarSizeInBits()));
    wrong = builder_.CreateIntMaxReduce(builder_.CreateSelect(bad, wide, least), true);
  }
  if (!wrong->getType()->isIntegerTy(64)) wrong = builder_.CreateSExt(wrong, builder_.getInt64Ty());
  builder_.CreateStore(wrong, builder_.CreateConstGEP1_64(builder_.getInt64Ty(), status_, 1));
  builder_.CreateStore(index(static_cast<int64_t>(fault)), status_);
  // The run is over: an access that went on with any index would be outside of a tensor without elements.
  builder_.CreateRet(llvm::Constant::getNullValue(function_->getReturnType()));
  cold->eraseFromParent();
  at_top();
}

}  // namespace graft::codegen
