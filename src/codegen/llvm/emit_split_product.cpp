// SPDX-License-Identifier: Apache-2.0
// Products of f32 by the tile registers of AMX: operands lie as three bf16 parts (tile/split_words.h). Of the nine
// products of parts six count; those of the first parts, and the five small ones, have sums of their own, so that the
// small ones are not rounded to the large ones' last bit. A block of two by two tiles goes through the reduction twice,
// once for each kind of sum: all four registers of sums, and 16 loads for 24 products. Long reductions are cut into
// pieces whose part of b stays in the caches of a core for all blocks of rows; sums wait in a local buffer meanwhile.
#include <algorithm>

#include "base/error.h"
#include "codegen/llvm/emitter.h"
#include "tile/split_words.h"

#include <llvm/IR/IntrinsicsX86.h>

namespace graft::codegen {
namespace {

constexpr int64_t kRows = 16, kRowBytes = 64, kTileBytes = kRows * kRowBytes;
constexpr int64_t kBlockRows = 2 * kRows;
constexpr int64_t kSums = 4;                            ///< tiles of sums of one kind in a block
constexpr int64_t kBlockBytes = 2 * kSums * kTileBytes;  ///< of both kinds
constexpr int kFirstA = 4, kFirstB = 6;
/// Parts of a and b that are multiplied for the small sums: from one pair to the next only one operand is loaded.
constexpr struct {
  int a, b;
} kSmallProducts[] = {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}};

/// Words along k of a piece: so much of two tiles of columns takes an eighth of the second-level cache. Shorter pieces,
/// whose columns stay in the first level, were 10 % slower on a Xeon (Sapphire Rapids): sums go to memory more often.
int64_t words_of_piece(const Target& target) {
  constexpr int64_t kShare = 8, kLeastSteps = 4;
  const int64_t bytes_of_step = tile::kParts * 2 * kTileBytes;
  return std::max<int64_t>(kLeastSteps, target.l2_bytes / kShare / bytes_of_step) * tile::kSplitWords;
}

}  // namespace

/// A block is two tiles of up to 16 rows: those of the innermost axis of rows, in blocks of equal height, of which the
/// last one may overlap the one before it, so that one configuration of the registers serves all; or, where that axis
/// is short, as in a map of 14 by 14, two points of the axis around it.
void Emitter::emit_split_product(tile::Contract contract, ContractPlan plan) {
  join_reduced_axes(contract, plan);
  llvm::AllocaInst* config = make_local(llvm::ArrayType::get(builder_.getInt8Ty(), kRowBytes));
  config->setAlignment(llvm::Align(16));
  constexpr int64_t kMostPairs = 16;  // whose sums lie on the stack
  const bool pairs = contract.m.size() > 1 && contract.m.back().bound <= kRows &&
                     contract.m[contract.m.size() - 2].bound > 0 &&
                     contract.m[contract.m.size() - 2].bound <= 2 * kMostPairs;
  const tile::Axis& axis = pairs ? contract.m[contract.m.size() - 2] : contract.m.back();
  const int64_t points = pairs ? 2 : kBlockRows;
  const int64_t blocks = (axis.bound + points - 1) / points;
  llvm::AllocaInst* sums =
      make_local(llvm::ArrayType::get(builder_.getInt8Ty(), static_cast<uint64_t>(blocks * kBlockBytes)));
  sums->setAlignment(llvm::Align(kRowBytes));
  SplitRows rows{.axis = &axis, .pairs = pairs, .sums = sums};
  nested_loops(contract.m, 0, contract.m.size() - (pairs ? 2 : 1), [&] {
    rows.extent = emit(axis.extent);
    if (pairs) bind(contract.m.back().variable, index(0));
    at_top();
    rows.blocks = builder_.CreateSDiv(builder_.CreateAdd(rows.extent, index(points - 1)), index(points));
    Value* some = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, rows.blocks, index(1));
    rows.points = builder_.CreateSDiv(builder_.CreateAdd(rows.extent, builder_.CreateSub(some, index(1))), some);
    const int64_t step = pairs ? 1 : kRows;  // from the first tile to the second
    const auto between = [&](int buffer, const std::vector<Expr>& indices) {
      bool known = true;
      return emit(keep(make_size(stride_along(buffer, indices, axis.variable, &known) * Size(step))));
    };
    rows.second_a = between(contract.a->tensor, contract.a->args);
    rows.second_c = between(contract.c, contract.c_indices);
    if (pairs) {
      rows.heights[0] = rows.heights[1] = emit(contract.m.back().extent);
    } else {
      at_top();
      rows.heights[0] = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, rows.points, index(kRows));
      rows.heights[1] = builder_.CreateSub(rows.points, rows.heights[0]);
    }
    at_top();
    configure_tiles(config, rows.heights[0], rows.heights[1]);
    Value* is_small = builder_.CreateICmpSLE(rows.points, index(points / 2));
    for (const int tiles : {1, 2}) {
      at_top();
      rows.tiles = tiles;
      const std::vector<size_t> closed = open_if(tiles == 1 ? is_small : builder_.CreateNot(is_small));
      split_columns(contract, plan, rows);
      close_if(closed);
    }
  });
  at_top();
  tile_call(llvm::Intrinsic::x86_tilerelease, {});
}

