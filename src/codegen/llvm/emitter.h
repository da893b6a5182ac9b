// SPDX-License-Identifier: Apache-2.0
// Emission of one tile program as LLVM IR: vectors are explicit, every value is computed at the outermost loop level
// at which its variables are known. Shared by the emit_*.cpp files; nothing outside this folder includes it.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/kernel_arguments.h"
#include "codegen/llvm/micro_kernel.h"
#include "codegen/llvm/target_machine.h"
#include "codegen/llvm/traits.h"
#include "tile/program.h"

namespace graft::codegen {

/// The unit being compiled: what its kernels share.
struct Unit {
  llvm::Module& module;
  const Target& target;
  Traits traits;
  std::map<std::string, llvm::Function*> shared;  ///< internal functions (micro-kernels) by key
};

/// A place code can be put: the position before `at`. Values put there are remembered by expression.
struct Level {
  llvm::Instruction* at = nullptr;
  bool open = true;  ///< code put here still dominates the top of the stack
  std::unordered_map<const ExprNode*, llvm::Value*> values;
};

/// What a variable stands for while it is in scope.
struct Binding {
  llvm::Value* value = nullptr;  ///< scalar, or a vector for a variable that varies over the lanes
  llvm::Value* base = nullptr;   ///< the first lane's value of the vectorised index variable
  int level = 0;
};

/// A loop under construction.
struct Loop {
  llvm::PHINode* index = nullptr;
  llvm::BasicBlock* latch = nullptr;
  std::vector<size_t> closed;  ///< levels that cannot take code until the loop is closed
  int64_t turns = 1;           ///< of the loops around it for one grid point, as far as known
};

/// A place in a buffer, in elements: uniform + stride * (vectorised variable) + varying.
struct Address {
  Expr uniform;
  Size stride = 0;
  Expr varying;  ///< null: none
};

/// Loads of a map that go along its last axis but one, and the rows and columns of the blocks that are turned around.
struct Transposition {
  std::vector<Expr> loads;
  int lanes = 0;
};

/// A block of points of the last two axes of a map. The ends are null where all rows and columns are there.
struct Block {
  llvm::Value *row, *column;
  llvm::Value *rows_end, *columns_end;
};

/// Where the lanes are, in elements from a place.
struct LanePlaces {
  llvm::Value *start, *offsets;
};

/// A vector of memory in which all that the lanes read lies, where `fits`: it begins `low` elements further, `mask` is
/// what is needed of it, and `lanes` says which element each lane takes; null: all are, in order.
struct Window {
  llvm::Value *fits, *low, *mask, *lanes;
};

/// How a contraction is cut into register tiles.
struct ContractPlan {
  MicroKernelShape shape;  ///< but for the rows of a tile
  int most_rows = 1;
  int row_step = 1;  ///< rows of a tile are a multiple, but for the last tile's
  Size a_rows = 0, c_rows = 0;
  std::vector<Size> a_steps, b_steps;  ///< along each k axis
};

/// Rows of a product of tiles: from `begin` to `end` of an axis, in blocks of `tiles` of so many points each.
struct TileRows {
  const tile::Axis* axis = nullptr;
  int64_t of_tile = 0;
  int tiles = 2;
  llvm::Value *begin = nullptr, *end = nullptr;
  llvm::Value *second_a = nullptr, *second_c = nullptr;  ///< elements from the first tile to the second
};

/// Rows of a product by parts of its operands: an axis in `blocks` of so many `points`, which make one or two tiles.
struct SplitRows {
  const tile::Axis* axis = nullptr;
  bool pairs = false;           ///< a tile is a point of the axis, and holds rows of the one inside of it
  llvm::Value* sums = nullptr;  ///< a buffer for those of all blocks
  llvm::Value *extent = nullptr, *blocks = nullptr, *points = nullptr;
  llvm::Value *second_a = nullptr, *second_c = nullptr;  ///< elements from the first tile to the second
  std::array<llvm::Value*, 2> heights{};                 ///< rows of each
  int tiles = 1;
};

/// A micro-kernel under construction.
struct TileState {
  const MicroKernelShape& shape;
  std::vector<llvm::AllocaInst*> sums;  ///< [chain][row][vector], of blocks [chain][pair of rows][half of a vector]
  std::vector<llvm::Value*> masks;      ///< per vector, when masked
  int chains = 1;                       ///< independent sums per element, for tiles too small to hide latency
  std::vector<llvm::Value*> rows{};     ///< of a at the steps at hand, where it comes by registers
};

/// Emits one kernel.
class Emitter {
 public:
  Emitter(Unit& unit, const tile::Program& program);
  void run();

