// SPDX-License-Identifier: Apache-2.0
// Gathers whose elements lie close together, as of an image that is made larger: one load, and a permutation of it.
#include "codegen/llvm/emitter.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

namespace graft::codegen {
namespace {

/// The instruction that takes elements of `bits` of a vector in any order.
llvm::Intrinsic::ID permutation(int bits, int lanes) {
  switch (bits * 1000 + lanes) {
    case 32008:
      return llvm::Intrinsic::x86_avx2_permd;
    case 32016:
      return llvm::Intrinsic::x86_avx512_permvar_si_512;
    case 16008:
      return llvm::Intrinsic::x86_avx512_permvar_hi_128;
    case 16016:
      return llvm::Intrinsic::x86_avx512_permvar_hi_256;
    case 16032:
      return llvm::Intrinsic::x86_avx512_permvar_hi_512;
    case 64004:
      return llvm::Intrinsic::x86_avx512_permvar_di_256;
    case 64008:
      return llvm::Intrinsic::x86_avx512_permvar_di_512;
    default:
      return llvm::Intrinsic::not_intrinsic;
  }
}

int wide_bits(int bits) { return bits == 8 ? 16 : bits; }

}  // namespace

/// Whether elements of `bits` in as many lanes as there are now can be permuted.
bool Emitter::can_permute(int bits) const {
  if (!unit_.traits.masked || permutation(wide_bits(bits), lanes_) == llvm::Intrinsic::not_intrinsic) return false;
  if (bits * lanes_ > unit_.traits.register_bits) return false;
  return bits == 32 ? unit_.traits.permutes : unit_.traits.permutes_words;
}

/// Where all that the lanes read lies, if that is known outside of the innermost loop: only then it costs less than the
/// gathers that it saves. Inside, whether computed places follow each other is soon asked.
std::optional<Window> Emitter::find_window(int buffer, const Address& address) {
  if (!address.varying || !address.stride.is(0) || lazy_) return std::nullopt;
  if (!mask_ && !is_known_outside(address.varying) && !facts(*address.varying).loads) return row_of_places(address);
  if (!can_permute(bit_width(program_.buffers[static_cast<size_t>(buffer)].type))) return std::nullopt;
  auto level = static_cast<size_t>(required_level(*address.varying, load_floor_));
  if (mask_) level = std::max(level, static_cast<size_t>(mask_level_));
  while (!levels_[level].open) ++level;
  if (!is_known_outside(address.varying)) return std::nullopt;
  Window window{};
  at_level(level, [&] {
    Value* offsets = emit(address.varying);
    at_top();
    if (mask_) {
      Value* first = splat(builder_.CreateExtractElement(offsets, uint64_t{0}), lanes_);
      offsets = builder_.CreateSelect(splat(mask_, lanes_), offsets, first);
    }
    window.low = builder_.CreateIntMinReduce(offsets, true);
    Value* span = builder_.CreateSub(builder_.CreateIntMaxReduce(offsets, true), window.low);
    window.fits = builder_.CreateICmpULT(span, index(lanes_));
    window.mask = first_lanes(builder_.CreateAdd(span, index(1)), lanes_);
    auto* numbers = llvm::FixedVectorType::get(builder_.getInt32Ty(), static_cast<unsigned>(lanes_));
    window.lanes = builder_.CreateTrunc(builder_.CreateSub(offsets, splat(window.low, lanes_)), numbers);
  });
  return window;
}

/// Whether all that an index needs is known before the innermost loop.
bool Emitter::is_known_outside(const Expr& index) {
  auto level = static_cast<size_t>(required_level(*index, load_floor_));
  if (mask_) level = std::max(level, static_cast<size_t>(mask_level_));
  while (!levels_[level].open) ++level;
  return levels_[level].at != top().at;
}

Window Emitter::row_of_places(const Address& address) {
  Value* offsets = splat(emit(address.varying), lanes_);
  at_top();
  std::vector<llvm::Constant*> steps;
  for (int n = 0; n < lanes_; ++n) steps.push_back(builder_.getInt64(static_cast<uint64_t>(n)));
  Value* low = builder_.CreateExtractElement(offsets, uint64_t{0});
  Value* row = builder_.CreateAdd(splat(low, lanes_), llvm::ConstantVector::get(steps));
  Value* fits = builder_.CreateAndReduce(builder_.CreateICmpEQ(offsets, row));
  return {.fits = fits, .low = low, .mask = nullptr, .lanes = nullptr};
}

/// The elements by one load where they fit, by `gather` where they do not.
llvm::Value* Emitter::load_window(int buffer, const Address& address, const Window& window,
                                  const std::function<Value*()>& gather) {
  const DType dtype = program_.buffers[static_cast<size_t>(buffer)].type;
  llvm::Type* type = memory_type(dtype);
  auto* vector = llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes_));
  Value* start = pointer(buffer, {address.uniform, 0, {}});
  llvm::Instruction *near = nullptr, *far = nullptr;
  llvm::SplitBlockAndInsertIfThenElse(window.fits, top().at->getIterator(), &near, &far);
  builder_.SetInsertPoint(near);
  Value* place = builder_.CreateGEP(type, start, window.low);
  const llvm::Align align(static_cast<uint64_t>(bit_width(dtype)) / 8);
  Value* taken = nullptr;
  if (window.lanes) {
    llvm::Constant* zeros = llvm::Constant::getNullValue(vector);
    taken = permute(builder_.CreateMaskedLoad(vector, place, align, window.mask, zeros), window.lanes);
  } else {
    taken = builder_.CreateAlignedLoad(vector, place, align);
  }
  builder_.SetInsertPoint(far);
  Value* gathered = gather();
  llvm::BasicBlock* gathered_in = builder_.GetInsertBlock();
  at_top();
  auto* result = builder_.CreatePHI(vector, 2);
  result->addIncoming(taken, near->getParent());
  result->addIncoming(gathered, gathered_in);
  return result;
}

