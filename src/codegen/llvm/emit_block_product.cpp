// SPDX-License-Identifier: Apache-2.0
// Micro-kernels of units that sum blocks: of each 128 bits, the left operand holds two rows, the right one two columns,
// and the sums are the 2 x 2 of them. b lies so already; rows of a are paired in registers, for two steps at once.
#include "codegen/llvm/emitter.h"

#include <llvm/IR/IntrinsicsAArch64.h>

namespace graft::codegen {
namespace {

constexpr int kBlockSums = 4;  ///< 2 x 2
constexpr int kWords = 2;      ///< of 64 bits in a block: a row's elements of one step, or two sums

}  // namespace

/// Words 0 of the rows, then words 1, as far as `count` asks for: each pair in every 128 bits of a vector.
Emitter::Values Emitter::pair_words(Value* first, Value* second, int blocks, int count) {
  Values pairs;
  if (blocks == 1) {
    for (int n = 0; n < count; ++n) pairs.push_back(builder_.CreateShuffleVector(first, second, {n, kWords + n}));
    return pairs;
  }
  llvm::Type* word = builder_.getInt64Ty();
  llvm::Type* scalable = llvm::ScalableVectorType::get(word, kWords);
  llvm::Type* fixed = llvm::FixedVectorType::get(word, static_cast<unsigned>(kWords * blocks));
  const auto repeated = [&](Value* row) {
    Value* front = builder_.CreateInsertVector(scalable, llvm::PoisonValue::get(scalable), row, index(0));
    return builder_.CreateIntrinsic(llvm::Intrinsic::aarch64_sve_dupq_lane, {scalable}, {front, index(0)});
  };
  first = repeated(first), second = repeated(second);
  for (int n = 0; n < count; ++n) {
    const auto pairing = n == 0 ? llvm::Intrinsic::aarch64_sve_trn1 : llvm::Intrinsic::aarch64_sve_trn2;
    Value* pair = builder_.CreateIntrinsic(pairing, {scalable}, {first, second});
    pairs.push_back(builder_.CreateExtractVector(fixed, pair, index(0)));
  }
  return pairs;
}

/// Two rows of a at `count` steps, one or two, as a vector for each step. A row that is not there is zeros.
Emitter::Values Emitter::row_pair(const TileState& tile, Value* a, Value* along, int pair, int64_t count) {
  const MicroKernelShape& shape = tile.shape;
  llvm::Type* element = memory_type(shape.a);
  llvm::Type* word = builder_.getInt64Ty();
  llvm::Type* words = llvm::FixedVectorType::get(word, kWords);
  const llvm::Align align(static_cast<uint64_t>(bit_width(shape.a)) / 8);
  Values rows;
  for (int row = 2 * pair; row < 2 * pair + 2; ++row) {
    Value* start = builder_.CreateGEP(element, a, builder_.CreateMul(function_->getArg(kRowsA), index(row)));
    Value* place = builder_.CreateGEP(element, start, along);
    if (row >= shape.rows) {
      rows.push_back(llvm::Constant::getNullValue(words));
    } else if (count == kWords) {
      rows.push_back(builder_.CreateAlignedLoad(words, place, align));
    } else {
      Value* one = builder_.CreateAlignedLoad(word, place, align);
      rows.push_back(builder_.CreateInsertElement(llvm::Constant::getNullValue(words), one, uint64_t{0}));
    }
  }
  Values pairs = pair_words(rows[0], rows[1], shape.lanes / kBlockSums, static_cast<int>(count));
  llvm::Type* sums = llvm::FixedVectorType::get(register_type(compute_type(shape.c)),
                                                static_cast<unsigned>(shape.lanes));
  for (Value*& each : pairs) each = builder_.CreateBitCast(each, sums);
  return pairs;
}

/// `count` steps of k, one or two: two rows by two columns at once.
void Emitter::block_steps(TileState& tile, Value* a, Value* b, Value* k, int64_t step, int64_t count) {
  const MicroKernelShape& shape = tile.shape;
  const int pairs = shape.row_pairs(), halves = 2 * shape.vectors;
  at_top();
  Value* a_step = shape.a_step ? index(*shape.a_step) : function_->getArg(kStepA);
  Value* b_step = shape.b_step ? index(*shape.b_step) : function_->getArg(kStepB);
  Value* along = builder_.CreateMul(builder_.CreateAdd(k, index(step)), a_step);
  std::vector<Values> left;
  for (int pair = 0; pair < pairs; ++pair) left.push_back(row_pair(tile, a, along, pair, count));
  for (int64_t n = 0; n < count; ++n) {
    const auto chain = static_cast<int>((step + n) % tile.chains);
    Value* from = builder_.CreateMul(builder_.CreateAdd(k, index(step + n)), b_step);
    from = builder_.CreateGEP(memory_type(shape.b), b, from);
    for (int half = 0; half < halves; ++half) {
      const int64_t columns = int64_t{half} * shape.lanes / 2;
      Value* place = builder_.CreateConstGEP1_64(memory_type(shape.b), from,
                                                 static_cast<uint64_t>(columns * shape.unit->pack));
      const llvm::Align align(static_cast<uint64_t>(bit_width(shape.b)) / 8);
      Value* column = builder_.CreateAlignedLoad(left[0][0]->getType(), place, align);
      Values sums;
      for (int pair = 0; pair < pairs; ++pair) {
        llvm::AllocaInst* sum = block_sum(tile, chain, pair, half);
        Value* old = builder_.CreateLoad(sum->getAllocatedType(), sum);
        sums.push_back(dot_product(*shape.unit, left[static_cast<size_t>(pair)][static_cast<size_t>(n)], column, old));
      }
      keep_order(sums);
      for (int pair = 0; pair < pairs; ++pair) {
        builder_.CreateStore(sums[static_cast<size_t>(pair)], block_sum(tile, chain, pair, half));
      }
    }
  }
}

llvm::AllocaInst* Emitter::block_sum(const TileState& tile, int chain, int pair, int half) {
  const int pairs = tile.shape.row_pairs(), halves = 2 * tile.shape.vectors;
  return tile.sums[static_cast<size_t>((chain * pairs + pair) * halves + half)];
}

/// Adds the chains, makes rows of the blocks, and writes them into c.
void Emitter::finish_blocks(TileState& tile) {
  const MicroKernelShape& shape = tile.shape;
  const DType sum = compute_type(shape.c);
  const auto total = [&](int pair, int half) {
    Value* all = nullptr;
    for (int chain = 0; chain < tile.chains; ++chain) {
      llvm::AllocaInst* place = block_sum(tile, chain, pair, half);
      Value* part = builder_.CreateLoad(place->getAllocatedType(), place);
      all = all ? arithmetic(Intrinsic::kAdd, sum, {all, part}) : part;
    }
    return all;
  };
  for (int row = 0; row < shape.rows; ++row) {
    for (int vector = 0; vector < shape.vectors; ++vector) {
      Value* sums = row_of_blocks(shape, row % 2, total(row / 2, 2 * vector), total(row / 2, 2 * vector + 1));
      if (shape.accumulate) {
        Value* old = load_tile(tile, shape.c, tile_place(tile, row, vector), vector);
        sums = arithmetic(Intrinsic::kAdd, sum, {cast(shape.c, sum, old), sums});
      }
      store_row(tile, row, vector, sums);
    }
  }
}

/// One of the two rows of two vectors of blocks. Of vectors of more than 128 bits each is ordered by itself: LLVM takes
/// two that it knows only the least length of apart.
llvm::Value* Emitter::row_of_blocks(const MicroKernelShape& shape, int row, Value* first, Value* second) {
  const int lanes = shape.lanes, half = lanes / 2;
  const bool turned = takes_right_first(*shape.unit, lanes);
  std::vector<int> places;  // of the sums of a vector's columns
  for (int column = 0; column < half; ++column) {
    const int inside = turned ? column % 2 * 2 + row : row * 2 + column % 2;
    places.push_back(column / 2 * kBlockSums + inside);
  }
  std::vector<int> both = places;
  for (const int place : places) both.push_back(lanes + place);
  if (lanes == kBlockSums) return builder_.CreateShuffleVector(first, second, both);
  std::vector<int> twice = places;
  twice.insert(twice.end(), places.begin(), places.end());
  std::vector<llvm::Constant*> is_first;
  for (int lane = 0; lane < lanes; ++lane) is_first.push_back(builder_.getInt1(lane < half));
  return builder_.CreateSelect(llvm::ConstantVector::get(is_first), builder_.CreateShuffleVector(first, twice),
                               builder_.CreateShuffleVector(second, twice));
}

}  // namespace graft::codegen