 private:
  using Value = llvm::Value;
  using Values = std::vector<llvm::Value*>;

  // emit_program.cpp: levels, loops and statements
  void emit_body(const tile::Body& body);
  void emit_statement(const tile::Statement& statement);
  void emit_for(const tile::For& loop);
  void emit_if(const tile::If& statement);
  void emit_sort(const tile::SortRow& sort);
  void load_arguments(llvm::Function& function);
  void bind_grid(Value* point);
  Level& top() { return levels_.back(); }
  int top_index() const { return static_cast<int>(levels_.size()) - 1; }
  void at_top() { builder_.SetInsertPoint(top().at); }
  void push_scope();
  void pop_scope() { levels_.pop_back(); }
  std::vector<size_t> close_sharing_levels();
  void reopen(const std::vector<size_t>& closed);
  Loop open_loop(Value* begin, Value* end, Value* step);
  void close_loop(const Loop& loop);
  Value* stop_unless_wanted(const Loop& loop, Value* next, int64_t step, int64_t turns);
  std::vector<size_t> open_if(Value* condition);
  void close_if(const std::vector<size_t>& closed);
  void bind(const Expr& variable, Value* value, Value* base = nullptr);
  llvm::AllocaInst* make_local(llvm::Type* type);
  Value* index(int64_t value) { return builder_.getInt64(static_cast<uint64_t>(value)); }
  Expr keep(Expr e);

  // emit_map.cpp: maps and the vectorised loop
  void emit_map(const tile::Map& map);
  void emit_point(const tile::Map& map);
  void store_values(const tile::Map& map);
  void emit_store(const tile::Store& store, const Address& address, Value* value);
  int map_lanes(const tile::Map& map, bool shares) const;
  bool shares_places(const tile::Map& map) const;
  void emit_shared(const tile::Map& map);
  int lanes_for(int bits) const;
  Value* extents_positive(const std::vector<tile::Axis>& axes);
  void nested_loops(const std::vector<tile::Axis>& axes, size_t first, size_t last, const std::function<void()>& body);
  void vector_loop(const tile::Axis& axis, int lanes, const std::function<void()>& body);
  Value* hide(Value* count);
  void vector_tail(const tile::Axis& axis, int lanes, Value* begin, Value* end, const std::function<void()>& body);
  void bind_lanes(const Expr& variable, Value* base, int lanes);
  Value* first_lanes(Value* count, int lanes);

  // emit_transpose.cpp: maps that read along another axis than they write along
  std::optional<Transposition> plan_transposition(const tile::Map& map) const;
  void transposed_blocks(const tile::Map& map, const Transposition& plan);
  void transposed_block(const tile::Map& map, const Transposition& plan, const Block& block);
  Values load_transposed(const tile::Map& map, const Expr& load, int lanes, const Block& block);
  void transpose(Values& rows);
  bool interleaves(const tile::Map& map) const;
  void interleaved_rows(const tile::Map& map);
  void store_interleaved(const tile::Store& store, const Address& first, const Values& parts);
  void single_points(const tile::Map& map, Value* row, Value* rows_end, Value* column, Value* columns_end);

