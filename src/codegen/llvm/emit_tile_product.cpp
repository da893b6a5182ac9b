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

/// The number of the first parameter behind those of the axes of k.
unsigned behind_axes(const MicroKernelShape& shape) { return kOuter + 3 * static_cast<unsigned>(shape.outer_axes); }

}  // namespace

/// Blocks of two tiles of rows under one configuration of the registers, then what is left under another. A tile has 16
/// rows of the innermost axis of rows or, where that axis is short, as in a map of 14 by 14, those of a point of the
/// axis around it.
void Emitter::emit_tile_product(const tile::Contract& contract, const ContractPlan& plan) {
  llvm::AllocaInst* config = make_local(llvm::ArrayType::get(builder_.getInt8Ty(), kRowBytes));
  config->setAlignment(llvm::Align(16));
  const size_t axes = contract.m.size();
  const bool by_points = axes > 1 && contract.m.back().bound > 0 && contract.m.back().bound <= kRows;
  const tile::Axis& axis = contract.m[axes - (by_points ? 2 : 1)];
  nested_loops(contract.m, 0, axes - (by_points ? 2 : 1), [&] {
    TileRows rows{.axis = &axis, .of_tile = by_points ? 1 : kRows};
    const auto to_second = [&](int buffer, const std::vector<Expr>& indices) {
      bool known = true;
      return emit(keep(make_size(stride_along(buffer, indices, axis.variable, &known) * Size(rows.of_tile))));
    };
    rows.second_a = to_second(contract.a->tensor, contract.a->args);
    rows.second_c = to_second(contract.c, contract.c_indices);
    Value* extent = emit(axis.extent);
    Value* height = index(kRows);
    if (by_points) {
      height = emit(contract.m.back().extent);
      bind(contract.m.back().variable, index(0));
    }
    at_top();
    rows.begin = index(0);
    rows.end = builder_.CreateAnd(extent, index(-2 * rows.of_tile));
    configure_tiles(config, height, height);
    tile_columns(contract, plan, rows);
    at_top();
    rows.begin = rows.end;
    rows.end = extent;
    tile_rest(contract, plan, rows, by_points ? nullptr : config);
  });
  at_top();
  tile_call(llvm::Intrinsic::x86_tilerelease, {});
}

/// What is less than two whole tiles: rows of a map fill one as before, others one or two that `config` is set for.
void Emitter::tile_rest(const tile::Contract& contract, const ContractPlan& plan, TileRows rows, Value* config) {
  Value* left = builder_.CreateSub(rows.end, rows.begin);
  for (const int tiles : {1, 2}) {
    if (tiles == 2 && !config) return;
    at_top();
    Value* fits = tiles == 1 ? builder_.CreateAnd(builder_.CreateICmpSGT(left, index(0)),
                                                  builder_.CreateICmpSLE(left, index(rows.of_tile)))
                             : builder_.CreateICmpSGT(left, index(rows.of_tile));
    const std::vector<size_t> closed = open_if(fits);
    at_top();
    if (config) {
      Value* first = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, index(kRows));
      configure_tiles(config, first, builder_.CreateSub(left, first));
    }
    rows.tiles = tiles;
    tile_columns(contract, plan, rows);
    close_if(closed);
  }
}

/// Two tiles of columns after the other, each for all blocks of rows: b stays in the first cache meanwhile, and every
/// block asks for a part of the next columns of b.
void Emitter::tile_columns(const tile::Contract& contract, const ContractPlan& plan, const TileRows& rows) {
  nested_loops(contract.n, 0, contract.n.size() - 1, [&] {
    const tile::Axis& lanes = contract.n.back();
    const int64_t tiles = lanes.bound / kRows;
    for (int64_t first = 0; first < tiles; first += 2) {
      at_top();
      bind(lanes.variable, index(first * kRows));
      MicroKernelShape shape = plan.shape;
      shape.rows = rows.tiles;
      shape.vectors = static_cast<int>(std::min<int64_t>(2, tiles - first));
      const int64_t to_next = columns_ahead(contract, first);
      shape.rows_ahead = to_next > 0 ? rows_ahead(*rows.axis, rows.of_tile) : 0;
      const Loop loop = open_loop(rows.begin, rows.end, index(2 * rows.of_tile));
      bind(rows.axis->variable, loop.index);
      Values arguments = tile_arguments(contract, plan, nullptr);
      at_top();
      // Of the 16 rows of a tile of the next columns, those that this block asks for.
      Value* block = builder_.CreateUDiv(loop.index, index(2 * rows.of_tile));
      Value* part = builder_.CreateURem(builder_.CreateMul(block, index(shape.rows_ahead)), index(kRows));
      Value* b_row = builder_.CreateMul(arguments[kStepB], index(bit_width(shape.b) / 8));
      Value* ahead = builder_.CreateAdd(builder_.CreateMul(part, b_row), index(to_next));
      arguments.insert(arguments.end(), {rows.second_a, rows.second_c, ahead});
      builder_.CreateCall(shared_function(shape, &Emitter::emit_tile_function), arguments);
      close_loop(loop);
    }
  });
}

