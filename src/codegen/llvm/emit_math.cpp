// SPDX-License-Identifier: Apache-2.0
// Which transcendental functions are inline and which are calls of the host's libm, one lane at a time.
#include "base/error.h"
#include "codegen/llvm/emitter.h"

namespace graft::codegen {

llvm::Value* Emitter::math(Intrinsic intrinsic, DType type, const Values& v) {
  if (intrinsic == Intrinsic::kSqrt) return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, v[0]);
  if (type == DType::kFloat32) {
    switch (intrinsic) {
      case Intrinsic::kExp:
        return exp_f32(v[0]);
      case Intrinsic::kLog:
        return log_f32(v[0]);
      case Intrinsic::kLog1p:
        return log1p_f32(v[0]);
      case Intrinsic::kExpm1:
        return expm1_f32(v[0]);
      case Intrinsic::kErf:
        return erf_f32(v[0]);
      case Intrinsic::kTanh:
        return tanh_f32(v[0]);
      case Intrinsic::kSin:
        return sincos_f32(v[0], false);
      case Intrinsic::kCos:
        return sincos_f32(v[0], true);
      default:
        break;
    }
  }
  return host_math(intrinsic, type, v);
}

/// libm by name: `expf` for f32, `exp` for f64.
llvm::Value* Emitter::host_math(Intrinsic intrinsic, DType type, const Values& v) {
  GRAFT_CHECK(type == DType::kFloat32 || type == DType::kFloat64,
              std::string(info(intrinsic).name) + " of " + std::string(name_of(type)));
  const std::string name = std::string(info(intrinsic).name) + (type == DType::kFloat32 ? "f" : "");
  llvm::Type* scalar = register_type(type);
  const std::vector<llvm::Type*> parameters(v.size(), scalar);
  auto callee = unit_.module.getOrInsertFunction(name, llvm::FunctionType::get(scalar, parameters, false));
  if (auto* function = llvm::dyn_cast<llvm::Function>(callee.getCallee())) {
    function->setDoesNotAccessMemory();
    function->setDoesNotThrow();
    function->addFnAttr(llvm::Attribute::WillReturn);
  }
  return per_lane(callee, v);
}

llvm::Value* Emitter::per_lane(llvm::FunctionCallee function, const Values& v) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v[0]->getType());
  if (!type) return builder_.CreateCall(function, v);
  Value* result = llvm::PoisonValue::get(v[0]->getType());
  for (uint64_t lane = 0; lane < type->getNumElements(); ++lane) {
    Values scalars;
    for (Value* value : v) scalars.push_back(builder_.CreateExtractElement(value, lane));
    result = builder_.CreateInsertElement(result, builder_.CreateCall(function, scalars), lane);
  }
  return result;
}

}  // namespace graft::codegen