/// Axes of the reduction of which one lies behind the other in both operands become one, which has longer pieces. Their
/// variables are bound to 0.
void Emitter::join_reduced_axes(tile::Contract& contract, ContractPlan& plan) {
  const auto length = [](const tile::Axis& axis) {
    return axis.extent->kind == ExprKind::kConstant ? axis.extent->integer : 0;
  };
  while (plan.shape.outer_axes > 0) {
    const size_t last = contract.k.size() - 1;
    const int64_t inner = length(contract.k[last]), outer = length(contract.k[last - 1]);
    const bool joins = inner > 0 && outer > 0 && plan.a_steps[last - 1] == plan.a_steps[last] * Size(inner) &&
                       plan.b_steps[last - 1] == plan.b_steps[last] * Size(inner);
    if (!joins) return;
    contract.k[last].extent = keep(make_index(inner * outer));
    contract.k[last].bound = inner * outer;
    contract.k.erase(contract.k.end() - 2);
    plan.a_steps.erase(plan.a_steps.end() - 2);
    plan.b_steps.erase(plan.b_steps.end() - 2);
    --plan.shape.outer_axes;
  }
}

/// Two tiles of columns after the other; within them pieces of the reduction, within those the blocks of rows.
void Emitter::split_columns(const tile::Contract& contract, const ContractPlan& plan, const SplitRows& rows) {
  const tile::Axis& lanes = contract.n.back();
  const tile::Axis& words = contract.k.back();
  const int64_t tiles = lanes.bound / kRows;
  // Pieces are of the innermost axis: where there are others around it, as the taps of a window, there is one piece.
  constexpr int64_t kAll = int64_t{1} << 32;
  const int64_t piece = plan.shape.outer_axes == 0 ? words_of_piece(unit_.target) : kAll;
  nested_loops(contract.n, 0, contract.n.size() - 1, [&] {
    for (int64_t first = 0; first < tiles; first += 2) {
      at_top();
      bind(lanes.variable, index(first * kRows));
      MicroKernelShape shape = plan.shape;
      shape.rows = rows.tiles;
      shape.vectors = static_cast<int>(std::min<int64_t>(2, tiles - first));
      Value* extent = emit(words.extent);
      at_top();
      const auto sweep = [&](Value* begin) {
        bind(words.variable, begin);
        at_top();
        Value* length = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, builder_.CreateSub(extent, begin),
                                                       index(piece));
        split_rows(contract, plan, shape, rows, length);
      };
      shape.accumulate = false;
      sweep(index(0));
      if (piece != kAll && (words.bound == 0 || words.bound > piece)) {
        at_top();
        const Loop loop = open_loop(index(piece), extent, index(piece));
        shape.accumulate = true;
        sweep(loop.index);
        close_loop(loop);
      }
      at_top();
      bind(words.variable, index(0));
      join_sums(contract, plan, shape, rows);
    }
  });
}

/// Adds the products of one piece of the reduction to the sums of all blocks of rows.
void Emitter::split_rows(const tile::Contract& contract, const ContractPlan& plan, const MicroKernelShape& shape,
                         const SplitRows& rows, Value* length) {
  const Loop loop = open_loop(index(0), rows.blocks, index(1));
  at_top();
  bind(rows.axis->variable, split_row(rows, loop.index));
  Values arguments = tile_arguments(contract, plan, nullptr);
  at_top();
  arguments[kC] = builder_.CreateGEP(builder_.getInt8Ty(), rows.sums,
                                     builder_.CreateMul(loop.index, index(kBlockBytes)));
  arguments[kRowsC] = emit(keep(make_size(part_stride(contract.a))));
  arguments[kColumns] = emit(keep(make_size(part_stride(contract.b))));
  arguments[kExtent] = length;
  arguments.push_back(rows.second_a);
  at_top();
  builder_.CreateCall(shared_function(shape, &Emitter::emit_split_function), arguments);
  close_loop(loop);
}

