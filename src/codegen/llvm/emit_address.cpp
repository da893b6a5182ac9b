// SPDX-License-Identifier: Apache-2.0
// Addresses and memory: index expressions become a uniform part, a stride along the lanes and a varying rest.
#include <algorithm>

#include "base/error.h"
#include "codegen/llvm/emitter.h"
#include "expr/addends.h"

#include <llvm/IR/IntrinsicsX86.h>

namespace graft::codegen {
namespace {

/// Emits a size as arithmetic on 64-bit integers.
class SizeArithmetic {
 public:
  using Lookup = std::function<llvm::Value*(const std::string& symbol)>;
  SizeArithmetic(llvm::IRBuilder<>& builder, const Lookup& lookup) : builder_(builder), lookup_(lookup) {}

  llvm::Value* value_of(const Size& size) {
    llvm::Value* total = nullptr;
    size.for_each_term([&](int64_t coefficient, std::span<const SizeAtom> atoms) {
      const bool negative = coefficient < 0 && !atoms.empty();
      llvm::Value* term = product(negative ? -coefficient : coefficient, atoms);
      if (negative) {
        total = total ? builder_.CreateSub(total, term) : builder_.CreateNeg(term);
      } else {
        total = total ? builder_.CreateAdd(total, term) : term;
      }
    });
    return total;
  }

 private:
  llvm::Value* product(int64_t coefficient, std::span<const SizeAtom> atoms) {
    llvm::Value* value = coefficient == 1 && !atoms.empty() ? nullptr : builder_.getInt64(coefficient);
    for (const SizeAtom& atom : atoms) {
      llvm::Value* factor = value_of(atom);
      value = value ? builder_.CreateMul(value, factor) : factor;
    }
    return value;
  }

  llvm::Value* value_of(const SizeAtom& atom) {
    if (atom.function == SizeFunction::kSymbol) return lookup_(atom.name);
    llvm::Value* a = value_of(atom.arguments->first);
    llvm::Value* b = value_of(atom.arguments->second);
    if (atom.function == SizeFunction::kMin) return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
    if (atom.function == SizeFunction::kMax) return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, b);
    return divide(atom.function, a, b);
  }

  /// floor_div or mod, which round towards minus infinity; a divisor of 0 counts as 1.
  llvm::Value* divide(SizeFunction function, llvm::Value* a, llvm::Value* b) {
    llvm::Value* zero = builder_.getInt64(0);
    llvm::Value* divisor = b;
    if (!llvm::isa<llvm::ConstantInt>(b)) {
      divisor = builder_.CreateSelect(builder_.CreateICmpEQ(b, zero), builder_.getInt64(1), b);
    }
    llvm::Value* quotient = builder_.CreateSDiv(a, divisor);
    llvm::Value* rest = builder_.CreateSub(a, builder_.CreateMul(quotient, divisor));
    llvm::Value* signs = builder_.CreateICmpSLT(builder_.CreateXor(rest, divisor), zero);
    llvm::Value* below = builder_.CreateAnd(builder_.CreateICmpNE(rest, zero), signs);
    if (function == SizeFunction::kMod) {
      return builder_.CreateSelect(below, builder_.CreateAdd(rest, divisor), rest);
    }
    return builder_.CreateSub(quotient, builder_.CreateZExt(below, builder_.getInt64Ty()));
  }

  llvm::IRBuilder<>& builder_;
  const Lookup& lookup_;
};

/// Whether all elements of a buffer are less than 2^31 elements apart.
bool has_short_offsets(const tile::Buffer& buffer) {
  Size last = 0;
  for (size_t n = 0; n < buffer.shape.size(); ++n) last = last + (buffer.shape[n] - Size(1)) * buffer.strides[n];
  return last.as_constant().value_or(INT64_MAX) <= INT32_MAX;
}

}  // namespace

/// The value of a size, emitted at the current insertion point.
llvm::Value* Emitter::emit_size(const Size& size) {
  if (const auto constant = size.as_constant()) return index(*constant);
  const SizeArithmetic::Lookup lookup = [&](const std::string& symbol) {
    const auto it = sizes_.find(symbol);
    GRAFT_CHECK(it != sizes_.end(), "the kernel is not given the size " + symbol);
    return it->second;
  };
  return SizeArithmetic(builder_, lookup).value_of(size);
}