/// Whether a vector whose lanes are so far apart is loads of all between them, and shuffles.
bool Emitter::is_near(const Size& stride) const {
  constexpr int64_t kFarthest = 4;
  const auto step = stride.as_constant();
  return step && (*step == -1 || (*step > 1 && *step <= kFarthest));
}

/// Lanes a few elements apart, or backwards: vectors side by side, of which the last one ends at the last lane. Null
/// where lanes are too far apart, or not all there.
llvm::Value* Emitter::load_strided(int buffer, const Address& address) {
  if (address.varying || mask_ || !is_near(address.stride)) return nullptr;
  const DType dtype = program_.buffers[static_cast<size_t>(buffer)].type;
  llvm::Type* type = memory_type(dtype);
  auto* vector = llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes_));
  const llvm::Align align(static_cast<uint64_t>(bit_width(dtype)) / 8);
  const auto step = static_cast<int>(address.stride.constant());
  Value* start = pointer(buffer, address);
  const auto load = [&](int from) {
    return builder_.CreateAlignedLoad(vector, builder_.CreateGEP(type, start, index(from)), align);
  };
  std::vector<int> order(static_cast<size_t>(lanes_));
  if (step < 0) {
    for (int n = 0; n < lanes_; ++n) order[static_cast<size_t>(n)] = lanes_ - 1 - n;
    return builder_.CreateShuffleVector(load(1 - lanes_), order);
  }
  Value* result = load(0);
  for (int k = 1; k < step; ++k) {
    const int from = k + 1 < step ? k * lanes_ : (lanes_ - 1) * step + 1 - lanes_;
    for (int n = 0; n < lanes_; ++n) {
      const int before = k == 1 ? n * step : n;  // where the lane is in what is found already
      order[static_cast<size_t>(n)] = n * step < k * lanes_ ? before : lanes_ + n * step - from;
      if (n * step - from >= lanes_) order[static_cast<size_t>(n)] = n;  // a later vector has it
    }
    result = builder_.CreateShuffleVector(result, load(from), order);
  }
  return result;
}

/// Lane n of the result is lane lanes[n] of the vector.
llvm::Value* Emitter::permute(Value* vector, Value* lanes) {
  auto* type = llvm::cast<llvm::FixedVectorType>(vector->getType());
  const int bits = static_cast<int>(type->getScalarSizeInBits());
  const auto integers = [&](int width) {
    return llvm::FixedVectorType::get(builder_.getIntNTy(static_cast<unsigned>(width)), type->getNumElements());
  };
  Value* value = builder_.CreateBitCast(vector, integers(bits));
  if (bits == 8) value = builder_.CreateZExt(value, integers(16));
  Value* control = builder_.CreateZExtOrTrunc(lanes, integers(wide_bits(bits)));
  const llvm::Intrinsic::ID permuted = permutation(wide_bits(bits), static_cast<int>(type->getNumElements()));
  value = builder_.CreateIntrinsic(permuted, {}, {value, control});
  if (bits == 8) value = builder_.CreateTrunc(value, integers(8));
  return builder_.CreateBitCast(value, type);
}

}  // namespace graft::codegen
