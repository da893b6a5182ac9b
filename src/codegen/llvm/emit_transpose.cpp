// SPDX-License-Identifier: Apache-2.0
// Maps that read along another axis than the one they write along: square blocks are turned around in registers.
#include <algorithm>
#include <bit>

#include "codegen/llvm/emitter.h"
#include "tile/block_rules.h"

namespace graft::codegen {
namespace {

std::vector<Expr> at_zero(const std::vector<Expr>& indices, const Expr& variable) {
  std::vector<Expr> result;
  for (const Expr& index : indices) result.push_back(substitute(index, {{variable->variable, make_index(0)}}));
  return result;
}

/// Whether an axis may have fewer points than half a block.
bool is_short(const tile::Axis& axis, int lanes) { return axis.bound > 0 && axis.bound < lanes / 2; }

}  // namespace

/// The loads that go along the last axis but one while the stores go along the last one; nothing where there is none.
std::optional<Transposition> Emitter::plan_transposition(const tile::Map& map) const {
  if (map.ordered || map.condition || map.axes.size() < 2) return std::nullopt;
  const tile::Axis &across = map.axes[map.axes.size() - 2], &along = map.axes.back();
  if (uses_variable(along.extent, across.variable->variable)) return std::nullopt;
  int bits = 16;
  Transposition found;
  for (const tile::Store& store : map.stores) {
    bool known = true;
    const Size stride = stride_along(store.buffer, store.indices, along.variable, &known);
    if (!known || !stride.is(1) || store.mode != ScatterMode::kSet) return std::nullopt;
    bits = std::max(bits, bit_width(program_.buffers[static_cast<size_t>(store.buffer)].type));
    for (const Expr& load : tile::loads_at_every_point(store.value)) {
      bits = std::max(bits, bit_width(load->type));
      bool far = true, near = true;
      const Size next = stride_along(load->tensor, load->args, along.variable, &far);
      const Size side = stride_along(load->tensor, load->args, across.variable, &near);
      const bool good = near && side.is(1) && !(far && (next.is(0) || next.is(1)));
      const bool seen = std::any_of(found.loads.begin(), found.loads.end(),
                                    [&](const Expr& other) { return other.get() == load.get(); });
      if (good && !seen) found.loads.push_back(load);
    }
  }
  constexpr size_t kMostLoads = 2;  // whose blocks are in registers together
  if (found.loads.empty() || found.loads.size() > kMostLoads) return std::nullopt;
  const int registers = unit_.traits.registers / 2;
  found.lanes =
      static_cast<int>(std::bit_floor(static_cast<unsigned>(std::min(unit_.traits.vector_bits / bits, registers))));
  const bool pays = found.lanes >= 4 && !is_short(across, found.lanes) && !is_short(along, found.lanes);
  return pays ? std::optional(std::move(found)) : std::nullopt;
}

/// Whole blocks, then what is left of both axes: blocks in part, or points one by one where masks are not cheap.
void Emitter::transposed_blocks(const tile::Map& map, const Transposition& plan) {
  const tile::Axis &across = map.axes[map.axes.size() - 2], &along = map.axes.back();
  nested_loops(map.axes, 0, map.axes.size() - 2, [&] {
    Value* rows = emit(across.extent);
    Value* columns = emit(along.extent);
    at_top();
    Value* step = index(plan.lanes);
    Value* whole_rows = builder_.CreateAnd(rows, index(-plan.lanes));
    Value* whole_columns = builder_.CreateAnd(columns, index(-plan.lanes));
    const auto is_known = [&](Value* begin, Value* end) {  // that nothing is left
      const auto* first = llvm::dyn_cast<llvm::ConstantInt>(begin);
      const auto* last = llvm::dyn_cast<llvm::ConstantInt>(end);
      return first && last && first->getSExtValue() >= last->getSExtValue();
    };
    const auto blocks = [&](Value* row, Value* rows_end, Value* begin, Value* end, bool whole) {
      if (is_known(begin, end)) return;
      const Loop loop = open_loop(begin, end, step);
      transposed_block(map, plan, {row, loop.index, whole ? nullptr : rows_end, whole ? nullptr : end});
      close_loop(loop);
    };
    if (!is_known(index(0), whole_rows)) {
      const Loop loop = open_loop(index(0), whole_rows, step);
      blocks(loop.index, whole_rows, index(0), whole_columns, true);
      at_top();
      Value* end = builder_.CreateAdd(loop.index, step);
      if (unit_.traits.masked) {
        blocks(loop.index, end, whole_columns, columns, false);
      } else {
        single_points(map, loop.index, end, whole_columns, columns);
      }
      close_loop(loop);
    }
    if (is_known(whole_rows, rows)) return;
    if (!unit_.traits.masked) return single_points(map, whole_rows, rows, index(0), columns);
    const Loop last = open_loop(whole_rows, rows, step);
    blocks(last.index, rows, index(0), columns, false);
    close_loop(last);
  });
}

/// Whether the last axis is a few elements of a row that lies side by side: colours of a pixel, parts of a coordinate.
bool Emitter::interleaves(const tile::Map& map) const {
  constexpr int64_t kMostParts = 4;
  if (map.ordered || map.condition || map.axes.size() < 2) return false;
  const tile::Axis &row = map.axes[map.axes.size() - 2], &part = map.axes.back();
  const auto parts = as_integer(part.extent);
  const int least = unit_.traits.vector_bits / 64;
  if (!parts || *parts < 2 || *parts > kMostParts || (row.bound > 0 && row.bound < least)) return false;
  return std::all_of(map.stores.begin(), map.stores.end(), [&](const tile::Store& store) {
    bool known = true;
    const Size next = stride_along(store.buffer, store.indices, part.variable, &known);
    const Size far = stride_along(store.buffer, store.indices, row.variable, &known);
    return known && store.mode == ScatterMode::kSet && next.is(1) && far.is(*parts);
  });
}

/// Lanes along the last axis but one; the vectors of the last axis are mixed in registers.
void Emitter::interleaved_rows(const tile::Map& map) {
  const tile::Axis &row = map.axes[map.axes.size() - 2], &part = map.axes.back();
  const int64_t parts = *as_integer(part.extent);
  tile::Map lanes_along = map;  // as if each part were a map of its own
  std::swap(lanes_along.axes[map.axes.size() - 2], lanes_along.axes.back());
  const int lanes = map_lanes(lanes_along, false);
  nested_loops(map.axes, 0, map.axes.size() - 2, [&] {
    vector_loop(row, lanes, [&] {
      std::vector<Values> values(map.stores.size());
      std::vector<Address> firsts;
      for (int64_t n = 0; n < parts; ++n) {
        push_scope();
        at_top();
        bind(part.variable, index(n));
        for (size_t k = 0; k < map.stores.size(); ++k) {
          const tile::Store& store = map.stores[k];
          const DType type = program_.buffers[static_cast<size_t>(store.buffer)].type;
          values[k].push_back(cast(store.value->type, type, emit(store.value)));
          if (n == 0) firsts.push_back(analyze(store.buffer, at_zero(store.indices, part.variable)));
        }
        pop_scope();
      }
      for (size_t k = 0; k < map.stores.size(); ++k) store_interleaved(map.stores[k], firsts[k], values[k]);
    });
  });
}

/// a0 a1 .. and b0 b1 .. become a0 b0 a1 b1 .., where all lanes are there; else each part is stored by itself.
void Emitter::store_interleaved(const tile::Store& store, const Address& first, const Values& parts) {
  const auto count = static_cast<int>(parts.size());
  if (lanes_ == 1 || mask_) {
    for (int n = 0; n < count; ++n) {
      at_top();
      Address here = first;
      here.uniform = keep(first.uniform + make_index(n));
      store_memory(store.buffer, here, parts[static_cast<size_t>(n)]);
    }
    return;
  }
  at_top();
  const DType type = program_.buffers[static_cast<size_t>(store.buffer)].type;
  Values bits;
  for (Value* part : parts) bits.push_back(splat(to_memory(type, part), lanes_));
  Value* start = pointer(store.buffer, first);
  const llvm::Align align(static_cast<uint64_t>(bit_width(type)) / 8);
  for (int n = 0; n < count; ++n) {
    std::vector<int> order(static_cast<size_t>(lanes_));
    Value* mixed = bits[0];
    for (int p = 1; p < count; ++p) {
      for (int lane = 0; lane < lanes_; ++lane) {
        const int element = n * lanes_ + lane, own = element % count;
        const int before = p == 1 ? element / count : lane;
        order[static_cast<size_t>(lane)] = own == p ? lanes_ + element / count : own < p ? before : lane;
      }
      mixed = builder_.CreateShuffleVector(mixed, bits[static_cast<size_t>(p)], order);
    }
    builder_.CreateAlignedStore(mixed, builder_.CreateGEP(memory_type(type), start, index(n * lanes_)), align);
  }
}

void Emitter::single_points(const tile::Map& map, Value* row, Value* rows_end, Value* column, Value* columns_end) {
  const Loop rows = open_loop(row, rows_end, index(1));
  bind(map.axes[map.axes.size() - 2].variable, rows.index);
  const Loop columns = open_loop(column, columns_end, index(1));
  bind(map.axes.back().variable, columns.index);
  emit_point(map);
  close_loop(columns);
  close_loop(rows);
}

/// What the load reads of a block, as vectors along the axis that is stored along. Rows that are not there repeat the
/// last one that is, and are not stored.
Emitter::Values Emitter::load_transposed(const tile::Map& map, const Expr& load, int lanes, const Block& block) {
  const tile::Axis &across = map.axes[map.axes.size() - 2], &along = map.axes.back();
  push_scope();
  at_top();
  bind(across.variable, block.row);
  const DType dtype = program_.buffers[static_cast<size_t>(load->tensor)].type;
  const llvm::Align align(static_cast<uint64_t>(bit_width(dtype)) / 8);
  auto* vector = llvm::FixedVectorType::get(memory_type(dtype), static_cast<unsigned>(lanes));
  Value *mask = nullptr, *last = nullptr;
  if (block.rows_end) {
    mask = first_lanes(builder_.CreateSub(block.rows_end, block.row), lanes);
    last = builder_.CreateSub(block.columns_end, index(1));
  }
  Values values;
  for (int n = 0; n < lanes; ++n) {
    push_scope();
    at_top();
    Value* column = builder_.CreateAdd(block.column, index(n));
    if (last) column = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, column, last);
    bind(along.variable, column);
    Value* place = pointer(load->tensor, analyze(load->tensor, load->args));
    at_top();
    llvm::Constant* zeros = llvm::Constant::getNullValue(vector);
    Value* whole = mask ? nullptr : builder_.CreateAlignedLoad(vector, place, align);
    values.push_back(mask ? builder_.CreateMaskedLoad(vector, place, align, mask, zeros) : whole);
    pop_scope();
  }
  transpose(values);
  pop_scope();
  return values;
}

