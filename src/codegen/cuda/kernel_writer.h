// SPDX-License-Identifier: Apache-2.0
// Turns one tile program into the text of one CUDA kernel. Statements are written by the file named after them.
#pragma once

#include <functional>
#include <optional>
#include <set>

#include "codegen/cuda/expression.h"
#include "codegen/cuda/operand_address.h"
#include "target/target.h"

namespace graft::cuda {

/// A tensor as the copy engine sees it, and the box of it that one copy brings: the contiguous axis first.
struct BoxedTensor {
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

/// A kernel's text and what a launch needs to know of it.
struct Kernel {
  std::string text;
  int threads = 0;
  int64_t shared_bytes = 0;
  std::set<std::pair<int, DType>> warpgroup_products;  ///< whose functions the text calls
  int cluster = 1;                                     ///< blocks of one grid point
  int resident = 0;                                    ///< blocks of each multiprocessor; 0: one for every grid point
  std::vector<BoxedTensor> boxed;                      ///< the parameters after the status, sizes s0, s1 ...
};

/// `name threads 288 shared 147456`, and for a kernel whose warps have roles its cluster, its blocks and its boxes.
std::string launch_line(const tile::Program& program, const Kernel& kernel);

/// Writes the kernel; throws unsupported, naming the program, when it needs what CUDA cannot do yet.
Kernel write_kernel(const tile::Program& program, const Target& target);

/// The program with each contraction over a fragment cut along k into tiles that fit shared memory, each in a loop
/// that asks for copies to run ahead.
tile::Program split_contractions(const tile::Program& program);

/// What a statement reads and writes of memory that threads share, by buffer index.
struct Accesses {
  std::set<int> reads, writes;
};
Accesses accesses_of(const tile::Program& program, const tile::Statement& statement);
/// The fragments among them.
Accesses fragments_of(const tile::Program& program, const tile::Statement& statement);

/// Whether the order of elements does not matter, as far as the combination's form shows it.
bool is_commutative(const Monoid& monoid);

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

/// One operand of a contraction on its way into registers.
struct Operand {
  enum class Source { kShared, kFragment, kSpilled, kStaged };  ///< kSpilled: a fragment, through shared memory
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
  std::optional<BoxedTensor> boxed = {};     ///< how the copy engine can bring it
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

/// One store of a map, or a load that it needs at every point, in pieces of several elements where `wide`.
struct PointAccess {
  int buffer = -1;
  const std::vector<Expr>* indices = nullptr;
  Expr load;  ///< null: a store
  bool wide = false;
  std::vector<std::pair<Expr, bool>> guards = {};  ///< conditions with the values under which it is made
};

/// A load that goes along the rows of a map, and the condition under which it happens; null: always.
struct ShiftedLoad {
  Expr load, condition;
};

/// Points of a block that are stored one after the other, from the axis `first` of a map on.
struct ShiftedRun {
  size_t first = 0;
  int vector = 1;                        ///< elements of 16 bytes
  int64_t length = 0;                    ///< points of the last axis
  int64_t inner = 1;                     ///< points of the axes behind `first`
  std::optional<graft::Axis> grid = {};  ///< along which the next block's points follow
  std::string count = {}, rest = {};     ///< names of its points, and of those up to the run's end
  std::string before = {};               ///< and of whether other blocks' points lie before
  std::string piece = {};                ///< the number of the current piece
};

/// A map from a fragment to memory, in pieces of 16 bytes that the four threads of a row make of four tiles.
struct PieceMap {
  struct Load {
    Expr load;
    bool of_row = false;  ///< changes with the row
    int run = 2;          ///< elements that a thread loads at once
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
};

/// A point of a thread: its number along the sliding axis, and the name of its number along the one beside it.
struct PointPlace {
  int64_t slide = 0;
  std::string beside;
};

/// How one contraction is carried out.
struct ContractPlan {
  const tile::Contract* contract = nullptr;
  bool tensor_cores = false, warpgroups = false;
  bool tf32 = false;  ///< tensor cores, f32 operands read as plain products read them
  int k = 0;          ///< the tile's k, a multiple of 16 on tensor cores
  FragmentLayout layout;
  Operand a, b;
  std::vector<const tile::For*> loops;  ///< that stage its operands, outermost first
};

/// A product of warpgroups that a kernel uses: columns and operand type.
using WarpgroupProduct = std::pair<int, DType>;
/// The function that a WarpgroupProduct stands for, as CUDA C++.
std::string warpgroup_product(const WarpgroupProduct& product);

/// State of writing one kernel.
class KernelWriter {
 public:
  KernelWriter(const tile::Program& program, const Target& target, int max_stages);
  Kernel write();

