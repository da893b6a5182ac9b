// SPDX-License-Identifier: Apache-2.0
// Contract: loops over tiles around calls of micro-kernels; what these do not cover becomes a reduction.
#include <algorithm>

#include "base/error.h"
#include "codegen/llvm/emitter.h"

namespace graft::codegen {
namespace {

bool uses_any(const Expr& e, const std::vector<tile::Axis>& axes) {
  return std::any_of(axes.begin(), axes.end(),
                     [&](const tile::Axis& axis) { return uses_variable(e, axis.variable->variable); });
}

bool has_multiply(DType operand, DType sum) {
  if (is_float(sum)) return is_float(operand) && bit_width(operand) <= bit_width(sum) && bit_width(operand) >= 16;
  return is_integer(operand) && bit_width(operand) >= 8;
}

}  // namespace

/// How the micro-kernels read a contraction, or why they cannot.
std::optional<ContractPlan> Emitter::plan_contract(const tile::Contract& contract) const {
  if (contract.n.empty() || contract.k.empty()) return std::nullopt;
  if (contract.a->kind != ExprKind::kLoad || contract.b->kind != ExprKind::kLoad) return std::nullopt;
  if (uses_any(contract.a, contract.n) || uses_any(contract.b, contract.m)) return std::nullopt;
  const DType c = program_.buffers[static_cast<size_t>(contract.c)].type;
  if (!has_multiply(contract.a->type, compute_type(c)) || !has_multiply(contract.b->type, compute_type(c)))
    return std::nullopt;
  if (contract.unit && !has_unit(unit_.target, *contract.unit)) return std::nullopt;
  // Without what one instruction takes together.
  const bool packs = contract.unit && !contract.unit->splits();
  const size_t steps_of_k = contract.k.size() - (packs ? 1 : 0);
  for (const tile::Axis& axis : contract.n) {
    if (uses_any(axis.extent, contract.m)) return std::nullopt;  // the columns are the outer loops
  }
  // A fold without end is one of loops that can be left; micro-kernels cannot.
  constexpr int64_t kLongest = int64_t{1} << 26;
  int64_t steps = 1;
  for (const tile::Axis& axis : contract.k) {
    const bool wraps = __builtin_mul_overflow(steps, std::max<int64_t>(axis.bound, 1), &steps);
    if (wraps || steps > kLongest) return std::nullopt;
  }
  const Expr& column = contract.n.back().variable;
  for (const tile::Axis& axis : contract.k) {
    if (uses_any(axis.extent, contract.k) || uses_variable(axis.extent, column->variable)) return std::nullopt;
    if (!contract.m.empty() && uses_variable(axis.extent, contract.m.back().variable->variable)) return std::nullopt;
  }
  bool known = true;
  auto a_stride = [&](const Expr& v) { return stride_along(contract.a->tensor, contract.a->args, v, &known); };
  auto b_stride = [&](const Expr& v) { return stride_along(contract.b->tensor, contract.b->args, v, &known); };
  auto c_stride = [&](const Expr& v) { return stride_along(contract.c, contract.c_indices, v, &known); };
  ContractPlan plan;
  for (size_t n = 0; n < steps_of_k; ++n) {
    plan.a_steps.push_back(a_stride(contract.k[n].variable));
    plan.b_steps.push_back(b_stride(contract.k[n].variable));
  }
  if (!contract.m.empty()) {
    plan.a_rows = a_stride(contract.m.back().variable);
    plan.c_rows = c_stride(contract.m.back().variable);
  }
  if (!b_stride(column).is(packs ? contract.unit->pack : 1)) return std::nullopt;
  if (!c_stride(column).is(1) || !known) return std::nullopt;
  plan.shape.a = contract.a->type;
  plan.shape.b = contract.b->type;
  plan.shape.c = c;
  plan.shape.accumulate = contract.accumulate;
  plan.shape.a_step = plan.a_steps.back().as_constant();
  plan.shape.b_step = plan.b_steps.back().as_constant();
  plan.shape.outer_axes = static_cast<int>(steps_of_k) - 1;
  plan.shape.lanes = lanes_for(bit_width(compute_type(c)));
  plan.shape.unit = contract.unit;
  if (contract.unit) {
    // Panels are whole vectors, or tiles of columns.
    if (contract.unit->scope == ContractUnit::Scope::kTile) plan.shape.lanes = static_cast<int>(contract.unit->n);
    const int64_t columns = contract.n.back().bound;
    if (columns <= 0 || columns % plan.shape.lanes != 0 || contract.m.empty()) return std::nullopt;
  }
  if (plan.shape.sums_blocks()) {
    choose_block_tile(contract, plan);
  } else {
    choose_tile(contract, plan);
  }
  return plan;
}

/// As many columns as fit, of which each load of the left operand serves all: to pair its rows costs an instruction.
void Emitter::choose_block_tile(const tile::Contract& contract, ContractPlan& plan) const {
  const int64_t vectors = contract.n.back().bound / plan.shape.lanes;
  plan.shape.vectors = vectors % 4 == 0 ? 4 : vectors % 3 == 0 ? 3 : vectors % 2 == 0 ? 2 : 1;
  plan.most_rows = plan.shape.most_rows(unit_.traits.registers, unit_.traits.fma);
  plan.row_step = 2;
}

/// Few rows ask for wide tiles, so that enough accumulators are busy; many rows for tall ones, which reuse b.
void Emitter::choose_tile(const tile::Contract& contract, ContractPlan& plan) const {
  // Words of the left operand that lie side by side come by registers.
  const DType sum = compute_type(plan.shape.c);
  const bool whole = contract.unit || (plan.shape.a == sum && bit_width(sum) >= 32);
  plan.shape.a_registers = unit_.traits.takes_elements && whole && plan.shape.lanes > 1 &&
                           plan.shape.a_step == (contract.unit ? contract.unit->pack : 1);
  const auto rows_of = [&](int vectors) {
    MicroKernelShape shape = plan.shape;
    shape.vectors = vectors;
    return shape.most_rows(unit_.traits.registers, unit_.traits.fma);
  };
  const int64_t columns = contract.n.back().bound;
  const int64_t rows = contract.m.empty() ? 1 : contract.m.back().bound;
  const int most =
      columns > 0 ? static_cast<int>(std::clamp<int64_t>((columns + plan.shape.lanes - 1) / plan.shape.lanes, 1, 4))
                  : 4;
  int vectors = std::min(2, most);
  if (rows > 0) {
    for (const int wide : {3, 4}) {
      if (wide <= most && rows <= rows_of(wide)) vectors = wide;
    }
  }
  if (columns > 0 && columns % (2 * plan.shape.lanes) != 0 && columns % (3 * plan.shape.lanes) == 0)
    vectors = std::min(3, most);
  plan.shape.vectors = vectors;
  plan.most_rows = rows_of(vectors);
}

void Emitter::emit_contract(const tile::Contract& contract) {
  auto plan = plan_contract(contract);
  const bool splits = contract.unit && contract.unit->splits();
  GRAFT_USER_CHECK(plan || !splits, kUnsupported, "this target has no kernel for products of split operands",
                   program_.name);
  if (!plan) return contract_as_reduce(contract);
  for (const tile::Axis& axis : contract.k) bind(axis.variable, index(0));
  std::vector<tile::Axis> points = contract.m;
  points.insert(points.end(), contract.n.begin(), contract.n.end());
  Value* some = extents_positive(points);
  std::vector<size_t> closed;
  const int floor = load_floor_;
  if (some) {
    closed = open_if(some);
    load_floor_ = top_index();
  }
  if (splits) {
    emit_split_product(contract, *plan);
  } else if (contract.unit && contract.unit->scope == ContractUnit::Scope::kTile) {
    emit_tile_product(contract, *plan);
  } else {
    nested_loops(contract.n, 0, contract.n.size() - 1, [&] { column_blocks(contract, *plan); });
  }
  load_floor_ = floor;
  if (some) close_if(closed);
}

/// Whole blocks of vectors, then what is left: one masked block, or vectors and single columns.
void Emitter::column_blocks(const tile::Contract& contract, const ContractPlan& plan) {
  const tile::Axis& axis = contract.n.back();
  Value* extent = emit(axis.extent);
  at_top();
  const int lanes = plan.shape.lanes;
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(extent);
  Value* begin = index(0);
  auto blocks = [&](const ContractPlan& blocked) {
    const int64_t width = int64_t{blocked.shape.vectors} * blocked.shape.lanes;
    Value* end = nullptr;
    if (constant) {
      end = index(constant->getSExtValue() -
                  (constant->getSExtValue() - llvm::cast<llvm::ConstantInt>(begin)->getSExtValue()) % width);
    } else {
      Value* rest = builder_.CreateURem(builder_.CreateSub(extent, begin), index(width));
      end = builder_.CreateSub(extent, rest);
    }
    if (constant && end == begin) return;
    const Loop loop = open_loop(begin, end, index(width));
    bind(axis.variable, loop.index);
    row_loops(contract, blocked, nullptr);
    close_loop(loop);
    at_top();
    begin = end;
  };
  blocks(plan);
  if (constant && begin == extent) return;
  ContractPlan rest = plan;
  if (unit_.traits.masked) {
    const std::vector<size_t> closed = open_if(builder_.CreateICmpSLT(begin, extent));
    bind(axis.variable, begin);
    at_top();
    Value* columns = builder_.CreateSub(extent, begin);
    if (const auto* count = llvm::dyn_cast<llvm::ConstantInt>(columns)) {
      rest.shape.vectors = static_cast<int>((count->getSExtValue() + lanes - 1) / lanes);
    }
    rest.shape.masked = true;
    row_loops(contract, rest, columns);
    close_if(closed);
    return;
  }
  rest.shape.vectors = 1;
  if (plan.shape.vectors > 1) blocks(rest);
  if (constant && begin == extent) return;
  rest.shape.lanes = 1;
  rest.shape.a_registers = false;
  blocks(rest);
}

/// Loops over the rows of one block of columns, in tiles of equal height.
void Emitter::row_loops(const tile::Contract& contract, const ContractPlan& plan, Value* columns) {
  if (contract.m.empty()) return call_tile(contract, plan, nullptr, columns);
  nested_loops(contract.m, 0, contract.m.size() - 1, [&] {
    const tile::Axis& axis = contract.m.back();
    Value* extent = emit(axis.extent);
    at_top();
    if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(extent)) {
      const int64_t rows = constant->getSExtValue();
      if (rows <= 0) return;  // an empty tensor
      const int64_t tiles = (rows + plan.most_rows - 1) / plan.most_rows;
      const int64_t least = tiles > 0 ? (rows + tiles - 1) / tiles : 1;
      const int64_t height = std::min(rows, (least + plan.row_step - 1) / plan.row_step * plan.row_step);
      const int64_t whole = rows / height * height;
      const Loop loop = open_loop(index(0), index(whole), index(height));
      bind(axis.variable, loop.index);
      ContractPlan tile = plan;
      tile.shape.rows = static_cast<int>(height);
      call_tile(contract, tile, nullptr, columns);
      close_loop(loop);
      if (whole == rows) return;
      bind(axis.variable, index(whole));
      tile.shape.rows = static_cast<int>(rows - whole);
      call_tile(contract, tile, nullptr, columns);
      return;
    }
    Value* tiles = builder_.CreateUDiv(builder_.CreateAdd(extent, index(plan.most_rows - 1)), index(plan.most_rows));
    tiles = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, tiles, index(1));
    Value* height = builder_.CreateUDiv(builder_.CreateSub(builder_.CreateAdd(extent, tiles), index(1)), tiles);
    if (plan.row_step == 2) height = builder_.CreateAnd(builder_.CreateAdd(height, index(1)), index(-2));
    const Loop loop = open_loop(index(0), extent, height);
    bind(axis.variable, loop.index);
    at_top();
    Value* rows = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, height, builder_.CreateSub(extent, loop.index));
    call_tile(contract, plan, rows, columns);
    close_loop(loop);
  });
}