/// Bytes from two tiles of columns of b to the next two: of the same panel or of the one behind it. 0 where b is small,
/// or not constant, so that it is in the caches anyhow.
int64_t Emitter::columns_ahead(const tile::Contract& contract, int64_t tile) const {
  const tile::Buffer& buffer = program_.buffers[static_cast<size_t>(contract.b->tensor)];
  Size elements = 1;
  for (const Size& size : buffer.shape) elements = elements * size;
  const int64_t bytes = elements.as_constant().value_or(0) * bit_width(buffer.type) / 8;
  constexpr int64_t kLeastBytes = 256 << 10;
  if (!buffer.constant || bytes < kLeastBytes || contract.n.size() < 2) return 0;
  constexpr int64_t kPair = 2 * kRowBytes;
  if ((tile + 2) * kRows < contract.n.back().bound) return kPair;
  bool known = true;
  const tile::Axis& panels = contract.n[contract.n.size() - 2];
  const Size stride = stride_along(contract.b->tensor, contract.b->args, panels.variable, &known);
  if (!known || !stride.is_constant()) return 0;
  return stride.constant() * bit_width(buffer.type) / 8 - tile * kRowBytes;
}

/// Rows of a tile that each block of rows asks for, so that all blocks together ask for 16.
int64_t Emitter::rows_ahead(const tile::Axis& axis, int64_t of_tile) {
  const int64_t blocks = std::max<int64_t>(1, axis.bound / (2 * of_tile));
  return (kRows + blocks - 1) / blocks;
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

/// c (+)= a * b of `shape.rows` by `shape.vectors` tiles, with the parameters of a micro-kernel and three more:
/// elements from the first tile of rows to the second in a and in c, and bytes from b to what is asked for ahead.
llvm::Function* Emitter::emit_tile_function(const MicroKernelShape& shape) {
  open_function(shape);
  function_->addFnAttr(llvm::Attribute::NoInline);  // its registers are named, and are its caller's to configure
  at_top();
  constexpr int64_t kSumBytes = 4;
  Value* stride = builder_.CreateMul(function_->getArg(kRowsC), index(kSumBytes));
  Value* second = builder_.CreateMul(function_->getArg(behind_axes(shape) + 1), index(kSumBytes));
  const auto for_each_sum = [&](const auto& visit) {
    for (int row = 0; row < shape.rows; ++row) {
      for (int column = 0; column < shape.vectors; ++column) {
        Value* offset = builder_.CreateAdd(builder_.CreateMul(second, index(row)), index(column * kRowBytes));
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
    Value* second = in_bytes(function_->getArg(behind_axes(shape)), shape.a);
    ask_ahead(shape, b, stride_b);
    for (int column = 0; column < shape.vectors; ++column) {
      Value* place = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), b, static_cast<uint64_t>(column * kRowBytes));
      tile_call(llvm::Intrinsic::x86_tileloadd64, {number(kFirstB + column), place, stride_b});
    }
    for (int row = 0; row < shape.rows; ++row) {
      Value* place = builder_.CreateGEP(builder_.getInt8Ty(), a, builder_.CreateMul(second, index(row)));
      tile_call(llvm::Intrinsic::x86_tileloadd64, {number(kFirstA + row), place, stride});
      for (int column = 0; column < shape.vectors; ++column) {
        tile_call(instruction_of(*shape.unit),
                  {number(2 * row + column), number(kFirstA + row), number(kFirstB + column)});
      }
    }
  }
  close_loop(loop);
}

/// Fetches lines of the next columns of b into the second cache: tiles are loaded as the product needs them, and the
/// processor does not see them coming.
void Emitter::ask_ahead(const MicroKernelShape& shape, Value* b, Value* stride_b) {
  Value* from = builder_.CreateGEP(builder_.getInt8Ty(), b, function_->getArg(behind_axes(shape) + 2));
  for (int64_t row = 0; row < shape.rows_ahead; ++row) {
    for (int column = 0; column < shape.vectors; ++column) {
      Value* offset = builder_.CreateAdd(builder_.CreateMul(stride_b, index(row)), index(column * kRowBytes));
      Value* line = builder_.CreateGEP(builder_.getInt8Ty(), from, offset);
      constexpr uint32_t kRead = 0, kSecondCache = 2, kData = 1;
      builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {builder_.getPtrTy()},
                               {line, builder_.getInt32(kRead), builder_.getInt32(kSecondCache),
                                builder_.getInt32(kData)});
    }
  }
}

}  // namespace graft::codegen
