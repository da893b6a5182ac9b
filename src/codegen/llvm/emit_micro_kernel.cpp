// SPDX-License-Identifier: Apache-2.0
// Emits micro-kernels: accumulators stay in registers across all k axes, b comes as vectors, a by broadcast.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "codegen/llvm/emitter.h"

#include <llvm/IR/InlineAsm.h>

namespace graft::codegen {
namespace {

constexpr int kUnroll = 4;      ///< steps of the innermost k axis per iteration
constexpr int64_t kAhead = 16;  ///< steps of k by which b is prefetched
constexpr int kRowGroup = 3;    ///< rows that one pointer reaches: base, base + stride, base + 2 * stride
constexpr int kBusyChains = 8;  ///< independent accumulations that hide the latency of an FMA

/// Of k in a register of the left operand, where it comes by registers.
int64_t steps_in_register(const MicroKernelShape& shape) {
  constexpr int64_t kRegisterBits = 128;
  return kRegisterBits / bit_width(compute_type(shape.c));
}

std::string step_text(const std::optional<int64_t>& step) { return step ? std::to_string(*step) : "x"; }

}  // namespace

std::string MicroKernelShape::name() const {
  return fmt::format("tile_{}x{}x{}_{}_{}_{}_a{}_b{}_k{}{}{}{}{}{}{}", rows, vectors, lanes, name_of(a), name_of(b),
                     name_of(c), step_text(a_step), step_text(b_step), outer_axes, masked ? "_masked" : "",
                     accumulate ? "_accumulate" : "", a_registers ? "_registers" : "",
                     rows_ahead > 0 ? fmt::format("_ahead{}", rows_ahead) : "", unit ? "_" : "",
                     unit ? unit->name : "");
}

int MicroKernelShape::most_rows(int registers, bool fma) const {
  constexpr int kMost = 16;
  if (sums_blocks()) {
    // Of each two rows: sums of two vectors for each of `vectors`, and two of the left operand; one of the right.
    return std::clamp((registers - 2) / (vectors + 1) / 2 * 2, 2, kMost);
  }
  if (a_registers) return std::clamp((registers - vectors - 1) / (vectors + 1), 1, kMost);
  const int rows = (registers - vectors - (fma ? 1 : 2)) / vectors;
  return std::clamp(rows, 1, kMost);
}

llvm::Function* Emitter::micro_kernel(const MicroKernelShape& shape) {
  const int most = shape.most_rows(unit_.traits.registers, unit_.traits.fma);
  GRAFT_CHECK(shape.rows >= 1 && shape.rows <= most,
              "a register tile of " + shape.name() + " does not fit into the registers");
  return shared_function(shape, &Emitter::emit_micro_kernel);
}

/// The function of that shape in the unit, emitted the first time.
llvm::Function* Emitter::shared_function(const MicroKernelShape& shape, EmitFunction emit) {
  llvm::Function*& known = unit_.shared[shape.name()];
  if (!known) {
    Emitter inner(unit_, program_);
    known = (inner.*emit)(shape);
  }
  return known;
}

/// Begins the function of a micro-kernel, with its parameters and one block.
void Emitter::open_function(const MicroKernelShape& shape) {
  llvm::Type* p = builder_.getPtrTy();
  std::vector<llvm::Type*> parameters{p, p, p};
  const bool is_tile = shape.unit && shape.unit->scope == ContractUnit::Scope::kTile;
  const size_t more = !is_tile ? 0 : shape.unit->splits() ? 1 : 3;  // as its emitter says
  parameters.resize(kOuter + 3 * static_cast<size_t>(shape.outer_axes) + more, builder_.getInt64Ty());
  function_ = llvm::Function::Create(llvm::FunctionType::get(builder_.getVoidTy(), parameters, false),
                                     llvm::Function::InternalLinkage, shape.name(), unit_.module);
  set_attributes(*function_, unit_.target);
  for (unsigned n = 0; n < 3; ++n) function_->addParamAttr(n, llvm::Attribute::NoAlias);
  builder_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
  Level level;
  level.at = builder_.CreateRetVoid();
  levels_.push_back(std::move(level));
}

llvm::Function* Emitter::emit_micro_kernel(const MicroKernelShape& shape) {
  open_function(shape);
  TileState tile{shape, {}, {}, 1};
  while (shape.rows * shape.vectors * tile.chains < kBusyChains && tile.chains < kUnroll) tile.chains *= 2;
  at_top();
  begin_tile(tile);
  outer_steps(tile, 0, function_->getArg(kA), function_->getArg(kB));
  at_top();
  if (shape.sums_blocks()) {
    finish_blocks(tile);
  } else {
    finish_tile(tile);
  }
  return function_;
}

/// Accumulators: what c holds, or zero; the chains after the first start from zero.
void Emitter::begin_tile(TileState& tile) {
  const MicroKernelShape& shape = tile.shape;
  const DType sum = compute_type(shape.c);
  llvm::Type* type = register_type(sum);
  if (shape.lanes > 1) type = llvm::FixedVectorType::get(type, static_cast<unsigned>(shape.lanes));
  for (int v = 0; shape.masked && v < shape.vectors; ++v) {
    Value* left = builder_.CreateSub(function_->getArg(kColumns), index(int64_t{v} * shape.lanes));
    left = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, left, index(0));
    left = builder_.CreateTrunc(builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, index(shape.lanes)),
                                builder_.getInt32Ty());
    std::vector<llvm::Constant*> lanes;
    for (int n = 0; n < shape.lanes; ++n) lanes.push_back(builder_.getInt32(static_cast<uint32_t>(n)));
    tile.masks.push_back(builder_.CreateICmpULT(llvm::ConstantVector::get(lanes), splat(left, shape.lanes)));
  }
  const int rows = shape.sums_blocks() ? 2 * shape.row_pairs() : shape.rows;
  for (int chain = 0; chain < tile.chains; ++chain) {
    for (int row = 0; row < rows; ++row) {
      for (int v = 0; v < shape.vectors; ++v) {
        tile.sums.push_back(make_local(type));
        at_top();
        Value* start = llvm::Constant::getNullValue(type);
        if (shape.accumulate && chain == 0 && !shape.sums_blocks())
          start = cast(shape.c, sum, load_tile(tile, shape.c, tile_place(tile, row, v), v));
        builder_.CreateStore(start, tile.sums.back());
      }
    }
  }
}

