// SPDX-License-Identifier: Apache-2.0
// Kernels as functions: arguments, grid points, loop levels and the statements that are only control flow.
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "codegen/llvm/emitter.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

namespace graft::codegen {

Emitter::Emitter(Unit& unit, const tile::Program& program)
    : unit_(unit), program_(program), context_(unit.module.getContext()), builder_(context_) {}

void emit_program(Unit& unit, const tile::Program& program) { Emitter(unit, program).run(); }

Expr Emitter::keep(Expr e) {
  kept_.push_back(e);
  return e;
}

void Emitter::run() {
  llvm::Type* pointer = builder_.getPtrTy();
  llvm::Type* i64 = builder_.getInt64Ty();
  auto* type = llvm::FunctionType::get(builder_.getInt32Ty(), {pointer, i64, i64}, false);
  GRAFT_CHECK(!unit_.module.getFunction(program_.name), "two kernels are called " + program_.name);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, program_.name, unit_.module);
  set_attributes(*function_, unit_.target);
  auto* entry = llvm::BasicBlock::Create(context_, "entry", function_);
  auto* exit = llvm::BasicBlock::Create(context_, "exit", function_);
  builder_.SetInsertPoint(exit);
  builder_.CreateRet(builder_.getInt32(0));
  builder_.SetInsertPoint(entry);
  Level level;
  level.at = builder_.CreateBr(exit);
  levels_.push_back(std::move(level));
  load_arguments(*function_);
  const Loop points = open_loop(function_->getArg(1), function_->getArg(2), index(1));
  bind_grid(points.index);
  emit_body(program_.body);
  close_loop(points);
}

void Emitter::load_arguments(llvm::Function& function) {
  at_top();
  Value* arguments = function.getArg(0);
  llvm::Type* pointer = builder_.getPtrTy();
  llvm::Type* i64 = builder_.getInt64Ty();
  auto* layout = llvm::StructType::get(context_, {pointer, pointer, pointer, pointer});
  auto field = [&](unsigned n) { return builder_.CreateLoad(pointer, builder_.CreateStructGEP(layout, arguments, n)); };
  Value* table = field(0);
  Value* sizes = field(1);
  Value* scratch = field(2);
  status_ = field(3);
  for (size_t n = 0; n < program_.sizes.size(); ++n) {
    sizes_[program_.sizes[n]] = builder_.CreateLoad(i64, builder_.CreateConstGEP1_64(i64, sizes, n), program_.sizes[n]);
  }
  const std::vector<Size> offsets = tile::scratch_offsets(program_);
  for (size_t n = 0; n < program_.buffers.size(); ++n) {
    const tile::Buffer& buffer = program_.buffers[n];
    Value* base = buffer.scope == tile::Scope::kGlobal
                      ? builder_.CreateLoad(pointer, builder_.CreateConstGEP1_64(pointer, table, n))
                      : builder_.CreateGEP(builder_.getInt8Ty(), scratch, emit_size(offsets[n]));
    base->setName(buffer.name);
    buffers_.push_back(base);
  }
  auto* zeros = llvm::ArrayType::get(i64, 2);
  dummy_ = make_local(zeros);
  at_top();
  builder_.CreateStore(llvm::Constant::getNullValue(zeros), dummy_);
}

/// Splits the flattened launch index into the grid variables, the last one fastest.
void Emitter::bind_grid(Value* point) {
  at_top();
  Value* rest = point;
  for (size_t n = program_.grid.size(); n-- > 0;) {
    const Axis& axis = program_.grid[n];
    if (n == 0) {
      bind(axis.variable, rest);
      break;
    }
    Value* extent = emit(keep(make_size(axis.extent)));
    at_top();
    bind(axis.variable, builder_.CreateURem(rest, extent));
    rest = builder_.CreateUDiv(rest, extent);
  }
}

void Emitter::bind(const Expr& variable, Value* value, Value* base) {
  bindings_[variable->variable] = Binding{value, base, top_index()};
}

llvm::AllocaInst* Emitter::make_local(llvm::Type* type) {
  llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  return entry.CreateAlloca(type);
}

/// A level at the same place as the top, for values and bindings of limited validity.
void Emitter::push_scope() {
  Level level;
  level.at = top().at;
  levels_.push_back(std::move(level));
}

std::vector<size_t> Emitter::close_sharing_levels() {
  std::vector<size_t> closed;
  for (size_t n = 0; n < levels_.size(); ++n) {
    if (levels_[n].open && levels_[n].at == top().at) {
      levels_[n].open = false;
      closed.push_back(n);
    }
  }
  return closed;
}