/// Turns a square around: pairs of rows exchange parts that are half as long in each step.
void Emitter::transpose(Values& rows) {
  const int lanes = static_cast<int>(rows.size());
  for (int part = lanes / 2; part >= 1; part /= 2) {
    std::vector<int> upper, lower;
    for (int n = 0; n < lanes; ++n) {
      const bool own = (n & part) == 0;
      upper.push_back(own ? n : lanes + n - part);
      lower.push_back(own ? n + part : lanes + n);
    }
    for (int n = 0; n < lanes; ++n) {
      if ((n & part) != 0) continue;
      Value *&a = rows[static_cast<size_t>(n)], *&b = rows[static_cast<size_t>(n + part)];
      Value* first = builder_.CreateShuffleVector(a, b, upper);
      b = builder_.CreateShuffleVector(a, b, lower);
      a = first;
    }
  }
}

/// The stores of a block of points, a vector for each row.
void Emitter::transposed_block(const tile::Map& map, const Transposition& plan, const Block& block) {
  const tile::Axis &across = map.axes[map.axes.size() - 2], &along = map.axes.back();
  std::vector<Values> turned;
  for (const Expr& load : plan.loads) turned.push_back(load_transposed(map, load, plan.lanes, block));
  at_top();
  Value* mask =
      block.columns_end ? first_lanes(builder_.CreateSub(block.columns_end, block.column), plan.lanes) : nullptr;
  const int floor = load_floor_;
  for (int n = 0; n < plan.lanes; ++n) {
    at_top();
    Value* row = builder_.CreateAdd(block.row, index(n));
    std::vector<size_t> closed;
    if (block.rows_end) {
      closed = open_if(builder_.CreateICmpSLT(row, block.rows_end));
      load_floor_ = top_index();
    }
    push_scope();
    at_top();
    bind(across.variable, row);
    bind_lanes(along.variable, block.column, plan.lanes);
    mask_ = mask;
    mask_level_ = mask ? top_index() : 0;
    lazy_ = false;
    for (size_t k = 0; k < plan.loads.size(); ++k) {
      const DType dtype = program_.buffers[static_cast<size_t>(plan.loads[k]->tensor)].type;
      top().values.emplace(plan.loads[k].get(), from_memory(dtype, turned[k][static_cast<size_t>(n)]));
    }
    store_values(map);
    mask_ = nullptr;
    mask_level_ = 0;
    vector_variable_ = -1;
    lanes_ = 1;
    pop_scope();
    load_floor_ = floor;
    if (block.rows_end) close_if(closed);
  }
}

}  // namespace graft::codegen
