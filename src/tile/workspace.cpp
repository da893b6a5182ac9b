// SPDX-License-Identifier: Apache-2.0
#include "tile/workspace.h"

#include <algorithm>
#include <numeric>

#include "base/checked_size.h"
#include "tile/builder.h"

namespace graft::tile {
namespace {

bool is_fixed(const Buffer& buffer) {
  return std::all_of(buffer.shape.begin(), buffer.shape.end(), [](const Size& size) { return size.is_constant(); });
}

int64_t bytes_of(const Buffer& buffer) {
  return checked_product(element_count(buffer.shape).constant(), std::max(bit_width(buffer.type) / 8, 1), buffer.name);
}

/// The buffers that move.
std::vector<bool> choose(const Program& program, int64_t limit) {
  std::vector<bool> moves(program.buffers.size());
  std::vector<size_t> fixed;
  int64_t total = 0;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.scope != Scope::kShared) continue;
    moves[i] = !is_fixed(buffer);
    if (moves[i]) continue;
    fixed.push_back(i);
    total = checked_sum(total, bytes_of(buffer), "the memory of a block");
  }
  std::stable_sort(fixed.begin(), fixed.end(), [&](size_t a, size_t b) {
    return bytes_of(program.buffers[a]) > bytes_of(program.buffers[b]);
  });
  for (const size_t i : fixed) {
    if (total <= limit) break;
    moves[i] = true;
    total -= bytes_of(program.buffers[i]);
  }
  return moves;
}

/// Rewrites every use of a buffer.
class Mover {
 public:
  Mover(Program& program, std::vector<int> places, std::vector<bool> moves)
      : program_(program), places_(std::move(places)), moves_(std::move(moves)) {
    for (const graft::Axis& axis : program.grid) point_.push_back(axis.variable);
  }

  void run() {
    std::vector<Buffer> buffers(program_.buffers.size());
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      Buffer& buffer = buffers[places_[i]] = std::move(program_.buffers[i]);
      if (!moves_[i]) continue;
      buffer.name = "workspace_" + buffer.name;
      buffer.scope = Scope::kGlobal;
      buffer.written = true;
      Shape shape;
      for (const graft::Axis& axis : program_.grid) shape.push_back(axis.extent);
      buffer.shape.insert(buffer.shape.begin(), shape.begin(), shape.end());
      buffer.strides = row_major(buffer.shape);
    }
    program_.buffers = std::move(buffers);
    body(program_.body);
  }

 private:
  void indices(int buffer, std::vector<Expr>& list) const {
    for (Expr& index : list) index = expression(index);
    if (moves_[buffer]) list.insert(list.begin(), point_.begin(), point_.end());
  }

  Expr expression(const Expr& e) const {
    if (!e) return e;
    return transform(e, [&](const Expr& node) -> Expr {
      if (node->kind != ExprKind::kLoad) return {};
      std::vector<Expr> at = node->args;
      if (moves_[node->tensor]) at.insert(at.begin(), point_.begin(), point_.end());
      return make_load(places_[node->tensor], node->type, std::move(at));
    });
  }

  void axes(std::vector<Axis>& list) const {
    for (Axis& axis : list) axis.extent = expression(axis.extent);
  }
  void stores(std::vector<Store>& list) const {
    for (Store& store : list) {
      indices(store.buffer, store.indices);
      store.value = expression(store.value);
      store.buffer = places_[store.buffer];
    }
  }
  void body(Body& statements) const {
    for (Statement& each : statements) std::visit([&](auto& node) { statement(node); }, each.node);
  }
  void statement(For& loop) const { loop.axis.extent = expression(loop.axis.extent), body(loop.body); }
  void statement(If& branch) const { branch.condition = expression(branch.condition), body(branch.body); }
  void statement(Map& map) const { axes(map.axes), map.condition = expression(map.condition), stores(map.stores); }
  void statement(Reduce& reduce) const {
    axes(reduce.axes), axes(reduce.reduced), stores(reduce.outputs);
    for (Expr& lift : reduce.lift) lift = expression(lift);
  }
  void statement(Contract& contract) const {
    axes(contract.m), axes(contract.n), axes(contract.k);
    contract.a = expression(contract.a), contract.b = expression(contract.b);
    indices(contract.c, contract.c_indices);
    contract.c = places_[contract.c];
  }
  void statement(Scan& scan) const {
    axes(scan.axes), stores(scan.stores);
    scan.axis.extent = expression(scan.axis.extent);
    for (Expr& initial : scan.initial) initial = expression(initial);
    for (Expr& step : scan.step) step = expression(step);
  }
  void statement(Select& select) const {
    axes(select.axes);
    select.axis.extent = expression(select.axis.extent), select.key = expression(select.key);
    for (Store* store : {&select.keys, &select.positions}) {
      indices(store->buffer, store->indices);
      store->buffer = places_[store->buffer];
    }
  }
  void statement(SortRow& sort) const {
    indices(sort.keys, sort.key_indices), indices(sort.positions, sort.position_indices);
    sort.length = expression(sort.length);
    sort.keys = places_[sort.keys], sort.positions = places_[sort.positions];
  }

  Program& program_;
  std::vector<int> places_;
  std::vector<bool> moves_;
  std::vector<Expr> point_;
};

}  // namespace

void move_to_workspace(Program& program, int64_t limit, int last) {
  std::vector<bool> moves = choose(program, limit);
  if (std::find(moves.begin(), moves.end(), true) == moves.end()) return;
  // Arguments, workspaces, the last arguments, and what stays in a block's memory.
  std::vector<size_t> order(program.buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto globals = std::count_if(program.buffers.begin(), program.buffers.end(),
                                     [](const Buffer& buffer) { return buffer.scope == Scope::kGlobal; });
  const auto rank = [&](size_t i) {
    if (moves[i]) return 1;
    if (program.buffers[i].scope != Scope::kGlobal) return 3;
    return static_cast<std::ptrdiff_t>(i) >= globals - last ? 2 : 0;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
  std::vector<int> places(order.size());
  for (size_t i = 0; i < order.size(); ++i) places[order[i]] = static_cast<int>(i);
  Mover(program, std::move(places), std::move(moves)).run();
  program.sizes = collect_sizes(program);
}

}  // namespace graft::tile