/// Splits sum(index * stride): terms are ordered from the outermost variable inwards, so that every partial sum
/// is computed at the level of its last variable.
Address Emitter::analyze(int buffer, const std::vector<Expr>& indices) {
  const tile::Buffer& place = program_.buffers[static_cast<size_t>(buffer)];
  std::map<int, Size> terms;
  Size offset = 0;
  Expr uniform, varying;
  auto add = [](const Expr& sum, const Expr& term) { return sum ? sum + term : term; };
  for (size_t n = 0; n < indices.size(); ++n) {
    for (const Expr& part : affine(indices[n]) ? std::vector{indices[n]} : addends(indices[n])) {
      if (const auto form = affine(part)) {
        offset = offset + form->offset * place.strides[n];
        for (const auto& [variable, coefficient] : form->coefficients) {
          Size& total = terms.try_emplace(variable, 0).first->second;
          total = total + coefficient * place.strides[n];
        }
        continue;
      }
      const Expr term = keep(part * make_size(place.strides[n]));
      (varies(term) ? varying : uniform) = add(varies(term) ? varying : uniform, term);
    }
  }
  Address address;
  std::vector<std::pair<int, Size>> ordered;
  for (const auto& [variable, coefficient] : terms) {
    if (variable == vector_variable_) {
      address.stride = coefficient;
    } else if (!coefficient.is(0)) {
      ordered.emplace_back(variable, coefficient);
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(), [&](const auto& a, const auto& b) {
    return bindings_.at(a.first).level < bindings_.at(b.first).level;
  });
  Expr sum = offset.is(0) ? Expr() : make_size(offset);
  for (const auto& [variable, coefficient] : ordered) {
    ExprNode node{.kind = ExprKind::kVariable, .type = DType::kInt64};
    node.variable = variable;
    const Expr term = Expr(std::make_shared<const ExprNode>(node)) * make_size(coefficient);
    sum = add(sum, term);
  }
  if (uniform) sum = sum ? sum + uniform : uniform;
  address.uniform = keep(sum ? sum : make_index(0));
  address.varying = varying ? keep(varying) : varying;
  return address;
}

/// The stride of an access along `variable`, in elements; `known` becomes false when it is not affine.
Size Emitter::stride_along(int buffer, const std::vector<Expr>& indices, const Expr& variable, bool* known) const {
  const tile::Buffer& place = program_.buffers[static_cast<size_t>(buffer)];
  Size stride = 0;
  for (size_t n = 0; n < indices.size(); ++n) {
    for (const Expr& part : affine(indices[n]) ? std::vector{indices[n]} : addends(indices[n])) {
      if (!uses_variable(part, variable->variable)) continue;
      const auto form = affine(part);
      if (!form) {
        *known = false;
        return 0;
      }
      stride = stride + form->coefficient(variable->variable) * place.strides[n];
    }
  }
  return stride;
}

/// The address of the first lane.
llvm::Value* Emitter::pointer(int buffer, const Address& address) {
  llvm::Type* type = memory_type(program_.buffers[static_cast<size_t>(buffer)].type);
  Value* offset = emit(address.uniform);
  Value* step = address.stride.is(0) || address.stride.is(1) ? nullptr : emit(keep(make_size(address.stride)));
  at_top();
  Value* start = builder_.CreateGEP(type, buffers_[static_cast<size_t>(buffer)], offset);
  if (address.stride.is(0)) return start;
  Value* base = bindings_.at(vector_variable_).base;
  return builder_.CreateGEP(type, start, step ? builder_.CreateMul(base, step) : base);
}

LanePlaces Emitter::lane_places(int buffer, const Address& address) {
  Value* start = pointer(buffer, address);
  Value* offsets = address.varying ? splat(emit(address.varying), lanes_) : nullptr;
  Value* step = address.stride.is(0) ? nullptr : emit(keep(make_size(address.stride)));
  at_top();
  if (step) {
    std::vector<llvm::Constant*> lanes;
    for (int n = 0; n < lanes_; ++n) lanes.push_back(builder_.getInt64(static_cast<uint64_t>(n)));
    Value* steps = builder_.CreateMul(llvm::ConstantVector::get(lanes), splat(step, lanes_));
    offsets = offsets ? builder_.CreateAdd(offsets, steps) : steps;
  }
  if (!offsets)
    offsets =
        llvm::Constant::getNullValue(llvm::FixedVectorType::get(builder_.getInt64Ty(), static_cast<unsigned>(lanes_)));
  return {start, offsets};
}

llvm::Value* Emitter::lane_count_any(Value* mask) {
  return mask->getType()->isVectorTy() ? builder_.CreateOrReduce(mask) : mask;
}

/// Loads what `address` names, a scalar when it is the same for all lanes. Masked-off lanes are not read.
llvm::Value* Emitter::load_memory(int buffer, const Address& address) {
  const DType dtype = program_.buffers[static_cast<size_t>(buffer)].type;
  llvm::Type* type = memory_type(dtype);
  const llvm::Align align(static_cast<uint64_t>(bit_width(dtype)) / 8);
  const bool uniform = lanes_ == 1 || (address.stride.is(0) && !address.varying);
  if (uniform) {
    Value* place = pointer(buffer, address);
    if (mask_ && lazy_) place = builder_.CreateSelect(lane_count_any(mask_), place, dummy_);
    return from_memory(dtype, builder_.CreateAlignedLoad(type, place, align));
  }
  auto* vector = llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes_));
  if (address.stride.is(1) && !address.varying) {
    Value* place = pointer(buffer, address);
    if (!mask_) return from_memory(dtype, builder_.CreateAlignedLoad(vector, place, align));
    return from_memory(dtype, builder_.CreateMaskedLoad(vector, place, align, splat(mask_, lanes_),
                                                        llvm::Constant::getNullValue(vector)));
  }
  if (Value* found = look_up_bytes(buffer, address)) return from_memory(dtype, found);
  if (Value* strided = load_strided(buffer, address)) return from_memory(dtype, strided);
  if (const auto window = find_window(buffer, address)) {
    const LanePlaces places = lane_places(buffer, address);
    return from_memory(dtype, load_window(buffer, address, *window, [&] { return gather(buffer, places); }));
  }
  return from_memory(dtype, gather(buffer, lane_places(buffer, address)));
}