 private:
  struct Point {
    std::string name, extent;
  };

  // kernel_writer.cpp: the frame and control flow
  void declare_names();
  void choose_layouts();
  void find_crossed(const tile::Map& map);
  void declare_memory();
  void grid();
  void name_grid(std::string point);
  void body(const tile::Body& statements);
  void statement(const tile::For& loop);
  void statement(const tile::If& branch);
  void statement(const tile::SortRow& sort);

  // select_statement.cpp
  void statement(const tile::Select& select);
  void select_in_registers(const tile::Select& select, int64_t length);
  void select_by_insertion(const tile::Select& select, const std::string& length);
  void give_ranked(const tile::Select& select, const std::string& rank, const std::string& at);

  // scan_statement.cpp
  void statement(const tile::Scan& scan);
  void scan_points(const tile::Scan& scan);
  void scan_rows(const tile::Scan& scan, const RunningFold& fold);
  void scan_row(const RowScan& row);
  void name_row_axis(const RowScan& row, const std::string& name);
  void open_row_piece(const RowScan& row);
  void open_row_element(const RowScan& row);
  void load_row_piece(const RowScan& row);
  void store_row_piece(const RowScan& row);
  void scan_columns(const tile::Scan& scan, const RunningFold& fold);
  void scan_parts(const ColumnScan& columns, const std::string& extent);
  void open_columns(const ColumnScan& columns, const std::string& start);
  void close_columns(const ColumnScan& columns, const std::string& start);
  void open_column_row(const ColumnScan& columns);
  void close_column_row();
  void load_column_rows(const ColumnScan& columns, const std::string& column, const std::string& identity);
  void store_column_rows(const ColumnScan& columns, const std::string& column);
  int narrowest_bytes(const std::vector<PointAccess>& accesses) const;
  void emit_scan_stores(const tile::Scan& scan);
  std::string uniform_value(const Expr& e);
  int64_t reserve_shared(int64_t bytes, int64_t alignment = 128);
  void before(const Accesses& accesses);
  void barrier();
  std::string bind(const Expr& variable, std::string_view stem);

  // fragment_statement.cpp
  int fragment_of(const tile::Map& map) const;
  void fragment_map(const tile::Map& map, int fragment);
  bool stays_in_registers(const tile::Map& map) const;
  void row_map(const tile::Map& map, const FragmentLayout& layout);
  std::vector<Expr> load_columns(const tile::Map& map, const FragmentLayout& layout, const std::string& columns);
  void fragment_points(const tile::Map& map, int fragment, size_t row_axes);
  bool fragment_rows(const tile::Map& map, int fragment);
  bool fragment_pieces(const tile::Map& map, int fragment);
  std::optional<std::string> run_alignment(int buffer, const std::vector<Expr>& indices, int column, int run) const;
  void plan_piece_loads(PieceMap& pieces) const;
  void open_piece_rows(const PieceMap& pieces);
  void open_piece_groups(const PieceMap& pieces);
  void load_pieces(const PieceMap& pieces);
  void load_piece_of(const PieceMap& pieces, size_t i, bool wide);
  void compute_pieces(const PieceMap& pieces);
  void store_pieces(const PieceMap& pieces);
  void check_fragment_indices(int fragment, const std::vector<tile::Axis>& rows, const std::vector<tile::Axis>& columns,
                              const std::vector<const std::vector<Expr>*>& uses) const;