/// The address of a vector of c.
llvm::Value* Emitter::tile_place(const TileState& tile, int row, int vector) {
  llvm::Type* type = memory_type(tile.shape.c);
  Value* offset = builder_.CreateMul(function_->getArg(kRowsC), index(row));
  Value* start = builder_.CreateGEP(type, function_->getArg(kC), offset);
  return builder_.CreateConstGEP1_64(type, start,
                                     static_cast<uint64_t>(vector) * static_cast<uint64_t>(tile.shape.lanes));
}

llvm::Value* Emitter::load_tile(const TileState& tile, DType type, Value* place, int vector) {
  const llvm::Align align(static_cast<uint64_t>(bit_width(type)) / 8);
  llvm::Type* loaded = memory_type(type);
  if (tile.shape.lanes > 1) loaded = llvm::FixedVectorType::get(loaded, static_cast<unsigned>(tile.shape.lanes));
  if (!tile.shape.masked) return builder_.CreateAlignedLoad(loaded, place, align);
  return builder_.CreateMaskedLoad(loaded, place, align, tile.masks[static_cast<size_t>(vector)],
                                   llvm::Constant::getNullValue(loaded));
}

/// Loops over the outer k axes, then over the innermost.
void Emitter::outer_steps(TileState& tile, int axis, Value* a, Value* b) {
  if (axis == tile.shape.outer_axes) return inner_steps(tile, a, b);
  const unsigned first = kOuter + 3 * static_cast<unsigned>(axis);
  const Loop loop = open_loop(index(0), function_->getArg(first), index(1));
  at_top();
  Value* a_offset = builder_.CreateMul(loop.index, function_->getArg(first + 1));
  Value* b_offset = builder_.CreateMul(loop.index, function_->getArg(first + 2));
  a = builder_.CreateGEP(memory_type(tile.shape.a), a, a_offset);
  b = builder_.CreateGEP(memory_type(tile.shape.b), b, b_offset);
  outer_steps(tile, axis + 1, a, b);
  close_loop(loop);
}

