// SPDX-License-Identifier: Apache-2.0
// What the parts of a kernel's writer tell each other: how threads share out points, rows, columns and products.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/coded_operand.h"
#include "codegen/cuda/expression.h"
#include "codegen/cuda/operand_address.h"
#include "expr/commutes.h"

namespace graft::cuda {

inline int64_t ceil_quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// Of an element in memory; those narrower than a byte count as one.
inline int bytes_of(DType type) { return std::max(bit_width(type) / 8, 1); }
/// The most points of an axis; 0 where that is not known.
inline int64_t bound_of(const tile::Axis& axis) { return as_integer(axis.extent).value_or(axis.bound); }

/// A tensor as the copy engine sees it, and the box of it that one copy brings: the contiguous axis first.
struct TmaTensor {
  struct Axis {
    Size extent, stride;  ///< in elements
    int64_t box = 1;
    Expr start = {};      ///< of the box: over what the kernel names
  };
  int buffer = -1;
  int element_bytes = 2, swizzle = 0;
  std::vector<Axis> axes;
  int copies = 1;  ///< side by side along the contiguous axis
  int number = -1;  ///< of the kernel's parameter
};

/// What a statement reads and writes of memory that threads share, by buffer index.
struct Accesses {
  std::set<int> reads, writes;
};
Accesses accesses_of(const tile::Program& program, const tile::Statement& statement);
void merge(Accesses& into, const Accesses& from);
/// The fragments among them.
Accesses fragments_of(const tile::Program& program, const tile::Statement& statement);

/// Whether `index` counts the points of `axes` in row-major order, as a fragment's row or column does.
bool counts_points(const Expr& index, const std::vector<tile::Axis>& axes);
/// Names the value of each axis at the row-major point called `point`.
void name_points(KernelNames& names, const std::vector<tile::Axis>& axes, const std::string& point);
/// How many points a tile has along axes, by their bounds.
int64_t tile_points(const std::vector<tile::Axis>& axes);

// What maps have in common (map_statement.cpp).
/// Every expression of a map.
std::vector<Expr> expressions_of(const tile::Map& map);
/// Loads that happen at every point: not inside a select's branch.
void unconditional_loads(const Expr& e, std::unordered_set<const ExprNode*>& seen, std::vector<Expr>& loads);
/// Whether some expression of the map loads a buffer that the map stores to.
bool reads_own_stores(const tile::Map& map);
bool only_sets(const tile::Map& map);

/// Quotients by a scalar, a load of one of `scalars`, that are rounded to halves (row_program.cpp): its reciprocal is
/// taken once.
std::vector<Expr> quotients_by(const std::set<int>& scalars, const std::vector<Expr>& values);

/// Whether an extent is always a whole number of pieces (point_loop.cpp).
bool is_whole(const Expr& extent, int vector);
/// C++ that says that all hold.
std::string all_of(const std::vector<std::string>& conditions);

/// One operand of a contraction on its way into registers.
struct Operand {
  /// kSpilled: a fragment, through shared memory. kCoded: decoded of ContractPlan::parts.
  enum class Source { kShared, kFragment, kSpilled, kStaged, kCoded };
  Source source = Source::kStaged;
  int buffer = -1;  ///< kShared, kFragment, kSpilled
  DType type = DType::kUndefined;
  bool transposed = false;     ///< a: lines run along k; b: lines run along n
  int lines = 0, columns = 0;  ///< of the tile as it lies in shared memory
  int leading = 0;             ///< elements from line to line; of a swizzled tile inside one block of its columns
  int swizzle = 0;             ///< bytes of a line of a swizzled block; 0: lines are padded instead
  bool repeats = false;        ///< does not change in the loops that stage it
  int slots = 1;               ///< copies in shared memory, for copies that run ahead
  int64_t offset = -1;         ///< of the staged copies in shared memory
  int id = 0;                  ///< identifies the staged copies for hazards: below -1
  Affine address;              ///< kShared: of the tile's first element; kStaged and copied: of an element
  // kStaged: what is copied
  Expr value;                                ///< of an element
  int copy_bytes = 0;                        ///< of one asynchronous copy; 0: elements are computed one by one
  std::vector<std::string> copy_conditions;  ///< C++ that must hold at run time for such copies, besides alignment
  Hoisted atoms, guards;                     ///< named parts of the address and of the condition
  Expr guard;                                ///< what is left of the condition in the loops; null: nothing
  bool guard_is_narrow = false;              ///< it can be computed in 32 bits
  std::vector<tile::Axis> along = {};        ///< of a part of a coded operand: its places along k
  std::optional<TmaTensor> tma = {};         ///< how the tensor memory accelerator can bring it
  int bytes() const { return bit_width(type) / 8; }                                ///< of an element
  int vector() const { return 128 / bit_width(type); }                             ///< elements of a piece of 16 bytes
  int line_pieces() const { return swizzle ? swizzle / 16 : columns / vector(); }  ///< of a block
  int pieces() const { return lines * (columns / vector()); }
  int64_t slot_bytes() const;
};

/// How the points of axes with known bounds are dealt to the threads of a block: `across` threads along the last axis
/// (in pieces of `vector` points) and `down` along the others, or one after the other (`down` is 0).
struct PointDeal {
  std::vector<int64_t> bounds;  ///< of the axes, the last one in pieces
  int64_t across = 1, down = 0;
  int64_t turns_across = 1;  ///< of each thread along the last axis
  int64_t turns = 1;         ///< of each thread
  int vector = 1;
  int64_t pieces() const { return bounds.back(); }
  int64_t rows() const;
};

/// How rows of points are walked: by `across` threads each, `down` of them beside each other.
struct RowWalk {
  std::vector<int64_t> bounds;  ///< of the axes but the last one
  int vector = 1;
  int64_t pieces = 0;  ///< of a row, at most
  bool exact = false;  ///< so many in each
  int bytes = 1;       ///< of the widest access that goes along a row
  int64_t rows = 1;    ///< that are dealt at a time: all, or those of the last axis but one
  int64_t across = 1, down = 1;
  int64_t steps_at_once = 1, rows_at_once = 1;  ///< of a thread; loaded before they are stored
  int64_t line = 0;  ///< elements of a line of memory, where steps begin at lines and not where the row does; or 0
  int64_t all_rows() const { return std::accumulate(bounds.begin(), bounds.end(), int64_t{1}, std::multiplies<>()); }
  int64_t steps() const { return steps_of(across); }  ///< of a thread along a row
  int64_t steps_of(int64_t threads) const {
    return ceil_quotient(pieces + (line > 0 ? line / vector - 1 : 0), threads);
  }
  int64_t turns() const { return ceil_quotient(rows, down); }      ///< of a thread, over rows
  // Names: the thread's place in a row and its first row, its first element of a row, those of the loops over the axes
  // outside of the rows, over rows and along them.
  std::string column = {}, own_row = {}, start = {}, outer = {}, first = {}, step = {};
};

/// One store of a map, or a load that it needs at every point, in pieces of several elements where `wide`.
struct PointAccess {
  int buffer = -1;
  const std::vector<Expr>* indices = nullptr;
  Expr load;  ///< null: a store
  bool wide = false;
  std::vector<std::pair<Expr, bool>> guards = {};  ///< conditions with the values under which it is made
  std::string name = {};                           ///< of the piece, once it was loaded
};

/// Pieces each of whose elements has an expression of its own; what elements have in common is one node.
struct PiecePhases {
  /// An element of what an access loads.
  struct Taken {
    Expr variable;
    size_t access = 0;
    int element = 0;
  };
  /// Loads side by side in memory, from the address on.
  struct Neighbours {
    int buffer = -1;
    RowAddress address;
    std::vector<Expr> loads;
  };
  Expr number;                              ///< of a piece along the last axis
  std::vector<std::vector<Expr>> elements;  ///< by store
  std::vector<Taken> taken;
  std::vector<Neighbours> neighbours;
  /// The variable that stands for an element of what an access loads.
  Expr take(size_t access, int element, const Expr& load);
};

/// A map from a fragment to memory, in pieces of 16 bytes that the four threads of a row make of four tiles.
struct PieceMap {
  struct Load {
    Expr load;
    bool of_row = false;  ///< changes with the row
    int run = 2;          ///< elements that a thread loads at once
    std::string asked = {};  ///< C++ name of what was asked for before the product, by row and group of all; or empty
    bool has_bytes() const { return run == 8 && bit_width(load->type) == 8; }
  };
  const tile::Map* map = nullptr;
  const FragmentLayout* layout = nullptr;
  std::vector<std::string> extents;
  std::vector<Load> loads;
  int groups = 1;              ///< of four tiles each, made together
  std::string whole = "true";  ///< C++ for whether all accesses are aligned
};

/// How one thread folds elements: number `member` of `group` takes every group-th piece.
struct FoldDeal {
  std::string member;
  int64_t group = 1;
  int vector = 1;
  std::vector<int64_t> bounds = {};  ///< of the folded axes, in pieces
  Expr across = {};  ///< columns: the axis of which a piece holds neighbours, each with a state of its own; null: rows
};

/// How a block folds columns: `across` threads side by side, each with `width` neighbours, and `parts` of those, which
/// leave rows of results that are `stride` apart; one for each part or, where `lanes` fold theirs first, for each warp.
struct ColumnDeal {
  int64_t width = 1, across = 1, parts = 1, stride = 1;
  bool lanes = false;
  int64_t rows(int64_t threads) const { return lanes ? threads / 32 : parts; }
};

/// A scan whose state is the fold of what came: parts of it may be folded first.
struct RunningFold {
  Intrinsic combine = Intrinsic::kAdd;
  Expr lift;
};

/// How a running fold goes along a row: `group` threads, each with pieces of `width` elements.
struct RowScan {
  const tile::Scan* scan = nullptr;
  const RunningFold* fold = nullptr;
  std::string length, along;  ///< of the row; the index of an element
  std::string index_type = {}, identity = {};
  int64_t group = 32, bound = 0;  ///< of the length, 0 when it has none
  bool block = false;             ///< the group is the whole block
  int width = 1;
  std::vector<PointAccess> accesses = {};  ///< the scan's stores, then the loads of what is folded
};

/// How a running fold goes down columns: a thread has `width` neighbours of the scan's only axis.
struct ColumnScan {
  const tile::Scan* scan = nullptr;
  const RunningFold* fold = nullptr;
  std::string length;  ///< of a column
  std::string index_type = {};
  int64_t bound = 0;   ///< of the length, 0 when it has none
  int width = 1;
  std::vector<PointAccess> accesses = {};  ///< the scan's stores, then the loads of what is folded
};

/// The axes of a statement of a row program: the row, when a block has several, and what a row consists of.
struct RowAxes {
  std::vector<tile::Axis> row;  ///< one or none
  std::vector<tile::Axis> inner;
};

/// A program whose statements all go over the same rows, `group` threads to a row, each thread always over the same
/// elements: what one statement leaves for another stays in registers, and memory is read once.
struct RowPlan {
  std::vector<tile::Axis> row;
  std::vector<int64_t> bounds;  ///< of the inner axes, the last one in pieces
  std::set<size_t> merged;      ///< numbers of inner axes that the next one counts along with its own
  int64_t group = 1, pieces = 1, turns = 1;
  int vector = 1;
  std::set<int> row_buffers;                        ///< with an element for every element of a row
  std::set<int> scalar_buffers;                     ///< with an element for every row
  std::vector<std::pair<std::string, Expr>> loads;  ///< that are made ahead, by key
  std::set<std::string> loaded;                     ///< keys of those that have been made
  std::set<size_t> late;                            ///< numbers of loads that are made where they are used
  int64_t blocks = 1;                               ///< that a multiprocessor should hold at least
  std::string condition;                            ///< under which pieces are aligned
  bool streams = false;                             ///< rows come through the block's memory, ahead of time
  size_t stream = 0;                                ///< the load that does
  bool apart = false;                               ///< each piece is a branch, and its halves stay as they are
  /// Whether what is loaded ahead of this type is kept as words of two elements.
  bool in_pairs(DType type) const;
};

/// The axes of a statement as the plan has them.
RowAxes axes_in_row(const RowPlan& plan, const tile::Statement& statement);

/// A program whose statements all go over the same columns, which lie side by side: a thread has `vector` of them.
struct ColumnPlan {
  tile::Axis column;
  std::vector<int64_t> bounds = {};  ///< of the axes along a column
  int64_t elements = 1;              ///< of a column
  int vector = 1;
  std::set<int> element_buffers = {};                    ///< with an element for every element of a column
  std::set<int> scalar_buffers = {};                     ///< with an element for every column
  std::vector<std::pair<std::string, Expr>> loads = {};  ///< that are made ahead, by key
  std::set<std::string> loaded = {};                     ///< keys of those that have been made
  std::string condition = {};                            ///< under which neighbouring columns are aligned
  std::vector<tile::Axis> axes_of(const tile::Statement& statement) const;
};

/// The places of a window along one axis: step * (point) + spread * (element of the reduced axis `folded`).
struct WindowSide {
  int64_t step = 0;  ///< 0: the axis takes no part
  int folded = -1;
  int64_t spread = 0;
  int64_t count = 1;  ///< places that the points of a thread reach
};

/// A load of a point program, made ahead for all points of a thread: its places form a box.
struct PointWindow {
  Expr load;
  Expr value;  ///< what is kept of it: the load, or select(guard, load or a cast of it, constant)
  Expr guard;  ///< where there is something to load; null: everywhere
  size_t statement = 0;
  WindowSide rows = {}, columns = {};  ///< along the sliding axis and along the one beside it
  WindowSide elements = {};            ///< along the last axis
  std::vector<size_t> boxes = {};      ///< other reduced axes
  int width = 1;                       ///< elements of an aligned piece
  int first = 0;                       ///< where in a piece the first element lies
  int64_t kept(const std::vector<tile::Axis>& reduced) const;
};

/// A program whose statements all go over the same points and fold few elements each: a thread makes `vector`
/// neighbours along the last axis, `besides` points along the axis `beside` and all points of the axis `slide`, and
/// keeps what passes between statements.
struct PointPlan {
  std::vector<tile::Axis> axes;
  int slide = -1;       ///< an axis with few points along which windows overlap, or -1
  int64_t slides = 1;   ///< its points
  int beside = -1;      ///< another axis along which windows overlap, or -1
  int64_t besides = 1;  ///< of its points that a thread makes
  int vector = 1;
  std::set<int> buffers;  ///< of the block's memory, in registers instead
  std::vector<PointWindow> windows;
  std::string start;   ///< name of the last axis' first index
  std::string column;  ///< name of the first index along `beside`
  std::string columns;      ///< how many points there are from it on; empty: always `besides`
  bool only_stores = false;  ///< points that are not there are computed, and not stored
  int stream = -1;           ///< the window whose rows are folded as they come, or -1
  int64_t ahead = 1;         ///< rows of it that are on their way
  int64_t blocks = 1;        ///< that a multiprocessor should hold at least
};

/// A point of a thread: its number along the sliding axis, and the name of its number along the one beside it.
struct PointPlace {
  int64_t slide = 0;
  std::string beside;
};

/// How one contraction is carried out.
struct ContractPlan {
  const tile::Contract* contract = nullptr;
  const ContractUnit* unit = nullptr;  ///< the tensor cores' instruction of a warp; null: none, or tf32
  bool splits() const { return unit && unit->splits(); }
  bool warpgroups = false;             ///< that of a warpgroup instead
  bool tf32 = false;                   ///< tensor cores, f32 operands read as plain products read them
  int k = 0;                           ///< the tile's k, a multiple of the unit's
  FragmentLayout layout;
  Operand a, b;
  std::optional<CodedOperand> coded;    ///< b is decoded in registers
  int few_rows = 0;                     ///< of a product with codes of at most 8 rows: how many
  std::string sums = {};                ///< registers of a product with codes, where a loop keeps them
  std::vector<Operand> parts;           ///< of b, where it is: codes, then scales and zeros where they are loads
  std::string exact = {};               ///< of one that splits operands: names whether multiply-adds do it instead
  std::vector<const tile::For*> loops;  ///< that stage its operands, outermost first
  /// Everything that is multiplied, or decoded.
  std::vector<Operand*> sources() {
    std::vector<Operand*> all{&a};
    if (!coded) all.push_back(&b);
    for (Operand& part : parts) all.push_back(&part);
    return all;
  }
  std::vector<const Operand*> sources() const {
    const auto all = const_cast<ContractPlan*>(this)->sources();
    return {all.begin(), all.end()};
  }
};

/// A product of warpgroups that a kernel uses: columns and operand types.
struct WarpgroupProduct {
  int columns = 0;
  DType a = DType::kUndefined, b = DType::kUndefined;
  auto operator<=>(const WarpgroupProduct&) const = default;
};
/// The function that a WarpgroupProduct stands for, as CUDA C++.
std::string warpgroup_product(const WarpgroupProduct& product);

}  // namespace graft::cuda
