// SPDX-License-Identifier: Apache-2.0
// Map: nested loops whose innermost axis runs over the lanes of vectors, with a masked or scalar tail.
#include <algorithm>
#include <bit>
#include <unordered_set>

#include "base/error.h"
#include "codegen/llvm/emitter.h"

#include <llvm/IR/InlineAsm.h>

namespace graft::codegen {
namespace {

/// The widest element that takes part in a value, index arithmetic and what was `seen` before left out; with a variable
/// `along`, only what depends on that.
int widest_bits(const Expr& e, int along, std::unordered_set<const ExprNode*>& seen) {
  if (!e || e->kind == ExprKind::kSize || !seen.insert(e.get()).second) return 0;
  if (along >= 0 && !uses_variable(e, along)) {
    return e->kind == ExprKind::kConstant ? 0 : bit_width(compute_type(e->type));
  }
  int bits = 0;
  if (e->kind == ExprKind::kLoad) return bit_width(e->type);
  if (e->kind != ExprKind::kVariable && e->type != DType::kBool) bits = bit_width(e->type);
  if (e->kind == ExprKind::kConstant) bits = is_float(e->type) ? bits : 0;
  for (const Expr& arg : e->args) bits = std::max(bits, widest_bits(arg, along, seen));
  return bits;
}

int widest_bits(const Expr& e, int along) {
  std::unordered_set<const ExprNode*> seen;
  return widest_bits(e, along, seen);
}

bool reads_memory(const Expr& e) {
  bool found = false;
  for_each(e, [&](const Expr& node) { found |= node->kind == ExprKind::kLoad || is_check(*node); });
  return found;
}

/// Visits the largest parts of a value that are needed at every point and do not depend on a variable; what only one
/// branch of a choice reads is not needed.
void for_each_fixed_part(const Expr& e, int variable, const std::function<void(const Expr&)>& visit) {
  if (!uses_variable(e, variable)) return visit(e);
  const bool chooses = is_call(e, Intrinsic::kSelect);
  for (size_t n = 0; n < e->args.size(); ++n) {
    if (chooses && n > 0 && reads_memory(e->args[n])) continue;
    for_each_fixed_part(e->args[n], variable, visit);
  }
}

}  // namespace

/// How many lanes hold elements of `bits`.
int Emitter::lanes_for(int bits) const {
  const int lanes = unit_.traits.vector_bits / std::clamp(bits, 16, 64);
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(lanes, 1))));
}

/// 1 where lanes could collide or memory order is asked for.
int Emitter::map_lanes(const tile::Map& map, bool shares) const {
  if (map.axes.empty() || map.ordered) return 1;
  const tile::Axis& axis = map.axes.back();
  if (axis.bound == 1) return 1;
  int bits = 8;
  const int along = shares ? map.axes[map.axes.size() - 2].variable->variable : -1;
  for (const tile::Store& store : map.stores) {
    const int stored = bit_width(program_.buffers[static_cast<size_t>(store.buffer)].type);
    bits = std::max({bits, widest_bits(store.value, along), stored});
    bool known = true;
    const Size stride = stride_along(store.buffer, store.indices, axis.variable, &known);
    if (store.mode != ScatterMode::kSet && (!known || !stride.is(1))) return 1;
    if (known && stride.is(0)) return 1;
  }
  int lanes = lanes_for(bits);
  if (axis.bound > 0 && !unit_.traits.masked) {
    while (lanes > axis.bound) lanes /= 2;
  }
  if (axis.bound > 0 && axis.bound * 4 <= lanes)
    lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(axis.bound)));
  return lanes;
}

/// Whether all extents known here are positive: nothing that depends on a point may be read when there is none.
llvm::Value* Emitter::extents_positive(const std::vector<tile::Axis>& axes) {
  Value* all = nullptr;
  for (const tile::Axis& axis : axes) {
    bool inner = false;
    for (const tile::Axis& other : axes) inner |= uses_variable(axis.extent, other.variable->variable);
    if (inner || axis.extent->kind == ExprKind::kConstant) continue;
    Value* extent = emit(axis.extent);
    at_top();
    Value* positive = builder_.CreateICmpSGT(extent, index(0));
    all = all ? builder_.CreateAnd(all, positive) : positive;
  }
  return all;
}