void Emitter::inner_steps(TileState& tile, Value* a, Value* b) {
  at_top();
  const int64_t steps_of_register = steps_in_register(tile.shape);
  Value* extent = function_->getArg(kExtent);
  Value* whole = builder_.CreateAnd(extent, index(-kUnroll));
  for (const bool unrolled : {true, false}) {
    const int64_t steps = unrolled ? kUnroll : 1;
    const Loop loop = open_loop(unrolled ? index(0) : whole, unrolled ? whole : extent, index(steps));
    if (tile.shape.sums_blocks()) {
      const int64_t together = tile.shape.a_step == tile.shape.unit->pack ? std::min<int64_t>(2, steps) : 1;
      for (int64_t step = 0; step < steps; step += together) block_steps(tile, a, b, loop.index, step, together);
    } else {
      for (int64_t step = 0; step < steps; ++step) {
        if (step % steps_of_register == 0) tile.rows = unrolled ? load_rows(tile, a, loop.index, step) : Values();
        tile_step(tile, a, b, loop.index, step);
      }
    }
    close_loop(loop);
    at_top();
  }
}

/// What each row of a has at the next steps, as many as a register holds; nothing where a comes by steps.
Emitter::Values Emitter::load_rows(const TileState& tile, Value* a, Value* k, int64_t step) {
  const MicroKernelShape& shape = tile.shape;
  if (!shape.a_registers) return {};
  const DType sum = compute_type(shape.c);
  llvm::Type* type = memory_type(shape.a);
  const auto steps = static_cast<unsigned>(steps_in_register(shape));
  llvm::Type* loaded = llvm::FixedVectorType::get(register_type(sum), steps);
  const llvm::Align align(static_cast<uint64_t>(bit_width(shape.a)) / 8);
  at_top();
  Value* along = builder_.CreateMul(builder_.CreateAdd(k, index(step)), index(*shape.a_step));
  Values rows;
  for (int row = 0; row < shape.rows; ++row) {
    Value* place = builder_.CreateGEP(type, a, builder_.CreateMul(function_->getArg(kRowsA), index(row)));
    rows.push_back(builder_.CreateAlignedLoad(loaded, builder_.CreateGEP(type, place, along), align));
  }
  return rows;
}

/// A row's element at a step, in all lanes.
llvm::Value* Emitter::tile_element(const TileState& tile, Value* a, Value* k, int64_t step, int row) {
  const MicroKernelShape& shape = tile.shape;
  const DType sum = compute_type(shape.c);
  if (!tile.rows.empty()) {
    const std::vector<int> lanes(static_cast<size_t>(shape.lanes), static_cast<int>(step % steps_in_register(shape)));
    return builder_.CreateShuffleVector(tile.rows[static_cast<size_t>(row)], lanes);
  }
  llvm::Type* type = memory_type(shape.a);
  Value* stride = function_->getArg(kRowsA);
  Value* group = builder_.CreateGEP(type, a, builder_.CreateMul(stride, index(row / kRowGroup * kRowGroup)));
  Value* place = along(type, group, k, step, shape.a_step ? index(*shape.a_step) : function_->getArg(kStepA));
  if (row % kRowGroup != 0) place = builder_.CreateGEP(type, place, builder_.CreateMul(stride, index(row % kRowGroup)));
  const llvm::Align align(static_cast<uint64_t>(bit_width(shape.a)) / 8);
  Value* loaded = builder_.CreateAlignedLoad(shape.unit ? register_type(sum) : type, place, align);
  return splat(shape.unit ? loaded : cast(shape.a, sum, loaded), shape.lanes);
}

/// The place of k + step.
llvm::Value* Emitter::along(llvm::Type* type, Value* from, Value* k, int64_t step, Value* stride) {
  Value* start = builder_.CreateGEP(type, from, builder_.CreateMul(k, stride));
  return step == 0 ? start : builder_.CreateGEP(type, start, builder_.CreateMul(stride, index(step)));
}