/// Bytes from a table of 256, at places that are its own whatever they are: all of it lies in four registers. Null
/// where no instruction permutes bytes, or this is another tensor.
llvm::Value* Emitter::look_up_bytes(int buffer, const Address& address) {
  constexpr int kBytes = 64, kRegisters = 4;
  const tile::Buffer& from = program_.buffers[static_cast<size_t>(buffer)];
  const bool is_table = bit_width(from.type) == 8 && from.scope == tile::Scope::kGlobal && from.shape.size() == 1 &&
                        from.shape[0].is(kBytes * kRegisters) && from.strides[0].is(1);
  if (!unit_.traits.permutes_bytes || !is_table || !address.varying || !address.stride.is(0) || lanes_ > kBytes) {
    return nullptr;
  }
  Value* lanes = splat(emit(address.varying), lanes_);
  Value* first = splat(emit(address.uniform), lanes_);
  at_top();
  auto* bytes = llvm::FixedVectorType::get(builder_.getInt8Ty(), kBytes);
  auto* own = llvm::FixedVectorType::get(builder_.getInt8Ty(), static_cast<unsigned>(lanes_));
  Value* places = builder_.CreateTrunc(builder_.CreateAdd(lanes, first), own);
  std::vector<int> widened, taken;
  for (int n = 0; n < kBytes; ++n) widened.push_back(n < lanes_ ? n : llvm::PoisonMaskElem);
  for (int n = 0; n < lanes_; ++n) taken.push_back(n);
  places = builder_.CreateShuffleVector(places, widened);
  Value* table[kRegisters];
  for (int n = 0; n < kRegisters; ++n) {
    Value* start = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), buffers_[static_cast<size_t>(buffer)], n * kBytes);
    table[n] = builder_.CreateAlignedLoad(bytes, start, llvm::Align(1));
  }
  const auto half = [&](int n) {
    return builder_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_qi_512, {},
                                    {table[n], places, table[n + 1]});
  };
  Value* is_low = builder_.CreateICmpSGE(places, llvm::Constant::getNullValue(bytes));
  return builder_.CreateShuffleVector(builder_.CreateSelect(is_low, half(0), half(2)), taken);
}

