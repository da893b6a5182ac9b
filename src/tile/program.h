// SPDX-License-Identifier: Apache-2.0
// The tile program: one kernel as a grid of independent points, each a sequence of operations on tiles.
// Lowering writes it from a region and a schedule; the code generators of every device read it.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "expr/region.h"
#include "target/units.h"

namespace graft::tile {

/// Where a buffer lives and who sees it.
enum class Scope : uint8_t {
  kGlobal,    ///< a kernel argument, visible to all grid points
  kShared,    ///< one copy per grid point: thread-private scratch on a CPU, shared memory of a block on a GPU
  kFragment,  ///< like kShared, but only accumulators of Contract and maps over them: matrix fragments on a GPU;
              ///< with one axis: a value for each row of such fragments
};

/// A tensor in memory. Element (i0, i1, ...) lies at sum(i_k * strides[k]) elements from the start.
struct Buffer {
  std::string name;
  DType type = DType::kUndefined;
  Scope scope = Scope::kGlobal;
  Shape shape;           ///< kShared, kFragment: constants on a GPU; on a CPU sizes of the run are allowed
  Shape strides;         ///< in elements; row-major unless a layout says otherwise
  bool written = false;   ///< kGlobal: the kernel writes it
  bool constant = false;  ///< kGlobal: no kernel writes it, so that it is there before earlier kernels have ended
};

/// A loop axis inside a grid point. The extent may depend on outer variables (a tail: min(64, n - 64 * t));
/// `bound` is its constant upper bound, 0 when none is known.
struct Axis {
  Expr variable;
  Expr extent;
  int64_t bound = 0;
};

struct Statement;
using Body = std::vector<Statement>;

/// for axis (in order): body. `stages` > 1 asks for copies of later iterations to run ahead (GPU pipelines); `early`,
/// for copies of constant buffers in the first iterations to be on their way before earlier kernels have ended.
struct For {
  Axis axis;
  int stages = 1;
  bool early = false;
  Body body;
};

/// if condition: body. The condition is uniform over the grid point (it uses no Map axis).
struct If {
  Expr condition;
  Body body;
};

/// One element written: buffers[buffer][indices] = mode(old, value).
struct Store {
  int buffer = -1;
  std::vector<Expr> indices;
  Expr value;
  ScatterMode mode = ScatterMode::kSet;
};

/// For all points of `axes` where `condition` (null: always) holds, the stores. Points are independent unless
/// `ordered`, which asks for row-major order (scatter, serial state). The last axis is the one to vectorise.
/// No axes: the stores happen once.
struct Map {
  std::vector<Axis> axes;
  Expr condition;
  std::vector<Store> stores;
  bool ordered = false;
};

/// For all points of `axes`: outputs = fold over `reduced` of `lift`, as graft::Reduce.
/// `accumulate`: starts from what the outputs hold instead of the identity.
struct Reduce {
  std::vector<Axis> axes;
  std::vector<Axis> reduced;
  std::vector<Expr> lift;
  Monoid monoid;
  std::vector<Store> outputs;  ///< `value` unused
  bool accumulate = false;
  int64_t points = 1;  ///< on a CPU, of the last but one of `axes`: so many are folded side by side, in registers
};

/// c[m, n] (+)= sum over k of a[m, k] * b[k, n], accumulated in the type of c (i32 for int8 operands).
/// There may be several axes per role (m = oh, ow; k = kh, kw, channel; n = panel, lane). `c_indices` are affine in
/// them and the last n axis has stride 1 in c. On a CPU `a` and `b` are kLoad expressions with affine indices and
/// stride 1 along the last n axis of b; a GPU copies its tiles first and takes any expression: a load under a
/// condition, say. With a unit, the operands have its types; on a CPU, the last k axis has the extent of its pack and
/// stride 1 in a and b, the last n axis steps by pack in b, and the others of k together are whole instructions.
/// With a unit of a CPU that splits its operands, a and b are words of their parts (split_words.h): the parts are the
/// last index but one, 0 in the loads, and the last k axis runs over words, in whole steps.
struct Contract {
  std::vector<Axis> m, n, k;
  Expr a, b;
  int c = -1;
  std::vector<Expr> c_indices;
  bool accumulate = false;
  bool tf32 = false;  ///< f32 operands may be rounded to 11 significant bits before they are multiplied
  const ContractUnit* unit = nullptr;  ///< what multiplies; null: what is usual for the types
};

/// Sorts one row in place, stably: `keys` and `positions` are kShared or kGlobal rows of `length` elements starting
/// at the given indices; the row runs along the last axis. NaN counts as largest. With `count`, on a CPU, only the
/// first `count` elements are wanted: of keys of at most 32 bits, where `positions` has room for twice as many, and
/// what it held does not matter: a key's position is where it stands.
struct SortRow {
  int keys = -1, positions = -1;
  std::vector<Expr> key_indices, position_indices;
  Expr length;
  bool descending = false;
  Expr count;  ///< null: all
};

/// For all points of `axes`: state = initial; then for each value of `axis` in order (from the last one when `reverse`)
/// state = step and the stores, whose values use the new state (the old one when `exclusive`).
struct Scan {
  std::vector<Axis> axes;
  Axis axis;
  std::vector<Expr> state;    ///< variables
  std::vector<Expr> initial;  ///< over axes
  std::vector<Expr> step;     ///< over axes, axis and state
  std::vector<Store> stores;  ///< over axes, axis and state; mode kSet
  bool exclusive = false;
  bool reverse = false;
};

/// For all points of `axes`: of the values that `key` takes along `axis`, the first `count` in ascending (descending)
/// order, equal ones in the order in which they stand, NaN as the largest. At rank r, `rank` being its variable:
/// keys = the key, positions = where it stands along the axis. For GPUs.
struct Select {
  std::vector<Axis> axes;
  Axis axis;
  Expr key;           ///< of at most 32 bits
  Expr rank;          ///< a variable, below `count`
  int64_t count = 0;  ///< at most kMostSelected
  Store keys, positions;  ///< over axes and rank; `value` unused
  bool descending = false;
};
constexpr int64_t kMostSelected = 128;

/// A statement; statements of a body run one after the other as if by one thread: a code generator for a GPU
/// puts barriers where one statement reads what another wrote.
struct Statement {
  std::variant<For, If, Map, Reduce, Contract, SortRow, Scan, Select> node;
};

/// How a GPU's blocks share the work of one program out; results do not depend on it, and a code generator that cannot
/// follow it may leave it.
struct Roles {
  int producers = 0;  ///< threads beside the program's, which bring the operands of its only contraction; such blocks
                      ///< stay for all grid points that fall to them
  int teams = 1;      ///< of the program's threads beside those: they take the block's grid points by turns
  int group = 1;      ///< of the last two grid axes, so many points of the first go with each of the last
  int split = 1;      ///< blocks of one grid point: each takes a part of the contraction's loop
  bool operator==(const Roles&) const = default;
};

/// One kernel. In every expression, kLoad's `tensor` is an index into `buffers`.
struct Program {
  std::string name;                ///< a C identifier, unique in an engine
  std::vector<Buffer> buffers;     ///< kGlobal buffers first: they are the kernel's arguments, in this order
  std::vector<std::string> sizes;  ///< the symbols used anywhere, sorted: passed by value as int64
  std::vector<std::string> stored;  ///< GPU: of `sizes`, sorted, those passed as the address of an int64 instead
  std::vector<graft::Axis> grid;   ///< outermost first; flattened row-major to one launch index
  int threads = 0;                 ///< GPU: threads per block; 0 on a CPU
  Roles roles;
  Body body;
};

/// The canonical text; parse_program reads it back. parse throws invalid_argument with line and cause on any bytes.
std::string print(const Program& program);
Program parse_program(std::string_view text);
/// Reads programs printed one after the other: what a code generator is given.
std::vector<Program> parse_programs(std::string_view text);
/// Throws an internal error naming the statement when the program breaks a rule stated above.
void verify(const Program& program);
/// What verify would say, or nothing when the program keeps all rules.
std::optional<std::string> broken_rule(const Program& program);

/// The product of the grid extents: how many points a launch has.
Size grid_size(const Program& program);

/// Byte offset of each kShared and kFragment buffer (by buffer index; 0 for kGlobal) in one grid point's scratch
/// memory, each 64-byte aligned, and the total as the last entry.
std::vector<Size> scratch_offsets(const Program& program);

}  // namespace graft::tile