/// One k: sums[row, v] += a[row, k] * b[k, v].
void Emitter::tile_step(TileState& tile, Value* a, Value* b, Value* k, int64_t step) {
  const MicroKernelShape& shape = tile.shape;
  at_top();
  llvm::Type* b_type = memory_type(shape.b);
  const DType sum = compute_type(shape.c);
  Value* from = along(b_type, b, k, step, shape.b_step ? index(*shape.b_step) : function_->getArg(kStepB));
  Values columns;
  const int64_t pack = shape.unit ? shape.unit->pack : 1;
  for (int v = 0; v < shape.vectors; ++v) {
    Value* place = builder_.CreateConstGEP1_64(b_type, from, static_cast<uint64_t>(v * shape.lanes * pack));
    columns.push_back(shape.unit ? load_tile(tile, sum, place, v)
                                 : cast(shape.b, sum, load_tile(tile, shape.b, place, v)));
    if (shape.b_step) {
      Value* later = builder_.CreateConstGEP1_64(b_type, place, static_cast<uint64_t>(*shape.b_step * kAhead));
      builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {builder_.getPtrTy()},
                               {later, builder_.getInt32(0), builder_.getInt32(3), builder_.getInt32(1)});
    }
  }
  for (int row = 0; row < shape.rows; ++row) {
    Value* element = tile_element(tile, a, k, step, row);
    const auto chain = static_cast<size_t>(step % tile.chains);
    const size_t first =
        (chain * static_cast<size_t>(shape.rows) + static_cast<size_t>(row)) * static_cast<size_t>(shape.vectors);
    Values sums;
    for (size_t v = 0; v < columns.size(); ++v) {
      llvm::AllocaInst* place_of_sum = tile.sums[first + v];
      Value* old = builder_.CreateLoad(place_of_sum->getAllocatedType(), place_of_sum);
      sums.push_back(shape.unit ? dot_product(*shape.unit, element, columns[v], old)
                                : multiply_add(sum, element, columns[v], old));
    }
    if (shape.lanes > 1) keep_order(sums);
    for (size_t v = 0; v < columns.size(); ++v) builder_.CreateStore(sums[v], tile.sums[first + v]);
  }
}

/// An empty instruction that takes and gives the values: what stands before it is computed before it, loads after it
/// stay after it. Left free, the scheduler moves loads up until the accumulators no longer fit into the registers.
void Emitter::keep_order(Values& values) {
  const auto fits = [&](Value* value) {
    return value->getType()->getPrimitiveSizeInBits() <= static_cast<uint64_t>(unit_.traits.kept_bits);
  };
  if (!std::all_of(values.begin(), values.end(), fits)) return;
  std::vector<llvm::Type*> types;
  std::string outputs, inputs;
  for (size_t n = 0; n < values.size(); ++n) {
    types.push_back(values[n]->getType());
    outputs += fmt::format("={},", unit_.traits.vector_constraint);
    inputs += std::to_string(n) + ",";
  }
  llvm::Type* result = types.size() == 1 ? types[0] : llvm::StructType::get(context_, types);
  auto* type = llvm::FunctionType::get(result, types, false);
  Value* kept = builder_.CreateCall(
      type, llvm::InlineAsm::get(type, "", outputs + inputs + "~{memory}", /*hasSideEffects=*/true), values);
  for (size_t n = 0; n < values.size(); ++n) {
    values[n] = types.size() == 1 ? kept : builder_.CreateExtractValue(kept, static_cast<unsigned>(n));
  }
}

llvm::Value* Emitter::multiply_add(DType type, Value* a, Value* b, Value* sum) {
  if (!is_float(type)) return builder_.CreateAdd(builder_.CreateMul(a, b), sum);
  return builder_.CreateIntrinsic(sum->getType(), llvm::Intrinsic::fmuladd, {a, b, sum});
}

/// Adds the chains and writes c.
void Emitter::finish_tile(TileState& tile) {
  const DType sum = compute_type(tile.shape.c);
  const size_t count = tile.sums.size() / static_cast<size_t>(tile.chains);
  for (size_t n = 0; n < count; ++n) {
    Value* total = nullptr;
    for (size_t at = n; at < tile.sums.size(); at += count) {
      Value* part = builder_.CreateLoad(tile.sums[at]->getAllocatedType(), tile.sums[at]);
      total = total ? arithmetic(Intrinsic::kAdd, sum, {total, part}) : part;
    }
    store_row(tile, static_cast<int>(n) / tile.shape.vectors, static_cast<int>(n) % tile.shape.vectors, total);
  }
}

/// Writes a vector of sums into c.
void Emitter::store_row(const TileState& tile, int row, int vector, Value* total) {
  const MicroKernelShape& shape = tile.shape;
  const llvm::Align align(static_cast<uint64_t>(bit_width(shape.c)) / 8);
  Value* place = tile_place(tile, row, vector);
  Value* value = cast(compute_type(shape.c), shape.c, total);
  if (shape.masked) {
    builder_.CreateMaskedStore(value, place, align, tile.masks[static_cast<size_t>(vector)]);
  } else {
    builder_.CreateAlignedStore(value, place, align);
  }
}

}  // namespace graft::codegen
