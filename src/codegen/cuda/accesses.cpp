// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

/// Collects the accesses of a statement and of all inside it.
class Collector {
 public:
  Collector(const tile::Program& program, bool fragments) : program_(program), fragments_(fragments) {}

  void body(const tile::Body& statements) {
    for (const tile::Statement& each : statements) std::visit([&](const auto& node) { add(node); }, each.node);
  }
  void add(const tile::For& loop) { read(loop.axis.extent), body(loop.body); }
  void add(const tile::If& branch) { read(branch.condition), body(branch.body); }
  void add(const tile::Map& map) {
    axes(map.axes), read(map.condition);
    for (const tile::Store& store : map.stores) {
      write(store, store.mode != ScatterMode::kSet);
      read(store.value);
    }
  }
  void add(const tile::Reduce& reduce) {
    axes(reduce.axes), axes(reduce.reduced), read(reduce.lift);
    for (const tile::Store& output : reduce.outputs) write(output, reduce.accumulate);
  }
  void add(const tile::Contract& contract) {
    axes(contract.m), axes(contract.n), axes(contract.k), read(contract.a), read(contract.b);
    note(contract.c, result_.writes);
    if (contract.accumulate) note(contract.c, result_.reads);
  }
  void add(const tile::SortRow& sort) {
    read(sort.length), read(sort.key_indices), read(sort.position_indices);
    for (const int buffer : {sort.keys, sort.positions}) {
      note(buffer, result_.reads), note(buffer, result_.writes);
    }
  }
  void add(const tile::Scan& scan) {
    axes(scan.axes), read(scan.axis.extent), read(scan.initial), read(scan.step);
    for (const tile::Store& store : scan.stores) write(store, false), read(store.value);
  }
  void add(const tile::Select& select) {
    axes(select.axes), read(select.axis.extent), read(select.key);
    write(select.keys, false), write(select.positions, false);
  }
  Accesses take() { return std::move(result_); }

 private:
  void axes(const std::vector<tile::Axis>& list) {
    for (const tile::Axis& axis : list) read(axis.extent);
  }
  void read(const std::vector<Expr>& exprs) {
    for (const Expr& e : exprs) read(e);
  }
  void read(const Expr& e) {
    for_each(e, [&](const Expr& node) {
      if (node->kind == ExprKind::kLoad) note(node->tensor, result_.reads);
    });
  }
  void write(const tile::Store& store, bool reads_too) {
    read(store.indices);
    note(store.buffer, result_.writes);
    if (reads_too) note(store.buffer, result_.reads);
  }
  /// Fragments are each thread's own, and what the kernel never writes cannot be read too early.
  void note(int buffer, std::set<int>& into) {
    const tile::Buffer& target = program_.buffers[buffer];
    const bool constant = target.scope == tile::Scope::kGlobal && !target.written;
    if ((target.scope == tile::Scope::kFragment) == fragments_ && !constant) into.insert(buffer);
  }

  const tile::Program& program_;
  bool fragments_;
  Accesses result_;
};

}  // namespace

Accesses accesses_of(const tile::Program& program, const tile::Statement& statement) {
  Collector collector(program, false);
  std::visit([&](const auto& node) { collector.add(node); }, statement.node);
  return collector.take();
}

Accesses fragments_of(const tile::Program& program, const tile::Statement& statement) {
  Collector collector(program, true);
  std::visit([&](const auto& node) { collector.add(node); }, statement.node);
  return collector.take();
}

void merge(Accesses& into, const Accesses& from) {
  into.reads.insert(from.reads.begin(), from.reads.end());
  into.writes.insert(from.writes.begin(), from.writes.end());
}

}  // namespace graft::cuda