void Emitter::reopen(const std::vector<size_t>& closed) {
  for (const size_t n : closed) levels_[n].open = true;
}

namespace {

/// Turns of a loop whose bounds are constants; 1 where they are not.
int64_t known_turns(const llvm::Value* begin, const llvm::Value* end, const llvm::Value* step) {
  const auto* first = llvm::dyn_cast<llvm::ConstantInt>(begin);
  const auto* last = llvm::dyn_cast<llvm::ConstantInt>(end);
  const auto* by = llvm::dyn_cast<llvm::ConstantInt>(step);
  if (!first || !last || !by) return 1;
  return std::max<int64_t>(1, (last->getSExtValue() - first->getSExtValue()) / by->getSExtValue());
}

}  // namespace

/// A grid point that takes many turns is left when the run is asked to end: whether to go on, looked at every so many
/// turns. Null where nobody would wait for the loop: then it costs nothing.
llvm::Value* Emitter::stop_unless_wanted(const Loop& loop, Value* next, int64_t step, int64_t turns) {
  constexpr int64_t kMany = int64_t{1} << 24, kLeastTurns = 32, kBetween = 1024;
  int64_t all = 0;
  if (__builtin_mul_overflow(loop.turns, turns, &all)) all = kMany;
  if (all < kMany || turns < kLeastTurns || !status_) return nullptr;
  const auto between = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::min(turns / 2, kBetween))));
  if ((step & (step - 1)) != 0) return nullptr;
  llvm::BasicBlock* latch = builder_.GetInsertBlock();
  auto* look = llvm::BasicBlock::Create(context_, "look", function_, latch->getNextNode());
  auto* go_on = llvm::BasicBlock::Create(context_, "go_on", function_, look->getNextNode());
  Value* due = builder_.CreateICmpEQ(builder_.CreateAnd(next, index(step * between - 1)), index(0));
  builder_.CreateCondBr(due, look, go_on);
  builder_.SetInsertPoint(look);
  auto* status = builder_.CreateLoad(builder_.getInt64Ty(), status_);
  status->setAtomic(llvm::AtomicOrdering::Monotonic);
  status->setAlignment(llvm::Align(8));
  Value* wanted = builder_.CreateICmpEQ(status, index(0));
  builder_.CreateBr(go_on);
  builder_.SetInsertPoint(go_on);
  auto* result = builder_.CreatePHI(builder_.getInt1Ty(), 2);
  result->addIncoming(builder_.getTrue(), latch);
  result->addIncoming(wanted, look);
  return result;
}

/// for (index = begin; index < end; index += step), rotated: the level before the body runs only when the body does.
Loop Emitter::open_loop(Value* begin, Value* end, Value* step) {
  Loop loop;
  llvm::Instruction* at = top().at;
  loop.closed = close_sharing_levels();
  loop.turns = turns_;
  llvm::BasicBlock* before = at->getParent();
  llvm::BasicBlock* after = before->splitBasicBlock(at->getIterator());
  auto* enter = llvm::BasicBlock::Create(context_, "enter", function_, after);
  auto* body = llvm::BasicBlock::Create(context_, "body", function_, after);
  loop.latch = llvm::BasicBlock::Create(context_, "latch", function_, after);
  before->getTerminator()->eraseFromParent();
  builder_.SetInsertPoint(before);
  builder_.CreateCondBr(builder_.CreateICmpSLT(begin, end), enter, after);
  Level hoisted, inner;
  builder_.SetInsertPoint(enter);
  hoisted.at = builder_.CreateBr(body);
  builder_.SetInsertPoint(body);
  loop.index = builder_.CreatePHI(builder_.getInt64Ty(), 2, "i");
  loop.index->addIncoming(begin, enter);
  inner.at = builder_.CreateBr(loop.latch);
  builder_.SetInsertPoint(loop.latch);
  Value* next = builder_.CreateAdd(loop.index, step, "", true, true);
  const int64_t turns = known_turns(begin, end, step);
  Value* more = builder_.CreateICmpSLT(next, end);
  const auto* by = llvm::dyn_cast<llvm::ConstantInt>(step);
  if (Value* wanted = by ? stop_unless_wanted(loop, next, by->getSExtValue(), turns) : nullptr) {
    more = builder_.CreateAnd(more, wanted);
  }
  if (__builtin_mul_overflow(turns_, turns, &turns_)) turns_ = INT64_MAX;
  loop.index->addIncoming(next, builder_.GetInsertBlock());
  builder_.CreateCondBr(more, body, after);
  levels_.push_back(std::move(hoisted));
  levels_.push_back(std::move(inner));
  return loop;
}