  // emit_reduce.cpp
  void emit_reduce(const tile::Reduce& reduce);
  bool reduce_along_output(const tile::Reduce& reduce) const;
  bool reduce_along_input(const tile::Reduce& reduce) const;
  void blocks_of_points(const tile::Reduce& reduce);
  void fold_points(const tile::Reduce& reduce, Value* first, int64_t count);
  void fetch_codes(const Expr& lift);
  void add_product(const Expr& product, llvm::AllocaInst* sum);
  void reduce_point(const tile::Reduce& reduce, int lanes);
  void fold_lanes(const tile::Reduce& reduce, int lanes, std::vector<llvm::AllocaInst*>& state);
  void fold_step(const tile::Reduce& reduce, const std::vector<llvm::AllocaInst*>& state);
  std::vector<llvm::AllocaInst*> make_state(const tile::Reduce& reduce, int lanes);
  Values load_state(const std::vector<llvm::AllocaInst*>& state);
  Values combine(const Monoid& monoid, const Values& left, const Values& right);
  Values combine_across(const Monoid& monoid, Values values, int lanes);
  void store_state(const tile::Reduce& reduce, Values state);

  // emit_scan.cpp
  void emit_scan(const tile::Scan& scan);
  int scan_lanes(const tile::Scan& scan) const;
  void scan_axis(const tile::Scan& scan, int lanes);
  void scan_points(const tile::Scan& scan, int64_t count, const std::function<void(int64_t)>& bind_point);
  void scan_step(const tile::Scan& scan, const std::vector<llvm::AllocaInst*>& state);

  // emit_contract.cpp
  void emit_contract(const tile::Contract& contract);
  void contract_as_reduce(const tile::Contract& contract);
  std::optional<ContractPlan> plan_contract(const tile::Contract& contract) const;
  void choose_tile(const tile::Contract& contract, ContractPlan& plan) const;
  void choose_block_tile(const tile::Contract& contract, ContractPlan& plan) const;
  void column_blocks(const tile::Contract& contract, const ContractPlan& plan);
  void row_loops(const tile::Contract& contract, const ContractPlan& plan, Value* columns);
  Values tile_arguments(const tile::Contract& contract, const ContractPlan& plan, Value* columns);
  void call_tile(const tile::Contract& contract, const ContractPlan& plan, Value* rows, Value* columns);

  // emit_tile_product.cpp
  void emit_tile_product(const tile::Contract& contract, const ContractPlan& plan);
  void tile_rest(const tile::Contract& contract, const ContractPlan& plan, TileRows rows, Value* config);
  void tile_columns(const tile::Contract& contract, const ContractPlan& plan, const TileRows& rows);
  int64_t columns_ahead(const tile::Contract& contract, int64_t tile) const;
  static int64_t rows_ahead(const tile::Axis& axis, int64_t of_tile);
  void ask_ahead(const MicroKernelShape& shape, Value* b, Value* stride_b);
  void configure_tiles(Value* config, Value* first, Value* second);
  llvm::Function* emit_tile_function(const MicroKernelShape& shape);
  void tile_steps(const MicroKernelShape& shape, int axis, Value* a, Value* b);
  void tile_call(llvm::Intrinsic::ID intrinsic, const Values& arguments);

  // emit_split_product.cpp
  void emit_split_product(tile::Contract contract, ContractPlan plan);
  void join_reduced_axes(tile::Contract& contract, ContractPlan& plan);
  void split_columns(const tile::Contract& contract, const ContractPlan& plan, const SplitRows& rows);
  void split_rows(const tile::Contract& contract, const ContractPlan& plan, const MicroKernelShape& shape,
                  const SplitRows& rows, Value* length);
  Value* split_row(const SplitRows& rows, Value* block);
  Size part_stride(const Expr& operand) const;
  void join_sums(const tile::Contract& contract, const ContractPlan& plan, const MicroKernelShape& shape,
                 const SplitRows& rows);
  llvm::Function* emit_split_function(const MicroKernelShape& shape);
  void split_steps(const MicroKernelShape& shape, int axis, Value* a, Value* b, bool large);
  void load_split_a(const MicroKernelShape& shape, int row, Value* a, int part);
  void load_split_b(const MicroKernelShape& shape, Value* b, int part);
  void multiply_split(int row, int column);

