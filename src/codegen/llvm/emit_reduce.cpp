// SPDX-License-Identifier: Apache-2.0
// Reduce: folds along the lanes of the last output axis or of the last reduced axis, whichever is contiguous.
#include <algorithm>

#include "base/error.h"
#include "codegen/llvm/emitter.h"
#include "expr/commutes.h"

namespace graft::codegen {
namespace {

constexpr int kChains = 4;  ///< independent accumulators, so that the fold is not bound by latency

/// Whether data that depends on the variable says where the indices lie.
bool is_scattered(const std::vector<Expr>& indices, const Expr& variable) {
  return std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
    bool found = false;
    for_each(index, [&](const Expr& e) {
      found |= e->kind == ExprKind::kLoad && uses_variable(e, variable->variable);
    });
    return found;
  });
}

/// Whether all that is done is to add up products of floats.
bool sums_products(const tile::Reduce& reduce) {
  const Monoid& monoid = reduce.monoid;
  if (reduce.lift.size() != 1 || !monoid.associative || !is_call(monoid.combine[0], Intrinsic::kAdd)) return false;
  if (!is_call(reduce.lift[0], Intrinsic::kMul) || !is_float(reduce.lift[0]->type)) return false;
  const std::vector<Expr>& terms = monoid.combine[0]->args;
  return (equal(terms[0], monoid.left[0]) && equal(terms[1], monoid.right[0])) ||
         (equal(terms[0], monoid.right[0]) && equal(terms[1], monoid.left[0]));
}

/// The steps of the innermost reduced axis that are spelled one by one: those that say how far codes are shifted, which
/// constants do in one instruction, and a few that only read, which a loop would take longer to count. 0: they stay a
/// loop.
int64_t spelled_steps(const tile::Reduce& reduce) {
  constexpr int64_t kMost = 8, kMostReads = 16;
  if (reduce.reduced.empty()) return 0;
  const tile::Axis& axis = reduce.reduced.back();
  const auto extent = affine(axis.extent);
  if (!extent || !extent->coefficients.empty() || !extent->offset.is_constant()) return 0;
  bool shifts = false;
  for (const Expr& lift : reduce.lift) {
    for_each(lift, [&](const Expr& e) {
      shifts |= is_call(e, Intrinsic::kShr) && uses_variable(e->args[1], axis.variable->variable);
    });
  }
  const int64_t steps = extent->offset.constant();
  const bool reads = reduce.lift.size() == 1 && reduce.lift[0]->kind == ExprKind::kLoad;
  return steps <= (shifts ? kMost : reads ? kMostReads : 0) ? steps : 0;
}

int state_bits(const tile::Reduce& reduce) {
  int bits = 16;
  for (const Expr& e : reduce.lift) bits = std::max(bits, bit_width(e->type));
  return bits;
}

}  // namespace

/// Lanes along the last output axis: every load is near along it or does not depend on it, or it is at places
/// that are data whichever way lanes lie.
bool Emitter::reduce_along_output(const tile::Reduce& reduce) const {
  if (reduce.axes.empty() || reduce.axes.back().bound == 1) return false;
  const Expr& variable = reduce.axes.back().variable;
  const Expr folded = reduce.reduced.empty() ? Expr() : reduce.reduced.back().variable;
  bool good = true, contiguous = false;
  auto inspect = [&](int buffer, const std::vector<Expr>& indices) {
    if (folded && is_scattered(indices, variable) && is_scattered(indices, folded)) return;
    const Size stride = stride_along(buffer, indices, variable, &good);
    good &= stride.is(0) || stride.is(1) || is_near(stride);
    contiguous |= stride.is(1) || is_near(stride);
  };
  for (const Expr& lift : reduce.lift) {
    for_each(lift, [&](const Expr& e) {
      if (e->kind == ExprKind::kLoad) inspect(e->tensor, e->args);
    });
  }
  if (!contiguous) return false;
  for (const tile::Axis& axis : reduce.reduced) good &= !uses_variable(axis.extent, variable->variable);
  for (const tile::Store& store : reduce.outputs) {
    bool known = true;
    good &= stride_along(store.buffer, store.indices, variable, &known).is(1) && known;
  }
  return good;
}

/// Lanes along the last reduced axis: elements may be reordered, and loads are contiguous or invariant along it.
bool Emitter::reduce_along_input(const tile::Reduce& reduce) const {
  if (reduce.reduced.empty() || !commutes(reduce.monoid)) return false;
  const tile::Axis& axis = reduce.reduced.back();
  return axis.bound == 0 || axis.bound >= lanes_for(state_bits(reduce)) / 2;
}