void Emitter::close_loop(const Loop& loop) {
  levels_.pop_back();
  levels_.pop_back();
  turns_ = loop.turns;
  reopen(loop.closed);
}

std::vector<size_t> Emitter::open_if(Value* condition) {
  llvm::Instruction* at = top().at;
  std::vector<size_t> closed = close_sharing_levels();
  Level inner;
  inner.at = llvm::SplitBlockAndInsertIfThen(condition, at->getIterator(), false);
  levels_.push_back(std::move(inner));
  return closed;
}

void Emitter::close_if(const std::vector<size_t>& closed) {
  levels_.pop_back();
  reopen(closed);
}

void Emitter::emit_body(const tile::Body& body) {
  for (const tile::Statement& statement : body) emit_statement(statement);
}

void Emitter::emit_statement(const tile::Statement& statement) {
  const int floor = load_floor_;
  push_scope();
  load_floor_ = top_index();
  std::visit(
      [&](const auto& node) {
        using Node = std::decay_t<decltype(node)>;
        if constexpr (std::is_same_v<Node, tile::For>) emit_for(node);
        if constexpr (std::is_same_v<Node, tile::If>) emit_if(node);
        if constexpr (std::is_same_v<Node, tile::Map>) emit_map(node);
        if constexpr (std::is_same_v<Node, tile::Reduce>) emit_reduce(node);
        if constexpr (std::is_same_v<Node, tile::Contract>) emit_contract(node);
        if constexpr (std::is_same_v<Node, tile::SortRow>) emit_sort(node);
        if constexpr (std::is_same_v<Node, tile::Scan>) emit_scan(node);
        // tile::Select is for GPUs, as verify() says.
      },
      statement.node);
  pop_scope();
  load_floor_ = floor;
}

void Emitter::emit_for(const tile::For& loop) {
  Value* extent = emit(loop.axis.extent);
  const Loop opened = open_loop(index(0), extent, index(1));
  bind(loop.axis.variable, opened.index);
  const int floor = load_floor_;
  load_floor_ = top_index();
  emit_body(loop.body);
  load_floor_ = floor;
  close_loop(opened);
}

void Emitter::emit_if(const tile::If& statement) {
  Value* condition = emit(statement.condition);
  const std::vector<size_t> closed = open_if(condition);
  const int floor = load_floor_;
  load_floor_ = top_index();
  emit_body(statement.body);
  load_floor_ = floor;
  close_if(closed);
}

/// Sorting is a host function: it moves memory, code generation gains nothing.
void Emitter::emit_sort(const tile::SortRow& sort) {
  const tile::Buffer& keys = program_.buffers[static_cast<size_t>(sort.keys)];
  const tile::Buffer& positions = program_.buffers[static_cast<size_t>(sort.positions)];
  GRAFT_CHECK(positions.type == DType::kInt64, "positions of a sort are i64");
  Value* key = pointer(sort.keys, analyze(sort.keys, sort.key_indices));
  Value* position = pointer(sort.positions, analyze(sort.positions, sort.position_indices));
  Value* length = emit(sort.length);
  Value* key_stride = emit_size(keys.strides.back());
  Value* position_stride = emit_size(positions.strides.back());
  llvm::Type* pointer = builder_.getPtrTy();
  llvm::Type* i64 = builder_.getInt64Ty();
  llvm::Type* i32 = builder_.getInt32Ty();
  std::vector<llvm::Type*> types{pointer, i64, pointer, i64, i64};
  std::vector<Value*> arguments{key, key_stride, position, position_stride, length};
  if (sort.count) types.push_back(i64), arguments.push_back(emit(sort.count));
  types.insert(types.end(), {i32, i32});
  arguments.push_back(builder_.getInt32(static_cast<uint32_t>(onnx_code(keys.type))));
  arguments.push_back(builder_.getInt32(sort.descending));
  auto callee = unit_.module.getOrInsertFunction(sort.count ? "graft_host_select" : "graft_host_sort",
                                                 llvm::FunctionType::get(builder_.getVoidTy(), types, false));
  at_top();
  builder_.CreateCall(callee, arguments);
}

}  // namespace graft::codegen