  // emit_micro_kernel.cpp
  using EmitFunction = llvm::Function* (Emitter::*)(const MicroKernelShape&);
  llvm::Function* shared_function(const MicroKernelShape& shape, EmitFunction emit);
  void open_function(const MicroKernelShape& shape);
  llvm::Function* micro_kernel(const MicroKernelShape& shape);
  llvm::Function* emit_micro_kernel(const MicroKernelShape& shape);
  void begin_tile(TileState& tile);
  Value* tile_place(const TileState& tile, int row, int vector);
  Value* load_tile(const TileState& tile, DType type, Value* place, int vector);
  void outer_steps(TileState& tile, int axis, Value* a, Value* b);
  void inner_steps(TileState& tile, Value* a, Value* b);
  Values load_rows(const TileState& tile, Value* a, Value* k, int64_t step);
  Value* tile_element(const TileState& tile, Value* a, Value* k, int64_t step, int row);
  Value* along(llvm::Type* type, Value* from, Value* k, int64_t step, Value* stride);
  void tile_step(TileState& tile, Value* a, Value* b, Value* k, int64_t step);
  void keep_order(Values& values);
  Value* multiply_add(DType type, Value* a, Value* b, Value* sum);
  Value* dot_product(const ContractUnit& unit, Value* a, Value* b, Value* sum);
  static bool takes_right_first(const ContractUnit& unit, int lanes);
  Value* scalable_call(llvm::Intrinsic::ID instruction, const Values& operands);
  void finish_tile(TileState& tile);
  void store_row(const TileState& tile, int row, int vector, Value* total);

  // emit_block_product.cpp
  Values pair_words(Value* first, Value* second, int blocks, int count);
  Values row_pair(const TileState& tile, Value* a, Value* along, int pair, int64_t count);
  void block_steps(TileState& tile, Value* a, Value* b, Value* k, int64_t step, int64_t count);
  static llvm::AllocaInst* block_sum(const TileState& tile, int chain, int pair, int half);
  void finish_blocks(TileState& tile);
  Value* row_of_blocks(const MicroKernelShape& shape, int row, Value* first, Value* second);

  // emit_address.cpp
  Address analyze(int buffer, const std::vector<Expr>& indices);
  Size stride_along(int buffer, const std::vector<Expr>& indices, const Expr& variable, bool* known) const;
  Value* pointer(int buffer, const Address& address);
  LanePlaces lane_places(int buffer, const Address& address);
  Value* gather(int buffer, const LanePlaces& places);
  Value* look_up_bytes(int buffer, const Address& address);
  Value* gather_words(int buffer, const LanePlaces& places);
  Value* emit_size(const Size& size);
  Value* load_memory(int buffer, const Address& address);

  // emit_window.cpp: elements that lie close together, in any order
  std::optional<Window> find_window(int buffer, const Address& address);
  bool is_known_outside(const Expr& index);
  Window row_of_places(const Address& address);
  Value* load_window(int buffer, const Address& address, const Window& window, const std::function<Value*()>& gather);
  Value* permute(Value* vector, Value* lanes);
  Value* load_strided(int buffer, const Address& address);
  bool is_near(const Size& stride) const;
  bool can_permute(int bits) const;
  void store_memory(int buffer, const Address& address, Value* value);
  Value* lane_count_any(Value* mask);

  // emit_expr.cpp: expressions
  struct NodeFacts {
    std::vector<int> variables;
    bool loads = false;  ///< reads memory or records errors
  };
  const NodeFacts& facts(const ExprNode& node);
  int required_level(const ExprNode& node, int load_floor);
  bool varies(const Expr& e);
  Value* emit(const Expr& e);
  Value* emit_at(size_t level, const Expr& e);
  void at_level(size_t level, const std::function<void()>& body);
  Value* emit_node(const ExprNode& node);
  Value* emit_constant(const ExprNode& node);
  Value* emit_select(const ExprNode& node);
  Value* emit_lazily(const Expr& e, Value* condition);
  Value* emit_check_index(const ExprNode& node);
  Value* emit_check_divisor(const ExprNode& node);
  void fail_where(Value* bad, ElementFault fault, Value* value);
  Value* emit_call(const ExprNode& node);
  Value* splat(Value* scalar, int lanes);
  void unify(Values& values);

