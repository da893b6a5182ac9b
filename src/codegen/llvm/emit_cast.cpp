// SPDX-License-Identifier: Apache-2.0
// Conversions between element types, and between how values are kept in registers and in memory.
// In registers: bool is i1; f16 and bf16 are their 16 bits, so that every conversion is spelled here.
#include <cmath>

#include "base/error.h"
#include "codegen/llvm/emitter.h"

namespace graft::codegen {

llvm::Type* Emitter::register_type(DType type) {
  switch (type) {
    case DType::kFloat32:
      return builder_.getFloatTy();
    case DType::kFloat64:
      return builder_.getDoubleTy();
    case DType::kBool:
      return builder_.getInt1Ty();
    case DType::kFloat16:
    case DType::kBFloat16:
      return builder_.getInt16Ty();
    default:
      break;
  }
  GRAFT_USER_CHECK(is_integer(type) && bit_width(type) >= 8, kUnsupported,
                   "generated CPU kernels have no elements of type " + std::string(name_of(type)), program_.name);
  return builder_.getIntNTy(static_cast<unsigned>(bit_width(type)));
}

llvm::Type* Emitter::memory_type(DType type) {
  return type == DType::kBool ? builder_.getInt8Ty() : register_type(type);
}

/// `scalar`, or a vector of it when `like` is one.
llvm::Type* Emitter::widened(llvm::Type* scalar, Value* like) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like->getType());
  return vector ? llvm::FixedVectorType::get(scalar, vector->getNumElements()) : scalar;
}

llvm::Value* Emitter::to_memory(DType type, Value* v) {
  return type == DType::kBool ? builder_.CreateZExt(v, widened(builder_.getInt8Ty(), v)) : v;
}

llvm::Value* Emitter::from_memory(DType type, Value* v) {
  return type == DType::kBool ? builder_.CreateIsNotNull(v) : v;
}

llvm::Value* Emitter::cast(DType from, DType to, Value* v) {
  if (from == to) return v;
  const bool narrow_source = is_float(from) && bit_width(from) < 32;
  const bool narrow_result = is_float(to) && bit_width(to) < 32;
  if (narrow_source) return cast(DType::kFloat32, to, float_to_f32(from, v));
  if (narrow_result) {
    if (from == DType::kFloat32) return f32_to_float(to, v);
    if (from == DType::kFloat64) return f32_to_float(to, f64_to_f32_odd(v));
    Value* wide = cast(from, DType::kFloat64, v);
    return f32_to_float(to, f64_to_f32_odd(wide));
  }
  llvm::Type* type = widened(register_type(to), v);
  const bool without_sign = is_unsigned(from) || from == DType::kBool;
  if (is_float(from)) {
    if (to == DType::kBool) return builder_.CreateFCmpUNE(v, llvm::Constant::getNullValue(v->getType()));
    if (is_float(to)) return builder_.CreateFPCast(v, type);
    if (bit_width(to) < 32) return float_to_narrow_integer(to, v);
    if (!is_unsigned(to) && v->getType()->isVectorTy()) return float_to_wide_integer(to, v);
    const auto id = is_unsigned(to) ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat;
    return builder_.CreateIntrinsic(id, {type, v->getType()}, {v});
  }
  if (to == DType::kBool) return builder_.CreateIsNotNull(v);
  if (is_float(to)) return without_sign ? builder_.CreateUIToFP(v, type) : builder_.CreateSIToFP(v, type);
  return builder_.CreateIntCast(v, type, !without_sign);
}