/// Where a block begins: the last one ends with the rows.
llvm::Value* Emitter::split_row(const SplitRows& rows, Value* block) {
  Value* last = builder_.CreateSub(rows.extent, rows.points);
  return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, builder_.CreateMul(block, rows.points), last);
}

/// Elements from one part of an operand to the next.
Size Emitter::part_stride(const Expr& operand) const {
  return program_.buffers[static_cast<size_t>(operand->tensor)].strides[operand->args.size() - 2];
}

/// c (+)= (large + small) * kSumScale.
void Emitter::join_sums(const tile::Contract& contract, const ContractPlan& plan, const MicroKernelShape& shape,
                        const SplitRows& rows) {
  auto* vector = llvm::FixedVectorType::get(builder_.getFloatTy(), kRows);
  Value* scale = llvm::ConstantFP::get(vector, tile::kSumScale);
  const Loop blocks = open_loop(index(0), rows.blocks, index(1));
  at_top();
  Value* first = split_row(rows, blocks.index);
  bind(rows.axis->variable, first);
  // Points that the block before has joined already.
  Value* known = builder_.CreateSub(builder_.CreateMul(blocks.index, rows.points), first);
  Value* c = pointer(contract.c, analyze(contract.c, contract.c_indices));
  Value* stride = emit(keep(make_size(plan.c_rows)));
  for (int tile = 0; tile < rows.tiles; ++tile) {
    at_top();
    Value* skipped = builder_.CreateSub(known, index(tile * (rows.pairs ? 1 : kRows)));
    skipped = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, skipped, index(0));
    if (rows.pairs) skipped = builder_.CreateMul(skipped, rows.heights[tile]);
    const Loop loop = open_loop(skipped, rows.heights[tile], index(1));
    at_top();
    Value* place = builder_.CreateAdd(builder_.CreateMul(blocks.index, index(kBlockBytes)),
                                      builder_.CreateMul(loop.index, index(kRowBytes)));
    place = builder_.CreateGEP(builder_.getInt8Ty(), rows.sums, place);
    Value* offset = builder_.CreateMul(loop.index, stride);
    if (tile == 1) offset = builder_.CreateAdd(offset, rows.second_c);
    Value* result = builder_.CreateGEP(builder_.getFloatTy(), c, offset);
    for (int column = 0; column < shape.vectors; ++column) {
      const auto part = [&](int64_t kind) {
        const int64_t number = kind * kSums + 2 * tile + column;
        Value* from = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), place,
                                                  static_cast<uint64_t>(number * kTileBytes));
        return builder_.CreateAlignedLoad(vector, from, llvm::Align(kRowBytes));
      };
      Value* sum = builder_.CreateFMul(builder_.CreateFAdd(part(0), part(1)), scale);
      Value* to = builder_.CreateConstGEP1_64(builder_.getFloatTy(), result, static_cast<uint64_t>(column * kRows));
      if (contract.accumulate) {
        sum = builder_.CreateFAdd(builder_.CreateAlignedLoad(vector, to, llvm::Align(4)), sum);
      }
      builder_.CreateAlignedStore(sum, to, llvm::Align(4));
    }
    close_loop(loop);
  }
  close_loop(blocks);
}

/// Adds a block's products to its sums, in a function with the parameters of a micro-kernel: c is the buffer of sums,
/// its row stride that of the parts of a, and the columns that of the parts of b; the last one is where the second tile
/// of a begins.
llvm::Function* Emitter::emit_split_function(const MicroKernelShape& shape) {
  open_function(shape);
  function_->addFnAttr(llvm::Attribute::NoInline);  // its registers are named, and are its caller's to configure
  for (const int64_t kind : {0, 1}) {
    at_top();
    const auto for_each_sum = [&](const auto& visit) {
      for (int row = 0; row < shape.rows; ++row) {
        for (int column = 0; column < shape.vectors; ++column) {
          const int64_t place = (kind * kSums + 2 * row + column) * kTileBytes;
          visit(builder_.getInt8(static_cast<uint8_t>(2 * row + column)),
                builder_.CreateConstGEP1_64(builder_.getInt8Ty(), function_->getArg(kC),
                                            static_cast<uint64_t>(place)));
        }
      }
    };
    for_each_sum([&](Value* tile, Value* place) {
      if (shape.accumulate) {
        tile_call(llvm::Intrinsic::x86_tileloadd64, {tile, place, index(kRowBytes)});
      } else {
        tile_call(llvm::Intrinsic::x86_tilezero, {tile});
      }
    });
    split_steps(shape, 0, function_->getArg(kA), function_->getArg(kB), kind == 0);
    at_top();
    for_each_sum([&](Value* tile, Value* place) {
      tile_call(llvm::Intrinsic::x86_tilestored64, {tile, place, index(kRowBytes)});
    });
  }
  return function_;
}

