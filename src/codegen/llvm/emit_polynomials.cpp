// SPDX-License-Identifier: Apache-2.0
// Transcendental functions of f32 as inline polynomials, within 2 ulp, with and without fused multiply-add.
// The coefficients are Chebyshev fits of our own of the function named beside them.
#include "codegen/llvm/emitter.h"

namespace graft::codegen {
namespace {

constexpr double kLog2e = 1.4426950408889634;
constexpr double kLn2High = 0.693359375;  ///< 9 bits: its product with an exponent is exact
constexpr double kLn2Low = -2.12194440054690583e-4;
constexpr double kRounder = 12582912.0;  ///< 1.5 * 2^23: adding it rounds an f32 to an integer in the low bits
constexpr int64_t kRounderBits = 0x4b400000;
constexpr double kInfinity = __builtin_inf();

}  // namespace

llvm::Value* Emitter::f(Value* like, double constant) { return llvm::ConstantFP::get(like->getType(), constant); }

llvm::Value* Emitter::i(Value* like, int64_t constant) {
  return llvm::ConstantInt::get(widened(builder_.getInt32Ty(), like), static_cast<uint64_t>(constant));
}

llvm::Value* Emitter::fma(Value* a, Value* b, Value* c) {
  if (!unit_.traits.fma) return builder_.CreateFAdd(builder_.CreateFMul(a, b), c);
  return builder_.CreateIntrinsic(a->getType(), llvm::Intrinsic::fma, {a, b, c});
}

/// coefficients[0] + coefficients[1] * x + ...
llvm::Value* Emitter::polynomial(Value* x, std::initializer_list<double> coefficients) {
  Value* sum = nullptr;
  for (auto it = std::rbegin(coefficients); it != std::rend(coefficients); ++it) {
    sum = sum ? fma(sum, x, f(x, *it)) : f(x, *it);
  }
  return sum;
}

/// v * 2^exponent in two steps, so that results in the denormal range are rounded once.
llvm::Value* Emitter::scale_by_power(Value* v, Value* exponent) {
  Value* half = builder_.CreateAShr(exponent, i(v, 1));
  for (Value* part : {half, builder_.CreateSub(exponent, half)}) {
    Value* bits = builder_.CreateShl(builder_.CreateAdd(part, i(v, 127)), i(v, 23));
    v = builder_.CreateFMul(v, builder_.CreateBitCast(bits, v->getType()));
  }
  return v;
}

/// x = n ln2 + r with n an integer: gives n as an integer and as f32, and r.
Emitter::Reduced Emitter::reduce_by_ln2(Value* x) {
  Value* shifted = fma(x, f(x, kLog2e), f(x, kRounder));
  Value* n = builder_.CreateFSub(shifted, f(x, kRounder));
  Value* r = fma(n, f(x, -kLn2Low), fma(n, f(x, -kLn2High), x));
  Value* integer =
      builder_.CreateSub(builder_.CreateBitCast(shifted, widened(builder_.getInt32Ty(), x)), i(x, kRounderBits));
  return {integer, n, r};
}

/// exp(r) - 1 for |r| <= ln2 / 2:   r + r^2 Q(r), Q = (exp(r) - 1 - r) / r^2
llvm::Value* Emitter::expm1_kernel(Value* r) {
  Value* q = polynomial(r, {0.5, 0.1666657338, 0.04166655011, 0.008363773874, 0.001392692661});
  return fma(builder_.CreateFMul(r, r), q, r);
}

llvm::Value* Emitter::clamp(Value* x, double low, double high) {
  x = builder_.CreateSelect(builder_.CreateFCmpOLT(x, f(x, low)), f(x, low), x);
  return builder_.CreateSelect(builder_.CreateFCmpOGT(x, f(x, high)), f(x, high), x);
}

llvm::Value* Emitter::exp_f32(Value* x) {
  // What rounds to zero skips the scaling: multiplying into the denormals stalls the processor, and a masked softmax
  // would do so for every masked element.
  Value* vanishes = builder_.CreateFCmpOLT(x, f(x, -103.98));
  const Reduced part = reduce_by_ln2(clamp(builder_.CreateSelect(vanishes, f(x, 0), x), -104, 89));
  Value* result = scale_by_power(builder_.CreateFAdd(expm1_kernel(part.rest), f(x, 1)), part.integer);
  return builder_.CreateSelect(vanishes, f(x, 0), result);
}

/// exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), carried out at half the size so that it overflows only with the result.
llvm::Value* Emitter::expm1_f32(Value* x) {
  const Reduced part = reduce_by_ln2(clamp(x, -18, 89));
  Value* p = expm1_kernel(part.rest);
  Value* half_bits = builder_.CreateShl(builder_.CreateAdd(part.integer, i(x, 126)), i(x, 23));
  Value* half = builder_.CreateBitCast(half_bits, x->getType());
  Value* result = fma(half, p, builder_.CreateFSub(half, f(x, 0.5)));
  result = builder_.CreateFAdd(result, result);
  return builder_.CreateSelect(builder_.CreateICmpEQ(part.integer, i(x, 0)), p, result);
}

/// log(1 + m) + e ln2 + correction for 1 + m between sqrt(1/2) and sqrt(2):   P = (log(1+m) - m + m^2/2) / m^3
llvm::Value* Emitter::log_mantissa(Value* m, Value* e, Value* correction) {
  Value* p = polynomial(m, {0.3333333118, -0.2499999696, 0.2000071575, -0.1666780232, 0.1424905765, -0.1242568733,
                            0.1168541992, -0.1147973385, 0.06971611471});
  Value* square = builder_.CreateFMul(m, m);
  Value* low = fma(e, f(m, kLn2Low), builder_.CreateFMul(builder_.CreateFMul(p, m), square));
  if (correction) low = builder_.CreateFAdd(low, correction);
  low = fma(square, f(m, -0.5), low);
  return fma(e, f(m, kLn2High), builder_.CreateFAdd(m, low));
}

/// v = 2^e * (1 + m), 1 + m between sqrt(1/2) and sqrt(2); v is positive and normal.
Emitter::Reduced Emitter::split_exponent(Value* v) {
  Value* bits = builder_.CreateBitCast(v, widened(builder_.getInt32Ty(), v));
  Value* e = builder_.CreateAShr(builder_.CreateSub(bits, i(v, 0x3f3504f3)), i(v, 23));
  Value* mantissa = builder_.CreateSub(bits, builder_.CreateShl(e, i(v, 23)));
  Value* m = builder_.CreateFSub(builder_.CreateBitCast(mantissa, v->getType()), f(v, 1));
  return {e, builder_.CreateSIToFP(e, v->getType()), m};
}

/// -inf at zero, NaN below, inf at inf.
llvm::Value* Emitter::log_limits(Value* argument, Value* result) {
  result = builder_.CreateSelect(builder_.CreateFCmpOEQ(argument, f(argument, kInfinity)), argument, result);
  result = builder_.CreateSelect(builder_.CreateFCmpOEQ(argument, f(argument, 0)), f(argument, -kInfinity), result);
  return builder_.CreateSelect(builder_.CreateFCmpUGE(argument, f(argument, 0)), result,
                               f(argument, __builtin_nan("")));
}

llvm::Value* Emitter::log_f32(Value* x) {
  Value* denormal = builder_.CreateFCmpOLT(x, f(x, 0x1p-126));
  Value* scaled = builder_.CreateSelect(denormal, builder_.CreateFMul(x, f(x, 0x1p23)), x);
  const Reduced part = split_exponent(scaled);
  Value* e = builder_.CreateFSub(part.real, builder_.CreateSelect(denormal, f(x, 23), f(x, 0)));
  Value* result = log_limits(x, log_mantissa(part.rest, e, nullptr));
  return builder_.CreateSelect(builder_.CreateFCmpUNO(x, x), x, result);
}

/// log(1 + x) through the rounded sum u = 1 + x and what its rounding lost.
llvm::Value* Emitter::log1p_f32(Value* x) {
  Value* one = f(x, 1);
  Value* u = builder_.CreateFAdd(x, one);
  const Reduced part = split_exponent(u);
  Value* large = builder_.CreateFCmpOGE(x, one);
  Value* lost = builder_.CreateSelect(large, builder_.CreateFSub(one, builder_.CreateFSub(u, x)),
                                      builder_.CreateFSub(x, builder_.CreateFSub(u, one)));
  Value* same_exponent = builder_.CreateICmpEQ(part.integer, i(x, 0));
  Value* m = builder_.CreateSelect(same_exponent, x, part.rest);
  Value* correction = builder_.CreateSelect(same_exponent, f(x, 0), builder_.CreateFDiv(lost, u));
  Value* result = log_limits(u, log_mantissa(m, part.real, correction));
  return builder_.CreateSelect(builder_.CreateFCmpUNO(x, x), x, result);
}

/// erfc(a) = exp(-a t), where `t` is -log(erfc(a)) / a, for a up to 4.
llvm::Value* Emitter::erfc_f32(Value* a, Value* t) {
  const Reduced part = reduce_by_ln2(builder_.CreateFNeg(builder_.CreateFMul(t, a)));
  Value* bits = builder_.CreateShl(builder_.CreateAdd(part.integer, i(a, 127)), i(a, 23));
  Value* scale = builder_.CreateBitCast(bits, a->getType());
  return fma(scale, expm1_kernel(part.rest), scale);
}

/// |x| < 1: x + x P(x^2), P = erf(x) / x - 1. Else 1 - erfc(|x|), up to 4 where erf is 1.
llvm::Value* Emitter::erf_f32(Value* x) {
  Value* magnitude = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  Value* square = builder_.CreateFMul(x, x);
  Value* p = polynomial(square, {0.1283791658, -0.3761262667, 0.1128359472, -0.02685421201, 0.005189087423,
                                 -0.0008016864287, 7.875875063e-5});
  Value* small = fma(p, x, x);
  Value* a = builder_.CreateSelect(builder_.CreateFCmpOGT(magnitude, f(x, 4)), f(x, 4), magnitude);
  Value* t = polynomial(a, {1.128755852, 0.634756031, 0.1068022087, -0.02413886044, 0.003732554641, -0.0002976047372,
                            -8.45070498e-6, 4.008121932e-6, -2.536835421e-7});
  Value* rest = builder_.CreateFSub(f(x, 1), erfc_f32(a, t));
  Value* large = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, rest, x);
  return builder_.CreateSelect(builder_.CreateFCmpOGE(magnitude, f(x, 1)), large, small);
}

