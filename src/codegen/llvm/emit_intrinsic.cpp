// SPDX-License-Identifier: Apache-2.0
// The LLVM spelling of every row of intrinsics.inc that is arithmetic, comparison or logic.
#include "base/error.h"
#include "codegen/llvm/emitter.h"

namespace graft::codegen {

using llvm::Intrinsic::ID;

llvm::Value* Emitter::arithmetic(Intrinsic intrinsic, DType type, const Values& v) {
  const bool real = is_float(type);
  auto unary = [&](ID id) { return builder_.CreateUnaryIntrinsic(id, v[0]); };
  switch (intrinsic) {
    case Intrinsic::kAdd:
      return real ? builder_.CreateFAdd(v[0], v[1]) : builder_.CreateAdd(v[0], v[1]);
    case Intrinsic::kSub:
      return real ? builder_.CreateFSub(v[0], v[1]) : builder_.CreateSub(v[0], v[1]);
    case Intrinsic::kMul:
      return real ? builder_.CreateFMul(v[0], v[1]) : builder_.CreateMul(v[0], v[1]);
    case Intrinsic::kDiv:
    case Intrinsic::kFloorDiv:
    case Intrinsic::kRem:
    case Intrinsic::kMod:
      return real ? float_divide(intrinsic, v[0], v[1]) : integer_divide(intrinsic, type, v[0], v[1]);
    case Intrinsic::kMin:
      return minmax(true, type, v[0], v[1]);
    case Intrinsic::kMax:
      return minmax(false, type, v[0], v[1]);
    case Intrinsic::kFma:
      if (!real) return builder_.CreateAdd(builder_.CreateMul(v[0], v[1]), v[2]);
      return builder_.CreateIntrinsic(v[0]->getType(), llvm::Intrinsic::fma, {v[0], v[1], v[2]});
    case Intrinsic::kNeg:
      return real ? builder_.CreateFNeg(v[0]) : builder_.CreateNeg(v[0]);
    case Intrinsic::kAbs:
      if (real) return unary(llvm::Intrinsic::fabs);
      if (is_unsigned(type)) return v[0];
      return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, v[0], builder_.getFalse());
    case Intrinsic::kFloor:
      return real ? unary(llvm::Intrinsic::floor) : v[0];
    case Intrinsic::kCeil:
      return real ? unary(llvm::Intrinsic::ceil) : v[0];
    case Intrinsic::kTrunc:
      return real ? unary(llvm::Intrinsic::trunc) : v[0];
    case Intrinsic::kRound:
      return real ? unary(llvm::Intrinsic::roundeven) : v[0];
    case Intrinsic::kIsNan:
      return real ? builder_.CreateFCmpUNO(v[0], v[0])
                  : llvm::Constant::getNullValue(widened(builder_.getInt1Ty(), v[0]));
    case Intrinsic::kIsInf:
      if (!real) return llvm::Constant::getNullValue(widened(builder_.getInt1Ty(), v[0]));
      return builder_.CreateFCmpOEQ(unary(llvm::Intrinsic::fabs), llvm::ConstantFP::getInfinity(v[0]->getType()));
    case Intrinsic::kEq:
    case Intrinsic::kNe:
    case Intrinsic::kLt:
    case Intrinsic::kLe:
    case Intrinsic::kGt:
    case Intrinsic::kGe:
      return compare(intrinsic, type, v[0], v[1]);
    case Intrinsic::kAnd:
      return builder_.CreateAnd(v[0], v[1]);
    case Intrinsic::kOr:
      return builder_.CreateOr(v[0], v[1]);
    case Intrinsic::kXor:
      return builder_.CreateXor(v[0], v[1]);
    case Intrinsic::kNot:
      return builder_.CreateNot(v[0]);
    case Intrinsic::kShl:
      return shift(true, type, v[0], v[1]);
    case Intrinsic::kShr:
      return shift(false, type, v[0], v[1]);
    case Intrinsic::kPow:
      if (!real) return integer_power(type, v[0], v[1]);
      [[fallthrough]];
    default:
      return math(intrinsic, type, v);
  }
}

llvm::Value* Emitter::compare(Intrinsic intrinsic, DType type, Value* a, Value* b) {
  using P = llvm::CmpInst;
  const bool without_sign = is_unsigned(type) || type == DType::kBool;
  auto pick = [&](P::Predicate real, P::Predicate with_sign, P::Predicate plain) {
    if (is_float(type)) return builder_.CreateFCmp(real, a, b);
    return builder_.CreateICmp(without_sign ? plain : with_sign, a, b);
  };
  switch (intrinsic) {
    case Intrinsic::kEq:
      return pick(P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ);
    case Intrinsic::kNe:
      return pick(P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE);
    case Intrinsic::kLt:
      return pick(P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT);
    case Intrinsic::kLe:
      return pick(P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE);
    case Intrinsic::kGt:
      return pick(P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT);
    default:
      return pick(P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE);
  }
}