void Emitter::emit_reduce(const tile::Reduce& reduce) {
  Value* some = extents_positive(reduce.axes);
  std::vector<size_t> closed;
  const int floor = load_floor_;
  if (some) {
    closed = open_if(some);
    load_floor_ = top_index();
  }
  const int lanes = lanes_for(state_bits(reduce));
  const bool input = reduce_along_input(reduce);
  // A short row, of a window, folds down columns where it can: then no lanes are to be combined.
  const bool is_long = input && (reduce.reduced.back().bound == 0 || reduce.reduced.back().bound >= 2 * lanes);
  bool input_contiguous = is_long;
  if (is_long) {
    for (const Expr& lift : reduce.lift) {
      for_each(lift, [&](const Expr& e) {
        if (e->kind != ExprKind::kLoad) return;
        bool known = true;
        const Size stride = stride_along(e->tensor, e->args, reduce.reduced.back().variable, &known);
        input_contiguous &= known && (stride.is(0) || stride.is(1));
      });
    }
  }
  if (reduce_along_output(reduce) && reduce.points > 1) {
    nested_loops(reduce.axes, 0, reduce.axes.size() - 2,
                 [&] { vector_loop(reduce.axes.back(), lanes, [&] { blocks_of_points(reduce); }); });
  } else if (reduce_along_output(reduce) && !input_contiguous) {
    nested_loops(reduce.axes, 0, reduce.axes.size() - 1,
                 [&] { vector_loop(reduce.axes.back(), lanes, [&] { reduce_point(reduce, 1); }); });
  } else {
    nested_loops(reduce.axes, 0, reduce.axes.size(), [&] { reduce_point(reduce, input ? lanes : 1); });
  }
  load_floor_ = floor;
  if (some) close_if(closed);
}

/// All points of the last axis but one, at a vector of the last: as many side by side as the reduction says, then what
/// is left by halves of that.
void Emitter::blocks_of_points(const tile::Reduce& reduce) {
  const tile::Axis& axis = reduce.axes[reduce.axes.size() - 2];
  Value* extent = emit(axis.extent);
  Value* begin = index(0);
  for (int64_t count = reduce.points; count >= 1; count /= 2) {
    at_top();
    Value* left = builder_.CreateSub(extent, begin);
    Value* whole = builder_.CreateSub(left, builder_.CreateURem(left, index(count)));
    Value* end = builder_.CreateAdd(begin, whole);
    if (const auto* none = llvm::dyn_cast<llvm::ConstantInt>(whole); none && none->isZero()) continue;
    const Loop loop = open_loop(begin, end, index(count));
    fold_points(reduce, loop.index, count);
    close_loop(loop);
    begin = end;
  }
}

/// So many points side by side, each with a state of its own.
void Emitter::fold_points(const tile::Reduce& reduce, Value* first, int64_t count) {
  const tile::Axis& axis = reduce.axes[reduce.axes.size() - 2];
  std::vector<std::vector<llvm::AllocaInst*>> states;
  for (int64_t n = 0; n < count; ++n) states.push_back(make_state(reduce, lanes_));
  const bool is_sum = sums_products(reduce);
  const auto at_each = [&](const auto& visit) {
    for (int64_t n = 0; n < count; ++n) {
      push_scope();
      at_top();
      bind(axis.variable, builder_.CreateAdd(first, index(n)));
      visit(states[static_cast<size_t>(n)]);
      pop_scope();
    }
  };
  const auto step = [&] {
    const int floor = load_floor_;
    load_floor_ = std::max(floor, top_index() - 1);
    at_each([&](const auto& state) { is_sum ? add_product(reduce.lift[0], state[0]) : fold_step(reduce, state); });
    load_floor_ = floor;
  };
  const int64_t spelled = spelled_steps(reduce);
  nested_loops(reduce.reduced, 0, reduce.reduced.size() - (spelled > 0 ? 1 : 0), [&] {
    if (spelled == 0) return step();
    for (int64_t n = 0; n < spelled; ++n) {
      push_scope();
      at_top();
      bind(reduce.reduced.back().variable, index(n));
      if (n == 0) {
        bind(axis.variable, first);
        fetch_codes(reduce.lift[0]);
      }
      step();
      pop_scope();
    }
  });
  at_each([&](const auto& state) {
    at_top();
    store_state(reduce, load_state(state));
  });
}