  // map_statement.cpp
  void statement(const tile::Map& map);
  void flat_map(const tile::Map& map);
  void ordered_map(const tile::Map& map);
  void scalar_points(const tile::Map& map, const std::vector<std::string>& extents);
  bool vector_points(const tile::Map& map, const std::vector<std::string>& extents);
  void stores_at_point(const tile::Map& map);
  void store(const tile::Store& store, const std::string& value, bool ordered);
  void update(const tile::Store& store, const std::string& to, const std::string& value, bool ordered);
  std::vector<std::string> extents_of(const std::vector<tile::Axis>& axes);
  void decompose(const std::vector<tile::Axis>& axes, const std::vector<std::string>& extents, const std::string& point,
                 const std::string& type);

  // point_loop.cpp: points dealt to threads
  bool dealt_map(const tile::Map& map, const std::vector<std::string>& extents);
  void dealt_points(const tile::Map& map, const std::vector<std::string>& extents, int vector,
                    const std::vector<PointAccess>& accesses);
  void store_points(const tile::Map& map, int vector, int at_once, const std::vector<PointAccess>& accesses);
  void write_elements(const tile::Map& map, int vector, const std::string& start,
                      const std::vector<PointAccess>& accesses);
  std::string whole_store(int buffer, int vector, const std::string& to, const std::string& piece) const;
  std::vector<PointAccess> accesses_of_points(const tile::Map& map) const;
  void load_pieces(const std::vector<PointAccess>& accesses, int vector);
  int widest_piece(const tile::Axis& axis, std::vector<PointAccess>& accesses) const;
  int width_of(const PointAccess& access, int last, int limit) const;
  bool has_narrow_accesses(const tile::Map& map, const std::vector<PointAccess>& accesses, int vector) const;
  std::string wide_condition(const tile::Axis& axis, const std::vector<PointAccess>& accesses, int vector);
  PointDeal deal(const std::vector<tile::Axis>& axes, int vector) const;
  std::string open_turn(const PointDeal& deal, const std::vector<tile::Axis>& axes,
                        const std::vector<std::string>& extents, const std::string& turn);
  int turns_at_once(const PointDeal& deal, int64_t nodes, int64_t bytes) const;
  std::string pointer_to(const PointAccess& access);
  int bytes_of_narrowest(const std::vector<PointAccess>& accesses) const;
  void bind_index(const Expr& variable, const std::string& name, int64_t bound);

  // piece_elements.cpp: pieces each of whose elements has an expression of its own
  bool has_phases(const tile::Map& map, int vector) const;
  void write_phases(const tile::Map& map, int vector, const std::string& start,
                    const std::vector<PointAccess>& accesses);

  // shifted_points.cpp: rows that begin at any element
  std::optional<ShiftedRun> run_of_points(const tile::Map& map) const;
  std::optional<std::vector<ShiftedLoad>> shifted_loads(const tile::Map& map, const ShiftedRun& run) const;
  bool shifted_map(const tile::Map& map, const std::vector<std::string>& extents);
  void count_run(const tile::Map& map, const std::vector<std::string>& extents, ShiftedRun& run);
  void name_run_point(const tile::Map& map, const ShiftedRun& run, const std::string& point, const std::string& shift);
  void open_shifted_piece(const tile::Map& map, const ShiftedRun& run);
  std::vector<std::string> name_needed(const tile::Map& map, const ShiftedRun& run,
                                       const std::vector<ShiftedLoad>& loads);
  void request_shifted(const tile::Map& map, const ShiftedRun& run, const std::vector<ShiftedLoad>& loads);
  void store_shifted(const tile::Map& map, const ShiftedRun& run, const std::vector<ShiftedLoad>& loads);
  void open_shifted(const tile::Map& map, const ShiftedRun& run);
  void close_shifted();

  // transposed_points.cpp: tiles that lie in shared memory the other way round
  bool fills_transposed(const tile::Map& map) const;
  void find_padded();
  void lay_padded(int buffer, std::vector<int64_t>& strides, int64_t& elements) const;
  void transposed_fill(const tile::Map& map, const std::vector<std::string>& extents);
  void write_transposed(const tile::Map& map, const std::vector<std::string>& extents, bool whole);
  std::string open_transposed(const tile::Map& map, const std::vector<std::string>& extents, const std::string& item);