  // emit_intrinsic.cpp: arithmetic on emitted values
  Value* arithmetic(Intrinsic intrinsic, DType type, const Values& v);
  Value* integer_divide(Intrinsic intrinsic, DType type, Value* a, Value* b);
  Value* float_divide(Intrinsic intrinsic, Value* a, Value* b);
  Value* minmax(bool minimum, DType type, Value* a, Value* b);
  Value* compare(Intrinsic intrinsic, DType type, Value* a, Value* b);
  Value* shift(bool left, DType type, Value* a, Value* b);
  Value* integer_power(DType type, Value* base, Value* exponent);

  // emit_cast.cpp: conversions, registers to memory and back
  Value* cast(DType from, DType to, Value* v);
  Value* float_to_f32(DType from, Value* v);
  Value* f32_to_float(DType to, Value* v);
  Value* f64_to_f32_odd(Value* v);
  Value* float_to_narrow_integer(DType to, Value* v);
  Value* float_to_wide_integer(DType to, Value* v);
  Value* to_memory(DType type, Value* v);
  Value* from_memory(DType type, Value* v);
  llvm::Type* register_type(DType type);
  llvm::Type* memory_type(DType type);
  llvm::Type* widened(llvm::Type* scalar, Value* like);

  // emit_math.cpp: transcendental functions
  Value* math(Intrinsic intrinsic, DType type, const Values& v);
  Value* host_math(Intrinsic intrinsic, DType type, const Values& v);
  Value* per_lane(llvm::FunctionCallee function, const Values& v);

  // emit_polynomials.cpp: f32 functions inline
  struct Reduced {
    Value* integer;
    Value* real;
    Value* rest;
  };
  Value* polynomial(Value* x, std::initializer_list<double> coefficients);
  Value* fma(Value* a, Value* b, Value* c);
  Value* f(Value* like, double constant);
  Value* i(Value* like, int64_t constant);
  Value* clamp(Value* x, double low, double high);
  Value* scale_by_power(Value* v, Value* exponent);
  Reduced reduce_by_ln2(Value* x);
  Reduced split_exponent(Value* v);
  Value* expm1_kernel(Value* r);
  Value* log_mantissa(Value* m, Value* e, Value* correction);
  Value* log_limits(Value* argument, Value* result);
  Value* exp_f32(Value* x);
  Value* log_f32(Value* x);
  Value* log1p_f32(Value* x);
  Value* expm1_f32(Value* x);
  Value* erfc_f32(Value* a, Value* t);
  Value* erf_f32(Value* x);
  Value* raised_erf_f32(Value* x);
  Value* tanh_f32(Value* x);
  Value* sincos_f32(Value* x, bool cosine);

  Unit& unit_;
  const tile::Program& program_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> builder_;
  llvm::Function* function_ = nullptr;
  std::vector<Level> levels_;
  std::unordered_map<int, Binding> bindings_;
  std::unordered_map<const ExprNode*, NodeFacts> facts_;
  std::vector<Expr> kept_;
  std::vector<Value*> buffers_;
  std::map<std::string, Value*, std::less<>> sizes_;
  Value* status_ = nullptr;
  int64_t turns_ = 1;  ///< of the loops that are open, for one grid point, as far as known
  Value* dummy_ = nullptr;  ///< zeros that masked-off scalar loads read

  int load_floor_ = 0;        ///< loads are not hoisted above this level
  int floor_around_ = -1;     ///< load_floor_ around the branches of selects that are being emitted; -1: in none
  int vector_variable_ = -1;  ///< the index variable that runs over the lanes
  int lanes_ = 1;
  Value* mask_ = nullptr;  ///< lanes (or the one point) that exist; null: all
  int mask_level_ = 0;     ///< where mask_ is known
  bool lazy_ = false;      ///< mask_ may have no lane at all
};

/// Emits internal function names of a kernel's C ABI: `int32_t name(const KernelArguments*, int64_t, int64_t)`.
void emit_program(Unit& unit, const tile::Program& program);

}  // namespace graft::codegen