/// Opens loops over axes[first..last) around `body`.
void Emitter::nested_loops(const std::vector<tile::Axis>& axes, size_t first, size_t last,
                           const std::function<void()>& body) {
  if (first == last) return body();
  const tile::Axis& axis = axes[first];
  Value* extent = emit(axis.extent);
  const Loop loop = open_loop(index(0), extent, index(1));
  bind(axis.variable, loop.index);
  nested_loops(axes, first + 1, last, body);
  close_loop(loop);
}

/// Binds the variable to base, base + 1, ... over the lanes.
void Emitter::bind_lanes(const Expr& variable, Value* base, int lanes) {
  at_top();
  std::vector<llvm::Constant*> steps;
  for (int n = 0; n < lanes; ++n) steps.push_back(builder_.getInt64(static_cast<uint64_t>(n)));
  Value* value = builder_.CreateAdd(splat(base, lanes), llvm::ConstantVector::get(steps));
  bind(variable, value, base);
  vector_variable_ = variable->variable;
  lanes_ = lanes;
}

/// Runs `body` over an axis, `lanes` points at a time.
void Emitter::vector_loop(const tile::Axis& axis, int lanes, const std::function<void()>& body) {
  Value* extent = emit(axis.extent);
  at_top();
  if (lanes == 1) return vector_tail(axis, 1, index(0), extent, body);
  Value* whole = builder_.CreateAnd(extent, index(-lanes));
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(extent);
  if (!constant || constant->getSExtValue() >= lanes) {
    const Loop loop = open_loop(index(0), whole, index(lanes));
    bind_lanes(axis.variable, loop.index, lanes);
    body();
    close_loop(loop);
  }
  vector_variable_ = -1;
  lanes_ = 1;
  if (!constant || constant->getSExtValue() % lanes != 0) vector_tail(axis, lanes, whole, extent, body);
  at_top();
}

/// The number of lanes that a tail has, which LLVM is not to know. Without AVX-512 it makes lanes of constant masks
/// that nobody needs undefined ones, and then a load of the whole vector where it no longer sees that the outer lanes
/// are masked: beyond the end of the memory.
llvm::Value* Emitter::hide(Value* count) {
  if (!unit_.traits.forgets_known_masks) return count;
  auto* type = llvm::FunctionType::get(count->getType(), {count->getType()}, false);
  return builder_.CreateCall(type, llvm::InlineAsm::get(type, "", "=r,0", /*hasSideEffects=*/false), {count});
}

/// The mask of so many lanes, at least one, or of all where there are more.
llvm::Value* Emitter::first_lanes(Value* count, int lanes) {
  Value* left = hide(builder_.CreateTrunc(count, builder_.getInt32Ty()));
  std::vector<llvm::Constant*> steps;
  for (int n = 0; n < lanes; ++n) steps.push_back(builder_.getInt32(static_cast<uint32_t>(n)));
  return builder_.CreateICmpULT(llvm::ConstantVector::get(steps), splat(left, lanes));
}

/// The points from `begin`, fewer than `lanes`: one masked vector, or one by one.
void Emitter::vector_tail(const tile::Axis& axis, int lanes, Value* begin, Value* end,
                          const std::function<void()>& body) {
  if (lanes == 1 || !unit_.traits.masked) {
    const Loop loop = open_loop(begin, end, index(1));
    bind(axis.variable, loop.index);
    body();
    close_loop(loop);
    return;
  }
  at_top();
  const std::vector<size_t> closed = open_if(builder_.CreateICmpSLT(begin, end));
  const int floor = load_floor_;
  load_floor_ = top_index();
  bind_lanes(axis.variable, begin, lanes);
  mask_ = first_lanes(builder_.CreateSub(end, begin), lanes);
  mask_level_ = top_index();
  lazy_ = false;
  body();
  mask_ = nullptr;
  mask_level_ = 0;
  load_floor_ = floor;
  vector_variable_ = -1;
  lanes_ = 1;
  close_if(closed);
}

