// SPDX-License-Identifier: Apache-2.0
// Spellings of the scalar primitives in CUDA C++; a missing row does not compile under -Wswitch.
#include <cmath>

#include "codegen/cuda/expression.h"

namespace graft::cuda {
namespace {

enum class Operand { kFloat, kInteger, kBool };

Operand operand_of(DType type) {
  return is_float(type) ? Operand::kFloat : type == DType::kBool ? Operand::kBool : Operand::kInteger;
}

std::string function(std::string_view name, const std::vector<std::string>& args) {
  return fmt::format("{}({})", name, fmt::join(args, ", "));
}

/// exp -> expf for f32.
std::string math(std::string_view name, DType type, const std::vector<std::string>& args) {
  return function(fmt::format("{}{}", name, type == DType::kFloat64 ? "" : "f"), args);
}

/// The shortest digits that read back exactly, as a floating literal.
template <class T>
std::string decimal(T value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

std::string infix(std::string_view op, const std::vector<std::string>& args) {
  return fmt::format("{} {} {}", args[0], op, args[1]);
}

/// Arithmetic that floats spell as an operator and integers as a wrapping function of the prelude.
std::string arithmetic(std::string_view op, std::string_view wrapping, DType type,
                       const std::vector<std::string>& args) {
  return is_float(type) ? infix(op, args) : function(wrapping, args);
}

}  // namespace

std::string literal(const ExprNode& constant) {
  if (constant.type == DType::kBool) return constant.integer ? "true" : "false";
  if (!is_float(constant.type)) {
    if (constant.type == DType::kUint64) return fmt::format("{}ull", static_cast<uint64_t>(constant.integer));
    if (constant.integer == INT64_MIN) return "Limits<i64>::lowest";
    return fmt::format("({}){}ll", type_name(constant.type), constant.integer);
  }
  if (constant.type == DType::kFloat64) {
    uint64_t bits;
    static_assert(sizeof bits == sizeof constant.real);
    __builtin_memcpy(&bits, &constant.real, sizeof bits);
    if (std::isfinite(constant.real)) return decimal(constant.real);
    return fmt::format("__longlong_as_double((i64)0x{:x}ull)", bits);
  }
  const float value = static_cast<float>(constant.real);
  if (constant.type != DType::kFloat32) {
    ExprNode single = constant;
    single.type = DType::kFloat32;
    return fmt::format("convert<{}>({})", type_name(constant.type), literal(single));
  }
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  if (std::isfinite(value)) return decimal(value) + "f";
  return fmt::format("__int_as_float((i32)0x{:x}u)", bits);
}

std::string intrinsic_text(Intrinsic intrinsic, DType type, const std::vector<std::string>& args) {
  const Operand operand = operand_of(type);
  const bool floats = operand == Operand::kFloat;
  switch (intrinsic) {
    case Intrinsic::kAdd: return arithmetic("+", "wrap_add", type, args);
    case Intrinsic::kSub: return arithmetic("-", "wrap_sub", type, args);
    case Intrinsic::kMul: return arithmetic("*", "wrap_mul", type, args);
    case Intrinsic::kDiv: return arithmetic("/", "divide", type, args);
    case Intrinsic::kFloorDiv:
      return floats ? math("floor", type, {infix("/", args)}) : function("floor_divide", args);
    case Intrinsic::kRem: return floats ? math("fmod", type, args) : function("remainder_of", args);
    case Intrinsic::kMod: return function(floats ? "float_mod" : "modulo", args);
    case Intrinsic::kMin: return operand == Operand::kBool ? infix("&&", args) : function("least", args);
    case Intrinsic::kMax: return operand == Operand::kBool ? infix("||", args) : function("greatest", args);
    case Intrinsic::kPow: return function(floats ? "power_of" : "power", args);
    case Intrinsic::kFma: return math("fma", type, args);
    case Intrinsic::kNeg: return floats ? fmt::format("-({})", args[0]) : function("wrap_neg", args);
    case Intrinsic::kAbs: return floats ? math("fabs", type, args) : function("absolute", args);
    case Intrinsic::kSqrt: return math("sqrt", type, args);
    case Intrinsic::kExp: return math("exp", type, args);
    case Intrinsic::kExp2: return function("power_of_two", args);
    case Intrinsic::kLog: return math("log", type, args);
    case Intrinsic::kLog1p: return math("log1p", type, args);
    case Intrinsic::kExpm1: return math("expm1", type, args);
    case Intrinsic::kErf: return math("erf", type, args);
    case Intrinsic::kSin: return math("sin", type, args);
    case Intrinsic::kCos: return math("cos", type, args);
    case Intrinsic::kTan: return math("tan", type, args);
    case Intrinsic::kAsin: return math("asin", type, args);
    case Intrinsic::kAcos: return math("acos", type, args);
    case Intrinsic::kAtan: return math("atan", type, args);
    case Intrinsic::kSinh: return math("sinh", type, args);
    case Intrinsic::kCosh: return math("cosh", type, args);
    case Intrinsic::kTanh: return math("tanh", type, args);
    case Intrinsic::kAsinh: return math("asinh", type, args);
    case Intrinsic::kAcosh: return math("acosh", type, args);
    case Intrinsic::kAtanh: return math("atanh", type, args);
    case Intrinsic::kFloor: return math("floor", type, args);
    case Intrinsic::kCeil: return math("ceil", type, args);
    case Intrinsic::kTrunc: return math("trunc", type, args);
    case Intrinsic::kRound: return math("rint", type, args);
    case Intrinsic::kIsNan: return fmt::format("{0} != {0}", args[0]);
    case Intrinsic::kIsInf: return function("is_inf_of", args);
    case Intrinsic::kEq: return infix("==", args);
    case Intrinsic::kNe: return infix("!=", args);
    case Intrinsic::kLt: return infix("<", args);
    case Intrinsic::kLe: return infix("<=", args);
    case Intrinsic::kGt: return infix(">", args);
    case Intrinsic::kGe: return infix(">=", args);
    case Intrinsic::kAnd: return infix("&", args);
    case Intrinsic::kOr: return infix("|", args);
    case Intrinsic::kXor: return infix("^", args);
    case Intrinsic::kNot: return (operand == Operand::kBool ? "!" : "~") + args[0];
    case Intrinsic::kShl: return function("shift_left", args);
    case Intrinsic::kShr: return function("shift_right", args);
    case Intrinsic::kSelect: return fmt::format("{} ? {} : {}", args[0], args[1], args[2]);
    case Intrinsic::kCheckIndex: return fmt::format("check_index({}, {}, fault)", args[0], args[1]);
    case Intrinsic::kCheckDivisor: return fmt::format("check_divisor({}, fault)", args[0]);
    case Intrinsic::kCast:
    case Intrinsic::kBitcast: break;  // need the target type: ExpressionWriter writes them
  }
  throw Unsupported{fmt::format("{} has no spelling in CUDA", info(intrinsic).name)};
}

}  // namespace graft::cuda
