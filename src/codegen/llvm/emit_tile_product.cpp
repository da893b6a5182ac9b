// SPDX-License-Identifier: Apache-2.0
// Products by the tile registers of AMX: two by two tiles of sums, a of at most 16 rows of 64 bytes each, b of 16
// groups of 16 columns. Registers are numbered here: 0 to 3 hold sums (row tile * 2 + column tile), 4 and 5 a, 6 and
// 7 b.
#include <algorithm>

#include "base/error.h"
#include "codegen/llvm/emitter.h"

#include <llvm/IR/IntrinsicsX86.h>

namespace graft::codegen {
namespace {

constexpr int64_t kRows = 16, kRowBytes = 64;
constexpr int kFirstA = 4, kFirstB = 6;

llvm::Intrinsic::ID instruction_of(const ContractUnit& unit) {
  if (unit.name == "amx_u8s8") return llvm::Intrinsic::x86_tdpbusd;
  if (unit.name == "amx_u8u8") return llvm::Intrinsic::x86_tdpbuud;
  if (unit.name == "amx_s8s8") return llvm::Intrinsic::x86_tdpbssd;
  if (unit.name == "amx_bf16") return llvm::Intrinsic::x86_tdpbf16ps;
  GRAFT_CHECK(unit.name == "amx_s8u8", std::string(unit.name) + " has no spelling");
  return llvm::Intrinsic::x86_tdpbsud;
}

}  // namespace

/// Whole blocks of two tiles of rows under one configuration of the registers, then what is left under another.
void Emitter::emit_tile_product(const tile::Contract& contract, const ContractPlan& plan) {
  llvm::AllocaInst* config = make_local(llvm::ArrayType::get(builder_.getInt8Ty(), kRowBytes));
  config->setAlignment(llvm::Align(16));
  nested_loops(contract.m, 0, contract.m.size() - 1, [&] { tile_rows(contract, plan, config); });
  at_top();
  tile_call(llvm::Intrinsic::x86_tilerelease, {});
}

void Emitter::tile_rows(const tile::Contract& contract, const ContractPlan& plan, Value* config) {
  const tile::Axis& axis = contract.m.back();
  Value* extent = emit(axis.extent);
  at_top();
  Value* whole = builder_.CreateAnd(extent, index(-2 * kRows));
  Value* left = builder_.CreateSub(extent, whole);
  configure_tiles(config, index(kRows), index(kRows));
  const Loop loop = open_loop(index(0), whole, index(2 * kRows));
  bind(axis.variable, loop.index);
  tile_columns(contract, plan, 2);
  close_loop(loop);
  at_top();
  for (const int tiles : {1, 2}) {
    Value* fits = tiles == 1 ? builder_.CreateAnd(builder_.CreateICmpSGT(left, index(0)),
                                                  builder_.CreateICmpSLE(left, index(kRows)))
                             : builder_.CreateICmpSGT(left, index(kRows));
    const std::vector<size_t> closed = open_if(fits);
    bind(axis.variable, whole);
    at_top();
    Value* first = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, index(kRows));
    configure_tiles(config, first, builder_.CreateSub(left, first));
    tile_columns(contract, plan, tiles);
    close_if(closed);
    at_top();
  }
}

/// All columns of the rows at the bound point, two tiles at a time.
void Emitter::tile_columns(const tile::Contract& contract, const ContractPlan& plan, int row_tiles) {
  nested_loops(contract.n, 0, contract.n.size() - 1, [&] {
    const tile::Axis& lanes = contract.n.back();
    const int64_t tiles = lanes.bound / kRows;
    for (int64_t first = 0; first < tiles; first += 2) {
      bind(lanes.variable, index(first * kRows));
      MicroKernelShape shape = plan.shape;
      shape.rows = row_tiles;
      shape.vectors = static_cast<int>(std::min<int64_t>(2, tiles - first));
      const Values arguments = tile_arguments(contract, plan, nullptr);
      builder_.CreateCall(tile_product(shape), arguments);
    }
  });
}

/// Sets the registers' sizes for so many rows of a and of the sums in the first tile and in the second.
void Emitter::configure_tiles(Value* config, Value* first, Value* second) {
  llvm::Type* byte = builder_.getInt8Ty();
  builder_.CreateAlignedStore(llvm::Constant::getNullValue(llvm::ArrayType::get(byte, kRowBytes)), config,
                              llvm::Align(16));
  const auto at = [&](int64_t place) {
    return builder_.CreateConstGEP1_64(byte, config, static_cast<uint64_t>(place));
  };
  builder_.CreateStore(builder_.getInt8(1), at(0));  // the palette
  // A register that is not used has a valid size all the same.
  second = builder_.CreateSelect(builder_.CreateICmpSGT(second, index(0)), second, index(kRows));
  for (int tile = 0; tile < 8; ++tile) {
    constexpr int64_t kFirstWidth = 16, kFirstHeight = 48;
    builder_.CreateAlignedStore(builder_.getInt16(kRowBytes), at(kFirstWidth + 2 * tile), llvm::Align(2));
    const bool is_b = tile >= kFirstB, is_second = tile < kFirstA ? tile >= 2 : tile % 2 == 1;
    Value* height = is_b ? index(kRows) : is_second ? second : first;
    builder_.CreateStore(builder_.CreateTrunc(height, byte), at(kFirstHeight + tile));
  }
  tile_call(llvm::Intrinsic::x86_ldtilecfg, {config});
}