/// One element from each place.
llvm::Value* Emitter::gather(int buffer, const LanePlaces& lanes) {
  if (Value* words = gather_words(buffer, lanes)) return words;
  const DType dtype = program_.buffers[static_cast<size_t>(buffer)].type;
  llvm::Type* type = memory_type(dtype);
  auto* vector = llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes_));
  const llvm::Align align(static_cast<uint64_t>(bit_width(dtype)) / 8);
  Value* places = builder_.CreateGEP(type, lanes.start, lanes.offsets);
  if (unit_.traits.masked && bit_width(dtype) >= 32) {
    Value* mask = mask_ ? splat(mask_, lanes_) : nullptr;
    return builder_.CreateMaskedGather(vector, places, align, mask, llvm::Constant::getNullValue(vector));
  }
  if (mask_) places = builder_.CreateSelect(splat(mask_, lanes_), places, splat(dummy_, lanes_));
  Value* result = llvm::PoisonValue::get(vector);
  for (int n = 0; n < lanes_; ++n) {
    Value* place = builder_.CreateExtractElement(places, static_cast<uint64_t>(n));
    result =
        builder_.CreateInsertElement(result, builder_.CreateAlignedLoad(type, place, align), static_cast<uint64_t>(n));
  }
  return result;
}

/// Gathers by 32-bit offsets take half as long as by 64-bit ones: LLVM has them only where it sees where offsets come
/// from. Null where there is no such instruction, or a buffer is too large.
llvm::Value* Emitter::gather_words(int buffer, const LanePlaces& lanes) {
  const tile::Buffer& from = program_.buffers[static_cast<size_t>(buffer)];
  llvm::Type* type = memory_type(from.type);
  if (bit_width(from.type) != 32 || !unit_.traits.permutes_words || !has_short_offsets(from)) return nullptr;
  const bool is_real = type->isFloatTy();
  llvm::Intrinsic::ID id = llvm::Intrinsic::not_intrinsic;
  if (lanes_ == 16 && unit_.traits.register_bits == 512) {
    id = is_real ? llvm::Intrinsic::x86_avx512_mask_gather_dps_512 : llvm::Intrinsic::x86_avx512_mask_gather_dpi_512;
  } else if (lanes_ == 8) {
    id = is_real ? llvm::Intrinsic::x86_avx512_mask_gather3siv8_sf : llvm::Intrinsic::x86_avx512_mask_gather3siv8_si;
  }
  if (id == llvm::Intrinsic::not_intrinsic) return nullptr;
  const auto vector_of = [&](llvm::Type* each) {
    return llvm::FixedVectorType::get(each, static_cast<unsigned>(lanes_));
  };
  Value* words = builder_.CreateTrunc(lanes.offsets, vector_of(builder_.getInt32Ty()));
  Value* mask = mask_ ? splat(mask_, lanes_) : llvm::Constant::getAllOnesValue(vector_of(builder_.getInt1Ty()));
  return builder_.CreateIntrinsic(
      id, {}, {llvm::Constant::getNullValue(vector_of(type)), lanes.start, words, mask, builder_.getInt32(4)});
}

/// Stores a scalar or one element per lane; masked-off lanes are not written.
void Emitter::store_memory(int buffer, const Address& address, Value* value) {
  const DType dtype = program_.buffers[static_cast<size_t>(buffer)].type;
  const llvm::Align align(static_cast<uint64_t>(bit_width(dtype)) / 8);
  Value* bits = to_memory(dtype, value);
  if (lanes_ == 1) {
    Value* place = pointer(buffer, address);
    builder_.CreateAlignedStore(bits, place, align);
    return;
  }
  bits = splat(bits, lanes_);
  if (address.stride.is(1) && !address.varying) {
    Value* place = pointer(buffer, address);
    if (mask_) {
      builder_.CreateMaskedStore(bits, place, align, splat(mask_, lanes_));
    } else {
      builder_.CreateAlignedStore(bits, place, align);
    }
    return;
  }
  const LanePlaces lanes = lane_places(buffer, address);
  Value* places = builder_.CreateGEP(memory_type(dtype), lanes.start, lanes.offsets);
  builder_.CreateMaskedScatter(bits, places, align, mask_ ? splat(mask_, lanes_) : nullptr);
}

}  // namespace graft::codegen
