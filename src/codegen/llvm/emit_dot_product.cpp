// SPDX-License-Identifier: Apache-2.0
// The spelling of units of vectors: sums + the products of what lies together in each lane, or in blocks of lanes.
#include <algorithm>

#include "base/error.h"
#include "codegen/llvm/emitter.h"

#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace graft::codegen {
namespace {

/// How many bits vectors have that the machine chooses the length of.
constexpr unsigned kScalable = 0;

struct Spelling {
  std::string_view unit;
  unsigned bits;  ///< of the vectors that the instruction takes
  llvm::Intrinsic::ID instruction;
  bool takes_elements;      ///< vectors of the operands' own elements, not of the sums' type
  bool is_exchanged = false;  ///< it takes the right operand first, or either, and an element of a register second
};

constexpr Spelling kSpellings[] = {
    {"avx512_bf16", 512, llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, true},
    {"avx512_bf16", 256, llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256, true},
    {"avx512_bf16", 128, llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128, true},
    {"avx512_vnni_u8s8", 512, llvm::Intrinsic::x86_avx512_vpdpbusd_512, false},
    {"avx512_vnni_u8s8", 256, llvm::Intrinsic::x86_avx512_vpdpbusd_256, false},
    {"avx512_vnni_u8s8", 128, llvm::Intrinsic::x86_avx512_vpdpbusd_128, false},
    {"arm_block_s8s8", 128, llvm::Intrinsic::aarch64_neon_smmla, true},
    {"arm_block_u8u8", 128, llvm::Intrinsic::aarch64_neon_ummla, true},
    {"arm_block_u8s8", 128, llvm::Intrinsic::aarch64_neon_usmmla, true},
    {"arm_block_s8u8", 128, llvm::Intrinsic::aarch64_neon_usmmla, true, true},
    {"arm_block_bf16", 128, llvm::Intrinsic::aarch64_neon_bfmmla, true},
    {"arm_block_s8s8", kScalable, llvm::Intrinsic::aarch64_sve_smmla, true},
    {"arm_block_u8u8", kScalable, llvm::Intrinsic::aarch64_sve_ummla, true},
    {"arm_block_u8s8", kScalable, llvm::Intrinsic::aarch64_sve_usmmla, true},
    {"arm_block_s8u8", kScalable, llvm::Intrinsic::aarch64_sve_usmmla, true, true},
    {"arm_block_bf16", kScalable, llvm::Intrinsic::aarch64_sve_bfmmla, true},
    {"arm_dot_s8s8", 128, llvm::Intrinsic::aarch64_neon_sdot, true, true},
    {"arm_dot_u8u8", 128, llvm::Intrinsic::aarch64_neon_udot, true, true},
    {"arm_dot_u8s8", 128, llvm::Intrinsic::aarch64_neon_usdot, true},
    {"arm_dot_s8u8", 128, llvm::Intrinsic::aarch64_neon_usdot, true, true},
    {"arm_dot_bf16", 128, llvm::Intrinsic::aarch64_neon_bfdot, true, true},
    {"arm_dot_s8s8", kScalable, llvm::Intrinsic::aarch64_sve_sdot, true},
    {"arm_dot_u8u8", kScalable, llvm::Intrinsic::aarch64_sve_udot, true},
    {"arm_dot_u8s8", kScalable, llvm::Intrinsic::aarch64_sve_usdot, true},
    {"arm_dot_s8u8", kScalable, llvm::Intrinsic::aarch64_sve_usdot, true, true},
    {"arm_dot_bf16", kScalable, llvm::Intrinsic::aarch64_sve_bfdot, true},
};

/// The instruction for vectors of exactly that length, else the one that takes any.
const Spelling& spelling_of(const ContractUnit& unit, unsigned bits) {
  for (const unsigned wanted : {bits, kScalable}) {
    const auto* found = std::find_if(std::begin(kSpellings), std::end(kSpellings), [&](const Spelling& row) {
      return row.unit == unit.name && row.bits == wanted;
    });
    if (found != std::end(kSpellings)) return *found;
  }
  GRAFT_CHECK(false, std::string(unit.name) + " has no spelling");
  return kSpellings[0];
}

}  // namespace

/// `a` and `b` have the type of `sum`; each lane of theirs holds as many elements as the unit packs.
llvm::Value* Emitter::dot_product(const ContractUnit& unit, Value* a, Value* b, Value* sum) {
  auto* type = llvm::cast<llvm::FixedVectorType>(sum->getType());
  const auto bits = static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue());
  const Spelling& spelling = spelling_of(unit, bits);
  const auto elements = [&](Value* operand, DType of) -> Value* {
    if (!spelling.takes_elements) return operand;
    const unsigned count = bits / static_cast<unsigned>(bit_width(of));
    llvm::Type* element = is_float(of) ? builder_.getBFloatTy() : builder_.getInt8Ty();
    return builder_.CreateBitCast(operand, llvm::FixedVectorType::get(element, count));
  };
  Values operands{sum, elements(a, unit.a), elements(b, unit.b)};
  if (spelling.is_exchanged) std::swap(operands[1], operands[2]);
  if (spelling.bits == kScalable) return scalable_call(spelling.instruction, operands);
  std::vector<llvm::Type*> types;
  if (llvm::Intrinsic::isOverloaded(spelling.instruction)) types = {type, operands[1]->getType()};
  return builder_.CreateIntrinsic(spelling.instruction, types, operands);
}

/// Whether the instruction takes the right operand first, for sums of that many lanes.
bool Emitter::takes_right_first(const ContractUnit& unit, int lanes) {
  return spelling_of(unit, static_cast<unsigned>(lanes * bit_width(unit.sum))).is_exchanged;
}

/// An instruction that takes vectors of the machine's length, of which the operands are the front.
llvm::Value* Emitter::scalable_call(llvm::Intrinsic::ID instruction, const Values& operands) {
  constexpr unsigned kUnitBits = 128;
  Values widened;
  for (Value* operand : operands) {
    auto* type = llvm::cast<llvm::FixedVectorType>(operand->getType());
    auto* scalable = llvm::ScalableVectorType::get(type->getElementType(), kUnitBits / type->getScalarSizeInBits());
    widened.push_back(builder_.CreateInsertVector(scalable, llvm::PoisonValue::get(scalable), operand, index(0)));
  }
  std::vector<llvm::Type*> types;
  if (llvm::Intrinsic::isOverloaded(instruction)) types = {widened[0]->getType()};
  Value* result = builder_.CreateIntrinsic(instruction, types, widened);
  return builder_.CreateExtractVector(operands[0]->getType(), result, index(0));
}

}  // namespace graft::codegen