void Emitter::tile_call(llvm::Intrinsic::ID intrinsic, const Values& arguments) {
  builder_.CreateIntrinsic(intrinsic, {}, arguments);
}

llvm::Function* Emitter::tile_product(const MicroKernelShape& shape) {
  return shared_function(shape, &Emitter::emit_tile_function);
}

/// c (+)= a * b of `shape.rows` by `shape.vectors` tiles, with the parameters of a micro-kernel.
llvm::Function* Emitter::emit_tile_function(const MicroKernelShape& shape) {
  open_function(shape);
  function_->addFnAttr(llvm::Attribute::NoInline);  // its registers are named, and are its caller's to configure
  at_top();
  constexpr int64_t kSumBytes = 4;
  Value* stride = builder_.CreateMul(function_->getArg(kRowsC), index(kSumBytes));
  const auto for_each_sum = [&](const auto& visit) {
    for (int row = 0; row < shape.rows; ++row) {
      for (int column = 0; column < shape.vectors; ++column) {
        Value* offset = builder_.CreateAdd(builder_.CreateMul(stride, index(row * kRows)), index(column * kRowBytes));
        visit(builder_.getInt8(static_cast<uint8_t>(2 * row + column)),
              builder_.CreateGEP(builder_.getInt8Ty(), function_->getArg(kC), offset));
      }
    }
  };
  for_each_sum([&](Value* tile, Value* place) {
    if (shape.accumulate) {
      tile_call(llvm::Intrinsic::x86_tileloadd64, {tile, place, stride});
    } else {
      tile_call(llvm::Intrinsic::x86_tilezero, {tile});
    }
  });
  tile_steps(shape, 0, function_->getArg(kA), function_->getArg(kB));
  at_top();
  for_each_sum([&](Value* tile, Value* place) { tile_call(llvm::Intrinsic::x86_tilestored64, {tile, place, stride}); });
  return function_;
}

/// Loops over the outer k axes, then over the instructions along the innermost.
void Emitter::tile_steps(const MicroKernelShape& shape, int axis, Value* a, Value* b) {
  llvm::Type* a_type = memory_type(shape.a);
  llvm::Type* b_type = memory_type(shape.b);
  const bool innermost = axis == shape.outer_axes;
  const unsigned first = kOuter + 3 * static_cast<unsigned>(axis);
  const int64_t groups = shape.unit->k / shape.unit->pack;
  const Loop loop = open_loop(index(0), function_->getArg(innermost ? kExtent : first), index(innermost ? groups : 1));
  at_top();
  Value* step_a = function_->getArg(innermost ? kStepA : first + 1);
  Value* step_b = function_->getArg(innermost ? kStepB : first + 2);
  a = builder_.CreateGEP(a_type, a, builder_.CreateMul(loop.index, step_a));
  b = builder_.CreateGEP(b_type, b, builder_.CreateMul(loop.index, step_b));
  if (!innermost) {
    tile_steps(shape, axis + 1, a, b);
  } else {
    const auto number = [&](int tile) { return builder_.getInt8(static_cast<uint8_t>(tile)); };
    const auto in_bytes = [&](Value* elements, DType type) {
      return builder_.CreateMul(elements, index(bit_width(type) / 8));
    };
    Value* stride = in_bytes(function_->getArg(kRowsA), shape.a);
    Value* stride_b = in_bytes(step_b, shape.b);
    for (int column = 0; column < shape.vectors; ++column) {
      Value* place = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), b, static_cast<uint64_t>(column * kRowBytes));
      tile_call(llvm::Intrinsic::x86_tileloadd64, {number(kFirstB + column), place, stride_b});
    }
    for (int row = 0; row < shape.rows; ++row) {
      Value* place = builder_.CreateGEP(builder_.getInt8Ty(), a, builder_.CreateMul(stride, index(row * kRows)));
      tile_call(llvm::Intrinsic::x86_tileloadd64, {number(kFirstA + row), place, stride});
      for (int column = 0; column < shape.vectors; ++column) {
        tile_call(instruction_of(*shape.unit),
                  {number(2 * row + column), number(kFirstA + row), number(kFirstB + column)});
      }
    }
  }
  close_loop(loop);
}

}  // namespace graft::codegen