  // reduce_statement.cpp
  void statement(const tile::Reduce& reduce);
  void fragment_reduce(const tile::Reduce& reduce, int fragment);
  void memory_reduce(const tile::Reduce& reduce);

  // row_program.cpp: rows that stay in registers
  std::optional<RowPlan> plan_rows() const;
  bool rows_lie_across(const RowPlan& plan) const;
  bool plan_statement(RowPlan& plan, const tile::Statement& statement) const;
  bool plan_buffer(RowPlan& plan, int buffer, const std::vector<Expr>& indices, const RowAxes& axes) const;
  void plan_loads(RowPlan& plan) const;
  void merge_inner_axes(RowPlan& plan) const;
  bool runs_on(const tile::Statement& statement, const RowPlan& plan, size_t axis) const;
  int width_in_row(const PointAccess& access, const RowAxes& axes, const RowPlan& plan, int limit) const;
  void write_rows(RowPlan& plan);
  void write_row(RowPlan& plan);
  void row_map(RowPlan& plan, const tile::Map& map);
  void row_reduce(RowPlan& plan, const tile::Reduce& reduce);
  std::vector<std::pair<size_t, Expr>> load_ahead(RowPlan& plan, const std::vector<Expr>& values, const RowAxes& axes);
  void load_late(const RowPlan& plan, const std::vector<std::pair<size_t, Expr>>& late);
  void open_pieces(const RowPlan& plan, const RowAxes& axes);
  void open_elements(const RowPlan& plan, const RowAxes& axes, const std::vector<Expr>& values);
  void define_row_loads(const RowPlan& plan, const std::vector<Expr>& values, const RowAxes& axes);
  std::string row_key(const Expr& load, const RowAxes& axes) const;

  // row_stream.cpp: rows that are brought ahead of time
  bool plan_stream(RowPlan& plan) const;
  bool runs_in_order(const RowPlan& plan, const Expr& load) const;
  void stream_rows(RowPlan& plan);

  // column_program.cpp: columns that stay in registers
  std::optional<ColumnPlan> plan_columns() const;
  bool plan_column_statement(ColumnPlan& plan, const tile::Statement& statement) const;
  std::string column_key(const Expr& load, const std::vector<tile::Axis>& axes) const;
  void plan_column_loads(ColumnPlan& plan) const;
  void write_columns(ColumnPlan& plan);
  void open_column_elements(const ColumnPlan& plan, const std::vector<tile::Axis>& axes);
  void open_neighbour_columns(const ColumnPlan& plan, const tile::Statement& statement);
  void close_neighbour_columns(const ColumnPlan& plan, const tile::Statement& statement);
  void load_columns_ahead(ColumnPlan& plan, const tile::Statement& statement);
  void column_map(const ColumnPlan& plan, const tile::Map& map);
  void column_reduce(const ColumnPlan& plan, const tile::Reduce& reduce);

  // point_plan.cpp: points that stay in registers
  std::optional<PointPlan> plan_points() const;
  bool plan_point_statement(PointPlan& plan, const tile::Statement& statement) const;
  void choose_point_vector(PointPlan& plan) const;
  void find_point_windows(PointPlan& plan) const;
  void find_slides(PointPlan& plan) const;
  void choose_thread_points(PointPlan& plan) const;
  bool shape_window(const PointPlan& plan, const tile::Statement& statement, PointWindow& window) const;
  static bool is_placed_by_guard(const PointPlan& plan, const tile::Statement& statement, const PointWindow& window);
  static bool has_own_sides(const PointWindow& window);
  bool place_pieces(const PointPlan& plan, const tile::Statement& statement, PointWindow& window) const;