/// Asks for the codes that come some steps later: they are read once, from memory, faster than processors look ahead.
void Emitter::fetch_codes(const Expr& lift) {
  constexpr int64_t kAhead = 4096;  // bytes
  for_each(lift, [&](const Expr& e) {
    if (e->kind != ExprKind::kLoad || bit_width(e->type) != 8) return;
    const tile::Buffer& buffer = program_.buffers[static_cast<size_t>(e->tensor)];
    if (!buffer.constant || buffer.scope != tile::Scope::kGlobal) return;
    Value* address = pointer(e->tensor, analyze(e->tensor, e->args));
    at_top();
    Value* ahead = builder_.CreateGEP(builder_.getInt8Ty(), address, index(kAhead));
    constexpr int kRead = 0, kNearest = 3, kData = 1;
    builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {ahead->getType()},
                             {ahead, builder_.getInt32(kRead), builder_.getInt32(kNearest), builder_.getInt32(kData)});
  });
}

/// One output point, or a vector of them; `lanes` > 1 folds along the last reduced axis in lanes.
void Emitter::reduce_point(const tile::Reduce& reduce, int lanes) {
  push_scope();
  std::vector<llvm::AllocaInst*> state;
  if (lanes > 1) {
    fold_lanes(reduce, lanes, state);
  } else {
    state = make_state(reduce, lanes_);
    nested_loops(reduce.reduced, 0, reduce.reduced.size(), [&] {
      const int floor = load_floor_;
      load_floor_ = std::max(floor, reduce.reduced.empty() ? floor : top_index() - 1);
      fold_step(reduce, state);
      load_floor_ = floor;
    });
  }
  at_top();
  store_state(reduce, load_state(state));
  pop_scope();
}

std::vector<llvm::AllocaInst*> Emitter::make_state(const tile::Reduce& reduce, int lanes) {
  std::vector<llvm::AllocaInst*> state;
  for (const Expr& identity : reduce.monoid.identity) {
    Value* value = splat(emit(identity), lanes);
    at_top();
    state.push_back(make_local(value->getType()));
    at_top();
    builder_.CreateStore(value, state.back());
  }
  return state;
}

Emitter::Values Emitter::load_state(const std::vector<llvm::AllocaInst*>& state) {
  Values values;
  for (llvm::AllocaInst* place : state) values.push_back(builder_.CreateLoad(place->getAllocatedType(), place));
  return values;
}

/// state = combine(state, lift); masked-off lanes keep their state.
void Emitter::fold_step(const tile::Reduce& reduce, const std::vector<llvm::AllocaInst*>& state) {
  Values lifted;
  for (const Expr& e : reduce.lift) lifted.push_back(emit(e));
  at_top();
  const Values old = load_state(state);
  Values next = combine(reduce.monoid, old, lifted);
  at_top();
  for (size_t n = 0; n < state.size(); ++n) {
    const bool vector = old[n]->getType()->isVectorTy();
    Value* value = next[n];
    if (mask_ && vector) value = builder_.CreateSelect(splat(mask_, lanes_), value, old[n]);
    builder_.CreateStore(value, state[n]);
  }
}

/// sum += a * b with one rounding.
void Emitter::add_product(const Expr& product, llvm::AllocaInst* sum) {
  Value* a = emit(product->args[0]);
  Value* b = emit(product->args[1]);
  at_top();
  Value* old = builder_.CreateLoad(sum->getAllocatedType(), sum);
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(old->getType());
  const int lanes = vector ? static_cast<int>(vector->getNumElements()) : 1;
  Value* value = multiply_add(product->type, splat(a, lanes), splat(b, lanes), old);
  if (mask_ && vector) value = builder_.CreateSelect(splat(mask_, lanes_), value, old);
  builder_.CreateStore(value, sum);
}

