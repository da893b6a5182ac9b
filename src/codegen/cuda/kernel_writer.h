// SPDX-License-Identifier: Apache-2.0
// Turns one tile program into the text of one CUDA kernel. Statements are written by the file named after them.
#pragma once

#include <functional>
#include <optional>
#include <set>

#include "codegen/cuda/kernel_parts.h"
#include "target/target.h"
#include "tile/block_rules.h"

namespace graft::cuda {

/// A kernel's text and what a launch needs to know of it.
struct Kernel {
  std::string text;
  int threads = 0;
  int64_t shared_bytes = 0;
  std::set<WarpgroupProduct> warpgroup_products;  ///< whose functions the text calls
  int cluster = 1;                                ///< blocks of one grid point
  int occupancy = 0;                              ///< blocks of a multiprocessor if persistent; 0: a block a point
  std::vector<TmaTensor> tma;                     ///< the parameters after the status, sizes s0, s1 ...
};

/// `name threads 288 shared 147456`, and for a warp-specialised kernel its cluster, occupancy and TMA tensors.
std::string launch_line(const tile::Program& program, const Kernel& kernel);

/// Writes the kernel; throws unsupported, naming the program, when it needs what CUDA cannot do yet.
Kernel write_kernel(const tile::Program& program, const Target& target);

/// The program with each contraction over a fragment cut along k into tiles that fit shared memory, each in a loop
/// that asks for copies to run ahead.
tile::Program split_contractions(const tile::Program& program);

constexpr int64_t kWidestPiece = 16;  // elements that one access moves: bytes

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
  /// Whether a size is read from memory.
  bool is_stored(size_t size) const;
  void declare_names();
  void choose_layouts();
  void find_crossed(const tile::Map& map);
  void declare_memory();
  void grid();
  void follow();
  void follow_before(const tile::Statement& statement);
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
  void scan_element(const tile::Scan& scan, const std::vector<PointAccess>& accesses, const std::string& state);
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
  std::optional<PieceMap> plan_pieces(const tile::Map& map, int fragment) const;
  bool fragment_pieces(const tile::Map& map, int fragment);
  void ask_for_pieces(const tile::For& loop, const ContractPlan& plan);
  std::optional<std::string> run_alignment(int buffer, const std::vector<Expr>& indices, int column, int run) const;
  void plan_piece_loads(PieceMap& pieces) const;
  void open_piece_rows(const PieceMap& pieces);
  void open_piece_groups(const PieceMap& pieces);
  void load_pieces(const PieceMap& pieces);
  void load_piece_of(const PieceMap& pieces, size_t i, bool wide);
  void compute_pieces(const PieceMap& pieces);
  void define_piece_loads(const PieceMap& pieces);
  void store_pieces(const PieceMap& pieces);
  void check_fragment_indices(int fragment, const std::vector<tile::Axis>& rows, const std::vector<tile::Axis>& columns,
                              const std::vector<const std::vector<Expr>*>& uses) const;

