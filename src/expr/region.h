// SPDX-License-Identifier: Apache-2.0
// A region: forms over named axes that define tensors from tensors. An operator's definition is a region;
// a fused group of operators is a region; the interpreter runs regions; lowering turns one into a tile program.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "expr/expr.h"

namespace graft {

/// A tensor that a region reads or defines. Element order is row-major over `shape`.
struct TensorDecl {
  std::string name;
  DType type = DType::kUndefined;
  Shape shape;
};

/// An iteration axis: `variable` runs from 0 to `extent` - 1.
struct Axis {
  Expr variable;  ///< a kVariable of type i64
  Size extent;
};

/// tensors[output][axes] = value.   Every element independent of the others.
struct Compute {
  std::vector<Axis> axes;  ///< one per axis of the output, in order
  Expr value;              ///< of the output's type
  int output = -1;
};

/// How a reduction combines: (state, state) -> state over a tuple of scalars.
struct Monoid {
  std::vector<Expr> identity;  ///< constants, one per component
  std::vector<Expr> left;      ///< state variables of the earlier elements
  std::vector<Expr> right;     ///< state variables of the later elements
  std::vector<Expr> combine;   ///< over left and right
  bool associative = true;     ///< false: elements are combined strictly in order
  /// The intrinsic when this is exactly one of add, mul, min, max, and, or, xor over one component.
  std::optional<Intrinsic> intrinsic() const;
};
/// The monoid of add (0), mul (1), min, max, and, or, xor over `type`.
Monoid make_monoid(Intrinsic intrinsic, DType type);

/// For each point of `axes`: (outputs...) = fold over `reduced`, in row-major order when the monoid is not
/// associative, of `lift`, starting from the identity. Sums of floats may be re-associated here and only here.
/// State types are those of `lift`; each output tensor has axes `axes` and its state component's type.
struct Reduce {
  std::vector<Axis> axes;
  std::vector<Axis> reduced;
  std::vector<Expr> lift;
  Monoid monoid;
  std::vector<int> outputs;
};

/// A recurrence along `axis`, for each point of `axes`: state = initial; for t: state = step(state, t);
/// outputs[i][axes..., t] = emit[i] evaluated with the new state (or with the old one when `exclusive`).
struct Scan {
  std::vector<Axis> axes;
  Axis axis;
  std::vector<Expr> state;    ///< state variables
  std::vector<Expr> initial;  ///< over axes
  std::vector<Expr> step;     ///< over axes, axis and state
  std::vector<Expr> emit;     ///< over axes, axis and state; one per output
  bool exclusive = false;
  bool reverse = false;       ///< t runs from the last to the first
  std::vector<int> outputs;   ///< shape: axes extents followed by the axis extent
};

enum class ScatterMode : uint8_t { kSet, kAdd, kMul, kMin, kMax };

/// output = copy of `base`; then for each point of `axes` in row-major order, where `condition` (null: always)
/// holds: output[indices] = mode(output[indices], value).
struct Scatter {
  std::vector<Axis> axes;  ///< the domain of the updates
  int base = -1;           ///< tensor of the output's shape and type
  std::vector<Expr> indices;
  Expr value;
  Expr condition;
  ScatterMode mode = ScatterMode::kSet;
  int output = -1;
};

/// Sorts along `axis` for each point of `axes`, stably, by `key`; NaN counts as largest.
/// outputs[0][axes..., r] = key of rank r, outputs[1][axes..., r] = its original position (i64).
/// `count` ranks are kept (top-k); ranks come in descending order when `descending`.
struct Sort {
  std::vector<Axis> axes;
  Axis axis;
  Expr key;
  Size count;
  bool descending = false;
  std::vector<int> outputs;
};

/// Keeps the points of `axes` (row-major order) where `condition` holds. outputs[i][r] = values[i] of the r-th
/// kept point; the number kept becomes the value of the symbol `count`, known only after running.
/// Outputs have shape [count], whose upper bound is the number of points.
struct Compact {
  std::vector<Axis> axes;
  Expr condition;
  std::vector<Expr> values;
  std::string count;
  std::vector<int> outputs;
};

using Form = std::variant<Compute, Reduce, Scan, Scatter, Sort, Compact>;

/// Forms in execution order; each tensor is an input or defined by exactly one form.
struct Region {
  std::string name;
  std::vector<TensorDecl> tensors;
  std::vector<int> inputs;   ///< indices into tensors
  std::vector<int> outputs;  ///< indices into tensors
  std::vector<Form> forms;
  /// Products may round their f32 operands to tf32, where a machine has units for that; sums stay f32.
  bool tf32 = false;
  /// Products of f32 are multiply-adds, also where a machine has units that split their operands.
  bool fma = false;
};

/// The tensors that a form defines.
std::vector<int> defined_tensors(const Form& form);
/// Calls `visit` on each expression of a form.
void for_each_expr(const Form& form, const std::function<void(const Expr&)>& visit);
/// Calls `visit` on each load in a form's expressions, or on those of one tensor.
void for_each_load(const Form& form, const std::function<void(const Expr&)>& visit);
void for_each_load(const Form& form, int tensor, const std::function<void(const Expr&)>& visit);
bool is_input(const Region& region, int tensor);
/// Whether a scatter of the region starts from a copy of the tensor, which no load shows.
bool is_scatter_base(const Region& region, int tensor);
/// Rebuilds a form with every expression passed through `rewrite`.
Form map_exprs(const Form& form, const std::function<Expr(const Expr&)>& rewrite);
/// The form with tensor t replaced by mapped(t) wherever it is read or defined.
Form renumber_tensors(const Form& form, const std::function<int(int)>& mapped);
Form renumber_tensors(const Form& form, const std::vector<int>& mapped);
/// The tensors that a form reads (loads and scatter bases), each once, in order of first use.
std::vector<int> read_tensors(const Form& form);

/// The canonical text of a region; parse_region reads it back (round trip is tested).
std::string print(const Region& region);
Region parse_region(std::string_view text);
/// Text of one expression with tensors named by `tensors` and variables as v0, v1 ... in order of appearance.
std::string print(const Expr& e, const std::vector<TensorDecl>& tensors);

/// Throws an internal error that names the form when a rule of the form is broken: types, ranks, undefined or
/// twice defined tensors, variables out of scope, indices that are not i64.
void verify(const Region& region);

}  // namespace graft