/// What a micro-kernel is called with at the bound point.
Emitter::Values Emitter::tile_arguments(const tile::Contract& contract, const ContractPlan& plan, Value* columns) {
  Values arguments{pointer(contract.a->tensor, analyze(contract.a->tensor, contract.a->args)),
                   pointer(contract.b->tensor, analyze(contract.b->tensor, contract.b->args)),
                   pointer(contract.c, analyze(contract.c, contract.c_indices))};
  for (const Size& size : {plan.a_rows, plan.c_rows}) arguments.push_back(emit(keep(make_size(size))));
  arguments.push_back(columns ? columns : index(0));
  arguments.push_back(emit(keep(make_size(plan.a_steps.back()))));
  arguments.push_back(emit(keep(make_size(plan.b_steps.back()))));
  const size_t innermost = plan.a_steps.size() - 1;
  arguments.push_back(emit(contract.k[innermost].extent));
  for (size_t n = 0; n < innermost; ++n) {
    arguments.push_back(emit(contract.k[n].extent));
    arguments.push_back(emit(keep(make_size(plan.a_steps[n]))));
    arguments.push_back(emit(keep(make_size(plan.b_steps[n]))));
  }
  at_top();
  return arguments;
}

/// Calls the micro-kernel at the bound point; `rows` chooses one when the height is known only to the run.
void Emitter::call_tile(const tile::Contract& contract, const ContractPlan& plan, Value* rows, Value* columns) {
  const Values arguments = tile_arguments(contract, plan, columns);
  if (!rows) {
    builder_.CreateCall(micro_kernel(plan.shape), arguments);
    return;
  }
  llvm::Instruction* at = top().at;
  llvm::BasicBlock* before = at->getParent();
  llvm::BasicBlock* after = before->splitBasicBlock(at->getIterator());
  before->getTerminator()->eraseFromParent();
  builder_.SetInsertPoint(before);
  llvm::SwitchInst* choice = builder_.CreateSwitch(rows, after);
  for (int height = 1; height <= plan.most_rows; ++height) {
    MicroKernelShape shape = plan.shape;
    shape.rows = height;
    auto* block = llvm::BasicBlock::Create(context_, "rows", function_, after);
    builder_.SetInsertPoint(block);
    builder_.CreateCall(micro_kernel(shape), arguments);
    builder_.CreateBr(after);
    choice->addCase(builder_.getInt64(static_cast<uint64_t>(height)), block);
  }
  at_top();
}

/// c = sum over k of a * b as an ordinary reduction: for operands that the micro-kernels do not cover.
void Emitter::contract_as_reduce(const tile::Contract& contract) {
  const DType type = program_.buffers[static_cast<size_t>(contract.c)].type;
  const DType sum = compute_type(type);
  tile::Reduce reduce;
  reduce.axes = contract.m;
  reduce.axes.insert(reduce.axes.end(), contract.n.begin(), contract.n.end());
  reduce.reduced = contract.k;
  reduce.lift = {keep(make_call(Intrinsic::kMul, {make_cast(sum, contract.a), make_cast(sum, contract.b)}))};
  reduce.monoid = make_monoid(Intrinsic::kAdd, sum);
  for (const Expr& e :
       {reduce.monoid.identity[0], reduce.monoid.left[0], reduce.monoid.right[0], reduce.monoid.combine[0]})
    keep(e);
  reduce.outputs = {
      tile::Store{.buffer = contract.c, .indices = contract.c_indices, .value = {}, .mode = ScatterMode::kSet}};
  reduce.accumulate = contract.accumulate;
  emit_reduce(reduce);
}

}  // namespace graft::codegen