void Emitter::emit_map(const tile::Map& map) {
  Value* some = extents_positive(map.axes);
  std::vector<size_t> closed;
  const int floor = load_floor_;
  if (some) {
    closed = open_if(some);
    load_floor_ = top_index();
  }
  if (map.axes.empty()) {
    emit_point(map);
  } else if (interleaves(map)) {
    interleaved_rows(map);
  } else if (const auto transposition = plan_transposition(map)) {
    transposed_blocks(map, *transposition);
  } else {
    const bool shares = shares_places(map);
    const int lanes = map_lanes(map, shares);
    nested_loops(map.axes, 0, map.axes.size() - (shares ? 2 : 1), [&] {
      vector_loop(map.axes.back(), lanes, [&] { shares ? emit_shared(map) : emit_point(map); });
    });
  }
  load_floor_ = floor;
  if (some) close_if(closed);
}

/// Whether places along the last axis are computed, not along the one before: then points of that one share them.
bool Emitter::shares_places(const tile::Map& map) const {
  if (map.ordered || map.condition || map.axes.size() < 2) return false;
  const int last = map.axes.back().variable->variable, shared = map.axes[map.axes.size() - 2].variable->variable;
  if (uses_variable(map.axes.back().extent, shared)) return false;
  bool found = false;
  for (const tile::Store& store : map.stores) {
    for_each(store.value, [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad) return;
      for (const Expr& index : node->args) {
        found |= uses_variable(index, last) && !uses_variable(index, shared) && !affine(index);
      }
    });
  }
  return found;
}

/// The points of the last axis but one, at a vector of the last: what does not depend on them is computed before.
void Emitter::emit_shared(const tile::Map& map) {
  const size_t shared = map.axes.size() - 2;
  for (const tile::Store& store : map.stores) {
    for_each_fixed_part(store.value, map.axes[shared].variable->variable, [&](const Expr& part) { emit(part); });
  }
  nested_loops(map.axes, shared, shared + 1, [&] { emit_point(map); });
}

/// The stores of one point, or of one vector of points.
void Emitter::emit_point(const tile::Map& map) {
  const int floor = load_floor_;
  push_scope();
  if (map.ordered) load_floor_ = top_index();
  if (!map.condition) {
    store_values(map);
  } else {
    Value* condition = emit(map.condition);
    at_top();
    Values both{condition, mask_ ? mask_ : condition};
    unify(both);
    Value* active = mask_ ? builder_.CreateAnd(both[0], both[1]) : condition;
    Value* const mask = mask_;
    const int mask_level = mask_level_;
    const std::vector<size_t> closed = open_if(lane_count_any(active));
    load_floor_ = mask_level_ = top_index();
    if (active->getType()->isVectorTy()) mask_ = active;
    const bool lazy = lazy_;
    lazy_ = false;
    store_values(map);
    lazy_ = lazy;
    mask_ = mask;
    mask_level_ = mask_level;
    close_if(closed);
  }
  pop_scope();
  load_floor_ = floor;
}

void Emitter::store_values(const tile::Map& map) {
  Values values;
  std::vector<Address> addresses;
  for (const tile::Store& store : map.stores) {
    values.push_back(
        cast(store.value->type, program_.buffers[static_cast<size_t>(store.buffer)].type, emit(store.value)));
    addresses.push_back(analyze(store.buffer, store.indices));
    if (store.mode == ScatterMode::kSet) emit(addresses.back().uniform);
  }
  for (size_t n = 0; n < map.stores.size(); ++n) emit_store(map.stores[n], addresses[n], values[n]);
}

void Emitter::emit_store(const tile::Store& store, const Address& address, Value* value) {
  at_top();
  const DType type = program_.buffers[static_cast<size_t>(store.buffer)].type;
  if (store.mode != ScatterMode::kSet) {
    const DType wide = compute_type(type);
    Value* old = cast(type, wide, load_memory(store.buffer, address));
    Values v{old, cast(type, wide, value)};
    at_top();
    unify(v);
    const Intrinsic intrinsic = store.mode == ScatterMode::kAdd   ? Intrinsic::kAdd
                                : store.mode == ScatterMode::kMul ? Intrinsic::kMul
                                : store.mode == ScatterMode::kMin ? Intrinsic::kMin
                                                                  : Intrinsic::kMax;
    Value* combined = type == DType::kBool && intrinsic == Intrinsic::kAdd ? builder_.CreateOr(v[0], v[1])
                                                                           : arithmetic(intrinsic, wide, v);
    value = cast(wide, type, combined);
  }
  store_memory(store.buffer, address, value);
}

}  // namespace graft::codegen