/// 1 + erf(x) as GELU has it: erfc(-x), which needs no other form near zero. 0 where erf(x) rounds to -1.
llvm::Value* Emitter::raised_erf_f32(Value* x) {
  Value* magnitude = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  Value* is_far = builder_.CreateFCmpOGT(magnitude, f(x, 4));
  Value* t = polynomial(magnitude, {1.128380253, 0.6366051327, 0.1028389718, -0.01926705499, -7.432785605e-5,
                                    0.001680783732, -0.0007019941143, 0.0001662207673, -2.452046584e-5, 2.100257466e-6,
                                    -7.99871971e-8});
  Value* tail = builder_.CreateSelect(is_far, f(x, 0), erfc_f32(magnitude, t));
  return builder_.CreateSelect(builder_.CreateFCmpOLT(x, f(x, 0)), tail, builder_.CreateFSub(f(x, 2), tail));
}

/// |x| < 5/8: x + x^3 P(x^2), P = (tanh(x) / x - 1) / x^2. Else 1 - 2 / (exp(2x) + 1).
llvm::Value* Emitter::tanh_f32(Value* x) {
  Value* magnitude = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  Value* square = builder_.CreateFMul(x, x);
  Value* p = polynomial(square, {-0.3333332894, 0.1333276974, -0.05385090958, 0.020997179, -0.006096714166});
  Value* sum = fma(builder_.CreateFMul(p, square), x, x);
  Value* small = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, sum, x);  // of -0 the sum is 0
  Value* a = builder_.CreateSelect(builder_.CreateFCmpOGT(magnitude, f(x, 10)), f(x, 10), magnitude);
  const Reduced part = reduce_by_ln2(builder_.CreateFAdd(a, a));
  Value* bits = builder_.CreateShl(builder_.CreateAdd(part.integer, i(x, 127)), i(x, 23));
  Value* scale = builder_.CreateBitCast(bits, x->getType());
  Value* power = fma(scale, expm1_kernel(part.rest), scale);
  Value* quotient = builder_.CreateFDiv(f(x, 2), builder_.CreateFAdd(power, f(x, 1)));
  Value* large = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, builder_.CreateFSub(f(x, 1), quotient), x);
  return builder_.CreateSelect(builder_.CreateFCmpOGE(magnitude, f(x, 0.625)), large, small);
}