  // map_statement.cpp
  void statement(const tile::Map& map);
  void flat_map(const tile::Map& map);
  void ordered_map(const tile::Map& map);
  bool compaction(const tile::Map& map);
  bool ordered_updates(const tile::Map& map);
  void find_updates(const tile::Map& map, const std::vector<tile::Axis>& updates,
                    const std::vector<std::string>& extents, const std::string& count, const std::string& votes);
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
                    std::vector<PointAccess> accesses, bool rarely = false);
  void compute_piece(const tile::Map& map, int vector, std::vector<PointAccess> accesses);
  void choose_piece(const Expr& choice, int vector, std::vector<PointAccess>& accesses);
  std::optional<std::string> chosen_place(const Expr& e, const std::vector<PointAccess>& accesses);
  void load_choice(const Expr& e, int vector, const std::string& piece, const std::vector<PointAccess>& accesses);
  void store_piece(const tile::Map& map, size_t number, int vector, const std::string& to, const PointAccess& access);
  void store_points(const tile::Map& map, int vector, int at_once, const std::vector<PointAccess>& accesses);
  void write_elements(const tile::Map& map, int vector, const std::string& start,
                      const std::vector<PointAccess>& accesses);
  std::string whole_store(int buffer, int vector, const std::string& to, const std::string& piece) const;
  std::vector<PointAccess> accesses_of_points(const tile::Map& map) const;
  std::vector<PointAccess> all_accesses(const tile::Map& map) const;
  void load_pieces(const std::vector<PointAccess>& accesses, int vector);
  int widest_piece(const tile::Axis& axis, std::vector<PointAccess>& accesses, int64_t most = kWidestPiece) const;
  int width_of(const PointAccess& access, int last, int limit) const;
  std::string wide_condition(const tile::Axis& axis, const std::vector<PointAccess>& accesses, int vector);
  PointDeal deal(const std::vector<tile::Axis>& axes, int vector) const;
  void name_indices(const std::vector<tile::Axis>& axes, const std::vector<int64_t>& bounds,
                    const std::vector<std::string>& extents, const std::string& point,
                    std::vector<std::string>& conditions);
  std::string open_turn(const PointDeal& deal, const std::vector<tile::Axis>& axes,
                        const std::vector<std::string>& extents, const std::string& turn);
  int turns_at_once(const PointDeal& deal, int64_t nodes, int64_t bytes) const;
  std::string pointer_to(const PointAccess& access);
  std::string pointer_text(int buffer, const RowAddress& address);
  int bytes_of_narrowest(const std::vector<PointAccess>& accesses) const;
  void bind_index(const Expr& variable, const std::string& name, int64_t bound);

  // streamed_points.cpp: operands of several points loaded ahead
  bool is_read_once(const tile::Map& map, const PointAccess& access) const;
  int stream_loads(const tile::Map& map, const PointDeal& deal, int vector, int64_t nodes,
                   std::vector<PointAccess>& accesses) const;
  void streamed_points(const tile::Map& map, const std::vector<std::string>& extents, int vector,
                       const PointDeal& dealt, int at_once, std::vector<PointAccess> accesses);

  // piece_elements.cpp: pieces each of whose elements has an expression of its own
  bool has_phases(const tile::Map& map, int vector) const;
  PiecePhases plan_phases(const tile::Map& map, int vector, const std::vector<PointAccess>& accesses) const;
  void write_phases(const tile::Map& map, int vector, const std::string& start,
                    const std::vector<PointAccess>& accesses);

  // neighbour_loads.cpp: loads of elements that lie side by side
  std::vector<PiecePhases::Neighbours> neighbours_among(const std::vector<std::vector<Expr>>& elements) const;
  std::vector<std::string> alignment_of(const std::vector<PiecePhases::Neighbours>& neighbours) const;
  void load_neighbours(const std::vector<PiecePhases::Neighbours>& neighbours);

  // phased_rows.cpp: rows that repeat
  std::optional<tile::Map> phased_rows(const tile::Map& map, int vector) const;
  void phased_map(const tile::Map& map, const std::vector<std::string>& extents, int vector,
                  const std::vector<PointAccess>& accesses);

  // walked_points.cpp: rows that are moved in few bytes at a time
  std::optional<RowWalk> walk_of_rows(const tile::Map& map, int vector,
                                      const std::vector<PointAccess>& accesses) const;
  void name_common(const Expr& e, int last);
  void point_at_row(const tile::Map& map, const RowWalk& walk, const Expr& row,
                    const std::vector<PointAccess>& accesses, bool only_stores = false);
  Expr axis_of_rows(const tile::Map& map, const RowWalk& walk) const;
  void define_walked(const tile::Map& map, const std::string& j);
  void name_rows(const tile::Map& map, const std::vector<std::string>& extents, const RowWalk& walk,
                 const std::string& row, std::vector<std::string>& conditions);
  void walked_points(const tile::Map& map, const std::vector<std::string>& extents, RowWalk walk,
                     const std::vector<PointAccess>& accesses);
  void walk_rows(const tile::Map& map, const std::vector<std::string>& extents, RowWalk walk,
                 const std::vector<PointAccess>& accesses, bool stores);
  int64_t line_of_rows(const tile::Map& map, const RowWalk& walk) const;
  void begin_at_line(const tile::Map& map, RowWalk& walk);

  // joined_rows.cpp: short rows that lie one after the other, as one
  std::optional<tile::Map> join_rows(const tile::Map& map) const;
  bool is_joinable(const tile::Map& map, int64_t length) const;

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

  // row_registers.cpp: how many blocks have room, and what rows are kept as
  bool plan_row_registers(RowPlan& plan) const;
  bool lies_apart(const RowPlan& plan) const;
  int64_t least_words_of_row(const RowPlan& plan) const;

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
  tile::WindowReads choose_thread_points(PointPlan& plan) const;
  bool shape_window(const PointPlan& plan, const tile::Statement& statement, PointWindow& window) const;
  static bool is_placed_by_guard(const PointPlan& plan, const tile::Statement& statement, const PointWindow& window);
  static bool has_own_sides(const PointWindow& window);
  bool place_pieces(const PointPlan& plan, const tile::Statement& statement, PointWindow& window) const;
  tile::WindowReads reads_of_points(const PointPlan& plan) const;

  // streamed_windows.cpp: windows whose rows are folded as they come
  int find_stream(const PointPlan& plan) const;
  void plan_windows_stream(PointPlan& plan, const tile::WindowReads& reads) const;
  void stream_windows(const PointPlan& plan, const std::vector<std::string>& extents);
  void request_stream_row(const PointPlan& plan, int64_t row);
  void request_stream_place(const PointPlan& plan, const std::string& raw, int64_t place, const std::string& column);
  void keep_stream_row(const PointPlan& plan, int64_t row);
  void fold_stream_row(const PointPlan& plan, int64_t slide, int64_t row);

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
  std::string open_conditions(const Expr& guard);
  bool holds_always(const Expr& condition) const;
  std::string pair_element(const PointWindow& window, const std::string& raw) const;
  bool keeps_pairs(const PointWindow& window) const;
  void load_piece(const PointPlan& plan, size_t number, const std::string& target, const std::string& place,
                  int64_t begin);
  void point_statements(const PointPlan& plan, int64_t slide);
  void statements_at(const PointPlan& plan, const PointPlace& at, const Range& range);
  std::string name_divisor(const Expr& divisor);
  void define_point_loads(const PointPlan& plan, size_t statement, const PointPlace& at);
  void point_reduce(const PointPlan& plan, size_t statement, const PointPlace& at);
  void point_map(const PointPlan& plan, size_t statement, const PointPlace& at);
  std::vector<std::pair<int, std::string>> begin_targets(const PointPlan& plan, const std::vector<tile::Store>& stores);
  static std::string point_target(const PointPlan& plan, const tile::Store& store, size_t number);
  void store_neighbours(const PointPlan& plan, const std::vector<std::pair<int, std::string>>& targets,
                        const PointPlace& at);
  bool reads_windows_beside(const PointPlan& plan) const;
  void fold_window(const PointPlan& plan, size_t statement, const PointPlace& at, const std::string& state,
                   size_t first = 0);
  void open_besides(const PointPlan& plan, const std::string& beside);
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
  static bool repeats(const Operand& operand, const ContractPlan& plan, bool is_a);
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
  void clear_result(const ContractPlan& plan);
  void multiply(const ContractPlan& plan, const std::string& slot, bool leave_running);
  // coded_product.cpp, coded_stream.cpp: b is decoded in registers
  void plan_parts(ContractPlan& plan);
  void multiply_codes(const ContractPlan& plan, const std::string& slot);
  std::string begin_sums(const ContractPlan& plan);
  bool stream_codes(const tile::For& loop, const std::vector<ContractPlan>& plans);
  void end_sums(const ContractPlan& plan, const std::string& sums);

  void settle(const tile::Statement& statement);
  void settle(size_t count);
  void settle_all() { settle(running_.size()); }
  std::string shared_operand(const ContractPlan& plan, const Operand& operand, const std::string& slot);
  std::string swizzled_operand(const ContractPlan& plan, const Operand& operand, const std::string& slot);
  bool pipelined(const tile::For& loop, std::vector<ContractPlan>& plans);
  void prepare_tiles(std::vector<ContractPlan>& plans, int slots);
  enum class Tiles { kAll, kEarly, kLate };  ///< early: those that no kernel writes
  void stage_tiles(const std::vector<ContractPlan>& plans, bool repeated, Tiles which, const std::string& slot);
  bool is_early(const Operand& operand) const;
  bool prepares_early(const std::vector<ContractPlan>& plans) const;
  void pipelined_loop(const tile::For& loop, std::vector<ContractPlan>& plans);
  /// The names of a loop whose tiles are on their way: of its rounds and of what is copied next.
  struct Pipeline {
    const tile::For* innermost = nullptr;
    std::vector<const tile::For*> loops;
    int slots = 1, ahead = 1;
    bool overlaps = false, early = false;
    std::vector<std::string> extents, copied;
    std::string slot, next, round, end;
  };
  Pipeline plan_pipeline(const std::vector<ContractPlan>& plans) const;
  void declare_pipeline(Pipeline& pipeline, std::vector<ContractPlan>& plans);
  void copy_ahead(const Pipeline& pipeline, const std::vector<ContractPlan>& plans, const std::string& target,
                  Tiles which);
  void copy_first(const Pipeline& pipeline, const std::vector<ContractPlan>& plans, Tiles which);
  void multiply_rounds(const Pipeline& pipeline, const std::vector<ContractPlan>& plans);
  void split_rounds(const Pipeline& pipeline, std::vector<ContractPlan>& plans);
  void advance(const std::vector<const tile::For*>& loops, const std::vector<std::string>& names,
               const std::vector<std::string>& extents);

  // tma_tensor.cpp: operands that the tensor memory accelerator can bring
  void plan_tma(Operand& operand, const ContractPlan& plan, bool is_a) const;
  std::vector<TmaTensor::Axis> merged_axes(const Operand& operand) const;

  // warp_specialised.cpp: producer and consumer warps
  bool plan_warp_specialisation();
  Kernel warp_specialised_kernel(const std::string& parameters);
  int consumers() const;
  void plan_occupancy();
  void make_mbarriers();
  void open_points(bool only_first);
  void open_points_of_team();
  void count_rounds(const std::vector<const tile::For*>& loops);
  void produce();
  void produce_points(bool early);
  void produce_constants();
  void produce_round();
  int64_t round_bytes() const;
  void tma_copies(const Operand& operand);
  void consume();
  void consume_rounds(const tile::For& loop);

  // split_product.cpp: products of f32 by wgmma, of parts
  bool plan_split_product();
  Kernel split_product_kernel(const std::string& parameters);
  void produce_split_rounds();
  void finish_split_round(int pending);
  void consume_split_rounds();
  void multiply_split_rounds();
  int registers_of_splitting() const;
  const tile::For* only_loop() const;

  const tile::Program& program_;
  const Target& target_;
  int max_stages_;
  KernelNames names_;
  CodeText code_;
  ExpressionWriter expressions_;
  Accesses pending_;  ///< since the last barrier
  bool followed_ = false;  ///< earlier kernels have ended
  int64_t shared_end_ = 0;
  int next_staged_ = -2;
  std::optional<PieceMap> asked_;  ///< of the map behind the loop of a product, where rows of it were asked for before
  std::set<WarpgroupProduct> warpgroup_products_;
  /// Contractions whose operands a loop around them stages.
  struct Planned {
    ContractPlan plan;
    std::string slot;            ///< name of the variable with the slot to read
    bool leave_running = false;  ///< its result is not waited for
  };
  std::unordered_map<const tile::Contract*, Planned> planned_;
  std::map<const std::vector<Expr>*, std::string> walked_;  ///< indices -> the piece's place, from where its row begins
  /// Which threads copy operands: number `copying_thread_` of `copying_threads_`.
  std::string copying_thread_ = "threadIdx.x";
  int copying_threads_ = 0;
  /// The only contraction of a warp-specialised block, and how many of its tiles are on their way.
  struct WarpSpecialisation {
    ContractPlan contraction;
    const tile::For* loop = nullptr;
    int slots = 0, producers = 0, teams = 1, occupancy = 1;
    int registers = 0;               ///< of a thread that multiplies; 0: as at the start
    bool early = false;              ///< tiles of constants come before earlier kernels have ended
    int64_t barriers = 0, sums = 0;  ///< in shared memory
    int64_t low = 0;                 ///< there, of a product that splits b: the low parts
  };
  std::optional<WarpSpecialisation> specialised_;
  bool splits_in_groups_ = false;  ///< while its contraction is planned, where it splits operands
  /// A product of warpgroups that has been started and not yet waited for.
  struct Running {
    int c = -1, a = -1;  ///< the fragments that it writes and reads; a: -1 when it reads shared memory
  };
  std::vector<Running> running_;
};

}  // namespace graft::cuda
