// SPDX-License-Identifier: Apache-2.0
// Recurrences: states stay in registers, those of several points side by side, so that one step need not wait for the
// one before.
#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace graft::codegen {
namespace {

constexpr int64_t kRows = 8;     // points side by side, each a chain of scalars
constexpr int64_t kVectors = 8;  // or so many vectors of points

}  // namespace

/// Lanes along the last axis where results lie side by side along it; 1 where they do not.
int Emitter::scan_lanes(const tile::Scan& scan) const {
  if (scan.axes.empty() || scan.axes.back().bound == 1) return 1;
  int bits = 16;
  for (const Expr& state : scan.state) bits = std::max(bits, bit_width(state->type));
  for (const tile::Store& store : scan.stores) {
    bits = std::max(bits, bit_width(program_.buffers[static_cast<size_t>(store.buffer)].type));
    bool known = true;
    if (!stride_along(store.buffer, store.indices, scan.axes.back().variable, &known).is(1) || !known) return 1;
  }
  return lanes_for(bits);
}

void Emitter::emit_scan(const tile::Scan& scan) {
  Value* some = extents_positive(scan.axes);
  std::vector<size_t> closed;
  const int floor = load_floor_;
  if (some) {
    closed = open_if(some);
    load_floor_ = top_index();
  }
  if (scan.axes.empty()) {
    scan_points(scan, 1, [](int64_t) {});
  } else {
    const int lanes = scan_lanes(scan);
    nested_loops(scan.axes, 0, scan.axes.size() - 1, [&] { scan_axis(scan, lanes); });
  }
  load_floor_ = floor;
  if (some) close_if(closed);
}

/// The points of the last axis: as many side by side as there are registers for, then single ones.
void Emitter::scan_axis(const tile::Scan& scan, int lanes) {
  const tile::Axis& axis = scan.axes.back();
  Value* extent = emit(axis.extent);
  at_top();
  Value* begin = index(0);
  for (const int64_t count : {lanes > 1 ? kVectors : kRows, int64_t{1}}) {
    at_top();
    const int64_t step = count * lanes;
    Value* left = builder_.CreateSub(extent, begin);
    Value* end = builder_.CreateAdd(begin, builder_.CreateSub(left, builder_.CreateURem(left, index(step))));
    const Loop loop = open_loop(begin, end, index(step));
    scan_points(scan, count, [&](int64_t n) {
      at_top();
      Value* first = builder_.CreateAdd(loop.index, index(n * lanes));
      lanes > 1 ? bind_lanes(axis.variable, first, lanes) : bind(axis.variable, first);
    });
    close_loop(loop);
    begin = end;
  }
  if (lanes > 1) vector_tail(axis, lanes, begin, extent, [&] { scan_points(scan, 1, [](int64_t) {}); });
}

/// So many points, or vectors of them, in step. `bind_point` binds the variables of each; lanes that all points share
/// are bound already.
void Emitter::scan_points(const tile::Scan& scan, int64_t count, const std::function<void(int64_t)>& bind_point) {
  const int variable = vector_variable_, lanes = lanes_;
  std::vector<std::vector<llvm::AllocaInst*>> states(static_cast<size_t>(count));
  const auto at_each = [&](const std::function<void(std::vector<llvm::AllocaInst*>&)>& visit) {
    for (int64_t n = 0; n < count; ++n) {
      push_scope();
      bind_point(n);
      visit(states[static_cast<size_t>(n)]);
      vector_variable_ = variable;
      lanes_ = lanes;
      pop_scope();
    }
  };
  at_each([&](std::vector<llvm::AllocaInst*>& state) {
    for (const Expr& initial : scan.initial) {
      Value* value = splat(emit(initial), lanes_);
      state.push_back(make_local(value->getType()));
      at_top();
      builder_.CreateStore(value, state.back());
    }
  });
  Value* extent = emit(scan.axis.extent);
  const Loop loop = open_loop(index(0), extent, index(1));
  at_top();
  Value* last = scan.reverse ? builder_.CreateSub(extent, index(1)) : nullptr;
  bind(scan.axis.variable, last ? builder_.CreateSub(last, loop.index) : loop.index);
  const int floor = load_floor_;
  load_floor_ = top_index();
  at_each([&](std::vector<llvm::AllocaInst*>& state) { scan_step(scan, state); });
  load_floor_ = floor;
  close_loop(loop);
}

void Emitter::scan_step(const tile::Scan& scan, const std::vector<llvm::AllocaInst*>& state) {
  at_top();
  const Values old = load_state(state);
  for (size_t n = 0; n < old.size(); ++n) bind(scan.state[n], old[n]);
  Values next;
  for (const Expr& step : scan.step) next.push_back(splat(emit(step), lanes_));
  push_scope();
  for (size_t n = 0; n < old.size(); ++n) bind(scan.state[n], scan.exclusive ? old[n] : next[n]);
  store_values({.axes = {}, .condition = {}, .stores = scan.stores});
  pop_scope();
  at_top();
  for (size_t n = 0; n < old.size(); ++n) builder_.CreateStore(next[n], state[n]);
}

}  // namespace graft::codegen