/// Reduction by pi / 2 in f64, exact enough below 2^20; larger arguments take the host's function, lane by lane.
llvm::Value* Emitter::sincos_f32(Value* x, bool cosine) {
  constexpr double kRounder64 = 6755399441055744.0;
  constexpr double kHalfPiHigh = 1.57079632673412561417e+00;  ///< 33 bits
  constexpr double kHalfPiLow = 6.07710050650619224932e-11;
  Value* wide = builder_.CreateFPExt(x, widened(builder_.getDoubleTy(), x));
  Value* shifted = fma(wide, f(wide, 0.6366197723675814), f(wide, kRounder64));
  Value* n = builder_.CreateFSub(shifted, f(wide, kRounder64));
  Value* rest = fma(n, f(wide, -kHalfPiLow), fma(n, f(wide, -kHalfPiHigh), wide));
  Value* r = builder_.CreateFPTrunc(rest, x->getType());
  Value* quadrant = builder_.CreateTrunc(builder_.CreateBitCast(shifted, widened(builder_.getInt64Ty(), x)),
                                         widened(builder_.getInt32Ty(), x));
  if (cosine) quadrant = builder_.CreateAdd(quadrant, i(x, 1));
  Value* square = builder_.CreateFMul(r, r);
  Value* s = polynomial(square, {-0.1666666666, 0.008333331785, -0.0001984003887, 2.724378141e-6});
  Value* sum = fma(builder_.CreateFMul(s, square), r, r);
  Value* sine = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, sum, r);  // of -0 the sum is 0
  Value* c = polynomial(square, {-0.5, 0.04166666666, -0.00138888876, 2.480056043e-5, -2.729583083e-7});
  Value* cosine_value = fma(c, square, f(x, 1));
  Value* odd = builder_.CreateICmpNE(builder_.CreateAnd(quadrant, i(x, 1)), i(x, 0));
  Value* value = builder_.CreateSelect(odd, cosine_value, sine);
  Value* sign = builder_.CreateShl(builder_.CreateAnd(quadrant, i(x, 2)), i(x, 30));
  Value* bits = builder_.CreateXor(builder_.CreateBitCast(value, sign->getType()), sign);
  Value* result = builder_.CreateBitCast(bits, x->getType());

  Value* far = builder_.CreateFCmpUGE(builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x), f(x, 0x1p20));
  llvm::AllocaInst* place = make_local(x->getType());
  at_top();
  builder_.CreateStore(result, place);
  const std::vector<size_t> closed = open_if(lane_count_any(far));
  at_top();
  Value* exact = host_math(cosine ? Intrinsic::kCos : Intrinsic::kSin, DType::kFloat32, {x});
  builder_.CreateStore(builder_.CreateSelect(far, exact, result), place);
  close_if(closed);
  at_top();
  return builder_.CreateLoad(x->getType(), place);
}

}  // namespace graft::codegen