/// Loops over the outer k axes, then over the instructions along the innermost.
void Emitter::split_steps(const MicroKernelShape& shape, int axis, Value* a, Value* b, bool large) {
  const bool innermost = axis == shape.outer_axes;
  const unsigned first = kOuter + 3 * static_cast<unsigned>(axis);
  const Loop loop = open_loop(index(0), function_->getArg(innermost ? kExtent : first),
                              index(innermost ? tile::kSplitWords : 1));
  at_top();
  llvm::Type* word = builder_.getFloatTy();
  a = builder_.CreateGEP(word, a, builder_.CreateMul(loop.index, function_->getArg(innermost ? kStepA : first + 1)));
  b = builder_.CreateGEP(word, b, builder_.CreateMul(loop.index, function_->getArg(innermost ? kStepB : first + 2)));
  if (!innermost) {
    split_steps(shape, axis + 1, a, b, large);
  } else if (large) {
    load_split_b(shape, b, 0);
    for (int row = 0; row < shape.rows; ++row) {
      load_split_a(shape, row, a, 0);
      for (int column = 0; column < shape.vectors; ++column) multiply_split(row, column);
    }
  } else {
    int last_a = -1, last_b = -1;
    for (const auto& [part_a, part_b] : kSmallProducts) {
      if (part_b != last_b) load_split_b(shape, b, part_b);
      for (int row = 0; row < shape.rows; ++row) {
        if (part_a != last_a) load_split_a(shape, row, a, part_a);
        for (int column = 0; column < shape.vectors; ++column) multiply_split(row, column);
      }
      last_a = part_a, last_b = part_b;
    }
  }
  close_loop(loop);
}

void Emitter::load_split_a(const MicroKernelShape& shape, int row, Value* a, int part) {
  constexpr int64_t kWordBytes = 4;
  Value* stride = builder_.CreateMul(function_->getArg(kRowsA), index(kWordBytes));
  Value* second = function_->getArg(kOuter + 3 * static_cast<unsigned>(shape.outer_axes));
  Value* offset = builder_.CreateAdd(builder_.CreateMul(function_->getArg(kRowsC), index(part * kWordBytes)),
                                     builder_.CreateMul(second, index(row * kWordBytes)));
  Value* place = builder_.CreateGEP(builder_.getInt8Ty(), a, offset);
  tile_call(llvm::Intrinsic::x86_tileloadd64,
            {builder_.getInt8(static_cast<uint8_t>(kFirstA + row)), place, stride});
}

void Emitter::load_split_b(const MicroKernelShape& shape, Value* b, int part) {
  constexpr int64_t kWordBytes = 4;
  Value* stride = builder_.CreateMul(function_->getArg(kStepB), index(kWordBytes));
  Value* start = builder_.CreateGEP(builder_.getInt8Ty(), b,
                                    builder_.CreateMul(function_->getArg(kColumns), index(part * kWordBytes)));
  for (int column = 0; column < shape.vectors; ++column) {
    Value* place =
        builder_.CreateConstGEP1_64(builder_.getInt8Ty(), start, static_cast<uint64_t>(column * kRowBytes));
    tile_call(llvm::Intrinsic::x86_tileloadd64,
              {builder_.getInt8(static_cast<uint8_t>(kFirstB + column)), place, stride});
  }
}

void Emitter::multiply_split(int row, int column) {
  const auto number = [&](int tile) { return builder_.getInt8(static_cast<uint8_t>(tile)); };
  tile_call(llvm::Intrinsic::x86_tdpbf16ps,
            {number(2 * row + column), number(kFirstA + row), number(kFirstB + column)});
}

}  // namespace graft::codegen