  // point_program.cpp
  std::string point_condition(const PointPlan& plan) const;
  int64_t points_together(const PointPlan& plan) const;
  void write_points(PointPlan& plan);
  void write_turns(PointPlan& plan, const std::vector<std::string>& extents, const std::vector<tile::Axis>& dealt_axes,
                   const std::vector<std::string>& dealt_extents);
  void begin_columns(PointPlan& plan, const std::vector<std::string>& extents);
  void name_point_axes(const PointPlan& plan);
  void bind_constant(const Expr& variable, int64_t value);
  void write_slides(const PointPlan& plan, const std::vector<std::string>& extents);
  void each_new_rows(const PointPlan& plan, int64_t first, int64_t count,
                     const std::function<void(size_t, int64_t, int64_t)>& visit) const;
  void request_rows(const PointPlan& plan, size_t number, int64_t from, int64_t to);
  void keep_rows(const PointPlan& plan, size_t number, int64_t from, int64_t to);
  static std::string raw_rows(size_t number, int64_t from);
  std::pair<std::string, std::string> open_places(const PointPlan& plan, const PointWindow& window, int64_t from,
                                                  int64_t to);
  void close_places(const PointPlan& plan, const PointWindow& window);
  std::string presence(const PointPlan& plan, const PointWindow& window, const std::string& column, bool by_elements);
  bool keeps_pairs(const PointWindow& window) const;
  void load_piece(const PointPlan& plan, size_t number, const std::string& target, const std::string& place,
                  int64_t begin);
  void point_statements(const PointPlan& plan, int64_t slide);
  void define_point_loads(const PointPlan& plan, size_t statement, const PointPlace& at);
  void point_reduce(const PointPlan& plan, size_t statement, const PointPlace& at);
  void point_map(const PointPlan& plan, size_t statement, const PointPlace& at);
  std::vector<std::pair<int, std::string>> begin_targets(const PointPlan& plan, const std::vector<tile::Store>& stores);
  static std::string point_target(const PointPlan& plan, const tile::Store& store, size_t number);
  void store_neighbours(const PointPlan& plan, const std::vector<std::pair<int, std::string>>& targets,
                        const PointPlace& at);
  bool reads_windows_beside(const PointPlan& plan) const;
  void open_neighbours(const PointPlan& plan, size_t statement);
  void close_neighbours(const PointPlan& plan, size_t statement);

  // reduce_loop.cpp: reductions over axes with known bounds
  bool dealt_reduce(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                    const std::vector<std::string>& reduced);
  void reduce_points(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                     const std::vector<std::string>& reduced);
  void reduce_rows(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                   const std::vector<std::string>& reduced);
  void reduce_columns(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                      const std::vector<std::string>& reduced);
  void fold_columns(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                    const std::vector<std::string>& reduced, const std::vector<PointAccess>& loads,
                    const ColumnDeal& deal);
  int widest_fold(const tile::Axis& axis, std::vector<PointAccess>& loads) const;
  std::vector<PointAccess> loads_of(const tile::Reduce& reduce) const;
  void open_piece(const tile::Reduce& reduce, const std::vector<std::string>& reduced, const FoldDeal& deal,
                  const std::string& first, int64_t at_once);
  std::string count_pieces(const tile::Reduce& reduce, const std::vector<std::string>& reduced, const FoldDeal& deal);
  void fold_pieces(const tile::Reduce& reduce, const std::vector<std::string>& reduced,
                   const std::vector<PointAccess>& loads, FoldDeal deal);
  void fold_batch(const tile::Reduce& reduce, const std::vector<std::string>& reduced,
                  const std::vector<PointAccess>& loads, const FoldDeal& deal, const std::string& first,
                  int64_t at_once);

  void reduce_thread_per_point(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                               const std::vector<std::string>& reduced);
  void reduce_together(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                       const std::vector<std::string>& reduced, bool block);
  void fold_elements(const tile::Reduce& reduce, const std::vector<std::string>& reduced, const std::string& from,
                     const std::string& to, const std::string& step);
  std::string begin_monoid(const tile::Reduce& reduce);
  void write_outputs(const tile::Reduce& reduce, const std::string& state);
  void fold_one(const tile::Reduce& reduce, const std::string& state);

  // contract_plan.cpp: on which units, and where operands come from
  ContractPlan plan(const tile::Contract& contract, const std::vector<const tile::For*>& loops);
  Operand plan_operand(const tile::Contract& contract, const ContractPlan& plan, bool is_a);
  void plan_fragment_operand(Operand& operand, const tile::Contract& contract, const ContractPlan& plan, bool is_a);
  void plan_copies(Operand& operand, const tile::Contract& contract, const ContractPlan& plan, bool is_a);
  bool plan_guard(Operand& operand, const Expr& condition, const tile::Contract& contract, const ContractPlan& plan);
  bool reads_in_place(const Operand& operand, const tile::Contract& contract, const ContractPlan& plan, bool is_a);
  void place_tile(Operand& operand, const ContractPlan& plan, bool is_a) const;
  void reserve(Operand& operand, int slots);