/// LLVM's own operations: x86's min and max, and the NaN of an operand on top. Comparisons and choices would be merged
/// by InstCombine into a choice that forgets a fabs: max(|-2|, 0) is 0 then.
llvm::Value* Emitter::minmax(bool minimum, DType type, Value* a, Value* b) {
  if (!is_float(type)) {
    const bool without_sign = is_unsigned(type) || type == DType::kBool;
    const ID id = minimum ? (without_sign ? llvm::Intrinsic::umin : llvm::Intrinsic::smin)
                          : (without_sign ? llvm::Intrinsic::umax : llvm::Intrinsic::smax);
    return builder_.CreateBinaryIntrinsic(id, a, b);
  }
  Value* extreme =
      builder_.CreateBinaryIntrinsic(minimum ? llvm::Intrinsic::minimum : llvm::Intrinsic::maximum, a, b);
  if (auto* call = llvm::dyn_cast<llvm::CallInst>(extreme)) call->setHasNoSignedZeros(true);
  return extreme;
}

/// Quotients and remainders without undefined cases: x / 0 is 0, MIN / -1 is MIN.
llvm::Value* Emitter::integer_divide(Intrinsic intrinsic, DType type, Value* a, Value* b) {
  llvm::Type* t = a->getType();
  Value* zero = llvm::Constant::getNullValue(t);
  Value* one = llvm::ConstantInt::get(t, 1);
  Value* by_zero = builder_.CreateICmpEQ(b, zero);
  const bool remainder = intrinsic == Intrinsic::kRem || intrinsic == Intrinsic::kMod;
  if (is_unsigned(type) || type == DType::kBool) {
    Value* divisor = builder_.CreateSelect(by_zero, one, b);
    Value* result = remainder ? builder_.CreateURem(a, divisor) : builder_.CreateUDiv(a, divisor);
    return builder_.CreateSelect(by_zero, zero, result);
  }
  Value* negative_one = builder_.CreateICmpEQ(b, llvm::Constant::getAllOnesValue(t));
  Value* divisor = builder_.CreateSelect(builder_.CreateOr(by_zero, negative_one), one, b);
  Value* quotient = builder_.CreateSelect(negative_one, builder_.CreateNeg(a), builder_.CreateSDiv(a, divisor));
  Value* rest = builder_.CreateSub(a, builder_.CreateMul(quotient, b));
  if (intrinsic == Intrinsic::kFloorDiv || intrinsic == Intrinsic::kMod) {
    Value* below = builder_.CreateAnd(builder_.CreateICmpNE(rest, zero),
                                      builder_.CreateICmpSLT(builder_.CreateXor(rest, b), zero));
    quotient = builder_.CreateSub(quotient, builder_.CreateZExt(below, t));
    rest = builder_.CreateSelect(below, builder_.CreateAdd(rest, b), rest);
  }
  return builder_.CreateSelect(by_zero, zero, remainder ? rest : quotient);
}

llvm::Value* Emitter::float_divide(Intrinsic intrinsic, Value* a, Value* b) {
  if (intrinsic == Intrinsic::kDiv) return builder_.CreateFDiv(a, b);
  if (intrinsic == Intrinsic::kFloorDiv) {
    return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, builder_.CreateFDiv(a, b));
  }
  Value* rest = builder_.CreateFRem(a, b);
  if (intrinsic == Intrinsic::kRem) return rest;
  Value* zero = llvm::Constant::getNullValue(a->getType());
  Value* differs = builder_.CreateXor(builder_.CreateFCmpOLT(rest, zero), builder_.CreateFCmpOLT(b, zero));
  Value* wrong = builder_.CreateAnd(differs, builder_.CreateFCmpONE(rest, zero));
  return builder_.CreateSelect(wrong, builder_.CreateFAdd(rest, b), rest);
}

llvm::Value* Emitter::shift(bool left, DType type, Value* a, Value* b) {
  llvm::Type* t = a->getType();
  Value* last = llvm::ConstantInt::get(t, static_cast<uint64_t>(bit_width(type) - 1));
  Value* inside = builder_.CreateICmpULE(b, last);
  Value* zero = llvm::Constant::getNullValue(t);
  if (left) return builder_.CreateSelect(inside, builder_.CreateShl(a, builder_.CreateSelect(inside, b, zero)), zero);
  if (!is_unsigned(type)) return builder_.CreateAShr(a, builder_.CreateSelect(inside, b, last));
  return builder_.CreateSelect(inside, builder_.CreateLShr(a, builder_.CreateSelect(inside, b, zero)), zero);
}

/// Square and multiply over all bits of the exponent; a negative exponent gives 0 but for the bases 1 and -1.
llvm::Value* Emitter::integer_power(DType type, Value* base, Value* exponent) {
  llvm::Type* t = base->getType();
  Value* zero = llvm::Constant::getNullValue(t);
  Value* one = llvm::ConstantInt::get(t, 1);
  Value* result = one;
  Value* square = base;
  Value* rest = exponent;
  for (int bit = 0; bit < bit_width(type); ++bit) {
    Value* set = builder_.CreateICmpNE(builder_.CreateAnd(rest, one), zero);
    result = builder_.CreateSelect(set, builder_.CreateMul(result, square), result);
    square = builder_.CreateMul(square, square);
    rest = builder_.CreateLShr(rest, one);
  }
  if (is_unsigned(type)) return result;
  Value* minus_one = llvm::Constant::getAllOnesValue(t);
  Value* odd = builder_.CreateICmpNE(builder_.CreateAnd(exponent, one), zero);
  Value* inverse = builder_.CreateSelect(
      builder_.CreateICmpEQ(base, one), one,
      builder_.CreateSelect(builder_.CreateICmpEQ(base, minus_one), builder_.CreateSelect(odd, minus_one, one), zero));
  return builder_.CreateSelect(builder_.CreateICmpSLT(exponent, zero), inverse, result);
}

}  // namespace graft::codegen