/// Folds the reduced axes with several vector accumulators, then across chains and lanes into scalars.
void Emitter::fold_lanes(const tile::Reduce& reduce, int lanes, std::vector<llvm::AllocaInst*>& state) {
  std::vector<std::vector<llvm::AllocaInst*>> chains;
  const tile::Axis& axis = reduce.reduced.back();
  const int count = axis.bound > 0 && axis.bound < 2 * lanes ? 1 : kChains;
  for (int n = 0; n < count; ++n) chains.push_back(make_state(reduce, lanes));
  nested_loops(reduce.reduced, 0, reduce.reduced.size() - 1, [&] {
    Value* extent = emit(axis.extent);
    at_top();
    const int floor = load_floor_;
    Value* whole = count == 1 ? index(0) : builder_.CreateAnd(extent, index(-int64_t{lanes} * count));
    if (count > 1) {
      const Loop loop = open_loop(index(0), whole, index(int64_t{lanes} * count));
      load_floor_ = std::max(floor, top_index() - 1);
      for (int n = 0; n < count; ++n) {
        push_scope();
        at_top();
        bind_lanes(axis.variable, builder_.CreateAdd(loop.index, index(int64_t{n} * lanes)), lanes);
        fold_step(reduce, chains[static_cast<size_t>(n)]);
        pop_scope();
      }
      close_loop(loop);
    }
    at_top();
    Value* most = builder_.CreateAnd(extent, index(-int64_t{lanes}));
    const Loop rest = open_loop(whole, most, index(lanes));
    load_floor_ = std::max(floor, top_index() - 1);
    bind_lanes(axis.variable, rest.index, lanes);
    fold_step(reduce, chains[0]);
    close_loop(rest);
    vector_variable_ = -1;
    lanes_ = 1;
    load_floor_ = floor;
    if (unit_.traits.masked) vector_tail(axis, lanes, most, extent, [&] { fold_step(reduce, chains[0]); });
  });
  at_top();
  Values total = load_state(chains[0]);
  for (int n = 1; n < count; ++n) total = combine(reduce.monoid, total, load_state(chains[static_cast<size_t>(n)]));
  total = combine_across(reduce.monoid, total, lanes);
  at_top();
  for (Value* value : total) {
    state.push_back(make_local(value->getType()));
    at_top();
    builder_.CreateStore(value, state.back());
  }
  if (unit_.traits.masked) return;
  nested_loops(reduce.reduced, 0, reduce.reduced.size() - 1, [&] {
    Value* extent = emit(axis.extent);
    at_top();
    const Loop loop = open_loop(builder_.CreateAnd(extent, index(-int64_t{lanes})), extent, index(1));
    bind(axis.variable, loop.index);
    const int floor = load_floor_;
    load_floor_ = std::max(floor, top_index() - 1);
    fold_step(reduce, state);
    load_floor_ = floor;
    close_loop(loop);
  });
}

/// combine(left, right) with the monoid's variables bound to the given values; a component that depends on neither
/// has as many lanes as they have.
Emitter::Values Emitter::combine(const Monoid& monoid, const Values& left, const Values& right) {
  push_scope();
  for (size_t n = 0; n < left.size(); ++n) {
    bind(monoid.left[n], left[n]);
    bind(monoid.right[n], right[n]);
  }
  Values result;
  for (const Expr& e : monoid.combine) result.push_back(emit(e));
  pop_scope();
  at_top();
  for (size_t n = 0; n < left.size(); ++n) {
    const auto* lanes = llvm::dyn_cast<llvm::FixedVectorType>(left[n]->getType());
    if (lanes) result[n] = splat(result[n], static_cast<int>(lanes->getNumElements()));
  }
  return result;
}

/// Halves the vectors until one lane is left.
Emitter::Values Emitter::combine_across(const Monoid& monoid, Values values, int lanes) {
  for (int half = lanes / 2; half >= 1; half /= 2) {
    Values low, high;
    std::vector<int> first(static_cast<size_t>(half)), second(static_cast<size_t>(half));
    for (int n = 0; n < half; ++n) {
      first[static_cast<size_t>(n)] = n;
      second[static_cast<size_t>(n)] = n + half;
    }
    at_top();
    for (Value* value : values) {
      low.push_back(builder_.CreateShuffleVector(value, first));
      high.push_back(builder_.CreateShuffleVector(value, second));
    }
    values = combine(monoid, low, high);
  }
  for (Value*& value : values) {
    if (value->getType()->isVectorTy()) value = builder_.CreateExtractElement(value, uint64_t{0});
  }
  return values;
}

void Emitter::store_state(const tile::Reduce& reduce, Values state) {
  if (reduce.accumulate) {
    Values old;
    for (size_t n = 0; n < state.size(); ++n) {
      const tile::Store& output = reduce.outputs[n];
      const DType type = program_.buffers[static_cast<size_t>(output.buffer)].type;
      old.push_back(
          cast(type, reduce.lift[n]->type, load_memory(output.buffer, analyze(output.buffer, output.indices))));
    }
    at_top();
    state = combine(reduce.monoid, old, state);
  }
  for (size_t n = 0; n < state.size(); ++n) {
    const tile::Store& output = reduce.outputs[n];
    at_top();
    Value* value = cast(reduce.lift[n]->type, program_.buffers[static_cast<size_t>(output.buffer)].type, state[n]);
    store_memory(output.buffer, analyze(output.buffer, output.indices), value);
  }
}

}  // namespace graft::codegen