  // stage_operand.cpp: tiles of operands into shared memory
  void spill(const ContractPlan& plan, const Operand& operand);
  void prepare_copies(const ContractPlan& plan, const Operand& operand);
  void stage(const ContractPlan& plan, const Operand& operand, const std::string& slot);
  void stage_copies(const ContractPlan& plan, const Operand& operand, const std::string& slot);
  void stage_elements(const ContractPlan& plan, const Operand& operand, const std::string& slot);
  std::string staged_place(const Operand& operand) const;

  // contract_statement.cpp: the product itself, and the loops around it
  void statement(const tile::Contract& contract);
  void contract_in_memory(const tile::Contract& contract);
  void multiply(const ContractPlan& plan, const std::string& slot, bool leave_running);
  void settle(const tile::Statement& statement);
  void settle(size_t count);
  void settle_all() { settle(running_.size()); }
  std::string shared_operand(const ContractPlan& plan, const Operand& operand, const std::string& slot);
  std::string swizzled_operand(const ContractPlan& plan, const Operand& operand, const std::string& slot);
  bool pipelined(const tile::For& loop, std::vector<ContractPlan>& plans);
  void prepare_tiles(std::vector<ContractPlan>& plans, int slots);
  void pipelined_loop(const tile::For& loop, std::vector<ContractPlan>& plans);
  void advance(const std::vector<const tile::For*>& loops, const std::vector<std::string>& names,
               const std::vector<std::string>& extents);

  // boxed_tensor.cpp: operands that the copy engine can bring
  void plan_boxes(Operand& operand, const ContractPlan& plan, bool is_a) const;
  std::vector<BoxedTensor::Axis> merged_axes(const Operand& operand) const;

  // role_kernel.cpp: warps that copy and warps that multiply
  bool plan_roles();
  Kernel role_kernel(const std::string& parameters);
  int consumers() const;
  void share_registers();
  void make_barriers();
  void open_points(bool only_first);
  void open_points_of_team();
  void count_rounds(const std::vector<const tile::For*>& loops);
  void produce();
  void produce_points(bool early);
  void produce_constants();
  void produce_round();
  int64_t round_bytes() const;
  void copy_boxes(const Operand& operand);
  void consume();
  void consume_rounds(const tile::For& loop);

  const tile::Program& program_;
  const Target& target_;
  int max_stages_;
  KernelNames names_;
  CodeText code_;
  ExpressionWriter expressions_;
  Accesses pending_;  ///< since the last barrier
  int64_t shared_end_ = 0;
  int next_staged_ = -2;
  std::set<WarpgroupProduct> warpgroup_products_;
  /// Contractions whose operands a loop around them stages.
  struct Planned {
    ContractPlan plan;
    std::string slot;            ///< name of the variable with the slot to read
    bool leave_running = false;  ///< its result is not waited for
  };
  std::unordered_map<const tile::Contract*, Planned> planned_;
  /// Which threads copy operands: number `copying_thread_` of `copying_threads_`.
  std::string copying_thread_ = "threadIdx.x";
  int copying_threads_ = 0;
  /// The only contraction of a block whose warps have roles, and how many of its tiles are on their way.
  struct RolePlan {
    ContractPlan contraction;
    const tile::For* loop = nullptr;
    int slots = 0, producers = 0, teams = 1, resident = 1;
    int registers = 0;           ///< of a thread that multiplies; 0: as at the start
    bool has_constants = false;  ///< among the operands
    int64_t barriers = 0, sums = 0;  ///< in shared memory
  };
  std::optional<RolePlan> roles_;
  /// A product of warpgroups that has been started and not yet waited for.
  struct Running {
    int c = -1, a = -1;  ///< the fragments that it writes and reads; a: -1 when it reads shared memory
  };
  std::vector<Running> running_;
};

}  // namespace graft::cuda