/// What fptosi_sat gives for 32 and 64 bits, of which LLVM takes vectors apart: numbers in range are converted, others
/// chosen.
llvm::Value* Emitter::float_to_wide_integer(DType to, Value* v) {
  llvm::Type* type = widened(register_type(to), v);
  const auto width = static_cast<unsigned>(bit_width(to));
  Value* end = llvm::ConstantFP::get(v->getType(), std::ldexp(1.0, static_cast<int>(width) - 1));
  Value* begin = builder_.CreateFNeg(end);
  Value* above = builder_.CreateFCmpOGE(v, end);
  Value* not_below = builder_.CreateFCmpOGE(v, begin);
  Value* inside = builder_.CreateAnd(not_below, builder_.CreateNot(above));
  Value* safe = builder_.CreateSelect(inside, v, llvm::Constant::getNullValue(v->getType()));
  Value* result = builder_.CreateFPToSI(safe, type);
  const auto ends = [&](const llvm::APInt& bits) { return llvm::ConstantInt::get(type, bits); };
  result = builder_.CreateSelect(above, ends(llvm::APInt::getSignedMaxValue(width)), result);
  Value* below = builder_.CreateFCmpOLT(v, begin);
  return builder_.CreateSelect(below, ends(llvm::APInt::getSignedMinValue(width)), result);
}

/// What fptosi_sat and fptoui_sat give for 8 and 16 bits: the nearest integer towards zero, saturated, 0 for NaN. LLVM
/// takes vectors of those apart. Both ends are floats exactly: after a clamp one conversion is left.
llvm::Value* Emitter::float_to_narrow_integer(DType to, Value* v) {
  llvm::Type* i32 = widened(builder_.getInt32Ty(), v);
  const int bits = bit_width(to) - (is_unsigned(to) ? 0 : 1);
  const double low = is_unsigned(to) ? 0.0 : -std::ldexp(1.0, bits);
  Value* least = llvm::ConstantFP::get(v->getType(), low);
  Value* most = llvm::ConstantFP::get(v->getType(), std::ldexp(1.0, bits) - 1);
  Value* clamped = builder_.CreateSelect(builder_.CreateFCmpOGT(v, least), v, least);
  clamped = builder_.CreateSelect(builder_.CreateFCmpOLT(clamped, most), clamped, most);
  Value* result = builder_.CreateFPToSI(clamped, i32);
  if (low != 0)
    result = builder_.CreateSelect(builder_.CreateFCmpORD(v, v), result, llvm::Constant::getNullValue(i32));
  return builder_.CreateTrunc(result, widened(register_type(to), v));
}

/// The f32 next to v towards zero, its last bit set when that is not exact: rounding it again to a narrower
/// format gives what one rounding from f64 gives.
llvm::Value* Emitter::f64_to_f32_odd(Value* v) {
  llvm::Type* i32 = widened(builder_.getInt32Ty(), v);
  llvm::Type* f64 = v->getType();
  Value* nearest = builder_.CreateFPTrunc(v, widened(builder_.getFloatTy(), v));
  Value* back = builder_.CreateFPExt(nearest, f64);
  Value* inexact = builder_.CreateFCmpONE(back, v);
  auto magnitude = [&](Value* x) { return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); };
  Value* above = builder_.CreateFCmpOGT(magnitude(back), magnitude(v));
  Value* bits = builder_.CreateBitCast(nearest, i32);
  bits = builder_.CreateSub(bits, builder_.CreateZExt(above, i32));
  bits = builder_.CreateOr(bits, builder_.CreateZExt(inexact, i32));
  return builder_.CreateBitCast(bits, nearest->getType());
}

