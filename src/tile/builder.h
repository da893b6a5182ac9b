// SPDX-License-Identifier: Apache-2.0
// What every lowering strategy shares: buffers for tensors, and expressions moved from tensors to buffers.
#pragma once

#include <string>
#include <vector>

#include "target/target.h"
#include "tile/panel_layout.h"
#include "tile/program.h"

namespace graft::tile {

/// Row-major strides of a shape.
Shape row_major(const Shape& shape);

/// A tile axis over a fresh variable; the bound is the extent when that is constant.
Axis make_axis(const Size& extent);
Axis make_axis(const Expr& extent, int64_t bound);
/// Indices of axes.
std::vector<Expr> variables(const std::vector<Axis>& axes);

/// Builds a Program for a region: global buffers for its inputs and outputs first.
class ProgramBuilder {
 public:
  ProgramBuilder(const Region& region, const Layouts& layouts);

  /// Scratch of one grid point.
  int add_scratch(const std::string& name, DType type, const Shape& shape, Scope scope = Scope::kShared);
  /// The buffer of a region tensor, -1 when it has none yet.
  int buffer_of(int tensor) const { return buffer_of_[tensor]; }
  /// Loads of `tensor` read `buffer`; dimensions marked in `dropped` are not indexed (they are fixed by the grid).
  void bind(int tensor, int buffer, std::vector<bool> dropped = {});
  /// The expression with its loads of region tensors turned into loads of buffers.
  Expr to_buffers(const Expr& e) const;
  /// A store to the buffer of a region tensor, dropping the dimensions fixed by the grid.
  Store store(int tensor, const std::vector<Expr>& indices, const Expr& value) const;
  /// A grid axis.
  Expr add_grid(const Size& extent);
  void add(Statement statement) { program.body.push_back(std::move(statement)); }
  /// Completes sizes and the name.
  Program finish(const std::string& name);

  Program program;

 private:
  std::vector<Expr> kept(int tensor, const std::vector<Expr>& indices) const;
  const Region& region_;
  std::vector<int> buffer_of_;
  std::vector<std::vector<bool>> dropped_;
};

/// The symbols that a program uses, sorted.
std::vector<std::string> collect_sizes(const Program& program);
/// `name` with every character that C does not allow in an identifier replaced.
std::string identifier(const std::string& name);

/// Whether a contraction of the region may round its operands to tf32 on the target: asked for, f32, and there are
/// units that do.
bool rounds_to_tf32(const Contract& contract, const Region& region, const Target& target);

}  // namespace graft::tile