llvm::Value* Emitter::float_to_f32(DType from, Value* v) {
  llvm::Type* i32 = widened(builder_.getInt32Ty(), v);
  llvm::Type* f32 = widened(builder_.getFloatTy(), v);
  auto c = [&](uint32_t value) { return llvm::ConstantInt::get(i32, value); };
  if (from == DType::kBFloat16)
    return builder_.CreateBitCast(builder_.CreateShl(builder_.CreateZExt(v, i32), c(16)), f32);
  GRAFT_USER_CHECK(from == DType::kFloat16, kUnsupported,
                   "generated CPU kernels have no elements of type " + std::string(name_of(from)), program_.name);
  if (unit_.traits.half) return builder_.CreateFPExt(builder_.CreateBitCast(v, widened(builder_.getHalfTy(), v)), f32);
  Value* wide = builder_.CreateZExt(v, i32);
  Value* bits = builder_.CreateShl(builder_.CreateAnd(wide, c(0x7fff)), c(13));
  Value* exponent = builder_.CreateAnd(bits, c(0x7c00u << 13));
  Value* normal = builder_.CreateAdd(bits, c((127 - 15) << 23));
  Value* special = builder_.CreateAdd(normal, c((128 - 16) << 23));
  Value* magic = builder_.CreateBitCast(c(113u << 23), f32);
  Value* tiny = builder_.CreateFSub(builder_.CreateBitCast(builder_.CreateAdd(normal, c(1u << 23)), f32), magic);
  Value* result = builder_.CreateSelect(builder_.CreateICmpEQ(exponent, c(0x7c00u << 13)), special, normal);
  result = builder_.CreateSelect(builder_.CreateICmpEQ(exponent, c(0)), builder_.CreateBitCast(tiny, i32), result);
  Value* sign = builder_.CreateShl(builder_.CreateAnd(wide, c(0x8000)), c(16));
  return builder_.CreateBitCast(builder_.CreateOr(result, sign), f32);
}

llvm::Value* Emitter::f32_to_float(DType to, Value* v) {
  llvm::Type* i32 = widened(builder_.getInt32Ty(), v);
  llvm::Type* i16 = widened(builder_.getInt16Ty(), v);
  auto c = [&](uint32_t value) { return llvm::ConstantInt::get(i32, value); };
  Value* bits = builder_.CreateBitCast(v, i32);
  if (to == DType::kBFloat16) {
    const auto* lanes = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
    if (unit_.traits.bfloat && lanes && (lanes->getNumElements() == 16 || lanes->getNumElements() == 8)) {
      return builder_.CreateBitCast(builder_.CreateFPTrunc(v, widened(builder_.getBFloatTy(), v)), i16);
    }
    Value* odd = builder_.CreateAnd(builder_.CreateLShr(bits, c(16)), c(1));
    Value* rounded = builder_.CreateAdd(bits, builder_.CreateAdd(odd, c(0x7fff)));
    Value* quiet = builder_.CreateOr(bits, c(0x400000));
    Value* result = builder_.CreateSelect(builder_.CreateFCmpUNO(v, v), quiet, rounded);
    return builder_.CreateTrunc(builder_.CreateLShr(result, c(16)), i16);
  }
  GRAFT_USER_CHECK(to == DType::kFloat16, kUnsupported,
                   "generated CPU kernels have no elements of type " + std::string(name_of(to)), program_.name);
  if (unit_.traits.half)
    return builder_.CreateBitCast(builder_.CreateFPTrunc(v, widened(builder_.getHalfTy(), v)), i16);
  Value* sign = builder_.CreateAnd(bits, c(0x80000000u));
  Value* u = builder_.CreateXor(bits, sign);
  Value* magic = c(((127 - 15) + (23 - 10) + 1) << 23);
  Value* tiny =
      builder_.CreateFAdd(builder_.CreateBitCast(u, v->getType()), builder_.CreateBitCast(magic, v->getType()));
  Value* tiny_bits = builder_.CreateSub(builder_.CreateBitCast(tiny, i32), magic);
  Value* odd = builder_.CreateAnd(builder_.CreateLShr(u, c(13)), c(1));
  Value* normal = builder_.CreateAdd(builder_.CreateAdd(u, c((static_cast<uint32_t>(15 - 127) << 23) + 0xfff)), odd);
  Value* result =
      builder_.CreateSelect(builder_.CreateICmpULT(u, c(113u << 23)), tiny_bits, builder_.CreateLShr(normal, c(13)));
  Value* special = builder_.CreateSelect(builder_.CreateICmpUGT(u, c(0x7f800000u)), c(0x7e00), c(0x7c00));
  result = builder_.CreateSelect(builder_.CreateICmpUGE(u, c(0x47800000u)), special, result);
  return builder_.CreateTrunc(builder_.CreateOr(result, builder_.CreateLShr(sign, c(16))), i16);
}

}  // namespace graft::codegen
